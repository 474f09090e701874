import json

import pytest

from edgeformers.experiments.tune import best_settings, trial_plan, trial_records, tuned_plan
from edgeformers.registry import MODELS

RATES = MODELS["bert"].grid["train.lr"]


def finish(run, score, select="macro_f1"):
    run.path.mkdir(parents=True)
    (run.path / "results.json").write_text(json.dumps({"val": {"select": select, "score": score}}))


@pytest.fixture
def plan(tiny_plan):
    return tiny_plan("tfidf", "bert", "edgeformer-e", seeds=2)


def test_every_grid_is_tried_with_the_first_seed(plan):
    trials = trial_plan(plan, {})
    rows = [run.row for run in trials.runs]
    num_ours = len(MODELS["edgeformer-e"].grid["train.lr"])
    assert rows == ["bert"] * len(RATES) + ["edgeformer-e"] * num_ours
    assert {(run.kind, run.seed) for run in trials.runs} == {("trial", 0)}
    assert [run.to_config().train.lr for run in trials.runs[: len(RATES)]] == list(RATES)
    assert len({run.folder for run in trials.runs}) == len(trials.runs)


def test_settings_fixed_by_the_user_are_not_tried(plan):
    assert trial_plan(plan, {"train.lr": 1e-3}).runs == []


@pytest.mark.parametrize(
    ("select", "scores", "best"), [("macro_f1", [0.4, 0.6, 0.6], 1), ("mae", [0.4, 0.2, 0.6], 1)]
)
def test_the_first_of_the_best_trials_is_chosen(plan, select, scores, best):
    trials = trial_plan(plan, {})
    runs = [run for run in trials.runs if run.row == "bert"]
    for run, score in zip(runs, scores, strict=True):
        finish(run, score, select)
    assert best_settings(trials, "bert") == {"train.lr": RATES[best]}
    assert best_settings(trials, "edgeformer-e") is None


def test_seeds_run_with_the_best_settings_in_their_own_folders(plan):
    trials = trial_plan(plan, {})
    for run, score in zip(trials.runs, [0.1, 0.2, 0.3], strict=False):
        finish(run, score)
    tuned = tuned_plan(plan, trials)
    bert = [run for run in tuned.runs if run.row == "bert"]
    assert [run.to_config().train.lr for run in bert] == [RATES[2]] * 2
    assert [run.to_config().train.seed for run in bert] == [0, 1]
    assert {run.path.parent.name for run in bert} == {"bert-tuned"}
    assert bert[0].settings["train.lr"] == RATES[2]
    assert [reason.partition(":")[0] for reason in tuned.left_out] == ["edgeformer-e"]
    assert [run.row for run in tuned.runs] == ["tfidf", "bert", "bert"]
    assert tuned.is_tuned


def test_trials_are_recorded(plan):
    trials = trial_plan(plan, {})
    finish(trials.runs[0], 0.4)
    first, second = trial_records(trials)[:2]
    tried = {"train.lr": RATES[0]}
    assert first == {"row": "bert", "tried": tried, "metric": "macro_f1", "score": 0.4}
    assert second["score"] is None
