"""Edgeformer-N: encodes a node from the texts of its edges, which see each other (section 3.2)."""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from edgeformers.data.batch import EgoBatch
from edgeformers.errors import ConfigError, InputError
from edgeformers.models.base import Edgeformer, EdgeformerConfig
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from edgeformers.nn.pooling import (
    BilinearPooling,
    EdgePooling,
    HeadPooling,
    LocalAttention,
    Pooling,
    ReducedPooling,
)


@dataclass(frozen=True, kw_only=True)
class EdgeformerNConfig(EdgeformerConfig):
    """Settings of Edgeformer-N; `tokens` are the virtual tokens, fewer for ablations.

    `readout` is the position of an edge's state in the last layer: [CLS] (section 3.2) or the
    neighbor token (Algorithm 2 and the release). The default depends on `fidelity`.
    """

    tokens: tuple[str, ...] = ("center", "neighbor", "local")
    readout: Literal["cls", "neighbor"] | None = None
    pooling: Pooling = "attention"

    def __post_init__(self) -> None:
        super().__post_init__()
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


class EdgeformerN(Edgeformer):
    """Representations h_v of nodes whose edges have text.

    Every edge of a node is encoded as in Edgeformer-E with a third virtual token: the attention
    over the [CLS] states of its sibling edges in the previous layer. The node is the
    attention-weighted sum of its edges. A node without edges is its own node token.

    Shapes: B centers, E edges of them all, T tokens of all texts, D width, K node width.
    """

    config: EdgeformerNConfig

    def __init__(self, config: EdgeformerNConfig, encoder: TextEncoder) -> None:
        super().__init__(config, encoder)
        width, heads = encoder.width, encoder.config.heads
        if not {"center", "neighbor"} & set(config.tokens):
            self.projections = self.projections[-1:]  # for nodes without edges and the pooling
        self.local_attention = nn.ModuleList()
        if "local" in config.tokens:
            self.local_attention = self.per_layer(lambda: LocalAttention(width, heads))  # MHA_g
        self.pool: EdgePooling
        if config.pooling != "attention":
            self.pool = ReducedPooling(config.pooling)
        elif config.fidelity == "released":
            self.pool = HeadPooling(width, heads)
        else:
            self.pool = BilinearPooling(config.node_width, width)

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        z_center = self.nodes(batch.center)  # [B, K], once: node dropout must be the same
        isolated = self.node_token(z_center)
        if not batch.text.num_texts:
            return isolated  # [B, D]
        edges = self.encode_ego_edges(batch, z_center)  # [E, D]
        pooled = self.pool(edges, self._query(z_center[batch.occupied]), batch.egos)  # [B', D]
        return isolated.index_copy(0, batch.occupied, pooled.to(isolated.dtype))

    def encode_ego_edges(self, batch: EgoBatch, z_center: Tensor | None = None) -> Tensor:
        """The edges of all centers -> h_{e|v} [E, D]; `z_center` [B, K] may be given."""
        return self.encode_texts(batch, self.node_vectors(batch, z_center))

    def edge_shares(self, batch: EgoBatch, edges: Tensor) -> Tensor:
        """The contribution of each edge to its center [E, D]; those of a center sum to h_v.

        With attention alpha h_e, with the mean h_e / N, with the maximum its maximal entries.
        """
        z_center = self.nodes(batch.center)[batch.occupied]
        return self.pool.shares(edges, self._query(z_center), batch.egos)

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
        text = self.pack(token_ids[real], token_mask[real])
        self.nodes.check(center)
        self.nodes.check(neighbor[real])
        batch = EgoBatch.from_counts(
            text=text,
            center=center.cpu(),
            counts=real.sum(1).cpu(),
            neighbor=neighbor[real].cpu(),
        )
        return cast(Tensor, self(batch.to(self.nodes.table.device)))

    def node_vectors(self, batch: EgoBatch, z_center: Tensor | None = None) -> Tensor | None:
        """z^(0) of the center and the neighbor of each edge [E, V, K]."""
        parts: list[Tensor] = []
        if "center" in self.config.tokens:
            of_centers = self.nodes(batch.center) if z_center is None else z_center
            parts.append(of_centers[batch.owner])
        if "neighbor" in self.config.tokens:
            parts.append(self.nodes(batch.neighbor))
        return torch.stack(parts, dim=1) if parts else None

    def virtual_tokens(
        self, index: int, z: Tensor | None, hidden: Tensor, batch: EgoBatch
    ) -> Tensor | None:
        """[z_v ; z_u ; h-bar] of layer `text_layers + index` [E, V, D]."""
        parts: list[Tensor] = []
        if z is not None:
            parts.append(self.projections[index](z, batch.edge_type, self._is_source(batch)))
        if "local" in self.config.tokens:
            siblings = self.local_attention[index](hidden[batch.text.starts], batch.egos)
            parts.append(siblings[:, None].to(hidden.dtype))
        return torch.cat(parts, dim=1) if parts else None

    def readout_rows(self, hidden: Tensor, virtual: Tensor | None, text: PackedText) -> Tensor:
        """[CLS], or the neighbor tokens [E, D]."""
        if self.config.reads_neighbor and virtual is not None:
            return virtual[:, self.config.tokens.index("neighbor")]
        return super().readout_rows(hidden, virtual, text)

    def _is_source(self, batch: EgoBatch) -> Tensor | None:
        """Whether each node token is the source of its edge: [E, V]."""
        if batch.is_out is None:
            return None
        ends = {"center": batch.is_out, "neighbor": ~batch.is_out}
        return torch.stack([ends[name] for name in self.config.tokens if name in ends], dim=1)

    def node_token(self, z: Tensor) -> Tensor:
        """What represents centers without edges: z^(0) [B, K] -> [B, D]."""
        return cast(Tensor, self.projections[-1](z[:, None])).squeeze(1)

    def _query(self, z_center: Tensor) -> Tensor:
        """What the pooling reads of the centers: z_v (paper), or their node tokens (released)."""
        return self.node_token(z_center) if isinstance(self.pool, HeadPooling) else z_center
