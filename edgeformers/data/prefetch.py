"""prefetch: compute values in a background thread, a few ahead of the consumer."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

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
