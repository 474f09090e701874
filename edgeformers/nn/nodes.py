"""Virtual node tokens: the node table with an unknown node, and maps to the text width."""

from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.errors import InputError


class NodeRows(Protocol):
    """A row per node; the last one is the unknown node."""

    @property
    def table(self) -> Tensor: ...
    @property
    def is_seen(self) -> Tensor: ...
    @property
    def keep(self) -> Tensor: ...
    @property
    def features(self) -> Tensor: ...


class NodeLookup(nn.Module):
    """z^(0): a learned vector per node (section 3.1), and one for unknown nodes.

    The last row of the table is the unknown node: number -1, or a node not seen in training. In
    training, `node_dropout` replaces known nodes by it at random, so that it represents an average
    node and new nodes are represented by their edges. If there are node `features`, they are
    mapped to the same width and added.

    `node_shrinkage` does this by the number of training edges: a node with n edges is replaced
    with probability k / (n + k), where k is the shrinkage. After training its vector is the mean
    of the two, (n z + k u) / (n + k) with the unknown node's u: as if each node had k more edges
    of an average node.

    Shapes: N nodes, K width, F feature width; node numbers of any shape.
    """

    features: Tensor
    is_seen: Tensor
    keep: Tensor
    is_sharded = False  # whether this process has only some of the rows

    def __init__(
        self,
        num_nodes: int,
        width: int,
        *,
        node_dropout: float = 0.0,
        node_shrinkage: float = 0.0,
        feature_width: int = 0,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        self.num_nodes = num_nodes
        self.node_dropout = node_dropout
        self.node_shrinkage = node_shrinkage
        self.sparse = sparse  # gradients only for rows of the batch
        self.table = nn.Parameter(self._initial_table(width))
        num_rows = len(self.table)
        self.register_buffer("is_seen", torch.ones(num_rows, dtype=torch.bool))
        if node_shrinkage:
            self.register_buffer("keep", torch.ones(num_rows))  # n / (n + k)
        self.feature_map: nn.Linear | None = None
        if feature_width:
            self.register_buffer("features", torch.zeros(num_rows, feature_width))
            self.feature_map = nn.Linear(feature_width, width, bias=False)

    def forward(self, nodes: Tensor) -> Tensor:
        """Node numbers [...] -> z^(0) [..., K]."""
        return self.look_up(nodes, self)

    def look_up(self, nodes: Tensor, source: "NodeRows") -> Tensor:
        """The same in the rows of `source`, where node numbers are positions."""
        rows = self._known_rows(nodes, source)
        z = F.embedding(rows, source.table, sparse=self.sparse)
        if self.node_shrinkage and not self.training:
            z = torch.lerp(source.table[-1], z, source.keep[rows].unsqueeze(-1))
        if self.feature_map is not None:
            z = z + self.feature_map(source.features[nodes])  # -1: the last row, zeros
        return z

    @torch.no_grad()
    def set_table(self, vectors: Tensor) -> None:
        """Initialize with vectors [N, K], such as those of a matrix factorization."""
        self.check_table(vectors)
        self._copy_rows(self.table, vectors)

    @torch.no_grad()
    def set_rows(self, rows: Tensor) -> None:
        """Set the whole table [N + 1, K], with the unknown node as its last row."""
        self.table.copy_(rows)

    def check_table(self, vectors: Tensor) -> None:
        """Raise an error for initial vectors of another shape than the table."""
        expected = (self.num_nodes, self.table.size(1))
        if tuple(vectors.shape) != expected:
            raise InputError(
                f"the initial node table must be {list(expected)} (got {list(vectors.shape)})"
            )

    @torch.no_grad()
    def set_features(self, features: Tensor) -> None:
        """Set features of nodes [N, F], such as vectors of their texts."""
        expected = (self.num_nodes, 0 if self.feature_map is None else self.features.size(1))
        if self.feature_map is None or tuple(features.shape) != expected:
            raise InputError(
                f"node features must be [{self.num_nodes}, feature_width] with the feature_width "
                f"of the model (got {list(features.shape)})"
            )
        self._copy_rows(self.features, features)

    @torch.no_grad()
    def mark_seen(self, seen: Tensor) -> None:
        """Set which nodes [N] are in the training data; others become the unknown node."""
        if tuple(seen.shape) != (self.num_nodes,) or seen.dtype != torch.bool:
            raise InputError(
                f"seen must be a boolean tensor [{self.num_nodes}] (got {list(seen.shape)}, "
                f"{seen.dtype})"
            )
        self._copy_rows(self.is_seen, seen)

    @torch.no_grad()
    def set_edge_counts(self, counts: Tensor) -> None:
        """Set the number of training edges of all nodes [N], by which they are shrunk."""
        if tuple(counts.shape) != (self.num_nodes,):
            raise InputError(
                f"edge counts must be a tensor [{self.num_nodes}] (got {list(counts.shape)})"
            )
        if self.node_shrinkage:
            self._copy_rows(self.keep, counts / (counts + self.node_shrinkage))

    def check(self, nodes: Tensor) -> None:
        """Raise an error for node numbers that are neither -1 nor in the table."""
        if nodes.is_floating_point() or nodes.dtype == torch.bool:
            raise InputError(f"node numbers must be integers (got {nodes.dtype})")
        if nodes.numel() and (int(nodes.min()) < -1 or int(nodes.max()) >= self.num_nodes):
            bad = nodes[(nodes < -1) | (nodes >= self.num_nodes)].flatten()[0]
            raise InputError(
                f"unknown node number {int(bad)}; the model has {self.num_nodes:,} nodes, numbered "
                f"0 to {self.num_nodes - 1} (-1: a new node)"
            )

    def _initial_table(self, width: int) -> Tensor:
        table = torch.empty(self.num_nodes + 1, width)
        nn.init.xavier_normal_(table[: self.num_nodes])
        nn.init.zeros_(table[self.num_nodes :])
        return table

    def _copy_rows(self, target: Tensor, values: Tensor) -> None:
        """Copy one value per node [N, ...] to the rows of a tensor."""
        target[: self.num_nodes].copy_(values)

    def _known_rows(self, nodes: Tensor, source: "NodeRows") -> Tensor:
        known = (nodes >= 0) & source.is_seen[nodes]
        if self.training and self.node_dropout > 0:
            known &= torch.rand(nodes.shape, device=nodes.device) >= self.node_dropout
        if self.training and self.node_shrinkage > 0:
            known &= torch.rand(nodes.shape, device=nodes.device) < source.keep[nodes]
        return torch.where(known, nodes, len(source.table) - 1)


class NodeProjection(nn.Module):
    """z^(l) = W_n^(l) z^(0): the virtual node tokens of one layer.

    With several edge types, each has its own map. With `direction`, a learned vector distinguishes
    the token of a source from that of a target.

    Shapes: E edges, V node tokens per edge, K node width, D text width.
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
        """[E, V, K], edge types [E], and whether tokens are sources [E, V] -> [E, V, D]."""
        if len(self.maps) == 1 or edge_type is None:
            tokens = self.maps[0](z)
        else:
            choices = torch.stack([project(z) for project in self.maps])  # [R, E, V, D]
            rows = torch.arange(z.size(0), device=z.device)
            tokens = choices[edge_type.clamp(min=0), rows]  # no type: the first
        if self.role is not None and is_source is not None:
            tokens = tokens + self.role[is_source.long()]
        return cast(Tensor, tokens)
