"""Edgeformer-E: encodes an edge's text together with its two nodes in every layer (section 3.1)."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch
from edgeformers.errors import ConfigError, InputError
from edgeformers.models.base import (
    AttentionMap,
    EdgeformerConfig,
    check_padded,
    check_tokens,
    make_lookup,
    module_device,
)
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.layer import PostNormLayer, PreNormLayer
from edgeformers.nn.nodes import NodeProjection
from edgeformers.nn.packed import PackedText

TOKENS = ("source", "target")


@dataclass(frozen=True, kw_only=True)
class EdgeformerEConfig(EdgeformerConfig):
    """Settings of Edgeformer-E; `tokens` are the virtual tokens, fewer for ablations."""

    tokens: tuple[str, ...] = TOKENS
    fusion: bool = False  # combine [CLS] and the node vectors again after the last layer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tokens(self.tokens, TOKENS)


class EdgeformerE(nn.Module):
    """Representations h_e of edges with text.

    Layer 0 reads the text only. Every further layer reads [z_i ; z_j ; text], where the two
    virtual node tokens are projections of the node vectors and are not updated by the layers. The
    last layer computes only the [CLS] row, which represents the edge. With `fusion`, which is not
    in the paper, the representation is GELU(W [h_e ; z_i ; z_j]).

    Shapes: B edges, T tokens of all texts, V virtual tokens, D width, K node width.
    """

    def __init__(self, config: EdgeformerEConfig, encoder: TextEncoder) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config)
        self.projections = make_projections(config, encoder)
        self.fusion: nn.Module | None = None
        if config.fusion and config.tokens:
            joined = encoder.width + len(config.tokens) * config.node_width
            dropout = nn.Dropout(encoder.config.dropout)
            self.fusion = nn.Sequential(dropout, nn.Linear(joined, encoder.width), nn.GELU())
        if not config.tokens:  # a model of the text only
            self.nodes.requires_grad_(False)
            self.projections.requires_grad_(False)

    @property
    def width(self) -> int:
        return self.encoder.config.width

    def forward(self, batch: EdgeBatch) -> Tensor:
        """B edges -> edge_repr [B, D]."""
        text = batch.text
        z = self._node_vectors(batch)  # [B, V, K]
        hidden = self.encoder.embed(text)  # [T, D]
        for index, layer in enumerate(self.encoder.layers):
            virtual = self._virtual(index, z, batch)  # [B, V, D]
            readout = hidden[text.starts] if index == len(self.encoder.layers) - 1 else None
            hidden = layer(hidden, text, virtual, readout=readout)
        edge_repr = self.encoder.final_norm(hidden)  # [B, D]
        if self.fusion is not None and z is not None:
            edge_repr = self.fusion(torch.cat([edge_repr, z.flatten(1)], dim=1))
        return cast(Tensor, edge_repr)

    def encode_edges(
        self, token_ids: Tensor, token_mask: Tensor, src: Tensor, dst: Tensor
    ) -> Tensor:
        """Padded texts [B, L], their mask (True = real) and both ends [B] -> edge_repr [B, D]."""
        check_padded(token_ids, token_mask, self.encoder.config.vocab_size)
        for ends in (src, dst):
            self.nodes.check(ends)
            if ends.shape != token_ids.shape[:1]:
                raise InputError(
                    f"src and dst must have one node per text, {list(token_ids.shape[:1])} "
                    f"(got {list(ends.shape)})"
                )
        text = PackedText.from_padded(token_ids, token_mask)
        batch = EdgeBatch(text=text, src=src, dst=dst)
        return cast(Tensor, self(batch.to(module_device(self))))

    @torch.no_grad()
    def attention_maps(self, batch: EdgeBatch) -> list[list[AttentionMap]]:
        """For every text, the attention of each layer."""
        text, z = batch.text, self._node_vectors(batch)
        maps: list[list[AttentionMap]] = [[] for _ in range(text.num_texts)]
        hidden = self.encoder.embed(text)
        for index, layer in enumerate(self.encoder.layers):
            assert isinstance(layer, PostNormLayer | PreNormLayer)
            virtual = self._virtual(index, z, batch)
            names = self.config.tokens if virtual is not None else ()
            weights = layer.attention_map(hidden, text, virtual)
            for text_maps, text_weights in zip(maps, weights, strict=True):
                text_maps.append(AttentionMap(layer=index, virtual=names, weights=text_weights))
            hidden = layer(hidden, text, virtual)
        return maps

    def _node_vectors(self, batch: EdgeBatch) -> Tensor | None:
        ends = {"source": batch.src, "target": batch.dst}
        chosen = [ends[name] for name in self.config.tokens]
        return self.nodes(torch.stack(chosen, dim=1)) if chosen else None

    def _virtual(self, index: int, z: Tensor | None, batch: EdgeBatch) -> Tensor | None:
        """The virtual node tokens of a layer; the first layer has none."""
        if index == 0 or z is None:
            return None
        is_source = None
        if self.config.direction:  # the source's token comes first
            sources = int("source" in self.config.tokens)
            is_source = (torch.arange(z.size(1), device=z.device) < sources).expand(z.shape[:2])
        return cast(Tensor, self.projections[index - 1](z, batch.edge_type, is_source))


def make_projections(config: EdgeformerConfig, encoder: TextEncoder) -> nn.ModuleList:
    """W_n of every layer that reads nodes: one each (paper), or one shared (released)."""

    def make() -> NodeProjection:
        return NodeProjection(
            config.node_width,
            encoder.config.width,
            bias=config.fidelity == "released",
            edge_types=config.edge_types,
            direction=config.direction,
        )

    count = len(encoder.layers) - 1
    if count < 1:
        raise ConfigError(
            "an Edgeformer needs an encoder with at least 2 layers, because the first one reads "
            f"the text only (got {len(encoder.layers)})"
        )
    if config.fidelity == "released":
        return nn.ModuleList([make()] * count)
    return nn.ModuleList(make() for _ in range(count))
