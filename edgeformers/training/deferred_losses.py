"""Losses read a few steps late, so that the host never waits for the GPU to have made them."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edgeformers.data.types import Ids

LATE = 8  # steps that a GPU may be behind before its host waits for a loss


@dataclass(frozen=True)
class Update:
    """One step of the optimizer: when it was, and the examples of its batches."""

    step: int  # counted from 1
    epoch: int
    group: list[Ids]


class LateLosses:
    """A queue of losses; `take` gives those that are older than `lag` steps, in order."""

    def __init__(self, lag: int) -> None:
        self.lag = lag
        self._waiting: deque[tuple[Update, Tensor, Any]] = deque()

    def put(self, update: Update, loss: Tensor) -> None:
        """Remember the loss of an update, wherever it is computed."""
        if not loss.is_cuda:
            self._waiting.append((update, loss, None))
            return
        copied = torch.empty_like(loss, device="cpu", pin_memory=True)
        copied.copy_(loss, non_blocking=True)
        made = torch.cuda.Event()
        made.record()
        self._waiting.append((update, copied, made))

    def take(self, *, everything: bool = False) -> list[tuple[Update, float]]:
        """The losses that are due; with `everything` all there are."""
        found = []
        while len(self._waiting) > (0 if everything else self.lag):
            update, loss, made = self._waiting.popleft()
            if made is not None:
                made.synchronize()
            found.append((update, float(loss)))
        return found
