"""Losses that are read some steps late, so that the host does not wait for the GPU."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edgeformers.data.types import Ids


@dataclass(frozen=True)
class Update:
    """One optimizer step and the examples of its batches."""

    step: int  # from 1
    epoch: int
    batches: list[Ids]


class DeferredLosses:
    """A queue of losses, each of which is read `delay` steps after it was added."""

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self._queue: deque[tuple[Update, Tensor, Any]] = deque()

    def add(self, update: Update, loss: Tensor) -> None:
        """Start copying the loss of an update to the host."""
        if not loss.is_cuda:
            self._queue.append((update, loss, None))
            return
        host = torch.empty_like(loss, device="cpu", pin_memory=True)
        host.copy_(loss, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
        self._queue.append((update, host, copied))

    def read(self, *, drain: bool = False) -> list[tuple[Update, float]]:
        """The losses that are due; with `drain`, all of them."""
        losses = []
        while len(self._queue) > (0 if drain else self.delay):
            update, loss, copied = self._queue.popleft()
            if copied is not None:
                copied.synchronize()
            losses.append((update, float(loss)))
        return losses
