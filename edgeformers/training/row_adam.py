"""RowAdam: Adam for the rows of a table that a batch has touched, without waiting for the GPU."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class RowAdam(torch.optim.Optimizer):
    """Adam as torch's SparseAdam has it: rows without a gradient stay as they are.

    SparseAdam asks the GPU how many rows there are before it goes on. Here every entry of the
    gradient computes its row anew; entries of one row compute the same. With `halted` set on the
    device, a step changes nothing.

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
        self.halted: Tensor | None = None  # 1 once a loss was no number

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of the rows that have a gradient."""
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
        (first, second), lr = group["betas"], group["lr"]
        mean = state["exp_avg"][rows].lerp(sums, 1 - first)
        square = state["exp_avg_sq"][rows].lerp(sums.square(), 1 - second)
        size = lr * (1 - second ** state["step"]) ** 0.5 / (1 - first ** state["step"])
        moved = table[rows] - size * mean / (square.sqrt() + group["eps"])
        for target, value in (
            (table, moved),
            (state["exp_avg"], mean),
            (state["exp_avg_sq"], square),
        ):
            kept = (
                value if self.halted is None else torch.where(self.halted > 0, target[rows], value)
            )
            target[rows] = kept  # entries of one row write the same


def sum_rows(rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Entries [n] and [n, K] in the order of their rows, each with the sum of all of its row."""
    if not rows.numel():
        return rows, values
    ordered, order = rows.sort(stable=True)
    begins = torch.ones_like(ordered)
    begins[1:] = (ordered[1:] != ordered[:-1]).long()
    place = begins.cumsum(0) - 1  # [n], which of the distinct rows
    lengths = torch.zeros_like(ordered).index_add_(0, place, torch.ones_like(place))
    sums = torch.segment_reduce(values[order], "sum", lengths=lengths, unsafe=True)
    return ordered, sums[place]
