"""What finished runs have shown side by side, as plain data; a page and a terminal show it."""

from dataclasses import dataclass, field
from typing import Any

from edgeformers.data.card.card import DataCard
from edgeformers.report.scores import InputKind, ModelScores, TaskScores

Line = list[tuple[float, float]]  # (epochs or seconds, value)


@dataclass(frozen=True, kw_only=True)
class ModelCurves:
    """The validation metric of a model's runs, by epochs done and by seconds of training."""

    model: str
    by_epoch: list[Line]
    by_seconds: list[Line] = field(default_factory=list)  # of those that logged their time


@dataclass(frozen=True, kw_only=True)
class ModelCost:
    """How long a run of a model took, a mean over its runs, and what it gave."""

    model: str
    inputs: InputKind
    seconds: float
    device: str
    value: float


@dataclass(frozen=True, kw_only=True)
class DegreeScores:
    """A metric of groups of test pairs, by the training edges of their nodes."""

    metric: str
    groups: dict[str, int]  # name -> pairs
    models: dict[str, list[float | None]]  # in the order of the groups


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """A run as it is listed: where it is, and what tells it from others of its model."""

    folder: str
    seed: str = ""
    seconds: float | None = None
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """All settings of a model's runs but the seed."""

    model: str
    runs: list[OneRun]
    settings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """Runs that can be compared: of one task, on one split of one network."""

    title: str
    network: str
    task: str
    scores: list[TaskScores]  # one per protocol; the first decides
    examples: int = 0  # that the gains were measured on, one by one
    curves: list[ModelCurves] = field(default_factory=list)
    costs: list[ModelCost] = field(default_factory=list)
    degrees: DegreeScores | None = None
    settings: list[ModelSettings] = field(default_factory=list)

    @property
    def models(self) -> list[ModelScores]:
        return self.scores[0].models


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure of an experiment: an SVG file, its title, and the experiment it is of."""

    title: str
    experiment: str
    svg: str


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A run that is not compared, and why."""

    folder: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """Everything the page of finished runs shows; what is empty is left out."""

    title: str
    groups: list[RunGroup]
    drawings: list[Drawing] = field(default_factory=list)
    cards: dict[str, DataCard] = field(default_factory=dict)  # by the network's name
    unfinished: list[Unfinished] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # folders without a run, networks gone

    @property
    def num_runs(self) -> int:
        return sum(len(one.runs) for group in self.groups for one in group.settings)
