"""Tuning: the grid of every row tried on validation with one seed, as much for all rows."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.experiments.plan import Plan, Run, with_settings
from edgeformers.registry import MODELS
from edgeformers.runs import read_results

TRIALS = "trials"


def trial_plan(plan: Plan, fixed: Mapping[str, Any]) -> Plan:
    """Every point of every row's grid, with the first seed; what the user fixed is not varied.

    Simple baselines have no trials here: they try their grids by themselves.
    """
    first = {run.row: run for run in reversed(plan.runs) if run.kind == "model"}
    order = [row for row in dict.fromkeys(run.row for run in plan.runs) if row in first]
    trials = [trial for row in order for trial in _trials(plan, first[row], fixed)]
    return replace(plan, experiment=f"{plan.experiment}/{TRIALS}", runs=trials)


def tuned_plan(plan: Plan, trials: Plan) -> Plan:
    """The plan with the best settings of every row, in folders that say that they were tuned.

    A row of which no trial was finished cannot be told its settings, and is left out.
    """
    tried = dict.fromkeys(run.row for run in trials.runs)
    chosen = {row: best for row in tried if (best := best_settings(trials, row)) is not None}
    lost = [row for row in tried if row not in chosen]
    runs = [
        replace(run, folder=str(_tuned_folder(run))) if run.row in chosen else run
        for run in plan.runs
        if run.row not in lost
    ]
    why = [f"{row}: none of its trials was finished" for row in lost]
    return replace(
        plan,
        runs=with_settings(runs, chosen),
        left_out=[*plan.left_out, *why],
        is_tuned=True,
    )


def best_settings(trials: Plan, row: str) -> dict[str, Any] | None:
    """What did best on validation, of equals the first; None where no trial was finished."""
    found = [(run, *_score(run)) for run in trials.runs if run.row == row and run.is_finished]
    if not found:
        return None
    sign = -1.0 if found[0][1] in SMALLER_IS_BETTER else 1.0
    best, _, _ = max(found, key=lambda one: sign * one[2])
    return {name: _setting(best, name) for name in MODELS[best.model].grid}


def trial_records(trials: Plan) -> list[dict[str, Any]]:
    """Every trial: its row, what was tried, and what it reached on validation."""
    found = []
    for run in trials.runs:
        tried = {name: _setting(run, name) for name in MODELS[run.model].grid}
        metric, score = _score(run) if run.is_finished else ("", None)
        found.append({"row": run.row, "tried": tried, "metric": metric, "score": score})
    return found


def is_trial(results: Mapping[str, Any]) -> bool:
    """Whether results.json is that of a trial: the best score on validation, and no other part."""
    return list(results) == ["val"] and set(results["val"]) == {"select", "score"}


def _trials(plan: Plan, run: Run, fixed: Mapping[str, Any]) -> list[Run]:
    grid = {n: values for n, values in MODELS[run.model].grid.items() if n not in fixed}
    found: list[Run] = []
    for number, point in enumerate(product(*grid.values()) if grid else ()):
        folder = Path(plan.folder) / TRIALS / run.row / str(number)
        trial = replace(run, kind="trial", folder=str(folder))
        settings = dict(zip(grid, point, strict=True))
        found += with_settings([trial], {run.row: settings})
    return found


def _tuned_folder(run: Run) -> Path:
    return run.path.parent.with_name(f"{run.row}-tuned") / run.path.name


def _setting(run: Run, name: str) -> Any:
    section, _, setting = name.rpartition(".")
    return run.config[section][setting]


def _score(run: Run) -> tuple[str, float]:
    found = read_results(run.path)["val"]
    return str(found["select"]), float(found["score"])
