"""RowAdam: Adam for the rows of a table with sparse gradients, without GPU synchronization."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class RowAdam(torch.optim.Optimizer):
    """Adam as in torch.optim.SparseAdam: rows without a gradient do not change.

    SparseAdam waits for the GPU to coalesce the gradient. Here every entry of the gradient computes
    the update of its row, and duplicate entries compute the same update. If `disabled` is positive,
    steps change nothing.

    Shapes: n entries of the gradient, K width of the table.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})
        self.disabled: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update the rows that have a gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, table.grad, group)

    def _update(self, table: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[table]
        if not state:
            state |= {"step": 0, "exp_avg": torch.zeros_like(table)}
            state["exp_avg_sq"] = torch.zeros_like(table)
        state["step"] += 1
        rows, sums = sum_rows(grad._indices()[0], grad._values())  # [n], [n, K]
        (beta1, beta2), lr = group["betas"], group["lr"]
        mean = state["exp_avg"][rows].lerp(sums, 1 - beta1)
        square = state["exp_avg_sq"][rows].lerp(sums.square(), 1 - beta2)
        size = lr * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        updated = table[rows] - size * mean / (square.sqrt() + group["eps"])
        for target, value in (
            (table, updated),
            (state["exp_avg"], mean),
            (state["exp_avg_sq"], square),
        ):
            if self.disabled is not None:
                value = torch.where(self.disabled > 0, target[rows], value)
            target[rows] = value  # duplicate entries write the same value


def sum_rows(rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Entries [n] and [n, K] sorted by row, each with the sum over all entries of its row."""
    if not rows.numel():
        return rows, values
    ordered, order = rows.sort(stable=True)
    is_first = torch.ones_like(ordered)
    is_first[1:] = (ordered[1:] != ordered[:-1]).long()
    index = is_first.cumsum(0) - 1  # [n], among the distinct rows
    lengths = torch.zeros_like(ordered).index_add_(0, index, torch.ones_like(index))
    sums = torch.segment_reduce(values[order], "sum", lengths=lengths, unsafe=True)
    return ordered, sums[index]
