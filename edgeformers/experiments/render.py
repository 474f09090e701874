"""Tables as text: for a terminal, Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from edgeformers.errors import InputError, suggest
from edgeformers.experiments.tables import Cell, Table
from edgeformers.report import terminal

Format = Literal["terminal", "markdown", "csv", "latex"]
PAPER = "paper"  # above the published numbers
LONG = 12  # a table in Markdown with more rows than this names their groups
GROUPS = {
    "simple": "simple baselines",
    "words": "bags of words",
    "gnn": "without a language model",
    "plm": "with a language model",
    "ours": "ours",
}
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
}


def render(tables: Sequence[Table], how: str) -> str:
    """All tables in one format."""
    if how not in FORMATS:
        raise InputError(f"there is no format '{how}'; {suggest(how, FORMATS)}")
    return FORMATS[how](tables)


def to_terminal(tables: Sequence[Table]) -> str:
    """Plain lines; * marks the best, + the second."""
    marks = {"bold": "*", "italic": "+", "": " "}
    blocks = []
    for table in tables:
        shown = _rows(table, lambda text, mark: f"{text}{marks[mark]}")
        header = [f"{cell} " if cell else cell for cell in _header(table)]
        lines = [*terminal.format_table([header, *shown]), *_wrapped(table.notes)]
        blocks.append("\n".join([table.title, *lines]))
    blocks.append("\n".join(_wrapped(_shared_facts(tables))))
    return "\n\n".join(blocks).strip("\n") + "\n" if tables else ""


def to_markdown(tables: Sequence[Table]) -> str:
    """A heading, a table and its notes each; the best in bold, the second in italics."""
    blocks = [f"### {table.title}\n\n{_markdown(table, table.notes)}" for table in tables]
    return "\n".join([*blocks, _paragraph(_shared_facts(tables))]) if tables else ""


def markdown_table(table: Table) -> str:
    """One table with all that is to be said of it, under no heading."""
    return _markdown(table, [*table.notes, *table.facts])


def _markdown(table: Table, notes: Sequence[str]) -> str:
    sets = {"bold": "**{}**", "italic": "_{}_", "": "{}"}
    header = _header(table)
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    shown, group = _rows(table, lambda text, mark: sets[mark].format(text)), ""
    for row, cells in zip(table.rows, shown, strict=True):
        if len(shown) > LONG and row.group != group:
            group = row.group
            lines.append(f"| _{GROUPS.get(group, group)}_ |" + " |" * (len(header) - 1))
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    more = "\n" + _paragraph(notes) if notes else ""
    return "\n".join(lines) + "\n" + more


def _paragraph(notes: Sequence[str]) -> str:
    """Sentences, each on its own line."""
    return "  \n".join(notes) + "\n" if notes else ""


def _shared_facts(tables: Sequence[Table]) -> list[str]:
    """What is to be said of several tables of one record, once."""
    return list(dict.fromkeys(fact for table in tables for fact in table.facts))


def _wrapped(notes: Sequence[str]) -> list[str]:
    return [line for note in notes for line in terminal.wrap(note, 100, "  ", "    ")]


def to_csv(tables: Sequence[Table]) -> str:
    """One line per table, row and metric, for other programs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "row", "metric", "mean", "deviation", "runs", "published", "mark"])
    for table in tables:
        for row in table.rows:
            for metric in table.metrics:
                mine, theirs = row.cells.get(metric), row.published.get(metric)
                if mine is None and theirs is None:
                    continue
                writer.writerow([
                    table.name,
                    row.name,
                    metric,
                    "" if mine is None else f"{mine.value:.{table.digits + 2}f}",
                    "" if mine is None else _deviation(mine, table.digits + 2),
                    row.runs,
                    "" if theirs is None else f"{theirs.value:.{table.digits}f}",
                    "" if mine is None else mine.mark,
                ])  # fmt: skip
    return out.getvalue()


def to_latex(tables: Sequence[Table]) -> str:
    """Tables for the package booktabs; the best bold, the second in italics, as in the paper."""
    sets = {"bold": r"\textbf{{{}}}", "italic": r"\textit{{{}}}", "": "{}"}
    blocks = []
    for table in tables:
        header = [escape_latex(cell) for cell in _header(table)]
        shown = _rows(table, lambda text, mark: sets[mark].format(escape_latex(text)), escape_latex)
        body = []
        for number, (row, cells) in enumerate(zip(table.rows, shown, strict=True)):
            if number and row.group != table.rows[number - 1].group:
                body.append(r"\midrule")
            body.append(" & ".join(cells) + r" \\")
        blocks.append("\n".join([
            r"\begin{table}",
            rf"\caption{{{escape_latex(table.title)}}}",
            r"\centering",
            rf"\begin{{tabular}}{{l{'c' * (len(header) - 1)}}}",
            r"\toprule",
            " & ".join(header) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]))  # fmt: skip
    return "\n\n".join(blocks) + "\n" if blocks else ""


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_LATEX.get(character, character) for character in text)


FORMATS: Mapping[str, Callable[[Sequence[Table]], str]] = {
    "terminal": to_terminal,
    "markdown": to_markdown,
    "csv": to_csv,
    "latex": to_latex,
}


def _header(table: Table) -> list[str]:
    found = [""]
    for metric, name in zip(table.metrics, table.names, strict=True):
        found += [name, PAPER] if table.has_published(metric) else [name]
    return found


def _rows(
    table: Table, set_cell: Callable[[str, str], str], title: Callable[[str], str] = str
) -> list[list[str]]:
    """Every row as cells of text, in the order of the header."""
    found = []
    for row in table.rows:
        cells = [title(row.title)]
        for metric in table.metrics:
            cells.append(_shown(row.cells.get(metric), table.digits, set_cell))
            if table.has_published(metric):
                cells.append(_shown(row.published.get(metric), table.digits, set_cell))
        found.append(cells)
    return found


def _shown(cell: Cell | None, digits: int, set_cell: Callable[[str, str], str]) -> str:
    if cell is None:
        return set_cell("–", "")
    spread = _deviation(cell, digits)
    text = f"{cell.value:.{digits}f}" + (f" ± {spread}" if spread else "")
    return set_cell(text, cell.mark)


def _deviation(cell: Cell, digits: int) -> str:
    return "" if cell.deviation is None else f"{cell.deviation:.{digits}f}"
