"""Tables and small bars in a terminal, as plain lines."""

import unicodedata
from collections.abc import Sequence

from edgeformers.data.card.card import NamedCount
from edgeformers.data.card.phrasing import percent
from edgeformers.report.text import Rows, printable

BARS = " ▁▂▃▄▅▆▇█"


def sparkline(counts: Sequence[int]) -> str:
    """A row of small bars; a count that is not 0 is always seen."""
    highest = max([*counts, 1])
    return "".join(BARS[0 if not c else max(1, round(8 * c / highest))] for c in counts)


def bars(items: Sequence[NamedCount], width: int, total: int) -> list[str]:
    """Names with their counts, their share of `total`, and a bar."""
    highest = max([item.count for item in items], default=0) or 1
    rows = [
        [fit(printable(item.name), 28), f"{item.count:,}", percent(item.count / max(total, 1))]
        for item in items
    ]
    lines = format_table(rows)
    room = max(width - max([_columns(line) for line in lines], default=0) - 2, 0)
    return [
        f"{line}  {'█' * round(min(room, 30) * item.count / highest)}".rstrip()
        for line, item in zip(lines, items, strict=True)
    ]


def format_table(rows: Rows, left: Sequence[int] = (0,)) -> list[str]:
    """Columns side by side, numbers to the right; `left` says which columns are words."""
    clean = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(_columns, column)) for column in zip(*clean, strict=True)]
    lines = []
    for row in clean:
        cells = [_pad(cell, widths[i], i in left) for i, cell in enumerate(row)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _pad(cell: str, width: int, left: bool) -> str:
    space = " " * (width - _columns(cell))
    return cell + space if left else space + cell


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: wide signs two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width` columns, broken at blanks; a longer word is broken anywhere.

    The first line begins with `first`, all others with `rest`.
    """
    lines, line = [], first
    for word in text.split():
        joined = f"{line} {word}" if line not in (first, rest) else f"{line}{word}"
        if _columns(joined) > width and line not in (first, rest):
            lines.append(line)
            joined = f"{rest}{word}"
        while _columns(joined) > width:
            head = _head(joined, width)
            lines.append(head)
            joined = f"{rest}{joined[len(head) :]}"
        line = joined
    return [*lines, line] if line not in (first, rest) else lines


def _head(line: str, width: int) -> str:
    """As much of a line as `width` columns hold."""
    while _columns(line) > width:
        line = line[:-1]
    return line


def fit(line: str, width: int) -> str:
    """The line, cut to `width` columns of a terminal."""
    return line if _columns(line) <= width else _head(line, width - 1) + "…"
