"""Numbers, durations, metrics and settings as short text."""

import json
from collections.abc import Sequence
from typing import Any

JOINERS = "\u200c\u200d"  # not printable, but needed by scripts and emoji
UNBOUNDED = ("mae", "rmse", "r2")  # shown as they are
FRACTIONS = ("mrr", "ndcg", "auc", "ap", "average_precision")  # as 0.123; others as 12.3
INPUT_NAMES = {"text": "text only", "nodes": "nodes only", "both": "text and nodes", "": ""}
METRIC_NAMES = {
    "macro_f1": "Macro-F1",
    "micro_f1": "Micro-F1",
    "hit@1": "Hit@1",
    "hit@3": "Hit@3",
    "hit@5": "Hit@5",
    "hit@10": "Hit@10",
    "prec": "PREC",
    "precision": "Precision",
    "accuracy": "Accuracy",
}


def printable(text: str) -> str:
    """The text without control and bidirectional formatting characters."""
    return "".join(c for c in text if c.isprintable() or c in JOINERS)


def format_number(value: float) -> str:
    """1,204 or 0.1235."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:,.4g}"


def compact_number(value: float) -> str:
    """1.2k, 5M or 2.5G, for axes."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def metric_name(metric: str) -> str:
    """`full/mrr` -> `MRR (full)`."""
    protocol, _, plain = metric.rpartition("/")
    name = METRIC_NAMES.get(plain.lower(), plain.upper() if len(plain) < 5 else plain)
    return f"{name} ({protocol})" if protocol else name


def format_value(value: float, metric: str) -> str:
    """A value as is usual for its metric: 54.3 (percent), 0.123, or unscaled."""
    plain = metric.rpartition("/")[2].lower()
    if plain in UNBOUNDED:
        return format_number(value)
    return f"{value:.3f}" if plain in FRACTIONS else f"{100 * value:.1f}"


def format_signed(value: float, metric: str) -> str:
    """A difference with its sign: +10.3 or −0.012."""
    return ("−" if value < 0 else "+") + format_value(abs(value), metric)


def format_setting(value: Any) -> str:
    """A setting's value; unset values are a dash."""
    if value is None or value == "":
        return "–"
    return value if isinstance(value, str) else json.dumps(value)


def time_unit(longest: float) -> tuple[float, str]:
    """The unit for durations of up to `longest` seconds: its length in seconds, and its name."""
    if longest < 180:
        return 1.0, "second"
    return (60.0, "minute") if longest < 3 * 3600 else (3600.0, "hour")


def format_duration(seconds: float) -> str:
    """0.4 s, 12 s, 3.1 min or 5.2 h."""
    size, unit = time_unit(seconds)
    value = seconds / size
    shown = f"{value:.0f}" if value >= 10 else f"{value:.2g}"
    return f"{shown} {'min' if unit == 'minute' else unit[0]}"


def format_table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Lines with aligned columns; the columns `left` are left-aligned, others right-aligned.

    Unlike rich's tables, these keep trailing blanks within cells, which align footnote marks.
    """
    try:
        from rich.cells import cell_len
    except ImportError:  # wide characters are then misaligned
        cell_len = len  # type: ignore[assignment]

    clean = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*clean, strict=True)]
    lines = []
    for row in clean:
        padding = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [
            c + p if i in left else p + c for i, (c, p) in enumerate(zip(row, padding, strict=True))
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines
