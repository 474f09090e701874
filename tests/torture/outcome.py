"""What one hostile case led to, observed in this process or in a forked one with limits."""

import gc
import json
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Literal

from edgeformers.errors import EdgeformersError

Kind = Literal["rejected", "accepted", "crash", "silent"]
MAX_MESSAGE = 2000  # characters of an error message
ADDRESS_SPACE = 8 << 30  # bytes beyond what a forked process starts with


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`crash`: anything but an error of this library; `silent`: wrong, but without an error."""

    kind: Kind
    detail: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0  # memory beyond that at the start; 0 if it was not measured


@dataclass(frozen=True)
class Case:
    """A hostile input, determined by its kind, the seed and its number."""

    number: int
    kind: str
    seed: int


def cases_in_turn(kinds: Iterable[str], seed: int) -> Iterator[Case]:
    """Endless cases of all kinds in turn."""
    return (Case(number, kind, seed) for number, kind in enumerate(cycle(kinds)))


def observe(action: Callable[[], str | None]) -> Outcome:
    """Run an action in this process; it returns what is silently wrong, or None.

    An error message must be a single line of printable characters.
    """
    began = time.perf_counter()
    try:
        wrong = action()
        kind, detail = ("silent", wrong) if wrong else ("accepted", "")
    except EdgeformersError as error:
        detail = str(error)
        is_sentence = detail.isprintable() and 0 < len(detail) <= MAX_MESSAGE
        kind = "rejected" if is_sentence else "crash"
        detail = detail if is_sentence else f"the message is not one line: {detail[:MAX_MESSAGE]!r}"
    except BaseException as error:  # Rust libraries raise panics that are no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        kind, detail = "crash", traceback.format_exc()
    return Outcome(kind=kind, detail=detail, seconds=time.perf_counter() - began)


def observe_forked(
    action: Callable[[], str | None], *, max_seconds: float, max_bytes: int, timeout: float = 60.0
) -> Outcome:
    """Run an action in a forked process; more CPU time or memory than the maximum is a crash."""
    gc.collect()
    start_bytes = _resident_bytes()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run_child(action, writer)
    os.close(writer)
    began = time.perf_counter()
    sent = b""
    while (left := timeout - (time.perf_counter() - began)) > 0:
        if not select.select([reader], [], [], left)[0]:
            break
        if not (chunk := os.read(reader, 1 << 16)):
            break
        sent += chunk
    else:
        left = 0.0
    os.close(reader)
    if left <= 0:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime  # what other processes do does not count
    peak = max(0, usage.ru_maxrss * 1024 - start_bytes)
    try:
        outcome = Outcome(**json.loads(sent))
    except ValueError:
        detail = f"ended with status {os.waitstatus_to_exitcode(status)} after {seconds:.1f} s"
        return Outcome(kind="crash", detail=detail, seconds=seconds, peak_bytes=peak)
    kind, detail = outcome.kind, outcome.detail
    if seconds > max_seconds or peak > max_bytes:
        kind, detail = "crash", f"took {seconds:.1f} s and {peak >> 20} MiB; {detail}"
    return Outcome(kind=kind, detail=detail, seconds=seconds, peak_bytes=peak)


def _run_child(action: Callable[[], str | None], writer: int) -> None:
    limit = _virtual_bytes() + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        with os.fdopen(writer, "w") as stream:
            json.dump(asdict(observe(action)), stream)
    finally:
        os._exit(0)


def _resident_bytes() -> int:
    return _memory_pages()[1] * resource.getpagesize()


def _virtual_bytes() -> int:
    return _memory_pages()[0] * resource.getpagesize()


def _memory_pages() -> list[int]:
    return [int(number) for number in Path("/proc/self/statm").read_text().split()]
