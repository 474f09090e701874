"""Exponential moving average (EMA) of the weights, which is validated and kept.

Written by hand: torch.optim.swa_utils.AveragedModel copies frozen parameters and buffers too,
cannot be swapped into the trained model, and would not resume checkpoints of earlier versions.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

UPDATE_EVERY = 8  # steps; a large node table is expensive to average at every step


class EMA:
    """Moving average of all trainable parameters, with `decay` per step.

    The decay starts lower, so that the first steps do not dominate the average.
    """

    def __init__(self, modules: nn.Module, decay: float) -> None:
        self.parameters = [p for p in modules.parameters() if p.requires_grad]
        self.decay = decay
        self.updates = 0
        self.mean = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Include the current parameters, every `UPDATE_EVERY` steps."""
        if step % UPDATE_EVERY:
            return
        self.updates += 1
        decay = min(self.decay**UPDATE_EVERY, self.updates / (self.updates + 9))
        torch._foreach_lerp_(self.mean, [p.detach() for p in self.parameters], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averaged weights in the modules within a `with` block, after the first update."""
        if not self.updates:
            yield
            return
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state_dict(self) -> dict[str, Tensor | int]:
        state: dict[str, Tensor | int] = {"updates": self.updates}
        return state | {str(index): mean for index, mean in enumerate(self.mean)}

    def load_state_dict(self, state: dict[str, Tensor | int]) -> None:
        if len(state) != len(self.mean) + 1:
            raise ValueError(f"{len(state) - 1} averaged parameters instead of {len(self.mean)}")
        self.updates = int(state["updates"])
        for index, mean in enumerate(self.mean):
            mean.copy_(torch.as_tensor(state[str(index)]))

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, mean in zip(self.parameters, self.mean, strict=True):
            current = parameter.detach().clone()
            parameter.copy_(mean)
            mean.copy_(current)
