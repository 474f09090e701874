"""The page that compares finished runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgeformers.data.card.phrasing import counted, listed
from edgeformers.report.card_page import card_blocks
from edgeformers.report.comparison import (
    DegreeScores,
    Line,
    ModelCost,
    ModelCurves,
    ModelRuns,
    RunComparison,
    RunGroup,
    RunInfo,
)
from edgeformers.report.conclusions import (
    conclusion,
    gain_sentences,
    lead_sentences,
    skipped_lines,
    summary,
)
from edgeformers.report.figures import COLORS, Dot, DotChart, LineChart
from edgeformers.report.formatting import (
    INPUT_NAMES,
    format_duration,
    format_setting,
    format_value,
    metric_name,
    time_unit,
)
from edgeformers.report.page import (
    Block,
    Bullets,
    Cell,
    Details,
    Page,
    Paragraph,
    Plot,
    Section,
    SideBySide,
    SvgImage,
    Table,
    TableCell,
)
from edgeformers.report.score_blocks import (
    best_models,
    best_tiles,
    curve_chart,
    score_table,
    settings_table,
)
from edgeformers.report.scores import InputKind, ModelScores, TaskScores, lower_is_better

FOOTER = (
    "Made by edgeformers. Values are means over runs, ± their standard deviation; intervals are "
    "95% bootstrap intervals over test examples."
)
#: Durations in seconds that an axis may show.
DURATIONS = (0.01, 0.1, 1, 3, 10, 30, 60, 180, 600, 1800, 3600, 10800, 36000, 86400, 259200)
INPUT_COLORS: dict[InputKind, str] = {
    "text": COLORS[1],
    "nodes": COLORS[2],
    "both": COLORS[0],
    "": COLORS[7],
}
MAX_LINES = len(COLORS)  # models in one plot


def comparison_page(comparison: RunComparison) -> Page:
    """Does the graph help, does the text, at what cost, and everything behind the answers."""
    groups = comparison.groups
    skipped = len(comparison.skipped)
    more = f"; {counted(skipped, 'more is', 'more are')} not compared" if skipped else ""
    return Page(
        kind="Runs",
        title=comparison.title,
        lead=lead_sentences([(group.title, conclusion(group.scores[0])) for group in groups]),
        origin=f"{summary(comparison)}{more}.",
        tiles=best_tiles(groups[0].scores[0]) if len(groups) == 1 else [],
        sections=[
            Section("Does the graph help? Does the text?", _each(groups, _conclusion), "graph"),
            Section("All models", _each(groups, _models), "models"),
            Section("Learning curves", _each(groups, _curves), "curves"),
            Section("Cost and quality", _each(groups, _cost), "cost"),
            Section("By node degree", _each(groups, _degrees), "degree"),
            Section(
                "Figures of experiments",
                [SvgImage(f.experiment, f.svg, f.title) for f in comparison.figures],
                "figures",
            ),
            Section(
                "Data",
                [Section(name, card_blocks(card)) for name, card in comparison.cards.items()],
                "data",
            ),
            Section("Settings", _each(groups, _settings), "settings"),
            Section("Not compared", _skipped(comparison), "left-out"),
        ],
        footer=FOOTER,
    )


def _each(groups: Sequence[RunGroup], blocks: Callable[[RunGroup], list[Block]]) -> list[Block]:
    """Each group under its title."""
    sections = [Section(group.title, blocks(group)) for group in groups]
    return [section for section in sections if section.blocks]


def _conclusion(group: RunGroup) -> list[Block]:
    task, *others = group.scores
    remarks = [
        *gain_sentences(task, group.examples),
        *(f"{metric_name(other.metric)}: {conclusion(other)}" for other in others),
    ]
    return [
        Paragraph(conclusion(task)),
        *(best_models(task) if task.best_by_input() else []),
        *([Bullets(remarks)] if remarks else []),
    ]


def _models(group: RunGroup) -> list[Block]:
    notes = [f"{model.model}: {model.note}." for model in group.models if model.note]
    tables = [block for task in group.scores for block in _scores(task)]
    return [*tables, *([Bullets(notes)] if notes else [])]


def _scores(task: TaskScores) -> list[Block]:
    rows = [(model.model, _remark(model), model) for model in task.ranked()]
    table = score_table(task, rows, task.metrics, mark_best=True, show_protocol=False)
    head = [Paragraph(f"{task.task}: {task.note}.", muted=True)] if task.note else []
    return [*head, table]


def _remark(model: ModelScores) -> str:
    """The model's inputs and number of runs."""
    return ", ".join(filter(None, (INPUT_NAMES[model.inputs], counted(model.runs, "run", "runs"))))


def _curves(group: RunGroup) -> list[Block]:
    """The validation metric by epoch and by time, a few models per plot, best models first."""
    rank = {model.model: i for i, model in enumerate(group.scores[0].ranked())}
    models = sorted(group.curves, key=lambda curves: rank[curves.model])
    plots: list[Block] = []
    for start in range(0, len(models), MAX_LINES):
        shown = models[start : start + MAX_LINES]
        plots += [_curves_by_epoch(shown, group), *_curves_by_time(shown, group)]
    return [SideBySide(plots)] if plots else []


def _curves_by_epoch(models: Sequence[ModelCurves], group: RunGroup) -> Plot:
    metric = group.scores[0].metric
    lines: dict[str, list[Any]] = {curves.model: list(curves.by_epoch) for curves in models}
    include = [point for curves in group.curves for line in curves.by_epoch for point in line]
    note = "by epoch, one line per run; the large dot is the best"
    chart = curve_chart(lines, metric, "epoch", include=include)
    return Plot(f"{metric_name(metric)} on validation", chart, note)


def _curves_by_time(models: Sequence[ModelCurves], group: RunGroup) -> list[Plot]:
    points = [point for curves in group.curves for line in curves.by_seconds for point in line]
    lines = {curves.model: curves.by_seconds for curves in models if curves.by_seconds}
    if not lines:
        return []
    metric = group.scores[0].metric
    size, unit = time_unit(max(seconds for seconds, _ in points))

    def scaled(line: Line) -> Line:
        return [(seconds / size, value) for seconds, value in line]

    drawn: dict[str, list[Any]] = {
        name: [scaled(line) for line in runs] for name, runs in lines.items()
    }
    include = [(0.0, points[0][1]), *scaled(points)]
    chart = curve_chart(drawn, metric, unit, include=include)
    note = f"by {unit}s of training, not counting validation"
    return [Plot(f"{metric_name(metric)} on validation", chart, note)]


def _cost(group: RunGroup) -> list[Block]:
    """Score against duration, for two or more models whose duration is known."""
    metric = group.scores[0].metric
    sign = 1 if lower_is_better(metric) else -1
    costs = sorted(group.costs, key=lambda cost: (sign * cost.value, cost.seconds))
    if len(costs) < 2:
        return []
    name = metric_name(metric)
    rows: list[list[TableCell]] = [["", name, "time per run", "on"]]
    for number, cost in enumerate(costs, start=1):
        value, duration = format_value(cost.value, metric), format_duration(cost.seconds)
        rows.append([f"{number} {cost.model}", value, duration, cost.device or "–"])
    note = "by the duration of a run, on a logarithmic axis; numbers as in the table"
    return [
        Plot(f"{name} on test", _cost_chart(costs, metric), note),
        Paragraph(efficient_models(costs)),
        Table(rows, is_settings=True),
    ]


def _cost_chart(costs: Sequence[ModelCost], metric: str) -> DotChart:
    dots = [
        Dot(
            x=max(cost.seconds, DURATIONS[0]),
            y=cost.value,
            kind=INPUT_NAMES[cost.inputs] or "other",
            color=INPUT_COLORS[cost.inputs],
            tip=f"{cost.model}: {format_value(cost.value, metric)} "
            f"after {format_duration(cost.seconds)}",
        )
        for cost in costs
    ]
    return DotChart(
        label=f"{metric_name(metric)} of {len(costs)} models by the duration of a run",
        dots=dots,
        ticks=_duration_ticks([dot.x for dot in dots]),
        format_y=lambda y: format_value(y, metric),
    )


def _duration_ticks(seconds: Sequence[float]) -> dict[float, str]:
    """Up to six round durations within the range, or its two ends."""
    low, high = min(seconds), max(seconds)
    inside = [duration for duration in DURATIONS if low <= duration <= high]
    if len(inside) < 2:
        inside = list(dict.fromkeys((low, high)))
    return {t: format_duration(t) for t in inside[:: math.ceil(len(inside) / 6)]}


def efficient_models(costs: Sequence[ModelCost]) -> str:
    """The models, given best first, that are faster than every better one."""
    kept: list[ModelCost] = []
    for cost in costs:
        if not kept or cost.seconds < kept[-1].seconds:
            kept.append(cost)
    names = [f"{cost.model} ({format_duration(cost.seconds)})" for cost in reversed(kept)]
    others = " Every other model is slower than a better one." if len(kept) < len(costs) else ""
    return f"Best for their time: {listed(names)}.{others}"


def _degrees(group: RunGroup) -> list[Block]:
    """A metric by the number of training edges, as a plot and as a table."""
    degrees = group.degrees
    if degrees is None:
        return []
    ranked = [m.model for m in group.scores[0].ranked() if m.model in degrees.models]
    note = "by training edges of the query node; cold: one of the two nodes has none"
    plots: list[Block] = []
    if len(degrees.groups) > 1:
        plots = [Plot(metric_name(degrees.metric), _degree_chart(degrees, ranked), note)]
    return [*plots, _degree_table(degrees, ranked)]


def _degree_chart(degrees: DegreeScores, models: Sequence[str]) -> LineChart:
    names, metric = list(degrees.groups), degrees.metric
    shown = models[:MAX_LINES]
    lines = {
        model: [[(float(i), y) for i, y in enumerate(degrees.models[model]) if y is not None]]
        for model in shown
    }
    return LineChart(
        label=f"{metric_name(metric)} of {listed(shown)} by training edges: {listed(names)}",
        lines=lines,
        tip=lambda model, x, y: f"{model}, {names[int(x)]}: {format_value(y, metric)}",
        format_y=lambda y: format_value(y, metric),
        ticks={float(i): name for i, name in enumerate(names)},
        wide=True,
    )


def _degree_table(degrees: DegreeScores, models: Sequence[str]) -> Table:
    """The best value of each group is bold, if there are several models."""
    pick = min if lower_is_better(degrees.metric) else max
    columns = zip(*(degrees.models[model] for model in models), strict=True)
    best = [pick((v for v in column if v is not None), default=None) for column in columns]
    rows: list[list[TableCell]] = [
        ["", *(f"{name}: {pairs:,} pairs" for name, pairs in degrees.groups.items())]
    ]
    for model in models:
        values = zip(degrees.models[model], best, strict=True)
        cells = [
            Cell(format_value(v, degrees.metric), bold=len(models) > 1 and v == top)
            if v is not None
            else "–"
            for v, top in values
        ]
        rows.append([model, *cells])
    return Table(rows)


def _settings(group: RunGroup) -> list[Block]:
    """The runs and own settings of each model, folded; then the settings they share."""
    shared = shared_settings([model.settings for model in group.settings])
    blocks: list[Block] = [_model_settings(model, shared) for model in group.settings]
    if shared:
        rows = [[name, format_setting(value)] for name, value in shared.items()]
        title = f"{counted(len(rows), 'setting', 'settings')} shared by all models that have them"
        blocks.append(Details(title, [settings_table(rows)]))
    return blocks


def shared_settings(models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Settings that at least two models have, with equal values; of a single model, all."""
    values: dict[str, list[Any]] = {}
    for settings in models:
        for name, value in settings.items():
            values.setdefault(name, []).append(value)
    least = min(2, len(models))
    return {
        name: found[0]
        for name, found in values.items()
        if len(found) >= least and all(value == found[0] for value in found)
    }


def _model_settings(model: ModelRuns, shared: Mapping[str, Any]) -> Details:
    own = [[name, format_setting(v)] for name, v in model.settings.items() if name not in shared]
    special = f", {counted(len(own), 'setting', 'settings')} of its own" if own else ""
    table: list[Block] = [Table(own, header=False, is_settings=True)] if own else []
    return Details(
        f"{model.model}: {counted(len(model.runs), 'run', 'runs')}{special}",
        [*table, Bullets([_run_line(run) for run in model.runs])],
    )


def _run_line(run: RunInfo) -> str:
    """The folder, seed, duration and device of a run."""
    duration = "" if run.seconds is None else format_duration(run.seconds)
    device = f"on {run.device}" if run.device else ""
    seed = f"seed {run.seed}" if run.seed else ""
    facts = ", ".join(filter(None, (seed, " ".join(filter(None, (duration, device))))))
    return f"{run.folder}: {facts}" if facts else run.folder


def _skipped(comparison: RunComparison) -> list[Block]:
    lines = [*skipped_lines(comparison), *comparison.notes]
    return [Bullets(lines)] if lines else []
