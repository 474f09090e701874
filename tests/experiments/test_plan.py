import json
from dataclasses import replace

import pytest

from edgeformers.baselines.registry import BACKBONE_BASELINES
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.errors import FormatError, InputError
from edgeformers.experiments.model_rows import EDGE_ROWS, ROWS, ablation_rows, dimension_rows
from edgeformers.experiments.plan import (
    ExperimentOptions,
    Plan,
    find_plans,
    make_plan,
    row_config,
)
from edgeformers.experiments.runner import execute
from edgeformers.registry import MODELS
from tests.baselines.tiny import write_backbone

FROZEN = sorted(BACKBONE_BASELINES)
OURS = {"edge-classification": "edgeformer-e", "link-prediction": "edgeformer-n"}


def plan_rows(graph, out, *rows, **settings):
    options = ExperimentOptions(seeds=1, settings=settings)
    return make_plan(ROWS[rows[0]].task, [ROWS[row] for row in rows], graph, out, options)


def test_every_row_has_a_run_per_seed_and_a_deterministic_one_a_single_run(tiny_plan):
    plan = tiny_plan("tfidf", "als", "edgeformer-e", seeds=3)
    folders = [run.folder.rpartition("/runs/")[2] for run in plan.runs]
    assert folders == [
        "tfidf/0",
        *(f"{row}/{seed}" for row in ("als", "edgeformer-e") for seed in range(3)),
    ]


def test_seeds_count_from_that_of_the_recipe(simulated, tmp_path):
    options = ExperimentOptions(
        recipe="paper", seeds=2, settings={"model.backbone": "scratch:2x32"}
    )
    plan = make_plan("edge-classification", [ROWS["bert"]], simulated, tmp_path, options)
    assert [run.seed for run in plan.runs] == [42, 43]
    assert plan.runs[0].to_config().train.lr == 1e-5


def test_a_run_lists_the_settings_that_differ_from_the_recipe(tiny_plan):
    (run,) = tiny_plan("edgeformer-e").runs
    assert run.settings == {
        "model.backbone": "scratch:2x32",
        "train.epochs": 1,
        "train.batch_size": 128,
        "edges.ensemble": False,  # rows are compared without an ensemble
        "model.fusion": False,
    }


def test_settings_of_the_row_override_those_of_the_user(simulated):
    options = ExperimentOptions(settings={"model.tokens": ["source"], "train.epochs": 7})
    row = next(row for row in ablation_rows() if row.name == "edgeformer-e-without-source")
    config = row_config(row, simulated, options)
    assert (config.model.name, config.model.tokens) == ("edgeformer-e", ["target"])
    assert config.train.epochs == 7
    config = row_config(ROWS["nenn"], simulated, ExperimentOptions())
    for name, value in MODELS["nenn"].settings.items():
        section, _, setting = name.partition(".")
        assert getattr(getattr(config, section), setting) == value


def test_a_variant_with_default_settings_shares_the_model_s_runs(simulated, tmp_path):
    rows = dimension_rows((4, 64))
    plan = make_plan("node-dimension", rows, simulated, tmp_path, ExperimentOptions(seeds=1))
    assert [run.path.parent.name for run in plan.runs] == ["edgeformer-n-width-4", "edgeformer-n"]
    assert [run.title for run in plan.runs] == ["4", "64"]


def test_runs_in_a_folder_with_an_old_row_name_are_reused(simulated, tmp_path):
    old = tmp_path / "runs" / "edgeformer-n-beside"
    old.mkdir(parents=True)
    (run,) = plan_rows(simulated, tmp_path, "edgeformer-n-ensemble").runs
    assert run.path.parent == old


def test_the_recipe_of_the_paper_uses_the_published_neighborhood_sizes(simulated):
    sizes = {"source": [3, 3], "target": [5, 5]}
    simulated = type(simulated)(simulated.path, replace(simulated.meta, neighbors=sizes))
    config = row_config(ROWS["edgeformer-n"], simulated, ExperimentOptions(recipe="paper"))
    assert (config.data.source_neighbors, config.data.target_neighbors) == ([3, 3], [5, 5])
    assert config.data.strata == "positive"
    config = row_config(ROWS["edgeformer-n"], simulated, ExperimentOptions())
    assert config.data.source_neighbors == [4]


def test_tasks_that_the_network_does_not_support_are_left_out(make_network, tmp_path):
    rows = [{"source": f"u{i % 3}", "target": f"i{i % 4}", "text": "t"} for i in range(12)]
    graph, options = make_network(rows), ExperimentOptions(seeds=1)
    plan = make_plan("ablation", ablation_rows(), graph, tmp_path, options)
    assert {run.task for run in plan.runs} == {"link-prediction"}
    assert ["labels" in reason for reason in plan.left_out] == [True]
    with pytest.raises(InputError, match="labels"):
        make_plan("edge-classification", EDGE_ROWS, graph, tmp_path, options)


def test_a_saved_plan_follows_its_folder(tiny_plan, tmp_path):
    plan = tiny_plan("tfidf", "edgeformer-e")
    assert Plan.read(plan.write()) == plan
    moved = tmp_path / "elsewhere"
    (tmp_path / "out").rename(moved)
    (loaded,) = find_plans(moved)
    assert loaded.folder == str(moved)
    assert loaded.runs[0].folder == str(moved / "runs" / "tfidf" / "0")
    with pytest.raises(InputError, match="no experiment"):
        find_plans(tmp_path)


def test_a_plan_with_old_names_is_read(tiny_plan):
    plan = tiny_plan("edgeformer-n-ensemble", experiment="link-prediction")
    path = plan.write()
    text = path.read_text().replace('"experiment"', '"what"').replace('"network_info"', '"about"')
    text = text.replace('"edgeformer-n-ensemble"', '"edgeformer-n-beside"')
    path.write_text(text.replace('"links.ensemble"', '"links.beside"'))
    assert Plan.read(path) == plan


def test_an_invalid_plan_is_rejected(tmp_path):
    path = tmp_path / "a" / "plan.json"
    path.parent.mkdir()
    path.write_text('{"version": 1}')
    with pytest.raises(FormatError, match=r"plan\.json"):
        Plan.read(path)


def test_run_folders_of_other_settings_or_networks_are_rejected(tiny_plan):
    plan = tiny_plan("tfidf", "edgeformer-e")
    plan.check_folders()
    baseline, run = plan.runs
    run.path.mkdir(parents=True)
    (run.path / "config.toml").write_text("other")
    plan.check_folders()  # it has no checkpoint, so it claims nothing
    (run.path / "model").mkdir()
    (run.path / "config.toml").write_text(run.to_config().to_toml())
    plan.check_folders()
    (run.path / "run.json").write_text('{"network_fingerprint": "other"}')
    with pytest.raises(InputError, match="edgeformer-e/0"):
        plan.check_folders()
    (run.path / "run.json").unlink()
    (run.path / "config.toml").write_text("other")
    with pytest.raises(InputError, match="edgeformer-e/0"):
        plan.check_folders()
    (run.path / "config.toml").unlink()
    baseline.path.mkdir(parents=True)
    (baseline.path / "run.json").write_text('{"model": "tfidf"}')
    plan.check_folders()
    (baseline.path / "results.json").write_text("{}")
    with pytest.raises(InputError, match="tfidf/0"):
        plan.check_folders()


@pytest.mark.parametrize("option", ["seeds", "jobs", "rounds"])
def test_counts_must_be_positive(option):
    with pytest.raises(InputError, match=f"`{option}="):
        ExperimentOptions(**{option: 0})


@pytest.mark.parametrize("row", FROZEN)
def test_baselines_on_frozen_text_read_like_the_other_rows(simulated, tmp_path, row):
    given = {"model.backbone": "bert-base-uncased"}
    ours, frozen = plan_rows(simulated, tmp_path, OURS[ROWS[row].task], row, **given).runs
    max_tokens = ours.to_config().data.max_tokens
    assert frozen.reader_options() == {"backbone": "bert-base-uncased", "max_tokens": max_tokens}
    (shorter,) = plan_rows(simulated, tmp_path, row, **given, **{"data.max_tokens": 17}).runs
    assert shorter.reader_options()["max_tokens"] == 17


@pytest.mark.parametrize(("row", "options"), [("frozen", {"max_tokens": 256}), ("tfidf", {})])
def test_an_untrained_backbone_is_not_used_for_frozen_text(simulated, tmp_path, row, options):
    (run,) = plan_rows(simulated, tmp_path, row, **{"model.backbone": "scratch:2x32"}).runs
    assert run.reader_options() == options


def test_a_frozen_baseline_reads_the_planned_number_of_tokens(tmp_path):
    config = PrepareConfig(tokenizer=None, progress=False)
    graph = prepare_simulated(tmp_path / "network", num_edges=150, config=config)
    settings = {"model.backbone": write_backbone(tmp_path / "backbone", graph)}
    out, settings["data.max_tokens"] = tmp_path / "out", 9
    for row in FROZEN:
        plan = plan_rows(graph, out, row, **settings)
        assert execute(plan, show=False) == []
        outcome = json.loads((plan.runs[0].path / "outcome.json").read_text())
        setting = outcome["chosen"]["setting"]
        assert setting.get("TextSimilarity", setting).get("max_tokens", 9) == 9
    (vectors,) = graph.path.glob("vectors/*/vectors.json")
    assert json.loads(vectors.read_text())["max_tokens"] == 9
    settings["data.max_tokens"] = 10
    with pytest.raises(InputError, match="text-similarity/0"):
        plan_rows(graph, out, "text-similarity", **settings).check_folders()
