"""The page of results of a few runs, such as the quickstart's."""

from collections.abc import Sequence
from typing import Any

from edgeformers.report.conclusions import conclusion, lead_sentences
from edgeformers.report.formatting import (
    INPUT_NAMES,
    format_number,
    format_setting,
    format_value,
    metric_name,
)
from edgeformers.report.page import (
    Block,
    Bullets,
    Page,
    Paragraph,
    Plot,
    Section,
    SideBySide,
    Table,
)
from edgeformers.report.results import LearningCurve, Results
from edgeformers.report.score_blocks import (
    best_achievable,
    best_models,
    best_tiles,
    curve_chart,
    score_table,
    settings_table,
)
from edgeformers.report.scores import TaskScores, lower_is_better
from edgeformers.report.terminal import sparkline

FOOTER = "Made by edgeformers. Intervals are 95% bootstrap intervals unless noted otherwise."
ATTENTION_NOTE = (
    "attention from the readout token by layer, averaged over heads; colors are relative to the "
    "largest weight of the layer; virtual tokens are bold"
)


def results_page(results: Results) -> Page:
    """Does the graph help? The conclusion, then everything it is based on."""
    compared = [task for task in results.tasks if len(task.best_by_input()) > 1]
    answers = [(task.task, conclusion(task)) for task in compared]
    return Page(
        kind="Results",
        title=results.title,
        lead=lead_sentences(answers) if answers else [],
        origin=results.origin,
        tiles=best_tiles(compared[0]) if compared else [],
        sections=[
            Section("Does the graph help? Does the text?", _conclusions(compared)),
            *(Section(task.task, _task(task)) for task in results.tasks),
            Section("Learning curves", _curves(results.curves)),
            Section("Attention", _attention(results)),
            Section("Nodes and edges", _node_maps(results)),
            Section("Data", _data(results)),
            Section("Settings", _settings(results.settings)),
        ],
        footer=FOOTER,
    )


def _conclusions(tasks: Sequence[TaskScores]) -> list[Block]:
    """The sentences are on the page already if there is a single task."""
    return [
        Section(
            task.task,
            [*([Paragraph(conclusion(task))] if len(tasks) > 1 else []), *best_models(task)],
        )
        for task in tasks
    ]


def _task(task: TaskScores) -> list[Block]:
    models = task.ranked()
    rows = [(model.model, INPUT_NAMES[model.inputs], model) for model in models]
    notes = [f"{model.model}: {model.note}" for model in models if model.note]
    return [
        *([Paragraph(task.note, muted=True)] if task.note else []),
        score_table(task, rows, task.metrics),
        *best_achievable(task, task.metrics),
        *([Bullets(notes)] if notes else []),
    ]


def _curves(curves: Sequence[LearningCurve]) -> list[Block]:
    plots = []
    for metric in dict.fromkeys(curve.metric for curve in curves):
        shown = [curve for curve in curves if curve.metric == metric]
        lines: dict[str, list[Any]] = {}
        for curve in shown:
            lines.setdefault(curve.run, []).append([(x, y) for x, y in curve.points])
        plots.append(
            Plot(
                metric_name(metric),
                curve_chart(lines, metric, "epoch"),
                "by epoch; the large dot is the best",
                "\n".join(map(_curve_text, shown)),
            )
        )
    return [SideBySide(plots)] if plots else []


def _curve_text(curve: LearningCurve) -> str:
    sign = -1.0 if lower_is_better(curve.metric) else 1.0
    values = [sign * value for _, value in curve.points]
    low, span = min(values), (max(values) - min(values)) or 1.0
    steps = sparkline([1 + round(7 * (value - low) / span) for value in values])
    epoch, best = curve.points[values.index(max(values))]
    shown = format_value(best, curve.metric)
    return f"{curve.run}, {metric_name(curve.metric)}: {steps} best {shown} at epoch {epoch:g}"


def _attention(results: Results) -> list[Block]:
    plots = [Plot(data.title, data, ATTENTION_NOTE) for data in results.attention]
    return [SideBySide(plots)] if plots else []


def _node_maps(results: Results) -> list[Block]:
    note = "stars are nodes, points their edges"
    return [
        Plot(node_map.title, node_map, f"{note}; {node_map.note}" if node_map.note else note)
        for node_map in results.maps
    ]


def _data(results: Results) -> list[Block]:
    rows = [
        [name, value if isinstance(value, str) else format_number(value)]
        for name, value in results.data.items()
    ]
    return [settings_table(rows)] if rows else []


def _settings(settings: dict[str, dict[str, Any]]) -> list[Block]:
    """Settings that differ, one column per run; then those that are the same in all runs."""
    runs = list(settings)
    names = list(dict.fromkeys(name for values in settings.values() for name in values))
    rows = [[name, *(format_setting(settings[run].get(name)) for run in runs)] for name in names]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    shared = [row[:2] for row in rows if len(set(row[1:])) == 1]
    title = "The same in all runs" if len(runs) > 1 else "".join(runs)
    return [
        *([Table([["", *runs], *differing], is_settings=True)] if differing else []),
        *([Section(title, [settings_table(shared)])] if shared else []),
    ]
