"""Compute values or read several streams in background threads, ahead of the consumer."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from queue import Empty, Queue
from threading import Event
from typing import Any, TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


def prefetch(
    compute: Callable[[Item], Value], items: Iterable[Item], ahead: int = 4
) -> Generator[Value]:
    """Yield `compute(item)` for all items in order, computing up to `ahead` values in advance.

    Errors are raised in the consumer. Closing the generator stops the thread.
    """
    remaining = iter(items)
    executor = ThreadPoolExecutor(1)
    pending: deque[Future[Value]] = deque()
    try:
        while True:
            for item in islice(remaining, ahead - len(pending)):
                pending.append(executor.submit(compute, item))
            if not pending:
                return
            yield pending.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class _End:
    """The end of a stream, and the error that ended it."""

    error: BaseException | None = None


def read_in_parallel(
    streams: Sequence[Callable[[], Iterator[Item]]], *, threads: int, ahead: int = 2
) -> Generator[Item]:
    """Yield the items of all streams, one stream after the other.

    That many streams are read at a time, each by a thread and at most `ahead` items in advance. The
    error of a stream is raised in the consumer after its last item. Closing the generator stops
    the threads.
    """
    is_closed = Event()
    queues: list[Queue[Item | _End]] = [Queue(max(2, ahead)) for _ in streams]

    def fill(queue: Queue[Item | _End], stream: Callable[[], Iterator[Item]]) -> None:
        try:
            for item in stream():
                if is_closed.is_set():
                    return
                queue.put(item)
            queue.put(_End())
        except BaseException as error:  # raised again in the consumer
            queue.put(_End(error))

    with ThreadPoolExecutor(threads) as executor:
        for queue, stream in zip(queues, streams, strict=True):
            executor.submit(fill, queue, stream)
        try:
            for queue in queues:
                while not isinstance(item := queue.get(), _End):
                    yield item
                if item.error is not None:
                    raise item.error
        finally:
            is_closed.set()
            executor.shutdown(wait=False, cancel_futures=True)
            for queue in queues:
                _drain(queue)  # a thread may wait for a free place


def _drain(queue: Queue[Any]) -> None:
    with suppress(Empty):
        while True:
            queue.get_nowait()
