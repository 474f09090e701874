"""Tuning: every row's grid of settings is tried on validation, with one seed.

Trials are runs of a plan, so they resume and run in parallel like any other run; Optuna would add
a second store of results for a grid of at most a few points.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from edgeformers.config import flatten
from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.experiments.plan import Plan, PlannedRun
from edgeformers.registry import MODELS
from edgeformers.runs import read_results

TRIALS = "trials"


def trial_plan(plan: Plan, fixed: Mapping[str, Any]) -> Plan:
    """Every point of every row's grid with the first seed, except for settings the user fixed.

    Simple baselines are not included: they tune themselves while fitting.
    """
    first_runs: dict[str, PlannedRun] = {}
    for run in plan.runs:
        if run.kind == "model":
            first_runs.setdefault(run.row, run)
    trials = []
    for row, run in first_runs.items():
        grid = {n: values for n, values in MODELS[run.model].grid.items() if n not in fixed}
        for number, point in enumerate(product(*grid.values()) if grid else ()):
            folder = Path(plan.folder) / TRIALS / row / str(number)
            trial = replace(run, kind="trial", folder=str(folder))
            trials.append(trial.with_settings(dict(zip(grid, point, strict=True))))
    return replace(plan, experiment=f"{plan.experiment}/{TRIALS}", runs=trials)


def tuned_plan(plan: Plan, trials: Plan) -> Plan:
    """The plan with the best settings of every row, in folders named ROW-tuned.

    Rows without a finished trial are left out.
    """
    tuned_rows = dict.fromkeys(run.row for run in trials.runs)
    best = {row: best_settings(trials, row) for row in tuned_rows}
    runs = []
    for run in plan.runs:
        settings = best.get(run.row)
        if settings is not None:
            folder = run.path.parent.with_name(f"{run.row}-tuned") / run.path.name
            runs.append(replace(run, folder=str(folder)).with_settings(settings))
        elif run.row not in tuned_rows:
            runs.append(run)
    failed = [f"{row}: no trial finished" for row in tuned_rows if best[row] is None]
    return replace(plan, runs=runs, left_out=[*plan.left_out, *failed], is_tuned=True)


def best_settings(trials: Plan, row: str) -> dict[str, Any] | None:
    """The settings with the best validation score (the first of equals); None without a trial."""
    scores = [(run, *_score(run)) for run in trials.runs if run.row == row and run.is_finished]
    if not scores:
        return None
    sign = -1.0 if scores[0][1] in SMALLER_IS_BETTER else 1.0
    best, _, _ = max(scores, key=lambda score: sign * score[2])
    return _grid_point(best)


def trial_records(trials: Plan) -> list[dict[str, Any]]:
    """Row, settings and validation score of every trial; the score of an unfinished one is None."""
    records = []
    for run in trials.runs:
        metric, score = _score(run) if run.is_finished else ("", None)
        records.append(
            {"row": run.row, "tried": _grid_point(run), "metric": metric, "score": score}
        )
    return records


def is_trial(results: Mapping[str, Any]) -> bool:
    """Whether results.json belongs to a trial: it only has the best validation score."""
    return list(results) == ["val"] and set(results["val"]) == {"select", "score"}


def _grid_point(run: PlannedRun) -> dict[str, Any]:
    settings = flatten(run.to_config().to_dict())
    return {name: settings[name] for name in MODELS[run.model].grid}


def _score(run: PlannedRun) -> tuple[str, float]:
    results = read_results(run.path)["val"]
    return str(results["select"]), float(results["score"])
