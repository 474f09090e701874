import json
from dataclasses import replace

import pytest

from edgeformers.experiments.tune import (
    TRIAL_EPOCHS,
    best_settings,
    trial_plan,
    trial_records,
    tuned_plan,
)
from edgeformers.registry import MODELS

GRID = MODELS["bert"].grid


def finish(run, score, select="macro_f1"):
    run.path.mkdir(parents=True)
    (run.path / "results.json").write_text(json.dumps({"val": {"select": select, "score": score}}))


@pytest.fixture
def plan(tiny_plan):
    return tiny_plan("tfidf", "bert", "edgeformer-e", seeds=2)


def test_every_grid_is_tried_with_the_first_seed(plan):
    trials = trial_plan(plan, {})
    rows = [run.row for run in trials.runs]
    assert rows == ["bert"] * len(GRID) + ["edgeformer-e"] * len(GRID)
    assert {(run.kind, run.seed) for run in trials.runs} == {("trial", 0)}
    tried = [run.to_config().train for run in trials.runs[: len(GRID)]]
    assert [train.lr for train in tried] == [point["train.lr"] for point in GRID]
    assert [train.node_lr for train in tried] == [point["train.node_lr"] for point in GRID]
    assert len({run.folder for run in trials.runs}) == len(trials.runs)


def test_settings_fixed_by_the_user_are_not_tried(plan):
    trials = trial_plan(plan, {"train.lr": 1e-3})
    tried = [run.to_config().train.node_lr for run in trials.runs if run.row == "bert"]
    assert tried == [point["train.node_lr"] for point in GRID]
    assert len({run.to_config().train.lr for run in trials.runs}) == 1  # the plan's own
    assert trial_plan(plan, dict.fromkeys(GRID[0], 1e-3)).runs == []


def test_trials_with_a_constant_rate_are_cut_to_a_few_epochs(tiny_plan):
    plan = tiny_plan("bert", seeds=1)
    constant = [run.with_settings({"train.lr_schedule": "constant"}) for run in plan.runs]
    constant = [run.with_settings({"train.epochs": 100}) for run in constant]
    trials = trial_plan(replace(plan, runs=constant), {})
    assert {run.to_config().train.epochs for run in trials.runs} == {TRIAL_EPOCHS}
    for run in trials.runs:
        finish(run, 0.5)
    (tuned,) = tuned_plan(replace(plan, runs=constant), trials).runs
    assert tuned.to_config().train.epochs == 100


def test_variants_share_the_trials_of_their_model(tiny_plan):
    plan = tiny_plan("edgeformer-e-ensemble", "edgeformer-e", seeds=1)
    trials = trial_plan(plan, {})
    assert [run.row for run in trials.runs] == ["edgeformer-e"] * len(GRID)
    for run, score in zip(trials.runs, [0.1, 0.4, 0.3, 0.2], strict=True):
        finish(run, score)
    tuned = tuned_plan(plan, trials)
    assert {run.to_config().train.head_lr for run in tuned.runs} == {GRID[1]["train.head_lr"]}
    assert len(tuned.runs) == 2


@pytest.mark.parametrize(
    ("select", "scores", "best"),
    [("macro_f1", [0.4, 0.6, 0.6, 0.1], 1), ("mae", [0.4, 0.2, 0.6, 0.9], 1)],
)
def test_the_first_of_the_best_trials_is_chosen(plan, select, scores, best):
    trials = trial_plan(plan, {})
    runs = [run for run in trials.runs if run.row == "bert"]
    for run, score in zip(runs, scores, strict=True):
        finish(run, score, select)
    assert best_settings(trials, "bert") == GRID[best]
    assert best_settings(trials, "edgeformer-e") is None


def test_seeds_run_with_the_best_settings_in_their_own_folders(plan):
    trials = trial_plan(plan, {})
    for run, score in zip(trials.runs, [0.1, 0.2, 0.3], strict=False):
        finish(run, score)
    tuned = tuned_plan(plan, trials)
    bert = [run for run in tuned.runs if run.row == "bert"]
    assert [run.to_config().train.lr for run in bert] == [GRID[2]["train.lr"]] * 2
    assert [run.to_config().train.seed for run in bert] == [0, 1]
    assert {run.path.parent.name for run in bert} == {"bert-tuned"}
    assert bert[0].settings["train.node_lr"] == GRID[2]["train.node_lr"]
    assert [reason.partition(":")[0] for reason in tuned.left_out] == ["edgeformer-e"]
    assert [run.row for run in tuned.runs] == ["tfidf", "bert", "bert"]
    assert tuned.is_tuned


def test_trials_are_recorded(plan):
    trials = trial_plan(plan, {})
    finish(trials.runs[0], 0.4)
    first, second = trial_records(trials)[:2]
    assert first == {"row": "bert", "tried": GRID[0], "metric": "macro_f1", "score": 0.4}
    assert second["score"] is None
