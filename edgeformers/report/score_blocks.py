"""Blocks that the results page and the comparison page share: scores, conclusions, settings."""

from collections.abc import Sequence

from edgeformers.report.figures import LineChart, Points
from edgeformers.report.formatting import INPUT_NAMES, format_value, metric_name
from edgeformers.report.page import Block, Cell, IntervalCell, Paragraph, Rows, Table, TableCell
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores, lower_is_better

MARGIN = 0.06  # at both ends of the intervals' axis


def best_models(task: TaskScores) -> list[Block]:
    """The best model for each kind of input, compared by the first metric."""
    rows = [(INPUT_NAMES[kind], m.model, m) for kind, m in task.best_by_input().items()]
    return [score_table(task, rows, task.metrics[:1]), *best_achievable(task, task.metrics[:1])]


def best_tiles(task: TaskScores) -> list[tuple[str, str]]:
    """The score of the best model for each kind of input, and the best achievable one."""
    metric, name = task.metric, metric_name(task.metric)
    tiles = [
        (f"{name}, {INPUT_NAMES[kind]}", format_value(model.metrics[metric].value, metric))
        for kind, model in task.best_by_input().items()
    ]
    if tiles and metric in task.best:
        tiles.append(("best achievable", format_value(task.best[metric], metric)))
    return tiles


def best_achievable(task: TaskScores, metrics: Sequence[str]) -> list[Block]:
    """The meaning of the dashed line, if there is one."""
    known = ", ".join(
        f"{metric_name(m)} {format_value(task.best[m], m)}" for m in metrics if m in task.best
    )
    return [Paragraph(f"Best achievable: {known} (dashed line).", muted=True)] if known else []


def score_table(
    task: TaskScores,
    rows: Sequence[tuple[str, str, ModelScores]],  # (name, remark, scores)
    metrics: Sequence[str],
    *,
    mark_best: bool = False,
    show_protocol: bool = True,
) -> Table:
    """One model per row: the first metric with its interval drawn, then the others."""
    names = [metric_name(m if show_protocol else m.rpartition("/")[2]) for m in metrics]
    best = {metric: _best_value(task, metric) for metric in metrics} if mark_best else {}
    table: list[Sequence[TableCell]] = [["", names[0], "", *names[1:]]]
    for name, remark, model in rows:
        first, *others = (_score_cell(model.metrics.get(m), m, best.get(m)) for m in metrics)
        interval = _interval(task, model.metrics.get(metrics[0]))
        table.append([Cell(name, note=remark), first, interval, *others])
    return Table(table)


def _best_value(task: TaskScores, metric: str) -> float | None:
    """The best value of a metric, if several models have it."""
    values = [m.metrics[metric].value for m in task.models if metric in m.metrics]
    if len(values) < 2:
        return None
    return min(values) if lower_is_better(metric) else max(values)


def _score_cell(score: MetricValue | None, metric: str, best: float | None) -> Cell:
    if score is None:
        return Cell("–")
    low, high = (format_value(bound, metric) for bound in score.bounds)
    return Cell(
        format_value(score.value, metric),
        suffix="" if score.spread is None else f"± {format_value(score.spread, metric)}",
        note=f"{low} to {high}" if score.has_interval else "",
        bold=score.value == best,
    )


def _interval(task: TaskScores, score: MetricValue | None) -> TableCell:
    """The score on an axis that fits all models of the task."""
    if score is None:
        return ""
    metric = task.metric
    known = [m.metrics[metric] for m in task.models if metric in m.metrics]
    values = [value for other in known for value in (*other.bounds, other.value)]
    best = task.best.get(metric)
    values += [] if best is None else [best]
    low, span = min(values), max(values) - min(values)

    def place(value: float) -> float:
        return MARGIN + (1 - 2 * MARGIN) * (value - low) / span if span > 0 else 0.5

    start, end = map(place, score.bounds)
    return IntervalCell(start, place(score.value), end, None if best is None else place(best))


def settings_table(rows: Rows) -> Table:
    """Names and values, in two columns where the page is wide enough."""
    return Table(rows, header=False, is_settings=True, in_columns=True)


def curve_chart(
    lines: dict[str, list[Points]],
    metric: str,
    by: str,
    *,
    include: Points = (),
    wide: bool = False,
) -> LineChart:
    """A validation metric by `by`: "epoch" or a unit of time."""
    return LineChart(
        label=f"{metric_name(metric)} on validation by {by}: {', '.join(lines)}",
        lines=lines,
        tip=lambda name, x, y: f"{name}, {by} {x:.3g}: {format_value(y, metric)}",
        format_y=lambda y: format_value(y, metric),
        best=min if lower_is_better(metric) else max,
        include=include,
        wide=wide,
    )
