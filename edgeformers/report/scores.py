"""Scores of models on a task, and which inputs each model uses."""

import math
from dataclasses import dataclass, field
from typing import Literal

from edgeformers.errors import InputError

InputKind = Literal["text", "nodes", "both", ""]


@dataclass(frozen=True, kw_only=True)
class MetricValue:
    """A measured value and its interval; bounds that are nan or None are not known.

    The value of several runs is their mean, and `spread` their sample deviation.
    """

    value: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise InputError(
                f"a score must be a number (got {self.value}); leave out what was not measured"
            )
        for name in ("low", "high", "spread"):
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
    metrics: dict[str, MetricValue]
    inputs: InputKind = ""
    note: str = ""
    runs: int = 1


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
    gains: dict[str, MetricValue] = field(default_factory=dict)
    note: str = ""  # the protocol and whatever else the figures depend on
