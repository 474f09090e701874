import pytest

from edgeformers.experiments.run_report.compare import compare_runs
from edgeformers.experiments.run_report.read import read_run
from tests.experiments.run_report.folders import (
    edge_results,
    groups,
    link_results,
    predictions,
    simple,
    trained,
)

EDGES, LINKS = "edge-classification", "link-prediction"


def compare(*folders):
    return compare_runs([read_run(folder) for folder in folders], "films", "Task")


def test_the_full_ranking_comes_first(tmp_path):
    group = compare(trained(tmp_path / "a", LINKS, link_results(0.2)))
    assert [task.metrics for task in group.scores] == [["full/mrr", "full/hit@10"], ["paper/mrr"]]
    assert group.scores[0].task == "Task, protocol full"
    assert "all candidate nodes" in group.scores[0].note


def test_accuracy_is_left_out_if_it_equals_micro_f1(tmp_path):
    group = compare(trained(tmp_path / "a", EDGES, edge_results(0.5)))
    assert group.scores[0].metrics == ["macro_f1", "micro_f1"]
    several = edge_results(0.5) | {"accuracy": 0.1}
    group = compare(trained(tmp_path / "b", EDGES, several))
    assert group.scores[0].metrics == ["macro_f1", "micro_f1", "accuracy"]


def test_runs_without_common_metrics_have_no_mean(tmp_path):
    group = compare(
        trained(tmp_path / "a", EDGES, {"macro_f1": 0.5}),
        trained(tmp_path / "b", EDGES, {"mae": 0.5}, seed=1),
    )
    assert group.scores[0].metrics == ["macro_f1", "mae"]
    assert [model.metrics for model in group.scores[0].models] == [{}]


def both_and_text(tmp_path):
    ours = trained(tmp_path / "ours", EDGES, edge_results(1.0))
    theirs = simple(tmp_path / "theirs", EDGES, "tfidf", edge_results(1 / 3))
    return ours, theirs


def test_the_gain_is_measured_on_the_same_examples(tmp_path):
    ours, theirs = both_and_text(tmp_path)
    labels = [0, 1] * 20
    predictions(ours, labels, labels)
    predictions(theirs, labels, [0] * 40)
    group = compare(ours, theirs)
    gain = group.scores[0].gains["text"]
    assert group.examples == 40
    assert gain.value == pytest.approx(1 - (2 / 3 + 0) / 2)  # F1 of class 0 is 2/3, of class 1 is 0
    assert 0 < gain.low < gain.value < gain.high
    assert "nodes" not in group.scores[0].gains


def test_paired_gains_need_the_examples_of_every_run(tmp_path):
    ours, theirs = both_and_text(tmp_path)
    predictions(ours, [0, 1], [0, 1])
    group = compare(ours, theirs)
    assert (group.scores[0].gains, group.examples) == ({}, 0)
    predictions(theirs, [0, 1, 1], [0, 1, 1])  # other examples
    assert compare(ours, theirs).scores[0].gains == {}


def test_curves_are_given_by_epoch_and_by_seconds_of_training(tmp_path):
    folders = [
        trained(
            tmp_path / str(seed),
            EDGES,
            edge_results(0.5),
            seed=seed,
            val=(0.1, 0.3, 0.2),
            seconds=seed + 2.0,
        )
        for seed in (0, 1)
    ]
    (curves,) = compare(*folders).curves
    assert curves.by_epoch == [[(1, 0.1), (2, 0.3), (3, 0.2)]] * 2
    assert curves.by_seconds == [
        [(2, 0.1), (4, 0.3), (6, 0.2)],
        [(3, 0.1), (6, 0.3), (9, 0.2)],
    ]


def test_a_log_without_seconds_has_a_curve_by_epoch_only(tmp_path):
    folder = trained(tmp_path / "a", EDGES, edge_results(0.5), val=(0.1,))
    log = folder / "metrics.jsonl"
    log.write_text(log.read_text().replace(', "seconds": 1.0', ""))
    group = compare(folder)
    assert [(one.by_epoch, one.by_seconds) for one in group.curves] == [([[(1, 0.1)]], [])]
    assert group.costs == []


def test_cost_is_the_duration_of_the_run_or_else_of_training(tmp_path):
    whole = simple(tmp_path / "a", EDGES, "tfidf", edge_results(0.4), seconds=7)
    logged = trained(tmp_path / "b", EDGES, edge_results(0.5), val=(0.1, 0.2), seconds=3.0)
    costs = compare(whole, logged).costs
    assert [(one.model, one.seconds, one.device, one.inputs) for one in costs] == [
        ("TF-IDF", 7, "cpu", "text"),
        ("Edgeformer-E", 6, "", "both"),
    ]


def test_scores_by_degree_are_means_over_runs_without_empty_groups(tmp_path):
    first = groups(cold=(0, None), few=(5, 0.1), some=(7, 0.2), many=(9, 0.4))
    second = groups(cold=(0, None), few=(5, 0.3), some=(7, 0.2), many=(9, 0.2))
    other = groups(cold=(1, 0.5), few=(4, 0.1), some=(7, 0.2), many=(9, 0.4))
    group = compare(
        trained(tmp_path / "a", LINKS, link_results(0.2, first)),
        trained(tmp_path / "b", LINKS, link_results(0.2, second), seed=1),
        trained(tmp_path / "c", LINKS, link_results(0.2, other), model__name="bert-n"),
        simple(tmp_path / "d", LINKS, "ease", link_results(0.1)),
    )
    assert group.degrees.groups == {"1 to 3": 5, "4 to 10": 7, "11 or more": 9}
    (values,) = group.degrees.models.values()
    assert values == pytest.approx([0.2, 0.2, 0.3])


def test_scores_by_degree_need_groups(tmp_path):
    assert compare(simple(tmp_path / "d", LINKS, "ease", link_results(0.1))).degrees is None
