"""Edgeformer-N: encodes a node from the texts of its edges, which see each other (section 3.2)."""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from edgeformers.data.batch import EgoBatch
from edgeformers.errors import ConfigError, InputError
from edgeformers.models.base import (
    AttentionMap,
    EdgeformerConfig,
    check_padded,
    check_tokens,
    make_lookup,
    module_device,
)
from edgeformers.models.edgeformer_e import make_projections
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.layer import PostNormLayer, PreNormLayer
from edgeformers.nn.packed import PackedText
from edgeformers.nn.pooling import (
    BilinearPooling,
    HeadPooling,
    LocalAttention,
    Pooling,
    reduce_egos,
)
from edgeformers.nn.ragged import Ragged
from edgeformers.nn.segments import softmax_rows

TOKENS = ("center", "neighbor", "local")


@dataclass(frozen=True, kw_only=True)
class EdgeformerNConfig(EdgeformerConfig):
    """Settings of Edgeformer-N; `tokens` are the virtual tokens, fewer for ablations.

    `readout` is the position of an edge's state in the last layer: [CLS] (section 3.2) or the
    neighbor token (Algorithm 2 and the release). The default depends on `fidelity`.
    """

    tokens: tuple[str, ...] = TOKENS
    readout: Literal["cls", "neighbor"] | None = None
    pooling: Pooling = "attention"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tokens(self.tokens, TOKENS)
        if self.readout not in (None, "cls", "neighbor"):
            raise ConfigError(f"readout must be 'cls' or 'neighbor' (got '{self.readout}')")
        if self.pooling not in ("attention", "mean", "max"):
            raise ConfigError(f"pooling must be attention, mean or max (got '{self.pooling}')")
        if self.readout == "neighbor" and "neighbor" not in self.tokens:
            raise ConfigError("readout 'neighbor' needs the neighbor token; keep it or use 'cls'")

    @property
    def reads_neighbor(self) -> bool:
        """Whether edges are read at the neighbor token."""
        if self.readout is None:
            return self.fidelity == "released" and "neighbor" in self.tokens
        return self.readout == "neighbor"


class EdgeformerN(nn.Module):
    """Representations h_v of nodes whose edges have text.

    Every edge of a node is encoded as in Edgeformer-E with a third virtual token: the attention
    over the [CLS] states of its sibling edges in the previous layer. The node is the
    attention-weighted sum of its edges. A node without edges is its own node token.

    Shapes: B centers, E edges of them all, T tokens of all texts, D width, K node width.
    """

    def __init__(self, config: EdgeformerNConfig, encoder: TextEncoder) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config)
        self.projections = make_projections(config, encoder)
        if not {"center", "neighbor"} & set(config.tokens):
            self.projections = self.projections[-1:]  # for nodes without edges and the pooling
        self.local_attention = _make_local_attention(config, encoder)
        self.pool = _make_pool(config, encoder)

    @property
    def width(self) -> int:
        return self.encoder.config.width

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        z_center = self.nodes(
            batch.center
        )  # [B, K], once: node dropout must be the same everywhere
        isolated: Tensor = self.projections[-1](z_center[:, None]).squeeze(1)
        if not batch.text.num_texts:
            return isolated  # [B, D]
        edges = self.encode_ego_edges(batch, z_center)  # [E, D]
        pooled = self._pool(edges, z_center[batch.occupied], batch)  # [B', D]
        return isolated.index_copy(0, batch.occupied, pooled.to(isolated.dtype))

    def encode_ego_edges(self, batch: EgoBatch, z_center: Tensor | None = None) -> Tensor:
        """The edges of all centers -> h_{e|v} [E, D]; `z_center` [B, K] may be given."""
        text = batch.text
        z = self._node_vectors(batch, z_center)  # [E, V, K]
        hidden = self.encoder.embed(text)  # [T, D]
        for index, layer in enumerate(self.encoder.layers):
            virtual = self._virtual(index, z, hidden, batch)  # [E, V, D]
            readout = None
            if index == len(self.encoder.layers) - 1:
                readout = self._readout_row(hidden, virtual, text)
            hidden = layer(hidden, text, virtual, readout=readout)
        return cast(Tensor, self.encoder.final_norm(hidden))  # [E, D]

    def edge_shares(self, batch: EgoBatch, edges: Tensor) -> Tensor:
        """The contribution of each edge to its center [E, D]; those of a center sum to h_v.

        With attention alpha h_e, with the mean h_e / N, with the maximum its maximal entries.
        """
        ego = batch.egos.group_ids  # [E]
        if not isinstance(self.pool, BilinearPooling | HeadPooling):
            return _reduced_shares(edges, batch.egos, self.config.pooling)
        z_center = self.nodes(batch.center)[batch.occupied]
        if isinstance(self.pool, BilinearPooling):
            queries = self.pool.score(z_center)[:, None]  # [B', 1, D]
            keys = values = edges[:, None]
        else:
            heads = self.pool.heads
            token = self.projections[-1](z_center[:, None]).squeeze(1)
            queries = self.pool.query(token).unflatten(-1, (heads, -1))  # [B', H, D/H]
            keys, values = self.pool.key_value(edges).unflatten(-1, (2, heads, -1)).unbind(1)
            queries = queries / queries.size(-1) ** 0.5
        scores = (queries[ego] * keys).sum(-1)  # [E, H]
        return (softmax_rows(scores, ego, batch.egos.num_groups)[..., None] * values).flatten(1)

    def encode_nodes(
        self,
        center: Tensor,
        token_ids: Tensor,
        token_mask: Tensor,
        neighbor: Tensor,
        neighbor_mask: Tensor,
    ) -> Tensor:
        """Centers [B] with N padded edges: ids and mask [B, N, L], neighbors [B, N] -> [B, D]."""
        real = neighbor_mask.bool()
        shapes = (neighbor.shape, token_ids.shape[:2], token_mask.shape[:2])
        if any(shape != real.shape for shape in shapes) or center.shape != real.shape[:1]:
            raise InputError(
                "center, neighbor, neighbor_mask, token_ids and token_mask must agree in [B, N] "
                f"(got {list(center.shape)}, {list(neighbor.shape)}, {list(real.shape)}, "
                f"{list(token_ids.shape)} and {list(token_mask.shape)})"
            )
        check_padded(token_ids[real], token_mask[real], self.encoder.config.vocab_size)
        self.nodes.check(center)
        self.nodes.check(neighbor[real])
        batch = EgoBatch.from_counts(
            text=PackedText.from_padded(token_ids[real], token_mask[real]),
            center=center.cpu(),
            counts=real.sum(1).cpu(),
            neighbor=neighbor[real].cpu(),
        )
        return cast(Tensor, self(batch.to(module_device(self))))

    @torch.no_grad()
    def attention_maps(self, batch: EgoBatch) -> list[list[AttentionMap]]:
        """For every edge's text, the attention of each layer."""
        text, z = batch.text, self._node_vectors(batch)
        maps: list[list[AttentionMap]] = [[] for _ in range(text.num_texts)]
        hidden = self.encoder.embed(text)
        for index, layer in enumerate(self.encoder.layers):
            assert isinstance(layer, PostNormLayer | PreNormLayer)
            virtual = self._virtual(index, z, hidden, batch)
            names = self.config.tokens if virtual is not None else ()
            weights = layer.attention_map(hidden, text, virtual)
            for text_maps, text_weights in zip(maps, weights, strict=True):
                text_maps.append(AttentionMap(layer=index, virtual=names, weights=text_weights))
            hidden = layer(hidden, text, virtual)
        return maps

    def _node_vectors(self, batch: EgoBatch, z_center: Tensor | None = None) -> Tensor | None:
        parts: list[Tensor] = []
        if "center" in self.config.tokens:
            of_centers = self.nodes(batch.center) if z_center is None else z_center
            parts.append(of_centers[batch.owner])
        if "neighbor" in self.config.tokens:
            parts.append(self.nodes(batch.neighbor))
        return torch.stack(parts, dim=1) if parts else None

    def _virtual(
        self, index: int, z: Tensor | None, hidden: Tensor, batch: EgoBatch
    ) -> Tensor | None:
        """The virtual tokens [z_v ; z_u ; h-bar] of a layer; the first layer has none."""
        if index == 0:
            return None
        parts: list[Tensor] = []
        if z is not None:
            parts.append(self.projections[index - 1](z, batch.edge_type, self._is_source(batch)))
        if "local" in self.config.tokens:
            siblings = self.local_attention[index - 1](hidden[batch.text.starts], batch.egos)
            parts.append(siblings[:, None].to(hidden.dtype))
        return torch.cat(parts, dim=1) if parts else None

    def _is_source(self, batch: EgoBatch) -> Tensor | None:
        """Whether each node token is the source of its edge: [E, V]."""
        if batch.is_out is None:
            return None
        ends = {"center": batch.is_out, "neighbor": ~batch.is_out}
        return torch.stack([ends[name] for name in self.config.tokens if name in ends], dim=1)

    def _readout_row(self, hidden: Tensor, virtual: Tensor | None, text: PackedText) -> Tensor:
        if self.config.reads_neighbor and virtual is not None:
            return virtual[:, self.config.tokens.index("neighbor")]
        return hidden[text.starts]

    def _pool(self, edges: Tensor, z_center: Tensor, batch: EgoBatch) -> Tensor:
        if isinstance(self.pool, BilinearPooling):
            return cast(Tensor, self.pool(edges, z_center, batch.egos))
        if isinstance(self.pool, HeadPooling):
            token = self.projections[-1](z_center[:, None]).squeeze(1)
            return cast(Tensor, self.pool(edges, token, batch.egos))
        return reduce_egos(edges, batch.egos, cast(Literal["mean", "max"], self.config.pooling))


def _make_local_attention(config: EdgeformerNConfig, encoder: TextEncoder) -> nn.ModuleList:
    if "local" not in config.tokens:
        return nn.ModuleList()
    width, heads, count = encoder.config.width, encoder.config.heads, len(encoder.layers) - 1
    if config.fidelity == "released":
        return nn.ModuleList([LocalAttention(width, heads)] * count)
    return nn.ModuleList(LocalAttention(width, heads) for _ in range(count))


def _make_pool(config: EdgeformerNConfig, encoder: TextEncoder) -> nn.Module | None:
    if config.pooling != "attention":
        return None
    if config.fidelity == "released":
        return HeadPooling(encoder.config.width, encoder.config.heads)
    return BilinearPooling(config.node_width, encoder.config.width)


def _reduced_shares(edges: Tensor, egos: Ragged, how: str) -> Tensor:
    """The shares of edges [E, D] in their mean or maximum; ties share the maximum."""
    ego = egos.group_ids
    if how == "mean":
        return edges / egos.lengths[ego][:, None]
    is_largest = (edges == reduce_egos(edges, egos, "max")[ego]).to(edges.dtype)
    ties = edges.new_zeros(egos.num_groups, edges.size(1)).index_add(0, ego, is_largest)
    return edges * is_largest / ties[ego]
