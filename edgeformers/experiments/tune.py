"""Tuning: every row's learning rates are tried on validation, with one seed.

Trials are runs of a plan, so they resume and run in parallel like any other run; Optuna would add
a second store of results for a grid of at most a few points.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgeformers.config import flatten
from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.experiments.plan import Plan, PlannedRun
from edgeformers.registry import MODELS
from edgeformers.runs import read_results

TRIALS = "trials"
TRIAL_EPOCHS = 3  # with a constant learning rate, a trial is the beginning of the full run


def trial_plan(plan: Plan, fixed: Mapping[str, Any]) -> Plan:
    """Every point of every model's grid with the first seed, without settings the user fixed.

    Variants of a model, such as those of an ablation, share its trials. Simple baselines are not
    included: they tune themselves while fitting.
    """
    first_runs: dict[str, PlannedRun] = {}
    for run in sorted(plan.runs, key=lambda run: run.row != run.model):  # variants last
        if run.kind == "model":
            first_runs.setdefault(run.model, run)
    trials = []
    for run in first_runs.values():
        for point in _grid(run, fixed):
            name = ",".join(f"{setting.partition('.')[2]}={v:g}" for setting, v in point.items())
            folder = Path(plan.folder) / TRIALS / run.row / name
            trials.append(replace(run, kind="trial", folder=str(folder)).with_settings(point))
    return replace(plan, experiment=f"{plan.experiment}/{TRIALS}", runs=trials)


def _grid(run: PlannedRun, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The distinct settings to try, which a constant learning rate allows to stop early."""
    grid: list[dict[str, Any]] = []
    for values in MODELS[run.model].grid:
        point = {name: value for name, value in values.items() if name not in fixed}
        if point and point not in grid:
            grid.append(point)
    train = run.to_config().train
    if train.lr_schedule == "constant":
        return [point | {"train.epochs": min(train.epochs, TRIAL_EPOCHS)} for point in grid]
    return grid


def tuned_plan(plan: Plan, trials: Plan) -> Plan:
    """The plan with the best settings of every model, in folders named ROW-tuned.

    Rows without a finished trial are left out.
    """
    best = {run.model: best_settings(trials, run.model) for run in trials.runs}
    runs = []
    for run in plan.runs:
        settings = best.get(run.model)
        if settings is not None:
            folder = run.path.parent.with_name(f"{run.row}-tuned") / run.path.name
            runs.append(replace(run, folder=str(folder)).with_settings(settings))
        elif run.model not in best:
            runs.append(run)
    failed = [f"{model}: no trial finished" for model in best if best[model] is None]
    return replace(plan, runs=runs, left_out=[*plan.left_out, *failed], is_tuned=True)


def best_settings(trials: Plan, model: str) -> dict[str, Any] | None:
    """The settings with the best validation score (the first of equals); None without a trial."""
    scores = [(run, *_score(run)) for run in trials.runs if run.model == model and run.is_finished]
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
    return {name: settings[name] for point in MODELS[run.model].grid for name in point}


def _score(run: PlannedRun) -> tuple[str, float]:
    results = read_results(run.path)["val"]
    return str(results["select"]), float(results["score"])
