"""Edgeformer-E: encodes an edge's text together with its two nodes in every layer (section 3.1)."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch
from edgeformers.errors import ConfigError, InputError
from edgeformers.models.base import Edgeformer, EdgeformerConfig
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.node_prior import NodePrior


@dataclass(frozen=True, kw_only=True)
class EdgeformerEConfig(EdgeformerConfig):
    """Settings of Edgeformer-E; `tokens` are the virtual tokens, fewer for ablations."""

    tokens: tuple[str, ...] = ("source", "target")
    fusion: bool = False  # combine [CLS] and the node vectors again after the last layer
    prior_classes: int = 0  # number of classes that node vectors are predicted from; 0 for none

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior_classes < 0:
            raise ConfigError(f"prior_classes must be 0 or more (got {self.prior_classes})")


class EdgeformerE(Edgeformer):
    """Representations h_e of edges with text.

    The first `text_layers` layers (layer 0 in the paper) read the text only. Every further layer
    reads [z_i ; z_j ; text], where the two virtual node tokens are projections of the node vectors
    and are not updated by the layers. The last layer computes only the [CLS] row, which represents
    the edge. Not in the paper: with `fusion`, the representation is GELU(W [h_e ; z_i ; z_j]); with
    `prior_classes`, what the labeled edges of a node predict is added to z (`NodePrior`).

    Shapes: B edges, T tokens of all texts, V virtual tokens, D width, K node width.
    """

    config: EdgeformerEConfig

    def __init__(self, config: EdgeformerEConfig, encoder: TextEncoder) -> None:
        super().__init__(config, encoder)
        self.fusion: nn.Module | None = None
        if config.fusion and config.tokens:
            joined = encoder.width + len(config.tokens) * config.node_width
            dropout = nn.Dropout(encoder.config.dropout)
            self.fusion = nn.Sequential(dropout, nn.Linear(joined, encoder.width), nn.GELU())
        self.prior: NodePrior | None = None
        if config.prior_classes and config.tokens:
            self.prior = NodePrior(
                config.num_nodes, config.node_width, config.prior_classes, config.tokens
            )
        if not config.tokens:  # a model of the text only
            self.nodes.requires_grad_(False)
            self.projections.requires_grad_(False)

    def forward(self, batch: EdgeBatch) -> Tensor:
        """B edges -> edge_repr [B, D]."""
        z = self.node_vectors(batch)  # [B, V, K]
        edge_repr = self.encode_texts(batch, z)  # [B, D]
        if self.fusion is not None and z is not None:
            edge_repr = self.fusion(torch.cat([edge_repr, z.flatten(1)], dim=1))
        return edge_repr

    def encode_edges(
        self, token_ids: Tensor, token_mask: Tensor, src: Tensor, dst: Tensor
    ) -> Tensor:
        """Padded texts [B, L], their mask (True = real) and both ends [B] -> edge_repr [B, D]."""
        text = self.pack(token_ids, token_mask)
        for ends in (src, dst):
            self.nodes.check(ends)
            if ends.shape != token_ids.shape[:1]:
                raise InputError(
                    f"src and dst must have one node per text, {list(token_ids.shape[:1])} "
                    f"(got {list(ends.shape)})"
                )
        batch = EdgeBatch(text=text, src=src, dst=dst)
        return cast(Tensor, self(batch.to(self.nodes.table.device)))

    def node_vectors(self, batch: EdgeBatch) -> Tensor | None:
        """z^(0) of both ends [B, V, K]."""
        ends = {"source": batch.src, "target": batch.dst}
        chosen = [ends[name] for name in self.config.tokens]
        if not chosen:
            return None
        z = cast(Tensor, self.nodes(torch.stack(chosen, dim=1)))
        if self.prior is None:
            return z
        summaries = batch.summaries
        if summaries is None:  # not in training
            summaries = self.prior.look_up(batch.src, batch.dst)
        return z + cast(Tensor, self.prior(summaries))

    def virtual_tokens(
        self, index: int, z: Tensor | None, hidden: Tensor, batch: EdgeBatch
    ) -> Tensor | None:
        """[z_i ; z_j] of layer `text_layers + index` [B, V, D]."""
        if z is None:
            return None
        is_source = None
        if self.config.direction:  # the source's token comes first
            sources = int("source" in self.config.tokens)
            is_source = (torch.arange(z.size(1), device=z.device) < sources).expand(z.shape[:2])
        return cast(Tensor, self.projections[index](z, batch.edge_type, is_source))
