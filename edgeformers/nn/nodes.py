"""Virtual node tokens: the table of nodes, the unknown node, and the maps into text space."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.errors import InputError


class NodeLookup(nn.Module):
    """z^(0): a short vector for every node, free to learn (section 3.1), and one for the unknown.

    The last row of the table stands for a node the model has never met: number -1, or any node
    marked unseen. In training, `node_dropout` lets it stand in for known nodes, so that it learns
    to mean "some node" and a new node is read from its edges alone. Given `features` of nodes are
    mapped to the same width and added.

    Shapes: N nodes, K width, F width of given features; any shape of node numbers.
    """

    features: Tensor
    is_seen: Tensor

    def __init__(
        self,
        num_nodes: int,
        width: int,
        *,
        node_dropout: float = 0.0,
        feature_width: int = 0,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        self.num_nodes = num_nodes
        self.node_dropout = node_dropout
        self.sparse = sparse  # a step then costs what the batch touches, not the whole table
        self.table = nn.Parameter(torch.empty(num_nodes + 1, width))
        nn.init.xavier_normal_(self.table[:num_nodes])
        nn.init.zeros_(self.table[num_nodes:])
        self.register_buffer("is_seen", torch.ones(num_nodes + 1, dtype=torch.bool))
        self.feature_map: nn.Linear | None = None
        if feature_width:
            self.register_buffer("features", torch.zeros(num_nodes + 1, feature_width))
            self.feature_map = nn.Linear(feature_width, width, bias=False)

    def forward(self, nodes: Tensor) -> Tensor:
        """Node numbers [...] -> z^(0) [..., K]."""
        rows = self._known_rows(nodes)
        z = F.embedding(rows, self.table, sparse=self.sparse)
        if self.feature_map is not None:
            z = z + self.feature_map(self.features[nodes])  # -1 is the last row: zeros
        return z

    @torch.no_grad()
    def set_table(self, vectors: Tensor) -> None:
        """Start from given vectors [N, K], such as those of a matrix factorization."""
        expected = (self.num_nodes, self.table.size(1))
        if tuple(vectors.shape) != expected:
            raise InputError(
                f"the initial node table must be {list(expected)} (got {list(vectors.shape)})"
            )
        self.table[: self.num_nodes].copy_(vectors)

    @torch.no_grad()
    def set_features(self, features: Tensor) -> None:
        """What is known of nodes beforehand [N, F], such as vectors of their texts."""
        if self.feature_map is None or tuple(features.shape) != (
            self.num_nodes,
            self.features.size(1),
        ):
            raise InputError(
                f"node features must be [{self.num_nodes}, feature_width] as the model was made "
                f"(got {list(features.shape)})"
            )
        self.features[: self.num_nodes].copy_(features)

    @torch.no_grad()
    def mark_seen(self, seen: Tensor) -> None:
        """Tell which nodes [N] training has met; the others are read as the unknown node."""
        if tuple(seen.shape) != (self.num_nodes,) or seen.dtype != torch.bool:
            raise InputError(
                f"seen must be [{self.num_nodes}] of True and False (got {list(seen.shape)} of "
                f"{seen.dtype})"
            )
        self.is_seen[: self.num_nodes].copy_(seen)

    def check(self, nodes: Tensor) -> None:
        """Refuse node numbers that are neither -1 nor of this table."""
        if nodes.is_floating_point() or nodes.dtype == torch.bool:
            raise InputError(f"node numbers must be integers (got {nodes.dtype})")
        if nodes.numel() and (int(nodes.min()) < -1 or int(nodes.max()) >= self.num_nodes):
            bad = nodes[(nodes < -1) | (nodes >= self.num_nodes)].flatten()[0]
            raise InputError(
                f"node {int(bad)} is not one of the {self.num_nodes:,} nodes of this model, "
                f"numbered 0 to {self.num_nodes - 1} (-1: a new node)"
            )

    def _known_rows(self, nodes: Tensor) -> Tensor:
        known = (nodes >= 0) & self.is_seen[nodes]
        if self.training and self.node_dropout > 0:
            known &= torch.rand(nodes.shape, device=nodes.device) >= self.node_dropout
        return torch.where(known, nodes, self.num_nodes)


class NodeProjection(nn.Module):
    """z^(l) = W_n^(l) z^(0): node vectors as tokens of the text's width, for one layer.

    With several edge types each has its own map. With `direction`, a learned vector tells the
    source's token from the target's; without it a node looks the same at either end.

    Shapes: E edges, V node tokens of each, K node width, D text width.
    """

    def __init__(
        self,
        node_width: int,
        width: int,
        *,
        bias: bool = False,
        edge_types: int = 1,
        direction: bool = False,
    ) -> None:
        super().__init__()
        self.maps = nn.ModuleList(
            nn.Linear(node_width, width, bias=bias) for _ in range(edge_types)
        )
        self.role = nn.Parameter(torch.zeros(2, width)) if direction else None

    def forward(
        self, z: Tensor, edge_type: Tensor | None = None, is_source: Tensor | None = None
    ) -> Tensor:
        """[E, V, K], types [E] and whether each token is its edge's source [E, V] -> [E, V, D]."""
        if len(self.maps) == 1 or edge_type is None:
            tokens = self.maps[0](z)
        else:
            choices = torch.stack([project(z) for project in self.maps])  # [R, E, V, D]
            rows = torch.arange(z.size(0), device=z.device)
            tokens = choices[edge_type.clamp(min=0), rows]  # an edge without type reads the first
        if self.role is not None and is_source is not None:
            tokens = tokens + self.role[is_source.long()]
        return cast(Tensor, tokens)
