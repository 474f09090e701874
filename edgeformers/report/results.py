"""Results of a few runs (results.json) and their page, and blocks that pages of scores share."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from edgeformers.decode import decode_json
from edgeformers.files import json_values
from edgeformers.report.figures import AttentionFigure, LineChart, NodeMap, Points
from edgeformers.report.formatting import (
    INPUT_NAMES,
    format_number,
    format_setting,
    format_signed,
    format_value,
    metric_name,
)
from edgeformers.report.page import (
    Block,
    Cell,
    IntervalCell,
    Page,
    Paragraph,
    Plot,
    Rows,
    Section,
    SideBySide,
    Table,
    TableCell,
    bullets,
)
from edgeformers.report.scores import (
    MetricValue,
    ModelScores,
    TaskScores,
    gain_sentences,
    lead_sentences,
    lower_is_better,
)
from edgeformers.report.story import (
    Story,
    assumption_section,
    example_section,
    next_section,
    suggestion_section,
)
from edgeformers.report.terminal import sparkline

VERSION = 1  # of results.json
FOOTER = "Made by edgeformers. Intervals are 95% bootstrap intervals unless noted otherwise."
ATTENTION_NOTE = (
    "attention from the readout token by layer, averaged over heads; colors are relative to the "
    "largest weight of the layer; virtual tokens are bold"
)
MARGIN = 0.06  # at both ends of the intervals' axis


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """A validation metric over the epochs of one run."""

    run: str
    metric: str
    points: list[list[float]]  # [epochs done, value]


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything the results page shows; empty parts are omitted."""

    title: str
    origin: str = ""
    story: Story | None = None
    tasks: list[TaskScores] = field(default_factory=list)
    curves: list[LearningCurve] = field(default_factory=list)
    attention: list[AttentionFigure] = field(default_factory=list)
    maps: list[NodeMap] = field(default_factory=list)
    data: dict[str, float | str] = field(default_factory=dict)  # key numbers of the network
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # run -> setting -> value
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(json_values(asdict(self)), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Results":
        """Parse the output of `to_json`."""
        remedy = "create the file again from the runs"
        return decode_json(cls, text, source="results", version=VERSION, remedy=remedy)


def learning_curve(
    events: Iterable[Mapping[str, Any]], metric: str, run: str
) -> LearningCurve | None:
    """The metric in the validation events of a run's metrics.jsonl; None if there are none."""
    points = [
        [float(event["epoch"]) + 1, float(event[metric])]
        for event in events
        if event.get("kind") == "val" and metric in event and math.isfinite(event[metric])
    ]
    return LearningCurve(run=run, metric=metric, points=points) if points else None


def results_page(results: Results) -> Page:
    """Does the graph help? The conclusion, then everything it is based on."""
    compared = [task for task in results.tasks if task.best_by_input()]
    answers = [(task.task, task.conclusion) for task in compared]
    # the sentence of a single task is on the page already
    sentences = [[Paragraph(answer)] if len(answers) > 1 else [] for _, answer in answers]
    node_note = "stars are nodes, points their edges"
    data = [[n, v if isinstance(v, str) else format_number(v)] for n, v in results.data.items()]
    story = results.story or Story(lead=[])
    return Page(
        kind="Results",
        title=results.title,
        lead=[*story.lead, *(lead_sentences(answers) if answers else [])],
        origin=results.origin,
        tiles=[tile for task in compared[: 2 if story.lead else 1] for tile in best_tiles(task)],
        sections=[
            example_section(story),
            Section(
                "Does the graph help? Does the text?",
                [
                    Section(task.task, [*sentence, *verdict_table(task), *best_models(task)])
                    for task, sentence in zip(compared, sentences, strict=True)
                ],
            ),
            *(Section(task.task, _task(task)) for task in results.tasks),
            suggestion_section(story),
            Section("Learning curves", _curves(results.curves)),
            Section(
                "Attention",
                side_by_side([Plot(d.title, d, ATTENTION_NOTE) for d in results.attention]),
            ),
            Section(
                "Nodes and edges",
                [
                    Plot(m.title, m, f"{node_note}; {m.note}" if m.note else node_note)
                    for m in results.maps
                ],
            ),
            assumption_section(story),
            Section("Data", [settings_table(data)] if data else []),
            Section("Settings", _settings(results.settings)),
            next_section(story),
        ],
        footer=FOOTER,
    )


def _task(task: TaskScores) -> list[Block]:
    models = task.ranked()
    gains = gain_sentences(task, task.verdict.examples) if task.verdict else []
    rows = [(model.model, INPUT_NAMES[model.inputs], model) for model in models]
    return [
        *([Paragraph(task.note, muted=True)] if task.note else []),
        score_table(task, rows, task.metrics),
        *best_achievable(task, task.metrics),
        *(Paragraph(sentence) for sentence in gains),
        *bullets([f"{model.model}: {model.note}" for model in models if model.note]),
    ]


def _curves(curves: Sequence[LearningCurve]) -> list[Block]:
    plots = []
    for metric in dict.fromkeys(curve.metric for curve in curves):
        shown = [curve for curve in curves if curve.metric == metric]
        lines: dict[str, list[Any]] = {}
        for curve in shown:
            lines.setdefault(curve.run, []).append([(x, y) for x, y in curve.points])
        chart, text = curve_chart(lines, metric, "epoch"), "\n".join(map(_curve_text, shown))
        plots.append(Plot(metric_name(metric), chart, "by epoch; the large dot is the best", text))
    return side_by_side(plots)


def _curve_text(curve: LearningCurve) -> str:
    sign = -1.0 if lower_is_better(curve.metric) else 1.0
    values = [sign * value for _, value in curve.points]
    low, span = min(values), (max(values) - min(values)) or 1.0
    steps = sparkline([1 + round(7 * (value - low) / span) for value in values])
    epoch, best = curve.points[values.index(max(values))]
    shown = format_value(best, curve.metric)
    return f"{curve.run}, {metric_name(curve.metric)}: {steps} best {shown} at epoch {epoch:g}"


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


def verdict_table(task: TaskScores) -> list[Block]:
    """The answer to each question of a verdict, and the gain that decided it."""
    verdict = task.verdict
    if verdict is None or not verdict.answers:
        return []
    metric = verdict.metric
    rows: list[Sequence[TableCell]] = [["", metric_name(metric), "compared with", "p"]]
    for answer in verdict.answers:
        low, high = (format_signed(bound, metric) for bound in (answer.low, answer.high))
        gain = Cell(format_signed(answer.gain, metric), note=f"{low} to {high}")
        p_value = f"{answer.p_value:.3f}"
        rows.append([answer.question.capitalize(), gain, answer.alternative, p_value])
    note = f"{verdict.model}, {verdict.examples:,} test examples of {verdict.sources:,} sources; "
    note += "intervals and p-values are corrected for the number of questions"
    return [Table(rows), Paragraph(note, muted=True)]


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


def side_by_side(plots: Sequence[Plot]) -> list[Block]:
    """The plots next to each other, if there are any."""
    return [SideBySide(plots)] if plots else []


def curve_chart(
    lines: dict[str, list[Points]], metric: str, by: str, include: Points = ()
) -> LineChart:
    """A validation metric by `by`: "epoch" or a unit of time."""
    return LineChart(
        label=f"{metric_name(metric)} on validation by {by}: {', '.join(lines)}",
        lines=lines,
        tip=lambda name, x, y: f"{name}, {by} {x:.3g}: {format_value(y, metric)}",
        format_y=lambda y: format_value(y, metric),
        best=min if lower_is_better(metric) else max,
        include=include,
    )
