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


def test_every_model_has_its_grid_tried_with_the_first_seed(plan):
    trials = trial_plan(plan, {})
    rows = [run.row for run in trials.runs]
    assert rows == ["bert"] * len(RATES) + ["edgeformer-e"] * len(
        MODELS["edgeformer-e"].grid["train.lr"]
    )
    assert {(run.kind, run.seed) for run in trials.runs} == {("trial", 0)}
    assert [run.to_config().train.lr for run in trials.runs[: len(RATES)]] == list(RATES)
    assert len({run.folder for run in trials.runs}) == len(trials.runs)


def test_what_the_user_fixed_is_not_varied(plan):
    assert trial_plan(plan, {"train.lr": 1e-3}).runs == []


def test_the_best_on_validation_is_taken_and_of_equals_the_first(plan):
    trials = trial_plan(plan, {})
    mine = [run for run in trials.runs if run.row == "bert"]
    for run, score in zip(mine, [0.4, 0.6, 0.6], strict=True):
        finish(run, score)
    assert best_settings(trials, "bert") == {"train.lr": RATES[1]}
    assert best_settings(trials, "edgeformer-e") is None


def test_an_error_is_to_be_small(plan):
    trials = trial_plan(plan, {})
    for run, score in zip(trials.runs[:3], [0.4, 0.2, 0.6], strict=True):
        finish(run, score, select="mae")
    assert best_settings(trials, "bert") == {"train.lr": RATES[1]}


def test_the_seeds_run_with_what_was_chosen_in_folders_of_their_own(plan):
    trials = trial_plan(plan, {})
    for run, score in zip(trials.runs, [0.1, 0.2, 0.3], strict=False):
        finish(run, score)
    tuned = tuned_plan(plan, trials)
    bert = [run for run in tuned.runs if run.row == "bert"]
    assert [run.to_config().train.lr for run in bert] == [RATES[2]] * 2
    assert [run.to_config().train.seed for run in bert] == [0, 1]
    assert {run.path.parent.name for run in bert} == {"bert-tuned"}
    assert bert[0].settings["train.lr"] == RATES[2]
    assert tuned.left_out == ["edgeformer-e: none of its trials was finished"]
    assert [run.row for run in tuned.runs] == ["tfidf", "bert", "bert"]
    assert tuned.is_tuned


def test_trials_are_recorded(plan):
    trials = trial_plan(plan, {})
    finish(trials.runs[0], 0.4)
    first, second = trial_records(trials)[:2]
    tried = {"train.lr": RATES[0]}
    assert first == {"row": "bert", "tried": tried, "metric": "macro_f1", "score": 0.4}
    assert second["score"] is None
