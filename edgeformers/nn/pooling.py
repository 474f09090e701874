"""Attention between the edges of an ego graph, pooling of edges, and reductions of rows."""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from edgeformers.nn.attention import attend_within
from edgeformers.nn.ragged import Ragged

Pooling = Literal["attention", "mean", "max"]


class LocalAttention(nn.Module):
    """MHA_g: self-attention among the edges of an ego graph, giving the third virtual token h-bar.

    As the paper defines MHA, there is no output map and no residual connection.
    Shapes: E edges, D width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)

    def forward(self, cls_states: Tensor, egos: Ragged) -> Tensor:
        """[CLS] states of all edges [E, D] -> h-bar [E, D]."""
        parts = self.query_key_value(cls_states).unflatten(-1, (3, self.heads, -1))
        return attend_within(parts, egos).flatten(1)  # [E, 3, H, D/H] -> [E, D]


class EdgePooling(nn.Module, ABC):
    """AGG: the edges of an ego graph are combined into its center.

    Shapes: E edges of B ego graphs, K node width, D width.
    """

    def forward(self, edges: Tensor, center: Tensor, egos: Ragged) -> Tensor:
        """Edge states [E, D] and vectors of the centers [B, K or D] -> [B, D]."""
        shares = self.shares(edges, center, egos)
        return reduce_rows(shares, egos.group_ids, egos.num_groups, "sum")

    @abstractmethod
    def shares(self, edges: Tensor, center: Tensor, egos: Ragged) -> Tensor:
        """The contribution of each edge to its center [E, D]."""


class BilinearPooling(EdgePooling):
    """AGG of the paper: h_v = sum of alpha h_e with alpha = softmax(h_e^T W_s z_v^(0))."""

    def __init__(self, node_width: int, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(node_width, width, bias=False)  # W_s

    def shares(self, edges: Tensor, center: Tensor, egos: Ragged) -> Tensor:
        """`center` is z_v^(0) [B, K]."""
        wide = edges.to(torch.promote_types(edges.dtype, torch.float32))
        scores = (self.score(center)[egos.group_ids] * wide).sum(-1, keepdim=True)  # [E, 1]
        return softmax_rows(scores, egos.group_ids, egos.num_groups) * wide


class HeadPooling(EdgePooling):
    """AGG of the authors' code: multi-head attention with the center's node token as query."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)

    def shares(self, edges: Tensor, center: Tensor, egos: Ragged) -> Tensor:
        """`center` is the node token [B, D]."""
        wide = torch.promote_types(edges.dtype, torch.float32)
        q = self.query(center).to(wide).unflatten(-1, (self.heads, -1))  # [B, H, D/H]
        k, v = self.key_value(edges).to(wide).unflatten(-1, (2, self.heads, -1)).unbind(1)
        scores = (q[egos.group_ids] * k).sum(-1) / q.size(-1) ** 0.5  # [E, H]
        weights = softmax_rows(scores, egos.group_ids, egos.num_groups)
        shares: Tensor = weights[..., None] * v
        return shares.flatten(1)


class ReducedPooling(EdgePooling):
    """The mean or maximum of the edges, without attention; it does not read the center."""

    def __init__(self, how: Literal["mean", "max"]) -> None:
        super().__init__()
        self.how = how

    def forward(self, edges: Tensor, center: Tensor, egos: Ragged) -> Tensor:
        return torch.segment_reduce(edges, self.how, lengths=egos.lengths.long(), unsafe=True)

    def shares(self, edges: Tensor, center: Tensor, egos: Ragged) -> Tensor:
        """h_e / N, or the maximal entries of h_e; ties share the maximum."""
        ego = egos.group_ids
        if self.how == "mean":
            return edges / egos.lengths[ego][:, None]
        is_largest = (edges == self.forward(edges, center, egos)[ego]).to(edges.dtype)
        ties = reduce_rows(is_largest, ego, egos.num_groups, "sum")
        return edges * is_largest / ties[ego]


def reduce_rows(
    rows: Tensor, group: Tensor, count: int, how: Literal["sum", "mean", "max"]
) -> Tensor:
    """Rows [R, D] of groups [R] -> one row per group [count, D]; zeros for empty groups.

    Half-precision rows are reduced in float32; on a GPU the order of summation varies.
    """
    wide = rows if rows.dtype == torch.float64 else rows.float()
    empty = wide.new_zeros(count, rows.size(1))
    if how == "max":
        return empty.scatter_reduce(
            0, group[:, None].expand_as(wide), wide, "amax", include_self=False
        )
    sums = empty.index_add(0, group, wide)
    if how == "sum":
        return sums
    return sums / count_rows(group, count).clamp(min=1)[:, None]


def count_rows(group: Tensor, count: int) -> Tensor:
    """Number of rows per group: [R] -> [count]."""
    return torch.zeros(count, dtype=torch.long, device=group.device).index_add(
        0, group, torch.ones_like(group)
    )


def softmax_rows(scores: Tensor, group: Tensor, count: int) -> Tensor:
    """Softmax within each group: scores [R, H] -> weights [R, H]."""
    largest = reduce_rows(scores.detach(), group, count, "max")
    weights = (scores - largest[group]).exp()
    return weights / reduce_rows(weights, group, count, "sum")[group]
