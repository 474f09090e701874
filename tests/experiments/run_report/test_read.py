import json

import pytest

from edgeformers.experiments.run_report.read import RunRecord, Trial, read_run
from edgeformers.report.runs_data import Unfinished
from tests.experiments.run_report.folders import edge_results, link_results, simple, trained

EDGES, LINKS = "edge-classification", "link-prediction"


def test_a_trained_run_tells_its_model_seed_settings_and_scores(tmp_path):
    folder = trained(
        tmp_path / "a", EDGES, edge_results(0.5), seed=3, model__name="bert", train__lr=0.5
    )
    found = read_run(folder)
    assert isinstance(found, RunRecord)
    assert (found.task, found.model, found.seed, found.split) == (EDGES, "bert", 3, "")
    assert found.settings["train.lr"] == 0.5
    assert not {"train.seed", "model.name", "task"} & found.settings.keys()
    assert found.results["macro_f1"] == 0.5
    assert found.network_path == "/gone/films"


@pytest.mark.parametrize(("task", "model"), [(EDGES, "edgeformer-e"), (LINKS, "edgeformer-n")])
def test_a_run_that_names_no_model_has_the_one_of_its_task(tmp_path, task, model):
    assert read_run(trained(tmp_path / "a", task, {"mrr": 0.1})).model == model


def test_a_simple_baseline_tells_what_it_chose_and_how_long_it_took(tmp_path):
    found = read_run(simple(tmp_path / "a", LINKS, "als", link_results(0.2), factors=64))
    assert (found.model, found.seed, found.seconds, found.device) == ("als", None, 2.0, "cpu")
    assert found.settings == {"split": "", "chosen.factors": 64}


@pytest.mark.parametrize(
    ("val", "sentence"),
    [
        ((), "it is not finished: 0 of 3 epochs are done"),
        ((0.1, 0.2), "it is not finished: 2 of 3 epochs are done"),
    ],
)
def test_a_half_finished_run_says_how_far_it_came(tmp_path, val, sentence):
    folder = trained(tmp_path / "a", EDGES, val=val)
    assert read_run(folder) == Unfinished(folder=str(folder), sentence=sentence)


def test_a_run_that_failed_says_why(tmp_path):
    folder = trained(tmp_path / "runs/bert/0", EDGES)
    (tmp_path / "runs/bert/0.failed").write_text("the loss became nan at step 3\n")
    assert read_run(folder).sentence == "it failed: the loss became nan at step 3"


def test_a_trial_of_settings_is_a_trial(tmp_path):
    folder = trained(tmp_path / "a", EDGES)
    (folder / "results.json").write_text('{"val": {"select": "macro_f1", "score": 0.4}}')
    assert read_run(folder) == Trial(path=folder)


@pytest.mark.parametrize(
    "results", ['{"val": {"macro_f1": 0.4}}', '{"test": {"macro_f1": null}}', '{"val": {}}', "{}"]
)
def test_a_run_that_was_not_scored_on_test_is_not_compared(tmp_path, results):
    folder = trained(tmp_path / "a", EDGES)
    (folder / "results.json").write_text(results)
    assert read_run(folder).sentence == "it has no score on the test part"


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("results.json", "{", "results.json is damaged"),
        ("config.toml", "task = ", "config.toml is not TOML"),
        ("metrics.jsonl", "{\n{}\n", "line 1: not a JSON event"),
        ("run.json", "[]", "a file of it is damaged"),
        ("results.json", "[1]", "a file of it is damaged"),
    ],
)
def test_a_damaged_file_leaves_out_its_run_alone(tmp_path, file, text, words):
    folder = trained(tmp_path / "a", EDGES, edge_results(0.5))
    (folder / file).write_text(text)
    found = read_run(folder)
    assert isinstance(found, Unfinished)
    assert words in found.sentence


def test_the_split_is_the_one_a_run_was_told(tmp_path):
    folder = simple(tmp_path / "a", EDGES, "tfidf", edge_results(0.5))
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "split": "by-time"}))
    assert read_run(folder).split == "by-time"
