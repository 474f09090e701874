"""Sums, means, maxima and softmax over groups of rows in any order."""

from typing import Literal

import torch
from torch import Tensor


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
