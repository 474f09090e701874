"""What a row took and how it got there: curves, cost, scores by degree, and its settings."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from edgeformers.experiments.run_report.model_rows import Row
from edgeformers.experiments.run_report.read import RunRecord
from edgeformers.report.results import LearningCurve, learning_curve
from edgeformers.report.runs_data import (
    DegreeScores,
    Line,
    ModelCost,
    ModelCurves,
    ModelSettings,
    OneRun,
)

#: Groups of pairs as results name them, and as they are shown.
DEGREES = {
    "cold": "cold",
    "degree 1-3": "1 to 3",
    "degree 4-10": "4 to 10",
    "degree 11+": "11 or more",
}


def model_curves(row: Row, metric: str) -> ModelCurves | None:
    """The validation metric of the row's runs; None where none of them logged it."""
    found = [(run, learning_curve(run.events, metric, row.title)) for run in row.runs]
    known = [(run, curve) for run, curve in found if curve is not None]
    if not known:
        return None
    return ModelCurves(
        model=row.title,
        by_epoch=[[(x, y) for x, y in curve.points] for _, curve in known],
        by_seconds=[line for run, curve in known if (line := _by_seconds(run.events, curve))],
    )


def _by_seconds(events: Iterable[Mapping[str, Any]], curve: LearningCurve) -> Line:
    """The points of a curve at the seconds of training before them; [] where these are unknown."""
    passed, after = 0.0, {}
    for event in events:
        if event.get("kind") == "speed":
            passed += float(event.get("seconds", "nan"))
        elif event.get("kind") == "val":
            after[float(event["epoch"]) + 1] = passed
    is_known = passed > 0  # nan is not
    return [(after[epoch], value) for epoch, value in curve.points] if is_known else []


def model_cost(row: Row, metric: str) -> ModelCost | None:
    """How long a run of the row takes, a mean; None where one of its runs does not tell."""
    seconds = [run_seconds(run) for run in row.runs]
    known = [one for one in seconds if one is not None]
    if len(known) < len(seconds) or metric not in row.metrics():
        return None
    return ModelCost(
        model=row.title,
        inputs=row.inputs,
        seconds=fmean(known),
        device=", ".join(dict.fromkeys(run.device for run in row.runs if run.device)),
        value=row.score(metric).value,
    )


def run_seconds(run: RunRecord) -> float | None:
    """From start to results where that was noted, else of training alone."""
    if run.seconds is not None:
        return float(run.seconds)
    spent = [event.get("seconds") for event in run.events if event.get("kind") == "speed"]
    known = [float(one) for one in spent if one is not None]
    return sum(known) if known and len(known) == len(spent) else None


def scores_by_degree(rows: Iterable[Row], metric: str) -> DegreeScores | None:
    """The metric by groups of pairs, of all rows that have them and were scored on the same."""
    protocol, _, plain = metric.rpartition("/")
    pairs: dict[str, int] = {}
    models = {}
    for row in rows:
        found = [run.results.get("groups", {}).get(protocol, {}) for run in row.runs]
        if not all(DEGREES.keys() <= groups.keys() for groups in found):
            continue
        mine = {key: int(found[0][key]["pairs"]) for key in DEGREES}
        mine = {key: count for key, count in mine.items() if count}
        pairs = pairs or mine
        if mine == pairs:
            models[row.title] = [_group_mean(found, key, plain) for key in pairs]
    shown = {DEGREES[key]: count for key, count in pairs.items()}
    return DegreeScores(metric=metric, groups=shown, models=models) if shown else None


def _group_mean(found: Sequence[Mapping[str, Any]], group: str, metric: str) -> float | None:
    values = [one[group]["metrics"].get(metric) for one in found]
    return None if None in values else fmean(values)


def model_settings(row: Row) -> ModelSettings:
    """The settings of the row, and where its runs are."""
    runs = [
        OneRun(
            folder=str(run.path),
            seed="" if run.seed is None else str(run.seed),
            seconds=run_seconds(run),
            device=run.device,
        )
        for run in row.runs
    ]
    return ModelSettings(model=row.title, runs=runs, settings=row.settings)
