"""Ctrl-C and SIGTERM during training, delayed until a checkpoint can be written."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class Interrupted(BaseException):
    """A signal arrived; training stops where it can be resumed."""


class DelayedSignals:
    """Holds back SIGINT and SIGTERM within its block; a second SIGINT is not held back.

    The block must look at `pending` where it can stop. `deliver`, called after the block, lets the
    signal do what it would have done without it.
    """

    def __init__(self, *, active: bool = True) -> None:
        self.pending: int | None = None
        self._active = active and threading.current_thread() is threading.main_thread()
        self._previous: dict[int, Any] = {}
        self._may_raise = False

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM) if self._active else ():
            handler = signal.getsignal(number)
            if handler not in (None, signal.SIG_IGN):
                self._previous[number] = signal.signal(number, self._hold)
        return self

    def __exit__(self, *_: object) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise Interrupted as soon as a signal arrives: the block changes nothing."""
        self._may_raise = True
        try:
            if self.pending is not None:
                raise Interrupted
            yield
        finally:
            self._may_raise = False

    def deliver(self) -> None:
        """Send the signal that was held back, if any, to this process again."""
        if self.pending is not None:
            signal.raise_signal(self.pending)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if number == self.pending == signal.SIGINT:
            self.__exit__()
            signal.raise_signal(number)
        self.pending = self.pending or number
        if self._may_raise:
            raise Interrupted
