"""The report of link prediction: every figure with its protocol, cold pairs apart."""

import math

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.evaluation import (
    FunctionScorer,
    InnerProductScorer,
    LinkReport,
    bootstrap_interval,
    evaluate_links,
    metrics,
    rank_full,
    rank_sampled,
)
from edgeformers.evaluation.report import pair_groups
from tests.evaluation.problems import draw_problem, known_links


def test_in_batch_metrics_are_means_of_batch_means():
    ranks = np.array([1.0, 1.0, 1.0, 1.0, 2.0])  # batches of 4 and 1
    report = LinkReport(ranks={"paper": ranks, "full": ranks}, batch=4)
    assert report.metrics("paper")["mrr"] == pytest.approx((1 + 0.5) / 2)
    assert report.metrics("full")["mrr"] == pytest.approx(4.5 / 5)


def test_batch_means_follow_the_order_of_batches():
    ranks = np.array([1.0, 2.0, 2.0, 1.0, 1.0])
    report = LinkReport(ranks={"paper": ranks}, batch=4, order=np.array([0, 3, 4, 1, 2]))
    assert report.metrics("paper")["mrr"] == pytest.approx((3.5 / 4 + 0.5) / 2)


def test_pairs_are_taken_query_by_query_unless_an_order_is_given():
    queries, positives = np.tile(np.arange(60), 3), np.arange(180)
    scorer = InnerProductScorer(np.eye(60), np.eye(60)[queries])  # a query scores its own pairs 1
    ranks = evaluate_links(scorer, positives, queries=queries, protocols=["paper"]).ranks["paper"]
    assert np.median(ranks) == 2.0  # tied with two others of its query
    order = np.arange(180)
    found = evaluate_links(scorer, positives, queries=queries, protocols=["paper"], order=order)
    assert found.ranks["paper"][:3].tolist() == [1.5, 1.5, 1.5]
    assert found.order.tolist() == order.tolist()


def test_a_constant_scorer_gets_the_middle_rank_under_every_protocol():
    scorer = InnerProductScorer(np.zeros((50, 2)), np.zeros((300, 2)))
    report = evaluate_links(scorer, np.arange(50) * 3, seed=1)
    assert set(report.ranks["sampled"]) == {50.5}
    assert set(report.ranks["full"]) == {150.5}
    assert set(report.ranks["paper"]) == {25.5}


def test_a_scorer_of_nan_ranks_last():
    scorer = InnerProductScorer(np.full((4, 2), np.nan), np.ones((30, 2)))
    report = evaluate_links(scorer, np.arange(4), known=known_links([0], [9], 4))
    assert report.ranks["full"].tolist() == [29, 30, 30, 30]
    assert set(report.ranks["paper"]) == {4}


def test_every_metric_is_named_with_its_protocol():
    scores, row, positive, *_ = draw_problem(10)
    report = evaluate_links(FunctionScorer(lambda rows: scores[rows], 11), positive, queries=row)
    flat = report.flat()
    assert {key.split("/")[0] for key in flat} == {"paper", "sampled", "full"}
    assert flat["full/mrr"] == metrics.mrr(report.ranks["full"])
    assert flat["full/hit@10"] == metrics.hit_at(report.ranks["full"], 10)
    for line in str(report).splitlines()[1:]:
        assert line.split()[0] in ("paper", "sampled", "full")


def test_cold_and_warm_pairs_are_reported_separately():
    ranks = np.array([4.0, 2.0, 1.0, 1.0, 1.0])
    groups = pair_groups([0, 1, 3, 4, 11], key_degree=[5, 5, 0, 5, 5])
    report = LinkReport(ranks={"full": ranks}, groups=groups)
    told = report.to_dict()["full"]["groups"]
    assert {name: part["pairs"] for name, part in told.items()} == {
        "degree 0": 1,
        "degree 1-3": 2,
        "degree 4-10": 1,
        "degree 11+": 1,
        "cold": 2,
        "warm": 3,
    }
    assert told["degree 0"]["metrics"]["mrr"] == 0.25
    assert told["cold"]["metrics"]["mrr"] == pytest.approx((0.25 + 1) / 2)
    assert told["warm"]["metrics"]["mrr"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert "cold" in str(report)


def test_metrics_of_an_empty_group_are_nan():
    report = LinkReport(ranks={"full": np.array([1.0])}, groups=pair_groups([2]))
    assert math.isnan(report.metrics("full", "cold")["mrr"])


def test_unknown_protocols_and_wrong_shapes_are_refused():
    scorer = InnerProductScorer(np.zeros((2, 2)), np.zeros((3, 2)))
    with pytest.raises(InputError, match="'ful'; did you mean 'full'"):
        evaluate_links(scorer, [0, 1], protocols=["ful"])
    with pytest.raises(InputError, match="width"):
        InnerProductScorer(np.zeros((2, 2)), np.zeros((3, 4)))
    with pytest.raises(InputError, match="got 3 queries and 2 positives"):
        rank_full(scorer, [0, 1], queries=[0, 1, 1])
    with pytest.raises(InputError, match=r"0 to 2 \(got -1\); use node_positions"):
        rank_full(scorer, [0, -1])
    with pytest.raises(InputError, match=r"0 to 2 \(got 3\)"):
        rank_sampled(scorer, [0, 3])
    with pytest.raises(InputError, match=r"rows numbered from 0 \(got -2\)"):
        evaluate_links(scorer, [0, 1], queries=[0, -2])
    with pytest.raises(InputError, match=r"\[2, 5\]"):
        rank_full(FunctionScorer(lambda rows: np.zeros((2, 5)), 3), [0, 1])


def test_intervals_of_mrr_resample_the_pairs_of_a_query_together():
    scores = np.random.default_rng(0).normal(size=(40, 30))
    queries = np.repeat(np.arange(40), 25)
    positives = np.zeros(len(queries), np.int64)  # all pairs of a query have the same rank
    scorer = FunctionScorer(lambda rows: scores[rows], 30)
    report = evaluate_links(scorer, positives, queries=queries, protocols=["full"])
    low, high = report.results(seed=0)["full/mrr_interval"]
    once = bootstrap_interval(report.values("full", "mrr")[::25], 0)
    assert (low, high) == pytest.approx((once.low, once.high))


def test_intervals_of_in_batch_protocols_are_of_the_mean_of_batch_means():
    ranks = np.append(np.full(400, 10.0), 1.0)  # the last batch is a single pair
    report = LinkReport(ranks={"paper": ranks}, batch=100, queries=np.arange(401))
    results = report.results(seed=0)
    low, high = results["paper/mrr_interval"]
    assert results["paper/mrr"] == pytest.approx(0.28)
    assert low <= results["paper/mrr"] <= high
