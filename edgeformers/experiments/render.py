"""Tables as plain text, Markdown, CSV and LaTeX."""

import csv
import io
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from edgeformers.errors import InputError, suggest
from edgeformers.experiments.published import TableCell
from edgeformers.experiments.tables import ResultTable
from edgeformers.report.formatting import format_table

PAPER = "paper"  # heading of published numbers
LEGEND = "* best, + second best of its column."  # of tables in the terminal
LONG = 12  # Markdown tables with more rows have group headings
GROUPS = {
    "simple": "simple baselines",
    "words": "bags of words",
    "gnn": "without a language model",
    "plm": "with a language model",
    "ours": "ours",
}
LATEX_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "–": "--",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)
LATEX_TABLE = r"""\begin{table}
\caption{%s}
\centering
\begin{tabular}{%s}
\toprule
%s
\bottomrule
\end{tabular}
\end{table}"""


def render(tables: Sequence[ResultTable], format: str) -> str:
    """All tables in one format: terminal, markdown, csv or latex."""
    if format not in FORMATS:
        raise InputError(f"unknown format '{format}'; {suggest(format, FORMATS)}")
    return FORMATS[format](tables)


def to_text(tables: Sequence[ResultTable]) -> str:
    """Plain text with a legend, if anything is marked."""
    styles = {"bold": "{}*", "italic": "{}+", "": "{} "}
    blocks = []
    for table in tables:
        header = [f"{cell} " if cell else cell for cell in _header(table)]
        lines = format_table([header, *_rows(table, styles)])
        blocks.append("\n".join([table.title, *lines, *_wrap(table.notes)]))
    legend = [LEGEND] if any(map(_has_marks, tables)) else []
    blocks.append("\n".join(_wrap([*legend, *_shared_facts(tables)])))
    return "\n\n".join(blocks).strip("\n") + "\n" if tables else ""


def to_markdown(tables: Sequence[ResultTable]) -> str:
    """A heading, a table and notes each; the best in bold, the second in italics."""
    blocks = [f"### {table.title}\n\n{_markdown(table, table.notes)}" for table in tables]
    return "\n".join([*blocks, _paragraph(_shared_facts(tables))]) if tables else ""


def table_markdown(table: ResultTable) -> str:
    """One table with its notes and facts, without a heading."""
    return _markdown(table, [*table.notes, *table.facts])


def to_csv(tables: Sequence[ResultTable]) -> str:
    """One line per table, row and metric."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "row", "metric", "mean", "deviation", "runs", "published", "mark"])
    for table in tables:
        for row in table.rows:
            for metric in table.metrics:
                cell, published = row.cells.get(metric), row.published.get(metric)
                if cell is not None or published is not None:
                    digits = table.digits + 2
                    values = [_number(cell, digits), _deviation(cell, digits), row.runs]
                    values += [_number(published, table.digits), cell.mark if cell else ""]
                    writer.writerow([table.name, row.name, metric, *values])
    return out.getvalue()


def to_latex(tables: Sequence[ResultTable]) -> str:
    """Tables for the booktabs package; the best in bold, the second in italics."""
    styles = {"bold": r"\textbf{{{}}}", "italic": r"\textit{{{}}}", "": "{}"}
    blocks = []
    for table in tables:
        header = [escape_latex(cell) for cell in _header(table)]
        lines, group = [" & ".join(header) + r" \\"], None
        for row, cells in zip(table.rows, _rows(table, styles, escape_latex), strict=True):
            lines += [] if row.group == group else [r"\midrule"]
            lines.append(" & ".join(cells) + r" \\")
            group = row.group
        columns = "l" + "c" * (len(header) - 1)
        blocks.append(LATEX_TABLE % (escape_latex(table.title), columns, "\n".join(lines)))
    return "\n\n".join(blocks) + "\n" if blocks else ""


def escape_latex(text: str) -> str:
    """Text that LaTeX prints literally."""
    return text.translate(LATEX_ESCAPES)


FORMATS: Mapping[str, Callable[[Sequence[ResultTable]], str]] = {
    "terminal": to_text,
    "markdown": to_markdown,
    "csv": to_csv,
    "latex": to_latex,
}


def _markdown(table: ResultTable, notes: Sequence[str]) -> str:
    styles = {"bold": "**{}**", "italic": "_{}_", "": "{}"}
    header, group = _header(table), ""
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    for row, cells in zip(table.rows, _rows(table, styles), strict=True):
        if len(table.rows) > LONG and row.group != group:
            group = row.group
            lines.append(f"| _{GROUPS.get(group, group)}_ |" + " |" * (len(header) - 1))
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n" + ("\n" + _paragraph(notes) if notes else "")


def _paragraph(notes: Sequence[str]) -> str:
    """Sentences, each on its own line."""
    return "  \n".join(notes) + "\n" if notes else ""


def _shared_facts(tables: Sequence[ResultTable]) -> list[str]:
    """The facts of several tables of one record, each once."""
    return list(dict.fromkeys(fact for table in tables for fact in table.facts))


def _has_marks(table: ResultTable) -> bool:
    """Whether the best value of a column is marked."""
    cells = (
        cell
        for row in table.rows
        for cells in (row.cells, row.published)
        for cell in cells.values()
    )
    return any(cell.mark for cell in cells)


def _wrap(notes: Sequence[str]) -> list[str]:
    return [
        line
        for note in notes
        for line in textwrap.wrap(note, 100, initial_indent="  ", subsequent_indent="    ")
    ]


def _header(table: ResultTable) -> list[str]:
    header = [""]
    for metric, name in zip(table.metrics, table.metric_names, strict=True):
        header += [name, PAPER] if table.has_published(metric) else [name]
    return header


def _rows(
    table: ResultTable, styles: Mapping[str, str], escape: Callable[[str], str] = str
) -> Iterator[list[str]]:
    """Every row as formatted cells, in the order of the header."""
    for row in table.rows:
        cells = [escape(row.title)]
        for metric in table.metrics:
            sources = (row.cells, row.published) if table.has_published(metric) else (row.cells,)
            for source in sources:
                cell, text = source.get(metric), "–"
                if cell is not None:
                    deviation = _deviation(cell, table.digits)
                    text = _number(cell, table.digits) + (f" ± {deviation}" if deviation else "")
                cells.append(styles[cell.mark if cell else ""].format(escape(text)))
        yield cells


def _number(cell: TableCell | None, digits: int) -> str:
    return "" if cell is None else f"{cell.value:.{digits}f}"


def _deviation(cell: TableCell | None, digits: int) -> str:
    return "" if cell is None or cell.deviation is None else f"{cell.deviation:.{digits}f}"
