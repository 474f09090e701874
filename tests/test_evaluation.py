"""The three link protocols against loops that are too simple to be wrong; intervals and tests."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers import metrics
from edgeformers.errors import InputError
from edgeformers.evaluation import (
    Factors,
    KnownLinks,
    LinkReport,
    ScoreFunction,
    bootstrap_f1,
    bootstrap_interval,
    bootstrap_statistic,
    columns_of,
    compare_paired,
    degree_groups,
    evaluate_links,
    rank_full,
    rank_in_batch,
    rank_sampled,
    sample_negatives,
    summarize_seeds,
)

#: Scores of four pairs by the paper's released model on tiny weights, and the metrics it printed.
RELEASED_SCORES = np.array(
    [
        [16.453272, 16.465145, 14.989235, 16.378498],
        [14.426138, 13.302408, 12.473819, 15.650430],
        [12.819995, 11.929862, 11.908424, 12.905567],
        [15.904501, 15.841876, 14.269205, 17.358952],
    ]
)


def draw_problem(seed, queries=7, candidates=11, pairs=25):
    """Whole-number scores with many ties, test pairs, and links known from all splits."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, (queries, candidates)).astype(np.float32)
    row, positive = rng.integers(0, queries, pairs), rng.integers(0, candidates, pairs)
    known_row = np.concatenate([row, rng.integers(0, queries, 12)])
    known_column = np.concatenate([positive, rng.integers(0, candidates, 12)])
    return scores, row, positive, known_row, known_column


def simple_rank(scores, row, positive, known):
    """Sort by hand: those above, and half of those beside, that the query is not linked to."""
    rank = 1.0
    for other, score in enumerate(scores[row]):
        if other != positive and (row, other) not in known:
            rank += 1.0 * (score > scores[row, positive]) + 0.5 * (score == scores[row, positive])
    return rank


def known_links(rows, columns, num_queries):
    return KnownLinks.from_pairs(rows, columns, num_queries)


@pytest.mark.parametrize("seed", range(4))
def test_full_ranking_agrees_with_a_loop_over_all_candidates(seed):
    scores, row, positive, known_row, known_column = draw_problem(seed)
    known = set(zip(known_row.tolist(), known_column.tolist(), strict=True))
    expected = [simple_rank(scores, r, p, known) for r, p in zip(row, positive, strict=True)]
    ranks = rank_full(
        ScoreFunction(lambda rows: scores[rows], 11),
        positive,
        queries=row,
        known=known_links(known_row, known_column, 7),
    )
    assert ranks.tolist() == expected


def test_full_ranking_without_known_links_counts_every_candidate():
    scores, row, positive, _, _ = draw_problem(5)
    ranks = rank_full(ScoreFunction(lambda rows: scores[rows], 11), positive, queries=row)
    assert ranks.tolist() == metrics.rank_of(scores[row], positive).tolist()


def test_small_blocks_give_the_same_ranks(monkeypatch):
    scores, row, positive, known_row, known_column = draw_problem(6, pairs=60)
    scorer = ScoreFunction(lambda rows: scores[rows], 11)
    known = known_links(known_row, known_column, 7)
    whole = rank_full(scorer, positive, queries=row, known=known)
    monkeypatch.setattr("edgeformers.evaluation._BLOCK", 1)
    assert rank_full(scorer, positive, queries=row, known=known).tolist() == whole.tolist()


def test_a_known_link_ahead_no_longer_costs_a_place():
    scorer = ScoreFunction(lambda rows: np.array([[3.0, 2.0, 1.0]])[rows], 3)
    known = known_links([0, 0], [0, 2], 1)
    assert rank_full(scorer, [2]).tolist() == [3]
    assert rank_full(scorer, [2], known=known).tolist() == [2]


def test_a_link_known_twice_is_left_out_once():
    scorer = ScoreFunction(lambda rows: np.array([[3.0, 2.0, 1.0]])[rows], 3)
    assert rank_full(scorer, [2], known=known_links([0, 0, 0], [0, 0, 0], 1)).tolist() == [2]


@pytest.mark.parametrize("wrap", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_factors_bias_and_a_second_product_make_one_score(wrap):
    rng = np.random.default_rng(1)
    query, candidate = rng.normal(size=(5, 3)), rng.normal(size=(8, 3))
    bias, more = rng.normal(size=8), (rng.normal(size=(5, 2)), rng.normal(size=(8, 2)))
    scorer = Factors(wrap(query), wrap(candidate), bias=bias, more=more)
    expected = query @ candidate.T + more[0] @ more[1].T + bias
    np.testing.assert_allclose(scorer.scores(np.arange(5)), expected, rtol=1e-6)
    columns = np.array([[1, 7], [0, 2]])
    picked = scorer.pick(np.array([4, 2]), columns)
    np.testing.assert_allclose(picked, expected[[[4], [2]], columns], rtol=1e-6)


def test_tensors_are_ranked_like_arrays():
    rng = np.random.default_rng(2)
    query, candidate = rng.normal(size=(6, 4)), rng.normal(size=(9, 4))
    positive = rng.integers(0, 9, 6)
    tensors = Factors(torch.from_numpy(query), torch.from_numpy(candidate))
    arrays = Factors(query, candidate)
    assert rank_full(tensors, positive).tolist() == rank_full(arrays, positive).tolist()
    assert rank_sampled(tensors, positive).tolist() == rank_sampled(arrays, positive).tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8])
def test_short_numbers_are_multiplied_in_single_precision(dtype):
    query, candidate = torch.full((2, 40), 100).to(dtype), torch.full((3, 40), 100).to(dtype)
    scores = Factors(query, candidate).scores(np.arange(2))
    assert scores.dtype == np.float32
    assert scores.tolist() == [[400_000.0] * 3] * 2


def test_one_hundred_thousand_candidates_are_ranked_in_blocks():
    rng = np.random.default_rng(3)
    query = rng.normal(size=(400, 16)).astype(np.float32)
    candidate = rng.normal(size=(100_000, 16)).astype(np.float32)
    positive = rng.integers(0, 100_000, 400)
    known = known_links(np.repeat(np.arange(400), 50), rng.integers(0, 100_000, 20_000), 400)
    ranks = rank_full(Factors(query, candidate), positive, known=known)
    one = simple_rank(
        query[7:8] @ candidate.T, 0, positive[7], {(0, c) for c in known.of(np.array([7]))[1]}
    )
    assert ranks[7] == pytest.approx(one, abs=2)  # float32 products in another order


def test_the_papers_protocol_gives_the_numbers_of_the_release():
    ranks = rank_in_batch(RELEASED_SCORES, np.eye(4))
    assert ranks.tolist() == [2, 3, 4, 1]
    assert metrics.mrr(ranks) == pytest.approx(0.520833, abs=1e-6)
    assert metrics.ndcg(ranks) == pytest.approx(0.640402, abs=1e-6)


def test_in_batch_ranks_see_only_their_own_batch():
    rng = np.random.default_rng(4)
    query, key = rng.normal(size=(10, 3)), rng.normal(size=(10, 3))
    ranks = rank_in_batch(query, key, batch=4)
    for start, stop in ((0, 4), (4, 8), (8, 10)):
        alone = rank_in_batch(query[start:stop], key[start:stop], batch=100)
        assert ranks[start:stop].tolist() == alone.tolist()
    assert ranks[8:].max() <= 2


def test_the_same_key_twice_in_a_batch_shares_its_rank():
    key = np.array([[1.0], [1.0], [-1.0]])
    assert rank_in_batch(np.ones((3, 1)), key).tolist() == [1.5, 1.5, 3]


def test_published_figures_are_means_of_batch_means():
    ranks = np.array([1.0, 1.0, 1.0, 1.0, 2.0])  # batches of 4 and 1
    report = LinkReport(ranks={"paper": ranks, "full": ranks}, batch=4)
    assert report.metrics("paper")["mrr"] == pytest.approx((1 + 0.5) / 2)
    assert report.metrics("full")["mrr"] == pytest.approx(4.5 / 5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 3, 6]), st.sampled_from([9, 40]))
def test_negatives_are_distinct_and_never_linked_to_the_query(seed, count, candidates):
    _, row, positive, known_row, known_column = draw_problem(seed, candidates=candidates)
    known = known_links(known_row, known_column, 7)
    drawn = sample_negatives(row, positive, candidates, known=known, seed=seed, count=count)
    links = set(zip(known_row.tolist(), known_column.tolist(), strict=True))
    for r, p, negatives in zip(row.tolist(), positive.tolist(), drawn.tolist(), strict=True):
        real = [c for c in negatives if c >= 0]
        free = [c for c in range(candidates) if (r, c) not in links and c != p]
        assert len(real) == len(set(real)) == min(count, len(free))
        assert set(real) <= set(free)


@pytest.mark.parametrize("candidates", [12, 60], ids=["shuffled", "drawn"])
def test_every_free_candidate_is_drawn_equally_often(candidates):
    queries, positives = np.arange(6000), np.zeros(6000, np.int64)
    known = known_links(queries, np.full(6000, 5), 6000)
    drawn = sample_negatives(queries, positives, candidates, known=known, seed=1, count=6)
    counts = np.bincount(drawn.ravel(), minlength=candidates)
    expected = 6000 * 6 / (candidates - 2)
    assert counts[[0, 5]].tolist() == [0, 0]
    assert np.abs(np.delete(counts, [0, 5]) - expected).max() < 5 * math.sqrt(expected)


def test_negatives_depend_on_seed_and_pair_and_not_on_the_company():
    queries, positives = np.array([3, 1, 2]), np.array([10, 20, 30])
    drawn = sample_negatives(queries, positives, 500, seed=7)
    alone = sample_negatives(queries[1:2], positives[1:2], 500, seed=7)
    assert drawn[1].tolist() == alone[0].tolist()
    assert drawn[1].tolist() != sample_negatives(queries, positives, 500, seed=8)[1].tolist()


def test_sampled_ranks_agree_with_ranking_the_drawn_candidates():
    scores, row, positive, known_row, known_column = draw_problem(8)
    known = known_links(known_row, known_column, 7)
    scorer = ScoreFunction(lambda rows: scores[rows], 11)
    ranks = rank_sampled(scorer, positive, queries=row, known=known, seed=3, negatives=4)
    drawn = sample_negatives(row, positive, 11, known=known, seed=3, count=4)
    for i, (r, p) in enumerate(zip(row, positive, strict=True)):
        others = scores[r, [c for c in drawn[i] if c >= 0]]
        own = scores[r, p]
        assert ranks[i] == 1 + (others > own).sum() + (others == own).sum() / 2


def test_with_few_candidates_sampling_all_is_full_ranking():
    scores, row, positive, known_row, known_column = draw_problem(9)
    known = known_links(known_row, known_column, 7)
    scorer = ScoreFunction(lambda rows: scores[rows], 11)
    sampled = rank_sampled(scorer, positive, queries=row, known=known)
    assert sampled.tolist() == rank_full(scorer, positive, queries=row, known=known).tolist()


def test_a_constant_scorer_gains_nothing_under_any_protocol():
    scorer = Factors(np.zeros((50, 2)), np.zeros((300, 2)))
    report = evaluate_links(scorer, np.arange(50) * 3, seed=1)
    assert set(report.ranks["sampled"]) == {50.5}
    assert set(report.ranks["full"]) == {150.5}
    assert set(report.ranks["paper"]) == {25.5}


def test_a_diverged_scorer_comes_last():
    scorer = Factors(np.full((4, 2), np.nan), np.ones((30, 2)))
    report = evaluate_links(scorer, np.arange(4), known=known_links([0], [9], 4))
    assert report.ranks["full"].tolist() == [29, 30, 30, 30]
    assert set(report.ranks["paper"]) == {4}


def test_known_links_can_be_asked_one_by_one():
    known = known_links([2, 0, 2], [4, 1, 0], 4)
    rows, columns = np.repeat(np.arange(4), 6), np.tile(np.arange(6), 4)
    told = known.contains(rows, columns)
    assert [(r, c) for r, c, t in zip(rows, columns, told, strict=True) if t] == [
        (0, 1),
        (2, 0),
        (2, 4),
    ]
    place, candidate = known.of(np.array([2, 1, 0, 2]))
    assert list(zip(place, candidate, strict=True)) == [(0, 0), (0, 4), (2, 1), (3, 0), (3, 4)]
    assert not known_links([], [], 4).contains(rows, columns).any()


def test_nodes_find_their_columns():
    assert columns_of([30, 10, 30], [20, 30, 10]).tolist() == [1, 2, 1]
    assert columns_of([], []).tolist() == []
    with pytest.raises(InputError, match="node 25 is to be found but is not among the 3"):
        columns_of([30, 25], [20, 30, 10])


def test_every_figure_carries_the_name_of_its_protocol():
    scores, row, positive, *_ = draw_problem(10)
    report = evaluate_links(ScoreFunction(lambda rows: scores[rows], 11), positive, queries=row)
    flat = report.flat()
    assert {key.split("/")[0] for key in flat} == {"paper", "sampled", "full"}
    assert flat["full/mrr"] == metrics.mrr(report.ranks["full"])
    assert flat["full/hit@10"] == metrics.hit_at(report.ranks["full"], 10)
    for line in str(report).splitlines()[1:]:
        assert line.split()[0] in ("paper", "sampled", "full")


def test_cold_and_warm_pairs_are_reported_apart():
    ranks = np.array([4.0, 2.0, 1.0, 1.0, 1.0])
    groups = degree_groups([0, 1, 3, 4, 11], key_degree=[5, 5, 0, 5, 5])
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


def test_a_group_without_pairs_is_not_measured():
    report = LinkReport(ranks={"full": np.array([1.0])}, groups=degree_groups([2]))
    assert math.isnan(report.metrics("full", "cold")["mrr"])


def test_wrong_protocols_and_shapes_get_a_sentence():
    scorer = Factors(np.zeros((2, 2)), np.zeros((3, 2)))
    with pytest.raises(InputError, match="no protocol 'ful'; did you mean 'full'"):
        evaluate_links(scorer, [0, 1], protocols=["ful"])
    with pytest.raises(InputError, match=r"of one width \(got \[2, 2\] and \[3, 4\]\)"):
        Factors(np.zeros((2, 2)), np.zeros((3, 4)))
    with pytest.raises(InputError, match="got 3 queries and 2 positives"):
        rank_full(scorer, [0, 1], queries=[0, 1, 1])
    with pytest.raises(InputError, match=r"0 to 2 \(got -1\); columns_of finds it"):
        rank_full(scorer, [0, -1])
    with pytest.raises(InputError, match=r"0 to 2 \(got 3\)"):
        rank_sampled(scorer, [0, 3])
    with pytest.raises(InputError, match=r"row numbered from 0 \(got -2\)"):
        evaluate_links(scorer, [0, 1], queries=[0, -2])
    with pytest.raises(InputError, match=r"must give \[2, 3\] scores \(got \[2, 5\]\)"):
        rank_full(ScoreFunction(lambda rows: np.zeros((2, 5)), 3), [0, 1])


def test_the_interval_of_a_mean_is_as_wide_as_theory_says():
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    interval = bootstrap_interval(values, seed=1)
    half = 1.96 * values.std() / math.sqrt(400)
    assert interval.value == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.03)
    assert interval == bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_groups_of_like_examples_widen_the_interval():
    groups = np.repeat(np.arange(40), 10)
    values = np.random.default_rng(0).normal(size=40)[groups]  # ten copies of forty numbers
    naive, honest = bootstrap_interval(values, 1), bootstrap_interval(values, 1, groups=groups)
    ratio = (honest.high - honest.low) / (naive.high - naive.low)
    assert ratio == pytest.approx(math.sqrt(10), rel=0.1)


def test_one_example_has_no_interval():
    assert math.isnan(bootstrap_interval([0.5], seed=0).low)
    assert math.isnan(bootstrap_f1([1], [1], seed=0).high)


def test_the_interval_of_f1_agrees_with_resampling_examples():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 300)
    guess = np.where(rng.random(300) < 0.6, labels, rng.integers(0, 3, 300))
    fast = bootstrap_f1(labels, guess, seed=1, resamples=1000)
    slow = bootstrap_statistic(
        lambda rows: metrics.macro_f1(labels[rows], guess[rows]), 300, seed=2, resamples=1000
    )
    assert fast.value == slow.value == metrics.macro_f1(labels, guess)
    assert fast.low == pytest.approx(slow.low, abs=0.01)
    assert fast.high == pytest.approx(slow.high, abs=0.01)
    micro = bootstrap_f1(labels, guess, seed=1, average="micro")
    assert micro.low < metrics.accuracy(labels, guess) < micro.high


def test_f1_of_several_labels_has_an_interval():
    rng = np.random.default_rng(3)
    truth = rng.random((80, 3)) < 0.4
    guess = truth ^ (rng.random((80, 3)) < 0.2)
    interval = bootstrap_f1(truth, guess, seed=0, resamples=100)
    assert interval.low < metrics.macro_f1(truth, guess) < interval.high


def test_a_level_must_be_a_share():
    with pytest.raises(InputError, match=r"such as 0.95 \(got 95\)"):
        bootstrap_interval([1.0, 2.0], 0, level=95)


def test_seeds_are_summed_up_as_mean_and_sample_deviation():
    spread = summarize_seeds([{"f1": 0.5, "mae": 1.0}, {"f1": 0.7, "mae": 1.0}])
    assert spread["f1"].mean == pytest.approx(0.6)
    assert spread["f1"].deviation == pytest.approx(math.sqrt(0.02))
    assert str(spread["f1"]) == "0.6000 (± 0.1414, 2 runs)"
    assert math.isnan(summarize_seeds([{"f1": 0.5}])["f1"].deviation)
    with pytest.raises(InputError, match="'mae' is not in all of the 2 runs"):
        summarize_seeds([{"f1": 0.5, "mae": 1.0}, {"f1": 0.7}])


def test_a_clear_winner_is_told_from_noise():
    rng = np.random.default_rng(5)
    base = rng.random(200)
    better = compare_paired(base + 0.05 + 0.05 * rng.normal(size=200), base, seed=0)
    assert better.difference.low > 0
    assert better.p_value < 0.001
    assert better.sign_p_value < 0.001
    noise = compare_paired(base + 0.05 * rng.normal(size=200), base, seed=0)
    assert noise.difference.low < 0 < noise.difference.high
    assert noise.p_value > 0.05


def test_tests_by_hand_on_five_examples():
    # all five signs equal: 2 of 32 flips are as extreme; one example is a tie and says nothing
    told = compare_paired([2, 3, 4, 5, 6, 1], [1, 1, 1, 1, 1, 1], seed=0, resamples=20_000)
    assert (told.wins, told.losses, told.ties) == (5, 0, 1)
    assert told.sign_p_value == pytest.approx(2 / 32)
    assert told.p_value == pytest.approx(2 / 32, abs=0.01)


def test_equal_runs_do_not_differ():
    told = compare_paired([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], seed=0)
    assert told.p_value == told.sign_p_value == 1.0
    assert told.difference.value == 0.0


def test_the_test_of_flips_keeps_its_level():
    rng = np.random.default_rng(6)
    p = [
        compare_paired(rng.normal(size=30), np.zeros(30), seed=i, resamples=200).p_value
        for i in range(200)
    ]
    assert np.mean(np.array(p) < 0.1) == pytest.approx(0.1, abs=0.07)


def test_runs_are_compared_on_the_same_examples():
    with pytest.raises(InputError, match=r"same examples \(got 2 and 3\)"):
        compare_paired([1.0, 2.0], [1.0, 2.0, 3.0], seed=0)


def test_the_pairs_of_one_query_count_as_one():
    groups = np.repeat(np.arange(6), 50)
    gain = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])[groups]
    alone = compare_paired(gain, np.zeros(300), seed=0)
    together = compare_paired(gain, np.zeros(300), seed=0, groups=groups)
    assert alone.p_value < 0.001
    assert together.p_value == pytest.approx(2 / 64, abs=0.01)
