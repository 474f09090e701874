import pytest

from edgeformers.experiments.run_report.models import group_by_model
from edgeformers.experiments.run_report.read import read_run
from tests.experiments.run_report.folders import edge_results, link_results, simple, trained

EDGES, LINKS = "edge-classification", "link-prediction"


@pytest.fixture
def runs(tmp_path):
    """Adds a trained run and returns all of them."""
    made = []

    def make(score=0.5, **more):
        folder = trained(tmp_path / str(len(made)), EDGES, edge_results(score), **more)
        made.append(read_run(folder))
        return made

    return make


def test_runs_that_differ_only_in_their_seed_are_averaged(runs):
    runs(0.50, seed=0)
    (model,) = group_by_model(runs(0.56, seed=1))
    score = model.score("macro_f1")
    assert model.title == "Edgeformer-E"
    assert score.value == pytest.approx(0.53)
    assert score.spread == pytest.approx(0.06 / 2**0.5)
    assert score.bounds == pytest.approx((0.51, 0.55))


def test_a_single_run_has_no_spread_and_missing_bounds_no_interval(tmp_path):
    results = edge_results(0.5) | {"macro_f1_interval": [None, None]}
    (model,) = group_by_model([read_run(trained(tmp_path / "a", EDGES, results))])
    score = model.score("macro_f1")
    assert (score.low, score.high, score.spread) == (None, None, None)
    assert model.score("micro_f1").low == pytest.approx(0.53)


def test_metrics_that_a_run_lacks_are_left_out(tmp_path):
    whole, part = edge_results(0.5), {"macro_f1": 0.4, "micro_f1": None}
    folders = [trained(tmp_path / "a", EDGES, whole), trained(tmp_path / "b", EDGES, part, seed=1)]
    (model,) = group_by_model(map(read_run, folders))
    assert model.metrics == ["macro_f1"]


def test_titles_name_the_fewest_settings_that_distinguish_groups(runs):
    runs(train__lr=0.1)
    runs(train__lr=0.1, model__node_width=4)
    runs(train__lr=0.2, model__node_width=8)
    titles = [model.title for model in group_by_model(runs(model__name="bert"))]
    assert titles == [
        "Edgeformer-E, node width 64",
        "Edgeformer-E, node width 4",
        "Edgeformer-E, node width 8",
        "BERT",
    ]


def test_titles_show_lists_and_switches_and_omit_unset_values(runs):
    runs(model__fusion=False)
    runs(model__fusion=False, model__tokens=["source", "target"])
    titles = [model.title for model in group_by_model(runs(model__fusion=True))]
    assert titles == [
        "Edgeformer-E, no fusion",
        "Edgeformer-E, tokens source+target, no fusion",
        "Edgeformer-E, fusion",
    ]


def test_a_baseline_may_choose_different_settings_for_each_seed(tmp_path):
    folders = [
        simple(tmp_path / str(seed), LINKS, "als", link_results(0.2), factors=factors)
        for seed, factors in enumerate((32, 64))
    ]
    (model,) = group_by_model(map(read_run, folders))
    assert model.title == "ALS"
    assert model.settings().settings["chosen.factors"] == "32 or 64"
    assert model.inputs == "nodes"


def test_an_unknown_model_keeps_its_name(tmp_path):
    (model,) = group_by_model([read_run(simple(tmp_path / "a", EDGES, "mine", edge_results(0.5)))])
    assert (model.title, model.inputs) == ("mine", "")
