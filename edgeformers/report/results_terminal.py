"""The results in a terminal."""

import textwrap
from collections.abc import Iterator, Sequence

from edgeformers.report import terminal
from edgeformers.report.formatting import (
    format_interval,
    format_value,
    lower_is_better,
    metric_name,
)
from edgeformers.report.results import LearningCurve, Results
from edgeformers.report.results_rows import data_rows, ordered, setting_rows
from edgeformers.report.results_verdict import verdicts
from edgeformers.report.scores import MetricValue, TaskScores
from edgeformers.report.text import Rows, printable


def results_text(results: Results, width: int = 80) -> str:
    """The verdict and the tables as plain lines of at most `width` characters."""
    blocks = [[printable(results.title).upper(), printable(results.origin)]]
    for one in verdicts(results):
        lines = textwrap.wrap(printable(f"{one.answer} {one.sentence}"), width)
        blocks.append([f"DOES THE GRAPH HELP?  {printable(one.task.task)}", *lines])
    for task in results.tasks:
        lines = [
            line for rows in _score_rows(task) for line in terminal.format_table(rows, left=(0, 1))
        ]
        notes = textwrap.wrap(
            printable(task.note), width, initial_indent="  ", subsequent_indent="  "
        )
        blocks.append([printable(task.task).upper(), *lines, *notes])
    if results.curves:
        blocks.append(
            ["VALIDATION BY EPOCH", *terminal.format_table(_curve_rows(results.curves), (0, 1))]
        )
    if results.data:
        blocks.append(["DATA", *terminal.format_table(data_rows(results))])
    if results.settings:
        blocks.append(["SETTINGS", *terminal.format_table(setting_rows(results))])
    cut = (("\n".join(terminal.fit(line, width) for line in one if line)) for one in blocks)
    return "\n\n".join(cut) + "\n"


def _score_rows(task: TaskScores) -> Iterator[Rows]:
    """Tables of three metrics each, which fit a terminal; only what decides has its interval."""
    for start in range(0, len(task.metrics), 3):
        metrics = task.metrics[start : start + 3]
        rows = [["", "sees", *map(metric_name, metrics)]]
        for model in ordered(task):
            figures = (_cell(model.metrics.get(m), m, m == task.metrics[0]) for m in metrics)
            rows.append([model.model, model.inputs, *figures])
        if task.best:
            best = (format_value(task.best[m], m) if m in task.best else "–" for m in metrics)
            rows.append(["best achievable", "", *best])
        yield rows


def _cell(score: MetricValue | None, metric: str, decides: bool) -> str:
    if score is None:
        return "–"
    return format_interval(score, metric) if decides else format_value(score.value, metric)


def _curve_rows(curves: Sequence[LearningCurve]) -> Rows:
    rows = [["", "", "", "best", "at epoch"]]
    for curve in curves:
        sign = -1.0 if lower_is_better(curve.metric) else 1.0
        values = [sign * value for _, value in curve.points]
        low, span = min(values), (max(values) - min(values)) or 1.0
        steps = terminal.sparkline([1 + round(7 * (value - low) / span) for value in values])
        epoch, best = curve.points[values.index(max(values))]
        shown = format_value(best, curve.metric)
        rows.append([curve.run, metric_name(curve.metric), steps, shown, f"{epoch:g}"])
    return rows
