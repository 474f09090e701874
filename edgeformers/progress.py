"""Progress and messages on stderr: one bar at a time in a terminal, lines in a log otherwise."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO

from tqdm import tqdm

BAR_AFTER = 0.5  # seconds; shorter tasks show no bar
LINE_EVERY = (5.0, 60.0)  # seconds between lines, at first and in a long task


def progress_bar(
    total: int | None = None, *, desc: str, unit: str, show: bool, done: int = 0
) -> "Bar | LogLines":
    """The progress of a task, which starts at `done` units of `total`; close it after the task.

    A bar within another one takes its place until it is closed.
    """
    if show and not sys.stderr.isatty():
        return LogLines(total, desc=desc, unit=unit, done=done)
    return Bar(
        total=total,
        initial=done,
        desc=desc,
        unit=f" {unit}",
        disable=not show,
        position=0,
        leave=not Bar.open_bars,
        delay=BAR_AFTER,
        dynamic_ncols=True,
        miniters=1,
    )


def print_message(message: str, *, show: bool) -> None:
    """Print a message without breaking a progress bar."""
    if show:
        tqdm.write(message, file=sys.stderr)


class Bar(tqdm):
    """A bar in a terminal, which hides the bar around it while it is shown."""

    open_bars: "list[Bar]" = []  # noqa: RUF012  # the innermost is last
    monitor_interval = 0  # no thread that redraws the hidden bars
    is_drawn = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not self.disable:
            self.open_bars.append(self)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        outer = [bar for bar in self.open_bars if bar is not self]
        if outer and not self.is_drawn:
            outer[-1].clear(nolock=True)
        self.is_drawn = True
        super().display(msg, pos)

    def close(self) -> None:
        self.open_bars[:] = [bar for bar in self.open_bars if bar is not self]
        super().close()


class LogLines:
    """Progress as lines, for output that is not a terminal. Short tasks print none.

    The time between lines grows with the time that the task has taken, within `LINE_EVERY`.
    """

    def __init__(
        self,
        total: int | None,
        *,
        desc: str,
        unit: str,
        done: int = 0,
        file: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.desc, self.unit = total, desc, unit
        self.initial = self.n = done
        self.file, self.clock = file or sys.stderr, clock
        self.start = self.printed = clock()
        self.printed_n: int | None = None
        self.postfix = ""

    def update(self, n: int = 1) -> None:
        """Count n more units."""
        self.n += n
        now = self.clock()
        least, most = LINE_EVERY
        if now - self.printed >= max(least, min(most, (now - self.start) / 20)):
            self._print(now)

    def set_postfix(self, refresh: bool = True, **values: Any) -> None:
        """Values to show at the end of the next line."""
        self.set_postfix_str(", ".join(f"{name}={value}" for name, value in values.items()))

    def set_postfix_str(self, text: str) -> None:
        """What to show at the end of the next line."""
        self.postfix = text

    def close(self) -> None:
        """Print a last line if there were others."""
        if self.printed_n not in (None, self.n):
            self._print(self.clock())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _print(self, now: float) -> None:
        self.printed, self.printed_n = now, self.n
        seconds = now - self.start
        rate = (self.n - self.initial) / max(seconds, 1e-9)
        facts = [f"{self.n:,} {self.unit}"]
        if self.total:
            facts = [f"{self.n:,} of {self.total:,} {self.unit} ({self.n / self.total:.0%})"]
        facts.append(f"{rate:,.{0 if rate >= 100 else 1}f} {self.unit}/s")
        if self.total is None or self.n >= self.total:
            facts.append(f"{_duration(seconds)} in all")
        elif rate:
            facts.append(f"{_duration((self.total - self.n) / rate)} left")
        line = ", ".join(filter(None, [*facts, self.postfix]))
        self.file.write(f"{self.desc}: {line}\n")
        self.file.flush()


def _duration(seconds: float) -> str:
    """Seconds as 12 s, 3:05 min or 2:03:05 h."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes_left:02}:{rest:02} h"
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"
