"""Rows of the comparison: runs of one model that differ in their seed alone, and their names."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.run_report.input_kinds import input_kind, popularity_note
from edgeformers.experiments.run_report.read import RunRecord, is_number
from edgeformers.report.scores import InputKind, MetricValue, ModelScores

CHOSEN = "chosen."  # what a simple baseline chose by itself, perhaps otherwise for another seed
TELLING = ("recipe", "model.backbone")  # settings that tell two rows apart before all others


@dataclass(frozen=True, kw_only=True)
class Row:
    """A model with its settings, and the runs of it."""

    title: str
    runs: list[RunRecord]

    @property
    def inputs(self) -> InputKind:
        return input_kind(self.runs[0].model, self.runs[0].settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of all its runs; where they chose otherwise, every choice."""
        names = dict.fromkeys(name for run in self.runs for name in run.settings)
        return {name: _joined([run.settings.get(name) for run in self.runs]) for name in names}

    def metrics(self) -> list[str]:
        """The metrics that all of its runs have."""
        names = self.runs[0].results
        return [n for n in names if all(is_number(run.results.get(n)) for run in self.runs)]

    def score(self, metric: str) -> MetricValue:
        """The mean over runs with its spread, and the mean of their intervals.

        A mean of runs varies no more over test examples than the runs do on average, so that
        the interval is not too narrow.
        """
        values = [float(run.results[metric]) for run in self.runs]
        bounds = [run.results.get(f"{metric}_interval") or [None] for run in self.runs]
        is_known = all(None not in pair for pair in bounds)
        low, high = map(fmean, zip(*bounds, strict=True)) if is_known else (None, None)
        spread = stdev(values) if len(values) > 1 else None
        return MetricValue(value=fmean(values), low=low, high=high, spread=spread)

    def scores(self, metrics: Iterable[str]) -> ModelScores:
        """The metrics of these that it has."""
        known = self.metrics()
        return ModelScores(
            model=self.title,
            metrics={metric: self.score(metric) for metric in metrics if metric in known},
            inputs=self.inputs,
            note=popularity_note(self.runs[0].model, self.runs[0].settings),
            runs=len(self.runs),
        )


def make_rows(runs: Iterable[RunRecord]) -> list[Row]:
    """Runs of one task and network as rows, each with a name of its own."""
    by_model: dict[str, dict[str, list[RunRecord]]] = {}
    for run in runs:
        by_model.setdefault(run.model, {}).setdefault(_identity(run), []).append(run)
    return [
        Row(title=title, runs=group)
        for model, groups in by_model.items()
        for title, group in zip(_titles(model, list(groups.values())), groups.values(), strict=True)
    ]


def _identity(run: RunRecord) -> str:
    return json.dumps(_own(run), sort_keys=True)


def _own(run: RunRecord) -> dict[str, Any]:
    return {name: v for name, v in run.settings.items() if not name.startswith(CHOSEN)}


def _titles(model: str, groups: Sequence[Sequence[RunRecord]]) -> list[str]:
    """The model's name; of several rows also the few settings that tell them apart."""
    base = ROWS[model].title if model in ROWS else model
    settings = [_own(group[0]) for group in groups]
    telling = _telling(settings)
    return [", ".join([base, *_words(one, telling)]) for one in settings]


def _telling(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """As few settings as tell all rows apart, taken in their order."""
    names = dict.fromkeys((*TELLING, *(name for row in rows for name in row)))
    chosen: list[str] = []
    for name in names:
        if _kinds(rows, [*chosen, name]) > _kinds(rows, chosen):
            chosen.append(name)
    return chosen


def _kinds(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int:
    return len({json.dumps([row.get(name) for name in names]) for row in rows})


def _words(settings: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """`model.node_width` of 4 as 'node width 4'; what is left to the model is not said."""
    found = []
    for name in names:
        value, short = settings.get(name), name.rpartition(".")[2].replace("_", " ")
        if isinstance(value, bool):
            found.append(short if value else f"no {short}")
        elif value not in (None, "", "none"):
            shown = "+".join(map(str, value)) if isinstance(value, list) else str(value)
            found.append(f"{short} {shown or 'none'}")
    return found


def _joined(values: Sequence[Any]) -> Any:
    distinct = list({json.dumps(value): value for value in values}.values())
    return distinct[0] if len(distinct) == 1 else " or ".join(map(json.dumps, distinct))
