"""Results of a few runs as plain data (results.json): scores, curves, attention, node maps."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edgeformers.decode import decode_json
from edgeformers.report.scores import TaskScores

VERSION = 1  # of results.json


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """A validation metric over the epochs of one run."""

    run: str
    metric: str
    points: list[list[float]]  # [epochs done, value]


@dataclass(frozen=True, kw_only=True)
class AttentionFigure:
    """Attention weights from the readout token, averaged over heads: [layers, tokens].

    The first `virtual` tokens are the virtual ones.
    """

    title: str
    tokens: list[str]
    weights: list[list[float]]
    virtual: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeMap:
    """2-d coordinates of nodes and of the edges around them; edge i belongs to node `ends[i]`."""

    title: str
    names: list[str]
    nodes: list[list[float]]  # [x, y]
    edges: list[list[float]]
    ends: list[int]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything the results page shows; empty parts are omitted."""

    title: str
    origin: str = ""
    tasks: list[TaskScores] = field(default_factory=list)
    curves: list[LearningCurve] = field(default_factory=list)
    attention: list[AttentionFigure] = field(default_factory=list)
    maps: list[NodeMap] = field(default_factory=list)
    data: dict[str, float | str] = field(default_factory=dict)  # key numbers of the network
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # run -> setting -> value
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(_nan_to_none(asdict(self)), ensure_ascii=False, indent=1)

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


def _nan_to_none(value: Any) -> Any:
    """JSON has no NaN or infinity."""
    if isinstance(value, dict):
        return {key: _nan_to_none(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_nan_to_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
