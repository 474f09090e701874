"""A running average of the weights: what is validated and kept instead of the last step's."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

EVERY = 8  # steps between two updates, so that a large node table is not read at every step


class WeightAverage:
    """An exponential average of all learned parameters, by a decay per step.

    Steps of an optimizer scatter around a good place; their mean lies nearer to it. Early on the
    average forgets faster, so that the first steps do not linger in it.
    """

    def __init__(self, modules: nn.Module, decay: float) -> None:
        self.parameters = [p for p in modules.parameters() if p.requires_grad]
        self.decay = decay
        self.updates = 0
        self.mean = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the parameters after `step` steps, where it is time."""
        if step % EVERY:
            return
        self.updates += 1
        keep = min(self.decay**EVERY, self.updates / (self.updates + 9))
        torch._foreach_lerp_(self.mean, [p.detach() for p in self.parameters], 1 - keep)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """The averaged weights in the modules for a while; before any update there are none."""
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
        return state | {str(at): value for at, value in enumerate(self.mean)}

    def load_state_dict(self, state: dict[str, Tensor | int]) -> None:
        if len(state) != len(self.mean) + 1:
            raise ValueError(f"{len(state) - 1} averaged parameters for {len(self.mean)}")
        self.updates = int(state["updates"])
        for at, mean in enumerate(self.mean):
            mean.copy_(torch.as_tensor(state[str(at)]))

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, mean in zip(self.parameters, self.mean, strict=True):
            held = parameter.detach().clone()
            parameter.copy_(mean)
            mean.copy_(held)
