"""What runs have shown, for the eye: does the graph help, and everything behind the answer."""

import json
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

from edgeformers.errors import FormatError, InputError
from edgeformers.report import page, plots, terminal
from edgeformers.report.text import Rows, number, printable

Sees = Literal["text", "nodes", "both", ""]

VERSION = 1
ANY_SCALE = ("mae", "rmse", "r2")  # metrics that are no shares: shown as they are
OF_ONE = ("mrr", "ndcg", "auc", "average_precision")  # usually written as 0.123, not in percent
LOWER_IS_BETTER = ("mae", "rmse")
SEES = {"text": "text only", "nodes": "nodes only", "both": "text and nodes", "": ""}
FOOTER = "Made by edgeformers. Intervals hold 95% of resamples unless the settings say otherwise."


@dataclass(frozen=True, kw_only=True)
class Score:
    """A measured value and its interval; bounds that are nan or None are not known."""

    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise InputError(
                f"a score must be a number (got {self.value}); leave out what was not measured"
            )
        for name in ("low", "high"):
            bound = getattr(self, name)
            if bound is not None and not math.isfinite(bound):
                object.__setattr__(self, name, None)

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval, or the value alone where there is none."""
        return (
            self.value if self.low is None else self.low,
            self.value if self.high is None else self.high,
        )


@dataclass(frozen=True, kw_only=True)
class ModelScores:
    """One model's metrics, and what it may look at: the text, the nodes or both."""

    model: str
    metrics: dict[str, Score]
    sees: Sees = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """All models on one task; the first metric decides.

    `best` is the best that any model can reach, known where the network was simulated. `gains`
    are paired differences of the first metric between the model that sees both and the best that
    sees the "text" or the "nodes" alone; they tell more surely than two intervals.
    """

    task: str
    metrics: list[str]
    models: list[ModelScores]
    best: dict[str, float] = field(default_factory=dict)
    gains: dict[str, Score] = field(default_factory=dict)
    note: str = ""  # the protocol and whatever else the figures depend on


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """A validation metric over the epochs of one run."""

    run: str
    metric: str
    points: list[list[float]]  # [epoch, value]


@dataclass(frozen=True, kw_only=True)
class AttentionPicture:
    """The weight that the read-out token gives each token, a mean over heads: [layers, tokens].

    The first `virtual` tokens are the virtual ones.
    """

    title: str
    tokens: list[str]
    weights: list[list[float]]
    virtual: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeMap:
    """Nodes and the edges around them on a plane; edge i belongs to node `ends[i]`."""

    title: str
    names: list[str]
    nodes: list[list[float]]  # [x, y]
    edges: list[list[float]]
    ends: list[int]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class ResultsPage:
    """Everything the page of results shows, as plain data; what is empty is left out."""

    title: str
    origin: str = ""
    tasks: list[TaskScores] = field(default_factory=list)
    curves: list[LearningCurve] = field(default_factory=list)
    attention: list[AttentionPicture] = field(default_factory=list)
    maps: list[NodeMap] = field(default_factory=list)
    data: dict[str, float | str] = field(default_factory=dict)  # the data card's key numbers
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # run -> setting -> value
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(_without_nan(asdict(self)), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "ResultsPage":
        """The results that `to_json` wrote."""
        try:
            values = json.loads(text)
            if values["version"] != VERSION:
                raise FormatError(
                    f"results: version {VERSION} expected (got {values['version']}); "
                    "make them again from the runs"
                )
            parts = {"curves": LearningCurve, "attention": AttentionPicture, "maps": NodeMap}
            made = {name: [kind(**v) for v in values[name]] for name, kind in parts.items()}
            return cls(**{**values, **made, "tasks": list(map(_task, values["tasks"]))})
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(
                f"results: not a file that results were written to ({error}); "
                "make them again from the runs"
            ) from error


def learning_curve(
    events: Iterable[Mapping[str, Any]], metric: str, run: str
) -> LearningCurve | None:
    """The validation events of a run's metrics.jsonl as a curve; None where there are none."""
    points = [
        [float(event["epoch"]), float(event[metric])]
        for event in events
        if event.get("kind") == "val" and metric in event and math.isfinite(event[metric])
    ]
    return LearningCurve(run=run, metric=metric, points=points) if points else None


def _task(values: dict[str, Any]) -> TaskScores:
    models = [
        ModelScores(**{**model, "metrics": _scores(model["metrics"])}) for model in values["models"]
    ]
    return TaskScores(**{**values, "models": models, "gains": _scores(values["gains"])})


def _scores(values: dict[str, dict[str, Any]]) -> dict[str, Score]:
    return {name: Score(**score) for name, score in values.items()}


def _without_nan(value: Any) -> Any:
    """JSON has no nan: what was not measured is null."""
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# What both forms say.


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the graph helps on a task, in a sentence, and the models that tell."""

    task: TaskScores
    answer: str
    sentence: str
    models: list[ModelScores]  # the best that sees the text, the nodes, both: those there are


def verdict(task: TaskScores) -> Verdict | None:
    """Text and nodes against either alone; None where the models to compare are missing."""
    metric = task.metrics[0]
    found = {sees: model for sees in ("text", "nodes", "both") if (model := _best(task, sees))}
    if "both" not in found or len(found) < 2:
        return None
    both = found["both"]
    sures = {
        sees: _gain(task, both, found[sees], sees) for sees in ("text", "nodes") if sees in found
    }
    graph = _GRAPH[sures["text"]] if "text" in sures else ""
    words = _WORDS[sures["nodes"]] if "nodes" in sures else ""
    figures = [
        f"{SEES[m.sees]} {_with_interval(m.metrics[metric], metric)}" for m in found.values()
    ]
    sentence = f"{_name(metric)}: {', '.join(figures[:-1])}, {figures[-1]} ({both.model})."
    answer = " ".join(part for part in (graph, words) if part)
    return Verdict(task=task, answer=answer, sentence=sentence, models=list(found.values()))


#: Answers by how sure the gain is: 1 surely, 0 not surely, -1 there is none.
_GRAPH = {
    1: "The graph helps: nodes add to what the text says.",
    0: "The graph may help: the gain over text alone is within chance.",
    -1: "The graph does not help: text alone does as well.",
}
_WORDS = {
    1: "The text helps too: nodes alone do worse.",
    0: "Whether the text adds to the nodes is within chance.",
    -1: "The text adds nothing: nodes alone do as well.",
}


def _gain(task: TaskScores, both: ModelScores, alone: ModelScores, sees: str) -> int:
    """1 where the gain is sure, 0 where it may be chance, -1 where there is none."""
    metric = task.metrics[0]
    sign = -1.0 if _plain(metric) in LOWER_IS_BETTER else 1.0
    if sees in task.gains:
        low, high = sorted(sign * bound for bound in task.gains[sees].bounds)
        difference = sign * task.gains[sees].value
        is_sure = low > 0 and task.gains[sees].low is not None
    else:
        ours, theirs = both.metrics[metric], alone.metrics[metric]
        difference = sign * (ours.value - theirs.value)
        low = min(sign * bound for bound in ours.bounds)
        high = max(sign * bound for bound in theirs.bounds)
        is_sure = low > high and ours.low is not None and theirs.low is not None
    return 1 if is_sure else 0 if difference > 0 else -1


def _best(task: TaskScores, sees: str) -> ModelScores | None:
    models = [m for m in _ordered(task) if m.sees == sees and task.metrics[0] in m.metrics]
    return models[0] if models else None


def _ordered(task: TaskScores) -> list[ModelScores]:
    """The best first; who was not measured last."""
    metric = task.metrics[0]
    sign = 1.0 if _plain(metric) in LOWER_IS_BETTER else -1.0

    def place(model: ModelScores) -> float:
        return sign * model.metrics[metric].value if metric in model.metrics else math.inf

    return sorted(task.models, key=place)


def _plain(metric: str) -> str:
    """`full/mrr` -> `mrr`."""
    return metric.rpartition("/")[2].lower()


def _name(metric: str) -> str:
    protocol, _, plain = metric.rpartition("/")
    known = {"macro_f1": "Macro-F1", "micro_f1": "Micro-F1", "hit@1": "Hit@1", "hit@5": "Hit@5"}
    known |= {"hit@10": "Hit@10", "prec": "PREC", "precision": "Precision", "accuracy": "Accuracy"}
    name = known.get(plain.lower(), plain.upper() if len(plain) < 5 else plain)
    return f"{name} ({protocol})" if protocol else name


def _figure(value: float, metric: str) -> str:
    if _plain(metric) in ANY_SCALE:
        return number(value)
    return f"{value:.3f}" if _plain(metric) in OF_ONE else f"{100 * value:.1f}"


def _with_interval(score: Score, metric: str) -> str:
    shown = _figure(score.value, metric)
    if score.low is None or score.high is None:
        return shown
    return f"{shown} ({_figure(score.low, metric)} to {_figure(score.high, metric)})"


def _verdicts(results: ResultsPage) -> list[Verdict]:
    return [one for task in results.tasks if (one := verdict(task))]


def _setting_rows(results: ResultsPage) -> Rows:
    """Settings that differ between runs first, then those that are the same in all."""
    runs = list(results.settings)
    names = list(dict.fromkeys(name for values in results.settings.values() for name in values))
    table = {name: [_setting(results.settings[run].get(name)) for run in runs] for name in names}
    names.sort(key=lambda name: len(set(table[name])) == 1)
    return [["", *runs], *([name, *table[name]] for name in names)]


def _setting(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value)


# In a terminal.


def results_text(results: ResultsPage, width: int = 80) -> str:
    """The verdict and the tables as plain lines of at most `width` characters."""
    blocks = [[printable(results.title).upper(), printable(results.origin)]]
    for one in _verdicts(results):
        lines = textwrap.wrap(printable(f"{one.answer} {one.sentence}"), width)
        blocks.append([f"DOES THE GRAPH HELP?  {printable(one.task.task)}", *lines])
    for task in results.tasks:
        lines = [line for rows in _score_rows(task) for line in terminal.table(rows, left=(0, 1))]
        notes = textwrap.wrap(
            printable(task.note), width, initial_indent="  ", subsequent_indent="  "
        )
        blocks.append([printable(task.task).upper(), *lines, *notes])
    if results.curves:
        blocks.append(["VALIDATION BY EPOCH", *terminal.table(_curve_rows(results.curves), (0, 1))])
    if results.data:
        rows = [[name, _datum(value)] for name, value in results.data.items()]
        blocks.append(["DATA", *terminal.table(rows)])
    if results.settings:
        blocks.append(["SETTINGS", *terminal.table(_setting_rows(results))])
    cut = (("\n".join(terminal.fit(line, width) for line in one if line)) for one in blocks)
    return "\n\n".join(cut) + "\n"


def _score_rows(task: TaskScores) -> Iterator[Rows]:
    """Tables of three metrics each, which fit a terminal; only what decides has its interval."""
    for start in range(0, len(task.metrics), 3):
        metrics = task.metrics[start : start + 3]
        rows = [["", "sees", *map(_name, metrics)]]
        for model in _ordered(task):
            figures = (_cell(model.metrics.get(m), m, m == task.metrics[0]) for m in metrics)
            rows.append([model.model, model.sees, *figures])
        if task.best:
            best = (_figure(task.best[m], m) if m in task.best else "–" for m in metrics)
            rows.append(["best achievable", "", *best])
        yield rows


def _cell(score: Score | None, metric: str, decides: bool) -> str:
    if score is None:
        return "–"
    return _with_interval(score, metric) if decides else _figure(score.value, metric)


def _curve_rows(curves: Sequence[LearningCurve]) -> Rows:
    rows = [["", "", "", "best", "at epoch"]]
    for curve in curves:
        sign = -1.0 if _plain(curve.metric) in LOWER_IS_BETTER else 1.0
        values = [sign * value for _, value in curve.points]
        low, span = min(values), (max(values) - min(values)) or 1.0
        steps = terminal.sparkline([1 + round(7 * (value - low) / span) for value in values])
        epoch, best = curve.points[values.index(max(values))]
        shown = _figure(best, curve.metric)
        rows.append([curve.run, _name(curve.metric), steps, shown, f"{epoch:g}"])
    return rows


def _datum(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)


# As a page.


def results_html(results: ResultsPage) -> str:
    """The results as one page that needs nothing else: no script, no font, no network."""
    verdicts = _verdicts(results)
    sections = [
        _header(results, verdicts),
        _verdict_section(verdicts),
        *map(_task_section, results.tasks),
        _curves_section(results),
        _attention_section(results.attention),
        _maps_section(results.maps),
        _data_section(results),
        _settings_section(results),
    ]
    return page.page(f"{results.title}: results", sections, FOOTER)


def _header(results: ResultsPage, verdicts: Sequence[Verdict]) -> str:
    tiles, lead = [], f"{len(results.tasks)} tasks" if len(results.tasks) != 1 else "1 task"
    if verdicts:
        metric = verdicts[0].task.metrics[0]
        tiles = [
            (f"{SEES[m.sees]}, {_name(metric)}", _figure(m.metrics[metric].value, metric))
            for m in verdicts[0].models
        ]
        if metric in verdicts[0].task.best:
            tiles.append(("best achievable", _figure(verdicts[0].task.best[metric], metric)))
        lead = verdicts[0].answer
    return page.header("Results", results.title, lead, results.origin, tiles)


def _verdict_section(verdicts: Sequence[Verdict]) -> str:
    parts = []
    for one in verdicts:
        rows = [(SEES[m.sees], m.model, m) for m in one.models]
        table = _interval_table(rows, one.task, one.task.metrics[:1])
        parts.append(page.block(one.task.task, page.paragraph(one.answer) + table))
    return page.section("Does the graph help?", *parts) if parts else ""


def _task_section(task: TaskScores) -> str:
    rows = [(m.model, SEES[m.sees], m) for m in _ordered(task)]
    notes = [f"{m.model}: {m.note}" for m in _ordered(task) if m.note]
    best = {m: _figure(v, m) for m, v in task.best.items() if m in task.metrics}
    known = ", ".join(f"{_name(metric)} {value}" for metric, value in best.items())
    return page.section(
        task.task,
        page.paragraph(task.note, soft=True) if task.note else "",
        _interval_table(rows, task, task.metrics),
        page.paragraph(f"Best achievable (dashed line): {known}.", soft=True) if known else "",
        page.bullets(notes) if notes else "",
    )


def _interval_table(
    rows: Sequence[tuple[str, str, ModelScores]], task: TaskScores, metrics: Sequence[str]
) -> str:
    """A model per row: its name over a remark, its metrics, and the first of them as a plot."""
    place = _axis(task)
    names = ["", *map(_name, metrics), ""]
    top = "".join(f'<th scope="col">{page.safe(name)}</th>' for name in names)
    body = ""
    for name, remark, model in rows:
        first = model.metrics.get(task.metrics[0])
        cells = "".join(_score_cell(model.metrics.get(metric), metric) for metric in metrics)
        plot = _interval_plot(first, task.best.get(task.metrics[0]), place) if first else ""
        body += (
            f'<tr><th scope="row" style="min-width:8rem;overflow-wrap:break-word">'
            f'{page.safe(name)}<br><span class="tag">{page.safe(remark)}</span></th>'
            f'{cells}<td class="meter">{plot}</td></tr>'
        )
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _score_cell(score: Score | None, metric: str) -> str:
    if score is None:
        return "<td>–</td>"
    bounds = ""
    if score.low is not None and score.high is not None:
        low, high = _figure(score.low, metric), _figure(score.high, metric)
        bounds = f'<br><span class="tag">{low} to {high}</span>'
    return f"<td>{_figure(score.value, metric)}{bounds}</td>"


def _axis(task: TaskScores) -> plots.Place:
    """Values of the first metric to shares of a plot that all models of the task fit in."""
    metric = task.metrics[0]
    scores = [m.metrics[metric] for m in task.models if metric in m.metrics]
    values = [bound for score in scores for bound in (*score.bounds, score.value)]
    values += [task.best[metric]] if metric in task.best else []
    return plots.scale(values, 0.06)


def _interval_plot(score: Score, best: float | None, place: plots.Place) -> str:
    low, high = (place(bound) for bound in score.bounds)
    return plots.interval(low, place(score.value), high, None if best is None else place(best))


def _curves_section(results: ResultsPage) -> str:
    figures = []
    for metric in dict.fromkeys(curve.metric for curve in results.curves):
        lines = {
            curve.run: [(epoch, value) for epoch, value in curve.points]
            for curve in results.curves
            if curve.metric == metric
        }
        label = f"{_name(metric)} on validation after each epoch, {len(lines)} runs"
        note = "by epoch; the large dot is the best"
        plot = plots.curves(
            lines,
            label,
            is_low_best=_plain(metric) in LOWER_IS_BETTER,
            show=partial(_figure, metric=metric),
        )
        figures.append(page.figure(_name(metric), plot, note))
    return page.section("Learning curves", page.side_by_side(figures)) if figures else ""


def _attention_section(pictures: Sequence[AttentionPicture]) -> str:
    if not pictures:
        return ""
    told = (
        "How much the read-out token reads of each token, a mean over heads; the strongest cell of "
        "each layer is its largest weight. Virtual tokens stand first, in bold."
    )
    tables = (
        page.figure(one.title, plots.attention_table(one.tokens, one.virtual, one.weights))
        for one in pictures
    )
    return page.section("Attention", page.paragraph(told, soft=True), page.side_by_side(tables))


def _maps_section(maps: Sequence[NodeMap]) -> str:
    figures = []
    for one in maps:
        nodes = [(name, x, y) for name, (x, y) in zip(one.names, one.nodes, strict=True)]
        plot = plots.scatter(nodes, [(x, y) for x, y in one.edges], one.ends)
        note = "stars are nodes, points their edges" + (f"; {one.note}" if one.note else "")
        figures.append(page.figure(one.title, plot, note))
    return page.section("Nodes and edges", *figures) if figures else ""


def _data_section(results: ResultsPage) -> str:
    rows = [[name, _datum(value)] for name, value in results.data.items()]
    return page.section("Data", page.table(rows, head=False)) if rows else ""


def _settings_section(results: ResultsPage) -> str:
    return page.section("Settings", page.table(_setting_rows(results))) if results.settings else ""
