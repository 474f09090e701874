"""Scores of models on a task, the gains of the best ones, and the verdict on its inputs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from edgeformers.data.card.phrasing import counted, listed
from edgeformers.errors import InputError
from edgeformers.report.formatting import INPUT_NAMES, format_signed, metric_name
from edgeformers.report.verdict import NOT_TESTED, Verdict

InputKind = Literal["text", "nodes", "both", ""]  # "" if unknown

INPUT_KINDS: tuple[InputKind, ...] = ("text", "nodes", "both")
LOWER_IS_BETTER = ("mae", "rmse", "ece")
MAX_TITLES = 3  # titles listed before a shared conclusion


def lower_is_better(metric: str) -> bool:
    """Whether the metric, such as `rmse` or `full/mrr`, is an error."""
    return metric.rpartition("/")[2].lower() in LOWER_IS_BETTER


@dataclass(frozen=True, kw_only=True)
class MetricValue:
    """A measured value, its confidence interval and, over several runs, its standard deviation."""

    value: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise InputError(f"a score must be finite (got {self.value}); omit missing scores")
        for name in ("low", "high", "spread"):
            bound = getattr(self, name)
            if bound is not None and not math.isfinite(bound):
                object.__setattr__(self, name, None)

    @property
    def has_interval(self) -> bool:
        return self.low is not None and self.high is not None

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval; a missing bound is replaced by the value."""
        return (
            self.value if self.low is None else self.low,
            self.value if self.high is None else self.high,
        )


@dataclass(frozen=True, kw_only=True)
class ModelScores:
    """The metrics of one model, averaged over its runs."""

    model: str
    metrics: dict[str, MetricValue]
    inputs: InputKind = ""
    note: str = ""
    runs: int = 1


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """All models on one task, compared by the first metric.

    `best` holds the best achievable values, known for simulated networks. `gains` holds paired
    differences of the first metric between the best model that uses text and nodes and the best
    one that uses only "text" or only "nodes". `verdict` is that of the best model that has one.
    """

    task: str
    metrics: list[str]
    models: list[ModelScores]
    best: dict[str, float] = field(default_factory=dict)
    gains: dict[str, MetricValue] = field(default_factory=dict)
    note: str = ""  # the protocol and other conditions
    verdict: Verdict | None = None

    @property
    def conclusion(self) -> str:
        """Whether the graph and the text help, or how to find out."""
        return NOT_TESTED if self.verdict is None else self.verdict.sentence

    @property
    def metric(self) -> str:
        return self.metrics[0]

    def ranked(self) -> list[ModelScores]:
        """The models, best first; those without the first metric come last."""
        sign = 1.0 if lower_is_better(self.metric) else -1.0

        def rank(model: ModelScores) -> float:
            score = model.metrics.get(self.metric)
            return sign * score.value if score else math.inf

        return sorted(self.models, key=rank)

    def best_by_input(self) -> dict[InputKind, ModelScores]:
        """The best model for each kind of input that has one, in the order of INPUT_KINDS."""
        scored = [model for model in self.ranked() if self.metric in model.metrics]
        best = {model.inputs: model for model in reversed(scored)}
        return {kind: best[kind] for kind in INPUT_KINDS if kind in best}


def lead_sentences(answers: Sequence[tuple[str, str]]) -> list[str]:
    """Each distinct conclusion once, after the titles of the tasks it holds for."""
    titles: dict[str, list[str]] = {}
    for title, answer in answers:
        titles.setdefault(answer, []).append(title)
    if len(titles) == 1:
        if len(answers) == 1:
            return list(titles)
        which = "Both" if len(answers) == 2 else f"All {len(answers)}"
        return [f"{which} tasks: {answers[0][1]}"]
    for names in titles.values():
        if len(names) > MAX_TITLES:
            names[MAX_TITLES - 1 :] = [f"{len(names) - MAX_TITLES + 1} more"]
    return [f"{listed(names)}: {answer}" for answer, names in titles.items()]


def gain_sentences(task: TaskScores, examples: int) -> list[str]:
    """The paired gains of the best model that uses both inputs."""
    best, metric = task.best_by_input(), task.metric
    return [
        f"{best['both'].model} vs. {best[kind].model} ({INPUT_NAMES[kind]}): "
        f"{format_gain(gain, metric)} {metric_name(metric)} "
        f"on the same {counted(examples, 'test example', 'test examples')}."
        for kind in ("text", "nodes")
        if kind in best and (gain := task.gains.get(kind))
    ]


def format_gain(gain: MetricValue, metric: str) -> str:
    """+10.3 (95% interval +8.1 to +12.4)."""
    value, low, high = (format_signed(number, metric) for number in (gain.value, *gain.bounds))
    return f"{value} (95% interval {low} to {high})" if gain.has_interval else value


def values_json(values: dict[str, MetricValue]) -> dict[str, dict[str, float | None]]:
    """Metrics with their values and intervals for programs."""
    return {name: asdict(value) for name, value in values.items()}
