"""Finished runs compared: as plain data, as a page, in a terminal and as JSON."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from edgeformers.data.card.card import DataCard
from edgeformers.data.card.phrasing import counted, listed
from edgeformers.report.beyond_accuracy import (
    Calibration,
    RecommendationQuality,
    calibration_blocks,
    recommendation_blocks,
)
from edgeformers.report.card_page import card_blocks
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
    SvgImage,
    Table,
    TableCell,
    bullets,
)
from edgeformers.report.results import (
    best_models,
    best_tiles,
    curve_chart,
    score_table,
    settings_table,
    side_by_side,
    verdict_table,
)
from edgeformers.report.scores import (
    InputKind,
    ModelScores,
    TaskScores,
    gain_sentences,
    lead_sentences,
    lower_is_better,
    values_json,
)

FOOTER = (
    "Made by edgeformers. Values are means over runs, ± their standard deviation; intervals are "
    "95% bootstrap intervals over test examples."
)
#: Durations in seconds that an axis may show.
DURATIONS = (0.01, 0.1, 1, 3, 10, 30, 60, 180, 600, 1800, 3600, 10800, 36000, 86400, 259200)
INPUT_COLORS = {"text": COLORS[1], "nodes": COLORS[2], "both": COLORS[0], "": COLORS[7]}
MAX_LINES = len(COLORS)  # models in one plot

Line = list[tuple[float, float]]  # (epochs or seconds, value)


@dataclass(frozen=True, kw_only=True)
class ModelCurves:
    """The validation metric of a model's runs, by epoch and by seconds of training."""

    model: str
    by_epoch: list[Line]
    by_seconds: list[Line] = field(default_factory=list)  # runs that logged their time


@dataclass(frozen=True, kw_only=True)
class ModelCost:
    """A model's test score and the mean duration of its runs."""

    model: str
    inputs: InputKind
    seconds: float
    device: str
    value: float


@dataclass(frozen=True, kw_only=True)
class DegreeScores:
    """A metric for groups of test pairs, by the number of training edges of their nodes."""

    metric: str
    groups: dict[str, int]  # name -> number of pairs
    models: dict[str, list[float | None]]  # in the order of the groups


@dataclass(frozen=True, kw_only=True)
class ModelRuns:
    """The runs of a model and their settings, except for the seed."""

    model: str
    runs: dict[str, str]  # folder -> seed, duration and device
    settings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """Comparable runs: one task on one split of one network."""

    title: str
    network: str
    task: str
    scores: list[TaskScores]  # one per protocol; the first one decides
    examples: int = 0  # test examples on which the gains were measured
    curves: list[ModelCurves] = field(default_factory=list)
    costs: list[ModelCost] = field(default_factory=list)
    degrees: DegreeScores | None = None
    calibration: list[Calibration] = field(default_factory=list)
    recommendations: list[RecommendationQuality] = field(default_factory=list)
    settings: list[ModelRuns] = field(default_factory=list)

    @property
    def models(self) -> list[ModelScores]:
        return self.scores[0].models


@dataclass(frozen=True, kw_only=True)
class SkippedRun:
    """A run that cannot be compared, and why."""

    folder: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """Everything the page of finished runs shows; empty parts are omitted."""

    title: str
    groups: list[RunGroup]
    figures: list[SvgImage] = field(default_factory=list)  # saved by experiments
    cards: dict[str, DataCard] = field(default_factory=dict)  # by network name
    skipped: list[SkippedRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # folders without runs, missing networks

    @property
    def num_runs(self) -> int:
        return sum(len(model.runs) for group in self.groups for model in group.settings)

    @property
    def summary(self) -> str:
        """12 finished runs of 5 models on films."""
        models = sum(len(group.settings) for group in self.groups)
        networks = listed(list(dict.fromkeys(group.network for group in self.groups)))
        runs = counted(self.num_runs, "finished run", "finished runs")
        return f"{runs} of {counted(models, 'model', 'models')} on {networks}"

    @property
    def remarks(self) -> list[str]:
        """Why runs were skipped, and the notes."""
        return [*(f"{run.folder}: {run.reason}." for run in self.skipped), *self.notes]


def comparison_lines(comparison: RunComparison) -> list[str]:
    """The conclusions and the skipped runs, for a terminal."""
    lines = [f"{comparison.summary}."]
    for group in comparison.groups:
        task = group.scores[0]
        lines += ["", f"{task.task}: {task.conclusion}"]
        lines += task.verdict.evidence if task.verdict else []
        lines += gain_sentences(task, group.examples)
    return [*lines, "", *comparison.remarks] if comparison.remarks else lines


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    """The comparison for programs."""
    return {
        "runs": comparison.num_runs,
        "groups": [_group_json(group) for group in comparison.groups],
        "drawings": [figure.alt for figure in comparison.figures],
        "unfinished": {run.folder: run.reason for run in comparison.skipped},
        "notes": comparison.notes,
    }


def _group_json(group: RunGroup) -> dict[str, Any]:
    folders = {model.model: list(model.runs) for model in group.settings}
    metrics: dict[str, dict[str, Any]] = {}
    for task in group.scores:
        for model in task.models:
            metrics.setdefault(model.model, {}).update(values_json(model.metrics))
    task = group.scores[0]
    models = [(m.model, m.inputs) for m in task.ranked()]
    return {
        "network": group.network,
        "task": group.task,
        "answer": task.conclusion,
        "verdict": None if task.verdict is None else asdict(task.verdict),
        "gains": {task.metric: values_json(task.gains) for task in group.scores},
        "models": [
            {"model": name, "inputs": inputs, "runs": folders[name], "metrics": metrics[name]}
            for name, inputs in models
        ],
    }


def comparison_page(comparison: RunComparison) -> Page:
    """Does the graph help, does the text, at what cost, and everything behind the answers."""
    groups = comparison.groups
    skipped = len(comparison.skipped)
    more = f"; {counted(skipped, 'more is', 'more are')} not compared" if skipped else ""
    cards = [Section(name, card_blocks(card)) for name, card in comparison.cards.items()]

    def each(blocks: Callable[[RunGroup], list[Block]]) -> list[Block]:
        """Each group under its title."""
        sections = [Section(group.title, blocks(group)) for group in groups]
        return [section for section in sections if section.blocks]

    return Page(
        kind="Runs",
        title=comparison.title,
        lead=lead_sentences([(group.title, group.scores[0].conclusion) for group in groups]),
        origin=f"{comparison.summary}{more}.",
        tiles=best_tiles(groups[0].scores[0]) if len(groups) == 1 else [],
        sections=[
            Section("Does the graph help? Does the text?", each(_conclusion), "graph"),
            Section("All models", each(_models), "models"),
            Section("Learning curves", each(_curves), "curves"),
            Section("Cost and quality", each(_cost), "cost"),
            Section("By node degree", each(_degrees), "degree"),
            Section("Calibration", each(lambda group: calibration_blocks(group.calibration))),
            Section("Recommendations", each(lambda g: recommendation_blocks(g.recommendations))),
            Section("Figures of experiments", comparison.figures, "figures"),
            Section("Data", cards, "data"),
            Section("Settings", each(_settings), "settings"),
            Section("Not compared", bullets(comparison.remarks), "left-out"),
        ],
        footer=FOOTER,
    )


def _conclusion(group: RunGroup) -> list[Block]:
    task = group.scores[0]
    return [
        Paragraph(task.conclusion),
        *verdict_table(task),
        *(best_models(task) if task.best_by_input() else []),
        *bullets(gain_sentences(task, group.examples)),
    ]


def _models(group: RunGroup) -> list[Block]:
    blocks: list[Block] = []
    for task in group.scores:
        rows = [(model.model, _remark(model), model) for model in task.ranked()]
        blocks += [Paragraph(f"{task.task}: {task.note}.", muted=True)] if task.note else []
        blocks += [score_table(task, rows, task.metrics, mark_best=True, show_protocol=False)]
    notes = [f"{model.model}: {model.note}." for model in group.models if model.note]
    return [*blocks, *bullets(notes)]


def _remark(model: ModelScores) -> str:
    """The model's inputs and number of runs."""
    return ", ".join(filter(None, (INPUT_NAMES[model.inputs], counted(model.runs, "run", "runs"))))


def _curves(group: RunGroup) -> list[Block]:
    """The validation metric by epoch and by time, a few models per plot, best models first."""
    rank = {model.model: i for i, model in enumerate(group.scores[0].ranked())}
    models = sorted(group.curves, key=lambda curves: rank[curves.model])
    metric = group.scores[0].metric
    title = f"{metric_name(metric)} on validation"
    points = [point for curves in models for line in curves.by_epoch for point in line]
    timed = [point for curves in models for line in curves.by_seconds for point in line]
    size, unit = time_unit(max((seconds for seconds, _ in timed), default=0.0))

    def scaled(line: Line) -> Line:
        return [(seconds / size, value) for seconds, value in line]

    plots: list[Plot] = []
    for start in range(0, len(models), MAX_LINES):
        shown = models[start : start + MAX_LINES]
        lines: dict[str, list[Any]] = {curves.model: list(curves.by_epoch) for curves in shown}
        note = "by epoch, one line per run; the large dot is the best"
        plots.append(Plot(title, curve_chart(lines, metric, "epoch", points), note))
        lines = {c.model: list(map(scaled, c.by_seconds)) for c in shown if c.by_seconds}
        if lines:
            chart = curve_chart(lines, metric, unit, [(0.0, timed[0][1]), *scaled(timed)])
            plots.append(Plot(title, chart, f"by {unit}s of training, not counting validation"))
    return side_by_side(plots)


def _cost(group: RunGroup) -> list[Block]:
    """Score against duration, for two or more models whose duration is known."""
    metric = group.scores[0].metric
    sign = 1 if lower_is_better(metric) else -1
    costs = sorted(group.costs, key=lambda cost: (sign * cost.value, cost.seconds))
    if len(costs) < 2:
        return []
    name = metric_name(metric)
    rows: list[list[TableCell]] = [["", name, "time per run", "on"]]
    dots: list[Dot] = []
    for number, cost in enumerate(costs, start=1):
        value, duration = format_value(cost.value, metric), format_duration(cost.seconds)
        rows.append([f"{number} {cost.model}", value, duration, cost.device or "–"])
        dots.append(
            Dot(
                x=max(cost.seconds, DURATIONS[0]),
                y=cost.value,
                kind=INPUT_NAMES[cost.inputs] or "other",
                color=INPUT_COLORS[cost.inputs],
                tip=f"{cost.model}: {value} after {duration}",
            )
        )
    chart = DotChart(
        label=f"{name} of {len(costs)} models by the duration of a run",
        dots=dots,
        ticks=_duration_ticks([dot.x for dot in dots]),
        format_y=lambda y: format_value(y, metric),
    )
    note = "by the duration of a run, on a logarithmic axis; numbers as in the table"
    return [
        Plot(f"{name} on test", chart, note),
        Paragraph(efficient_models(costs)),
        Table(rows, is_settings=True),
    ]


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
    metric, names = degrees.metric, list(degrees.groups)
    models = [m.model for m in group.scores[0].ranked() if m.model in degrees.models]
    shown = models[:MAX_LINES]
    chart = LineChart(
        label=f"{metric_name(metric)} of {listed(shown)} by training edges: {listed(names)}",
        lines={
            model: [[(float(i), y) for i, y in enumerate(degrees.models[model]) if y is not None]]
            for model in shown
        },
        tip=lambda model, x, y: f"{model}, {names[int(x)]}: {format_value(y, metric)}",
        format_y=lambda y: format_value(y, metric),
        ticks={float(i): name for i, name in enumerate(names)},
        wide=True,
    )
    note = "by training edges of the query node; cold: one of the two nodes has none"
    plots = [Plot(metric_name(metric), chart, note)] if len(names) > 1 else []
    return [*plots, _degree_table(degrees, models)]


def _degree_table(degrees: DegreeScores, models: Sequence[str]) -> Table:
    """The best value of each group is bold, if there are several models."""
    pick = min if lower_is_better(degrees.metric) else max
    columns = zip(*(degrees.models[model] for model in models), strict=True)
    best = [pick((v for v in column if v is not None), default=None) for column in columns]
    head = ["", *(f"{name}: {pairs:,} pairs" for name, pairs in degrees.groups.items())]
    rows: list[list[TableCell]] = [[*head]]
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
    blocks: list[Block] = []
    for model in group.settings:
        own = [[n, format_setting(v)] for n, v in model.settings.items() if n not in shared]
        special = f", {counted(len(own), 'setting', 'settings')} of its own" if own else ""
        table = [Table(own, header=False, is_settings=True)] if own else []
        title = f"{model.model}: {counted(len(model.runs), 'run', 'runs')}{special}"
        lines = [f"{run}: {facts}" if facts else run for run, facts in model.runs.items()]
        blocks.append(Details(title, [*table, Bullets(lines)]))
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
