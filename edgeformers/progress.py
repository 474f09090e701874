"""Progress bars and messages on stderr."""

import sys
from typing import Any

from tqdm.auto import tqdm


def progress(total: int, done: int, *, show: bool, desc: str) -> Any:
    """A bar with rate and time left."""
    return tqdm(total=total, initial=done, desc=desc, unit=" steps", disable=not show)


def tell(message: str, *, show: bool) -> None:
    """A sentence on stderr that leaves the bar whole."""
    if show:
        tqdm.write(message, file=sys.stderr)
