"""Scores of models on a task, and which inputs each model uses."""

import math
from dataclasses import dataclass, field
from typing import Literal

from edgeformers.errors import InputError

InputKind = Literal["text", "nodes", "both", ""]  # "" if unknown

INPUT_KINDS: tuple[InputKind, ...] = ("text", "nodes", "both")
LOWER_IS_BETTER = ("mae", "rmse")


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
    one that uses only "text" or only "nodes".
    """

    task: str
    metrics: list[str]
    models: list[ModelScores]
    best: dict[str, float] = field(default_factory=dict)
    gains: dict[str, MetricValue] = field(default_factory=dict)
    note: str = ""  # the protocol and other conditions

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
