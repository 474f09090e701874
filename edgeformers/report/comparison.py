"""Finished runs compared, as plain data for a page, a terminal or JSON."""

from dataclasses import dataclass, field
from typing import Any

from edgeformers.data.card.card import DataCard
from edgeformers.report.scores import InputKind, ModelScores, TaskScores

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
class RunInfo:
    """A run's folder, seed, duration and device."""

    folder: str
    seed: str = ""
    seconds: float | None = None
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelRuns:
    """The runs of a model and their settings, except for the seed."""

    model: str
    runs: list[RunInfo]
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
    settings: list[ModelRuns] = field(default_factory=list)

    @property
    def models(self) -> list[ModelScores]:
        return self.scores[0].models


@dataclass(frozen=True, kw_only=True)
class SavedFigure:
    """An SVG file that an experiment saved next to its tables."""

    title: str
    experiment: str
    svg: str


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
    figures: list[SavedFigure] = field(default_factory=list)
    cards: dict[str, DataCard] = field(default_factory=dict)  # by network name
    skipped: list[SkippedRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # folders without runs, missing networks

    @property
    def num_runs(self) -> int:
        return sum(len(model.runs) for group in self.groups for model in group.settings)
