"""What texts and numbers of the data become before they are shown."""

from collections.abc import Sequence

Rows = Sequence[Sequence[str]]  # of a table; the first cell names the row

STAYING = "\u200c\u200d"  # joiners that scripts and emoji need, though they do not print


def printable(text: str) -> str:
    """Without characters that steer a terminal or turn the direction of writing."""
    return "".join(c for c in text if c.isprintable() or c in STAYING)


def number(value: float) -> str:
    """1,204 or 0.1235."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:,.4g}"
