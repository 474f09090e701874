"""Progress bars and messages on stderr."""

import sys
from typing import Any

from tqdm.auto import tqdm


def progress_bar(total: int, done: int, *, show: bool, desc: str) -> Any:
    """A tqdm bar that starts at `done` steps."""
    return tqdm(total=total, initial=done, desc=desc, unit=" steps", disable=not show)


def print_message(message: str, *, show: bool) -> None:
    """Print a message without breaking a progress bar."""
    if show:
        tqdm.write(message, file=sys.stderr)
