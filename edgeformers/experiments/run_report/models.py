"""Group runs that differ only in their seed, name the groups, and summarize them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.run_report.input_kinds import input_kind, popularity_note
from edgeformers.experiments.run_report.read import CHOSEN, FinishedRun, is_scalar
from edgeformers.report.beyond_accuracy import FEW_EDGES, Calibration, RecommendationQuality
from edgeformers.report.comparison import Line, ModelCost, ModelCurves, ModelRuns
from edgeformers.report.formatting import format_duration
from edgeformers.report.results import LearningCurve, learning_curve
from edgeformers.report.scores import InputKind, MetricValue, ModelScores

PREFERRED = ("recipe", "model.backbone")  # settings that distinguish titles before any other


@dataclass(frozen=True, kw_only=True)
class ComparedModel:
    """A model with its settings, and its runs with different seeds."""

    title: str
    runs: list[FinishedRun]

    @property
    def inputs(self) -> InputKind:
        return input_kind(self.runs[0].model, self.runs[0].settings)

    @property
    def metrics(self) -> list[str]:
        """The metrics that all runs have."""
        names = self.runs[0].results
        return [n for n in names if all(is_scalar(run.results.get(n)) for run in self.runs)]

    def score(self, metric: str) -> MetricValue:
        """The mean over runs, their standard deviation, and the mean of their intervals.

        The mean interval is conservative: a mean of runs varies less than a single run.
        """
        values = [float(run.results[metric]) for run in self.runs]
        intervals = [run.results.get(f"{metric}_interval") or [None] for run in self.runs]
        is_known = all(None not in interval for interval in intervals)
        low, high = map(fmean, zip(*intervals, strict=True)) if is_known else (None, None)
        spread = stdev(values) if len(values) > 1 else None
        return MetricValue(value=fmean(values), low=low, high=high, spread=spread)

    def scores(self, metrics: Iterable[str]) -> ModelScores:
        """Those of the metrics that all runs have."""
        known = self.metrics
        return ModelScores(
            model=self.title,
            metrics={metric: self.score(metric) for metric in metrics if metric in known},
            inputs=self.inputs,
            note=popularity_note(self.runs[0].model, self.runs[0].settings),
            runs=len(self.runs),
        )

    def curves(self, metric: str) -> ModelCurves | None:
        """The validation metric by epoch and by time; None if no run logged it."""
        logged = [(run, learning_curve(run.events, metric, self.title)) for run in self.runs]
        known = [(run, curve) for run, curve in logged if curve is not None]
        if not known:
            return None
        return ModelCurves(
            model=self.title,
            by_epoch=[[(x, y) for x, y in curve.points] for _, curve in known],
            by_seconds=[line for run, curve in known if (line := _by_seconds(run, curve))],
        )

    def cost(self, metric: str) -> ModelCost | None:
        """The mean duration and score; None if a run lacks either."""
        seconds = [run.seconds for run in self.runs if run.seconds is not None]
        if len(seconds) < len(self.runs) or metric not in self.metrics:
            return None
        return ModelCost(
            model=self.title,
            inputs=self.inputs,
            seconds=fmean(seconds),
            device=", ".join(dict.fromkeys(run.device for run in self.runs if run.device)),
            value=self.score(metric).value,
        )

    def calibration(self) -> Calibration | None:
        """The reliability of predicted classes; None if a run was evaluated without it."""
        curves = [run.results.get("calibration") for run in self.runs]
        if not all(curves) or "ece" not in self.metrics:
            return None
        heats = [curve.get("temperature") for curve in curves if curve]
        return Calibration(
            model=self.title,
            lines=[
                [
                    (x, y)
                    for x, y, n in zip(c["confidence"], c["accuracy"], c["count"], strict=True)
                    if n >= FEW_EDGES
                ]
                for c in curves
                if c
            ],
            error=self.score("ece").value,
            temperature=None if None in heats else fmean(heats),
        )

    def recommendations(self) -> RecommendationQuality | None:
        """Means of what was measured of recommendations; None if a run has nothing of it."""
        found = [run.results.get("recommendations") for run in self.runs]
        known = [values for values in found if values]
        if not known or len(known) < len(found):
            return None
        names = [name for name in known[0] if all(is_scalar(each.get(name)) for each in known)]
        means = {name: fmean(float(each[name]) for each in known) for name in names}
        return RecommendationQuality(model=self.title, metrics=means)

    def settings(self) -> ModelRuns:
        """The runs with the settings of all of them; differing choices are joined."""
        names = dict.fromkeys(name for run in self.runs for name in run.settings)
        runs = {}
        for run in self.runs:
            seed = "" if run.seed is None else f"seed {run.seed}"
            duration = "" if run.seconds is None else format_duration(run.seconds)
            place = f"{duration} on {run.device}".strip() if run.device else duration
            runs[str(run.path)] = ", ".join(filter(None, (seed, place)))
        settings = {name: _joined([r.settings.get(name) for r in self.runs]) for name in names}
        return ModelRuns(model=self.title, runs=runs, settings=settings)


def group_by_model(runs: Iterable[FinishedRun]) -> list[ComparedModel]:
    """Runs of one task and network by model and settings, each group with its own title."""
    by_model: dict[str, dict[str, list[FinishedRun]]] = {}
    for run in runs:
        identity = json.dumps(_fixed_settings(run), sort_keys=True)
        by_model.setdefault(run.model, {}).setdefault(identity, []).append(run)
    return [
        ComparedModel(title=title, runs=group)
        for model, groups in by_model.items()
        for title, group in zip(_titles(model, list(groups.values())), groups.values(), strict=True)
    ]


def _by_seconds(run: FinishedRun, curve: LearningCurve) -> Line:
    """The curve by seconds of training; [] if they were not logged."""
    elapsed, at_epoch = 0.0, {}
    for event in run.events:
        if event.get("kind") == "speed":
            elapsed += float(event.get("seconds", "nan"))
        elif event.get("kind") == "val":
            at_epoch[float(event["epoch"]) + 1] = elapsed
    is_known = elapsed > 0  # False for NaN
    return [(at_epoch[epoch], value) for epoch, value in curve.points] if is_known else []


def _fixed_settings(run: FinishedRun) -> dict[str, Any]:
    """Without those that were chosen on validation, which may differ between seeds."""
    return {name: v for name, v in run.settings.items() if not name.startswith(CHOSEN)}


def _titles(model: str, groups: Sequence[Sequence[FinishedRun]]) -> list[str]:
    """The model's name, followed by the settings that distinguish its groups."""
    base = ROWS[model].title if model in ROWS else model
    settings = [_fixed_settings(group[0]) for group in groups]
    names = _distinguishing_settings(settings)
    return [", ".join([base, *_phrases(values, names)]) for values in settings]


def _distinguishing_settings(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """As few settings as distinguish all groups."""

    def distinct(names: Sequence[str]) -> int:
        return len({json.dumps([group.get(name) for name in names]) for group in groups})

    chosen: list[str] = []
    for name in dict.fromkeys((*PREFERRED, *(name for group in groups for name in group))):
        if distinct([*chosen, name]) > distinct(chosen):
            chosen.append(name)
    return chosen


def _phrases(settings: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """'node width 4' for `model.node_width` of 4; unset settings are omitted."""
    phrases = []
    for name in names:
        value, plain = settings.get(name), name.rpartition(".")[2].replace("_", " ")
        if isinstance(value, bool):
            phrases.append(plain if value else f"no {plain}")
        elif value not in (None, "", "none"):
            shown = "+".join(map(str, value)) if isinstance(value, list) else str(value)
            phrases.append(f"{plain} {shown or 'none'}")
    return phrases


def _joined(values: Sequence[Any]) -> Any:
    distinct = list({json.dumps(value): value for value in values}.values())
    return distinct[0] if len(distinct) == 1 else " or ".join(map(json.dumps, distinct))
