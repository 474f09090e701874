"""Tables of scores with their intervals, and of names with their values, as HTML."""

from collections.abc import Callable, Sequence

from edgeformers.report import page, plots
from edgeformers.report.formatting import format_value, lower_is_better, metric_name
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores
from edgeformers.report.text import Rows

WRAPPED = "white-space:normal;overflow-wrap:break-word"  # between words, else the table scrolls


def interval_table(
    rows: Sequence[tuple[str, str, ModelScores]],
    task: TaskScores,
    metrics: Sequence[str],
    *,
    show_best: bool = False,
    named: Callable[[str], str] = metric_name,
) -> str:
    """A model per row: its name over a remark, the first metric beside its plot, then the others.

    On a phone the others are reached by scrolling. With `show_best` the best of the task's
    models is bold.
    """
    place = _axis(task)
    best = {metric: best_value(task, metric) for metric in metrics} if show_best else {}
    names = ["", named(metrics[0]), "", *map(named, metrics[1:])]
    top = "".join(f'<th scope="col">{page.safe(name)}</th>' for name in names)
    body = ""
    for name, remark, model in rows:
        first, *others = (
            _score_cell(model.metrics.get(metric), metric, best.get(metric)) for metric in metrics
        )
        plot = _interval_plot(model.metrics.get(metrics[0]), task.best.get(metrics[0]), place)
        body += (
            f'<tr><th scope="row" class="model">{page.safe(name)}<br>'
            f'<span class="tag">{page.safe(remark)}</span></th>'
            f'{first}<td class="meter">{plot}</td>{"".join(others)}</tr>'
        )
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def best_value(task: TaskScores, metric: str) -> float | None:
    """The best of several models; alone, a model is not the best."""
    values = [m.metrics[metric].value for m in task.models if metric in m.metrics]
    if len(values) < 2:
        return None
    return min(values) if lower_is_better(metric) else max(values)


def _score_cell(score: MetricValue | None, metric: str, best: float | None) -> str:
    if score is None:
        return "<td>–</td>"
    shown, bounds = format_value(score.value, metric), ""
    if score.value == best:
        shown = f"<b>{shown}</b>"
    if score.spread is not None:
        shown += f' <span class="tag">± {format_value(score.spread, metric)}</span>'
    if score.low is not None and score.high is not None:
        low, high = format_value(score.low, metric), format_value(score.high, metric)
        bounds = f'<br><span class="tag">{low} to {high}</span>'
    return f"<td>{shown}{bounds}</td>"


def _axis(task: TaskScores) -> plots.Place:
    """Values of the first metric to shares of a plot that all models of the task fit in."""
    metric = task.metrics[0]
    scores = [m.metrics[metric] for m in task.models if metric in m.metrics]
    values = [bound for score in scores for bound in (*score.bounds, score.value)]
    values += [task.best[metric]] if metric in task.best else []
    return plots.scale(values, 0.06)


def _interval_plot(score: MetricValue | None, best: float | None, place: plots.Place) -> str:
    if score is None:
        return ""
    low, high = (place(bound) for bound in score.bounds)
    return plots.interval(low, place(score.value), high, None if best is None else place(best))


def in_columns(rows: Rows) -> str:
    """A long table of names and values as two short ones, which look like one on a phone."""
    half = (len(rows) + 1) // 2
    parts = "".join(named_table(part) for part in (rows[:half], rows[half:]) if part)
    return f'<div class="pair" style="row-gap:0">{parts}</div>'


def named_table(rows: Rows, head: Sequence[str] = ()) -> str:
    """Words and numbers alike to the right; a dotted name may break after its signs."""
    top = "".join(f'<th scope="col" style="{WRAPPED}">{page.safe(name)}</th>' for name in head)
    body = ""
    for name, *values in rows:
        shown = page.safe(name).replace(".", ".<wbr>").replace("_", "_<wbr>")
        cells = "".join(f'<td style="{WRAPPED}">{page.safe(value)}</td>' for value in values)
        body += f'<tr><th scope="row" style="{WRAPPED}">{shown}</th>{cells}</tr>'
    opening = f"<thead><tr>{top}</tr></thead>" if head else ""
    table = f"<table>{opening}<tbody>{body}</tbody></table>"
    return f'<div class="scroll" style="margin:0">{table}</div>'
