import json

import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.run_report.read import (
    FinishedRun,
    TuningTrial,
    find_folders,
    read_run,
)
from edgeformers.report.comparison import SkippedRun
from tests.experiments.run_report.folders import (
    edge_results,
    link_results,
    simple,
    trained,
    write,
)

EDGES, LINKS = "edge-classification", "link-prediction"


def names(paths, root):
    return [str(path.relative_to(root)) for path in paths]


def test_runs_are_found_at_any_depth_once_and_in_order(tmp_path):
    for name in ("b/1", "a/deep/0", "c"):
        trained(tmp_path / name, EDGES, edge_results(0.5))
    runs, experiments = find_folders([tmp_path / "c", tmp_path, tmp_path / "a/../b"])
    assert sorted(names(runs, tmp_path)) == ["a/../b/1", "a/deep/0", "c"]
    assert names(find_folders([tmp_path])[0], tmp_path) == ["a/deep/0", "b/1", "c"]
    assert experiments == []


def test_runs_networks_and_hidden_folders_are_not_searched(tmp_path):
    trained(tmp_path / "run", EDGES, edge_results(0.5))
    for inner in ("run/model", "network/inside", ".cache/run"):
        trained(tmp_path / inner, EDGES, edge_results(0.5))
    write(tmp_path / "network" / "network.json", {})
    assert names(find_folders([tmp_path])[0], tmp_path) == ["run"]


def test_experiments_are_distinguished_from_runs(tmp_path):
    write(tmp_path / "paper/ablation/plan.json", {})
    trained(tmp_path / "paper/runs/bert/0", EDGES, edge_results(0.5))
    runs, experiments = find_folders([tmp_path])
    assert names(experiments, tmp_path) == ["paper/ablation"]
    assert names(runs, tmp_path) == ["paper/runs/bert/0"]


def test_missing_folders_are_named(tmp_path):
    with pytest.raises(InputError, match=r"/x and .*/y"):
        find_folders([tmp_path / "x", tmp_path, tmp_path / "y"])


def test_a_trained_run_has_its_model_seed_settings_and_scores(tmp_path):
    folder = trained(
        tmp_path / "a", EDGES, edge_results(0.5), seed=3, model__name="bert", train__lr=0.5
    )
    run = read_run(folder)
    assert isinstance(run, FinishedRun)
    assert (run.task, run.model, run.seed, run.split) == (EDGES, "bert", 3, "")
    assert run.settings["train.lr"] == 0.5
    assert not {"train.seed", "model.name", "task"} & run.settings.keys()
    assert run.results["macro_f1"] == 0.5
    assert run.network_path == "/gone/films"


def test_old_names_of_settings_are_replaced(tmp_path):
    folder = trained(tmp_path / "a", EDGES, edge_results(0.5))
    config = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(config.replace("ema_decay", "average"))
    assert (
        read_run(folder).settings == read_run(trained(tmp_path / "b", EDGES, {"mrr": 1})).settings
    )


@pytest.mark.parametrize(("task", "model"), [(EDGES, "edgeformer-e"), (LINKS, "edgeformer-n")])
def test_the_default_model_depends_on_the_task(tmp_path, task, model):
    assert read_run(trained(tmp_path / "a", task, {"mrr": 0.1})).model == model


def test_a_simple_baseline_has_its_chosen_settings_and_duration(tmp_path):
    run = read_run(simple(tmp_path / "a", LINKS, "als", link_results(0.2), factors=64))
    assert (run.model, run.seed, run.seconds, run.device) == ("als", None, 2.0, "cpu")
    assert run.settings == {"split": "", "chosen.factors": 64}


@pytest.mark.parametrize(("val", "done"), [((), "0 of 3"), ((0.1, 0.2), "2 of 3")])
def test_an_unfinished_run_reports_its_progress(tmp_path, val, done):
    run = read_run(trained(tmp_path / "a", EDGES, val=val))
    assert isinstance(run, SkippedRun)
    assert done in run.reason


def test_a_failed_run_reports_its_error(tmp_path):
    folder = trained(tmp_path / "runs/bert/0", EDGES)
    (tmp_path / "runs/bert/0.failed").write_text("the loss became nan at step 3\n")
    assert read_run(folder).reason.endswith("the loss became nan at step 3")


def test_tuning_trials_are_recognized(tmp_path):
    folder = trained(tmp_path / "a", EDGES)
    (folder / "results.json").write_text('{"val": {"select": "macro_f1", "score": 0.4}}')
    assert read_run(folder) == TuningTrial(path=folder)


@pytest.mark.parametrize(
    "results", ['{"val": {"macro_f1": 0.4}}', '{"test": {"macro_f1": null}}', '{"val": {}}', "{}"]
)
def test_a_run_without_test_scores_is_skipped(tmp_path, results):
    folder = trained(tmp_path / "a", EDGES)
    (folder / "results.json").write_text(results)
    assert "test part" in read_run(folder).reason


@pytest.mark.parametrize(
    ("file", "text", "word"),
    [
        ("results.json", "{", "results.json"),
        ("config.toml", "task = ", "config.toml"),
        ("metrics.jsonl", "{\n{}\n", "line 1"),
        ("run.json", "[]", "damaged"),
        ("results.json", "[1]", "damaged"),
    ],
)
def test_a_damaged_file_skips_only_its_run(tmp_path, file, text, word):
    folder = trained(tmp_path / "a", EDGES, edge_results(0.5))
    (folder / file).write_text(text)
    run = read_run(folder)
    assert isinstance(run, SkippedRun)
    assert word in run.reason


def test_the_split_is_that_of_the_settings(tmp_path):
    folder = simple(tmp_path / "a", EDGES, "tfidf", edge_results(0.5))
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "split": "by-time"}))
    assert read_run(folder).split == "by-time"
