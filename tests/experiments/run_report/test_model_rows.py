import pytest

from edgeformers.experiments.run_report.model_rows import make_rows
from edgeformers.experiments.run_report.read import read_run
from tests.experiments.run_report.folders import edge_results, link_results, simple, trained

EDGES, LINKS = "edge-classification", "link-prediction"


@pytest.fixture
def runs(tmp_path):
    """Makes trained runs of edges, each in a folder of its own."""
    made = []

    def make(score=0.5, **more):
        folder = trained(tmp_path / str(len(made)), EDGES, edge_results(score), **more)
        made.append(read_run(folder))
        return made

    return make


def test_runs_that_differ_in_their_seed_alone_are_one_row_with_mean_and_spread(runs):
    runs(0.50, seed=0)
    (row,) = make_rows(runs(0.56, seed=1))
    score = row.score("macro_f1")
    assert row.title == "Edgeformer-E"
    assert score.value == pytest.approx(0.53)
    assert score.spread == pytest.approx(0.06 / 2**0.5)
    assert score.bounds == pytest.approx((0.51, 0.55))


def test_of_one_run_there_is_no_spread_and_without_bounds_no_interval(tmp_path):
    results = edge_results(0.5) | {"macro_f1_interval": [None, None]}
    (row,) = make_rows([read_run(trained(tmp_path / "a", EDGES, results))])
    score = row.score("macro_f1")
    assert (score.low, score.high, score.spread) == (None, None, None)
    assert row.score("micro_f1").low == pytest.approx(0.53)


def test_a_metric_that_a_run_lacks_is_not_averaged(tmp_path):
    whole, part = edge_results(0.5), {"macro_f1": 0.4, "micro_f1": None}
    folders = [trained(tmp_path / "a", EDGES, whole), trained(tmp_path / "b", EDGES, part, seed=1)]
    (row,) = make_rows(map(read_run, folders))
    assert row.metrics() == ["macro_f1"]


def test_rows_of_one_model_are_named_by_the_fewest_settings_that_tell_them_apart(runs):
    runs(train__lr=0.1)
    runs(train__lr=0.1, model__node_width=4)
    runs(train__lr=0.2, model__node_width=8)
    titles = [row.title for row in make_rows(runs(model__name="bert"))]
    assert titles == [
        "Edgeformer-E, node width 64",
        "Edgeformer-E, node width 4",
        "Edgeformer-E, node width 8",
        "BERT",
    ]


def test_settings_left_to_the_model_lists_and_switches_have_plain_names(runs):
    runs(model__fusion=False)
    runs(model__fusion=False, model__tokens=["source", "target"])
    titles = [row.title for row in make_rows(runs(model__fusion=True))]
    assert titles == [
        "Edgeformer-E, no fusion",
        "Edgeformer-E, tokens source+target, no fusion",
        "Edgeformer-E, fusion",
    ]


def test_a_baseline_that_chose_otherwise_for_another_seed_is_one_row(tmp_path):
    folders = [
        simple(tmp_path / str(seed), LINKS, "als", link_results(0.2), factors=factors)
        for seed, factors in enumerate((32, 64))
    ]
    (row,) = make_rows(map(read_run, folders))
    assert row.title == "MF"
    assert row.settings["chosen.factors"] == "32 or 64"
    assert row.inputs == "nodes"


def test_a_model_that_is_not_known_here_is_called_as_it_calls_itself(tmp_path):
    (row,) = make_rows([read_run(simple(tmp_path / "a", EDGES, "mine", edge_results(0.5)))])
    assert (row.title, row.inputs) == ("mine", "")
