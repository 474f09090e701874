from dataclasses import replace

import pytest

from edgeformers.errors import FormatError, InputError
from edgeformers.experiments.folders import check_folders
from edgeformers.experiments.model_rows import EDGE_ROWS, ROWS, ablation_rows, dimension_rows
from edgeformers.experiments.plan import (
    ExperimentOptions,
    Plan,
    make_plan,
    published_neighbors,
    row_config,
)
from edgeformers.registry import MODELS


def test_every_row_has_a_run_per_seed_and_what_is_not_random_one(tiny_plan):
    plan = tiny_plan("tfidf", "als", "edgeformer-e", seeds=3)
    seeds = {row: [run.seed for run in plan.runs if run.row == row] for row in ("tfidf", "als")}
    assert seeds == {"tfidf": [0], "als": [0, 1, 2]}
    folders = [run.folder for run in plan.runs if run.row == "edgeformer-e"]
    assert [folder.rpartition("/runs/")[2] for folder in folders] == [
        "edgeformer-e/0",
        "edgeformer-e/1",
        "edgeformer-e/2",
    ]


def test_the_recipes_own_seed_is_the_first(simulated, tmp_path):
    plan = make_plan(
        "edge-classification",
        [ROWS["bert"]],
        simulated,
        tmp_path,
        ExperimentOptions(recipe="paper", seeds=2, settings={"model.backbone": "scratch:2x32"}),
    )
    assert [run.seed for run in plan.runs] == [42, 43]
    assert plan.runs[0].to_config().train.lr == 1e-5


def test_a_run_says_which_settings_are_not_the_recipes(tiny_plan):
    (run,) = tiny_plan("edgeformer-e").runs
    assert run.settings == {
        "model.backbone": "scratch:2x32",
        "train.epochs": 1,
        "train.batch_size": 128,
        "edges.ensemble": False,  # rows are compared alone
    }


def test_a_model_has_its_own_settings_and_the_row_the_last_word(simulated):
    choices = ExperimentOptions(settings={"model.tokens": ["source"], "train.epochs": 7})
    row = next(row for row in ablation_rows() if row.name == "edgeformer-e-without-source")
    config = row_config(row, simulated, choices)
    assert (config.model.name, config.model.tokens) == ("edgeformer-e", ["target"])
    assert config.train.epochs == 7
    wanted = MODELS["nenn"].settings
    config = row_config(ROWS["nenn"], simulated, ExperimentOptions())
    for name, value in wanted.items():
        section, _, setting = name.partition(".")
        assert getattr(getattr(config, section), setting) == value


def test_a_variant_that_is_the_model_itself_shares_its_run(simulated, tmp_path):
    rows = dimension_rows((4, 64))
    plan = make_plan("node-dimension", rows, simulated, tmp_path, ExperimentOptions(seeds=1))
    assert [run.path.parent.name for run in plan.runs] == ["edgeformer-n-width-4", "edgeformer-n"]
    assert [run.title for run in plan.runs] == ["4", "64"]


def test_the_paper_samples_as_many_neighbors_as_published(simulated):
    assert published_neighbors(simulated) == {}
    sizes = {"source": [3, 3], "target": [5, 5]}
    simulated = type(simulated)(simulated.path, replace(simulated.meta, neighbors=sizes))
    config = row_config(ROWS["edgeformer-n"], simulated, ExperimentOptions(recipe="paper"))
    assert (config.data.source_neighbors, config.data.target_neighbors) == ([3, 3], [5, 5])
    assert config.data.strata == "positive"
    config = row_config(ROWS["edgeformer-n"], simulated, ExperimentOptions(recipe="default"))
    assert config.data.source_neighbors == [4]


def test_a_task_that_the_network_has_nothing_for_is_left_out_and_said(make_network, tmp_path):
    rows = [{"source": f"u{i % 3}", "target": f"i{i % 4}", "text": "t"} for i in range(12)]
    graph = make_network(rows)
    plan = make_plan("ablation", ablation_rows(), graph, tmp_path, ExperimentOptions(seeds=1))
    assert {run.task for run in plan.runs} == {"link-prediction"}
    assert plan.left_out == [f"{graph.path} has no edge labels: nothing to classify"]
    with pytest.raises(InputError, match="has no edge labels: nothing to classify"):
        make_plan("edge-classification", EDGE_ROWS, graph, tmp_path, ExperimentOptions())


def test_a_plan_is_read_as_it_was_written_and_follows_its_folder(tiny_plan, tmp_path):
    plan = tiny_plan("tfidf", "edgeformer-e")
    path = plan.write()
    assert Plan.read(path) == plan
    moved = tmp_path / "elsewhere"
    (tmp_path / "out").rename(moved)
    again = Plan.read(moved / "edge-classification" / "plan.json")
    assert again.folder == str(moved)
    assert again.runs[0].folder == str(moved / "runs" / "tfidf" / "0")


def test_what_is_no_plan_is_refused(tmp_path):
    path = tmp_path / "a" / "plan.json"
    path.parent.mkdir()
    path.write_text('{"version": 1}')
    with pytest.raises(FormatError, match="is no plan of an experiment"):
        Plan.read(path)


def test_a_run_of_other_settings_or_another_network_is_not_taken_for_ours(tiny_plan):
    plan = tiny_plan("tfidf", "edgeformer-e")
    check_folders(plan)
    simple, run = plan.runs
    run.path.mkdir(parents=True)
    (run.path / "config.toml").write_text(run.to_config().to_toml())
    check_folders(plan)
    (run.path / "run.json").write_text('{"network_fingerprint": "other"}')
    with pytest.raises(InputError, match="edgeformer-e/0 is a run of other settings or on another"):
        check_folders(plan)
    (run.path / "run.json").unlink()
    (run.path / "config.toml").write_text("other")
    with pytest.raises(InputError, match="choose another folder with -o, or remove it"):
        check_folders(plan)
    (run.path / "config.toml").unlink()
    simple.path.mkdir(parents=True)
    (simple.path / "run.json").write_text('{"model": "tfidf"}')
    with pytest.raises(InputError, match="tfidf/0 is a run of other settings"):
        check_folders(plan)


def test_no_seed_is_no_experiment():
    with pytest.raises(InputError, match=r"--seeds must be at least 1 \(got 0\)"):
        ExperimentOptions(seeds=0)
