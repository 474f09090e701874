"""Pages and tables as plain text of a given width, laid out by rich."""

import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from edgeformers.report.formatting import printable
from edgeformers.report.page import (
    Bar,
    Block,
    Bullets,
    Cell,
    CommandLine,
    Details,
    Findings,
    IntervalCell,
    Page,
    Paragraph,
    Plot,
    Quote,
    Section,
    SideBySide,
    Table,
    TableCell,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

WIDTH = 80
BAR_WIDTH = 30
SPARKS = " ▁▂▃▄▅▆▇█"


def render_text(page: Page, width: int = WIDTH) -> str:
    """A page as plain text: its lead, tables and remarks, with sparklines in place of figures."""
    header = [page.title.upper(), page.origin, *page.lead]
    lines = _layout([_text(line) for line in header if line], width)
    for section in page.shown_sections:
        if blocks := _blocks(section.blocks):
            lines += ["", *_layout([_text(section.title.upper()), *blocks], width)]
    return "\n".join(lines) + "\n"


def sparkline(counts: Sequence[int]) -> str:
    """A row of small bars; counts above 0 are always visible."""
    highest = max([*counts, 1])
    return "".join(SPARKS[0 if not c else max(1, round(8 * c / highest))] for c in counts)


def _blocks(blocks: Iterable[Block]) -> list["RenderableType"]:
    return [line for block in blocks for line in _block(block)]


def _block(block: Block) -> list["RenderableType"]:
    """Tiles and images are left out: the lead and the tables say the same."""
    if isinstance(block, Paragraph):
        return [_hanging("", block.text)]
    if isinstance(block, CommandLine):
        return [_hanging("", re.sub(r" (?=--)", " \\\n  ", block.text))]
    if isinstance(block, Bullets):
        return [_hanging("·", line) for line in block.lines[: block.brief]]
    if isinstance(block, Quote):
        return [_hanging("", f"“{block.text}” ({block.about})")]
    if isinstance(block, Findings):
        return [
            _hanging(
                "!" if item.severity == "warning" else "·",
                (f"[{', '.join(item.splits)}] " if item.splits else "")
                + f"{item.sentence} {item.advice}",
            )
            for item in block.items
        ]
    if isinstance(block, Table):
        return [_table(block)] if len(block.rows) > block.header else []
    if isinstance(block, Plot):
        return [_hanging("", block.text)] if block.text else []
    if isinstance(block, Section):
        inner = _blocks(block.blocks)
        return [_hanging("", block.title), *inner] if inner else []
    return _blocks(block.blocks) if isinstance(block, SideBySide | Details) else []


def _table(block: Table) -> "RenderableType":
    """Names, words and bars are left-aligned; intervals are left out."""
    from rich.padding import Padding
    from rich.table import Table as RichTable

    table = RichTable.grid(padding=(0, 2, 0, 0), pad_edge=False)
    bars = [cell.share for row in block.rows for cell in row if isinstance(cell, Bar)]
    highest = max(bars, default=0.0) or 1.0
    kept = []
    for i, column in enumerate(zip(*block.rows, strict=True)):
        if not any(isinstance(cell, IntervalCell) for cell in column):
            kept.append(i)
            words = (isinstance(c, str) and not re.search(r"\d", c) for c in column[block.header :])
            is_left = i == 0 or all(words) or any(isinstance(cell, Bar) for cell in column)
            table.add_column(justify="left" if is_left else "right", overflow="fold")
    for row in block.rows:
        table.add_row(*(_cell(row[i], highest) for i in kept))
    return Padding(table, (0, 0, 0, 2))


def _cell(cell: TableCell, highest: float) -> "RenderableType":
    if isinstance(cell, Bar):
        return _text("█" * round(BAR_WIDTH * cell.share / highest))
    if isinstance(cell, Cell):
        value = f"{cell.text} {cell.suffix}".rstrip()
        return _text(f"{value}\n{cell.note}" if cell.note else value)
    assert isinstance(cell, str)
    return _text(cell)


def _hanging(bullet: str, text: str) -> "RenderableType":
    """Text behind a bullet, indented by two columns."""
    from rich.table import Table as RichTable

    grid = RichTable.grid(padding=0)
    grid.add_column(width=2)
    grid.add_column(overflow="fold")
    grid.add_row(bullet, _text(text))
    return grid


def _text(text: str) -> "Text":
    """Text that rich neither styles nor interprets as markup."""
    from rich.text import Text

    return Text("\n".join(map(printable, text.split("\n"))))


def _layout(blocks: Iterable["RenderableType"], width: int) -> list[str]:
    from rich.console import Console

    output = StringIO()
    console = Console(file=output, width=width, color_system=None, highlight=False)
    for block in blocks:
        console.print(block)
    return [line.rstrip() for line in output.getvalue().splitlines()]
