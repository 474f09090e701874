"""What runs have shown, as plain data that survives JSON."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edgeformers.errors import FormatError
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """A validation metric over the epochs of one run."""

    run: str
    metric: str
    points: list[list[float]]  # [epochs done, value]


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
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
class Results:
    """Everything the page of results shows, as plain data; what is empty is left out."""

    title: str
    origin: str = ""
    tasks: list[TaskScores] = field(default_factory=list)
    curves: list[LearningCurve] = field(default_factory=list)
    attention: list[AttentionMap] = field(default_factory=list)
    maps: list[NodeMap] = field(default_factory=list)
    data: dict[str, float | str] = field(default_factory=dict)  # the data card's key numbers
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # run -> setting -> value
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(_without_nan(asdict(self)), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Results":
        """The results that `to_json` wrote."""
        try:
            values = json.loads(text)
            if values["version"] != VERSION:
                raise FormatError(
                    f"results: version {VERSION} expected (got {values['version']}); "
                    "make them again from the runs"
                )
            parts = {"curves": LearningCurve, "attention": AttentionMap, "maps": NodeMap}
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
        [float(event["epoch"]) + 1, float(event[metric])]
        for event in events
        if event.get("kind") == "val" and metric in event and math.isfinite(event[metric])
    ]
    return LearningCurve(run=run, metric=metric, points=points) if points else None


def _task(values: dict[str, Any]) -> TaskScores:
    models = [_model(model) for model in values["models"]]
    return TaskScores(**{**values, "models": models, "gains": _scores(values["gains"])})


def _model(values: dict[str, Any]) -> ModelScores:
    known = {"inputs" if name == "sees" else name: value for name, value in values.items()}
    return ModelScores(**{**known, "metrics": _scores(values["metrics"])})


def _scores(values: dict[str, dict[str, Any]]) -> dict[str, MetricValue]:
    return {name: MetricValue(**score) for name, score in values.items()}


def _without_nan(value: Any) -> Any:
    """JSON has no nan: what was not measured is null."""
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
