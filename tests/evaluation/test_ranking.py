"""The three link protocols against loops that are too simple to be wrong."""

import numpy as np
import pytest
import torch

from edgeformers.evaluation import (
    FunctionScorer,
    InnerProductScorer,
    LinkTable,
    metrics,
    rank_full,
    rank_in_batch,
    rank_sampled,
    sample_negatives,
)
from edgeformers.evaluation.ranking import rank_full_each
from edgeformers.evaluation.scorers import BonusScorer
from tests.evaluation.problems import draw_problem, known_links, simple_rank

#: Scores of four pairs by the paper's released model on tiny weights, and the metrics it printed.
RELEASED_SCORES = np.array(
    [
        [16.453272, 16.465145, 14.989235, 16.378498],
        [14.426138, 13.302408, 12.473819, 15.650430],
        [12.819995, 11.929862, 11.908424, 12.905567],
        [15.904501, 15.841876, 14.269205, 17.358952],
    ]
)


@pytest.mark.parametrize("seed", range(4))
def test_full_ranking_agrees_with_a_loop_over_all_candidates(seed):
    scores, row, positive, known_row, known_column = draw_problem(seed)
    known = set(zip(known_row.tolist(), known_column.tolist(), strict=True))
    expected = [simple_rank(scores, r, p, known) for r, p in zip(row, positive, strict=True)]
    ranks = rank_full(
        FunctionScorer(lambda rows: scores[rows], 11),
        positive,
        queries=row,
        known=known_links(known_row, known_column, 7),
    )
    assert ranks.tolist() == expected


@pytest.mark.parametrize("seed", range(4))
def test_a_query_with_many_pairs_is_ranked_as_others_are(seed, monkeypatch):
    scores, row, positive, known_row, known_column = draw_problem(seed, pairs=60)
    scores[np.random.default_rng(seed).random(scores.shape) < 0.1] = np.nan
    scorer = FunctionScorer(lambda rows: scores[rows], 11)
    for known in (None, known_links(known_row[40:], known_column[40:], 7)):
        ranks = []
        for many in (1, 8, 100):
            monkeypatch.setattr("edgeformers.evaluation.ranking.MANY_PAIRS", many)
            ranks.append(rank_full(scorer, positive, queries=row, known=known).tolist())
        assert ranks[0] == ranks[1] == ranks[2]


def test_scores_in_column_order_are_ranked_without_a_warning(monkeypatch):
    scores, row, positive, *_ = draw_problem(0)
    monkeypatch.setattr("edgeformers.evaluation.ranking.MANY_PAIRS", 1)
    ranks = [
        rank_full(FunctionScorer(lambda rows, o=o: scores[rows].copy(o), 11), positive, queries=row)
        for o in "CF"
    ]
    np.testing.assert_array_equal(*ranks)


def test_the_known_links_of_a_query_are_read_once_for_all_its_pairs(monkeypatch):
    known = known_links(np.zeros(900, np.int64), np.arange(900), 1)
    read, links_of = [], LinkTable.of

    def count_links(table, queries):
        links = links_of(table, queries)
        read.append(len(links[0]))
        return links

    monkeypatch.setattr(LinkTable, "of", count_links)
    scorer = FunctionScorer(lambda rows: np.zeros((len(rows), 1_000)), 1_000)
    ranks = rank_full(scorer, np.arange(500), queries=np.zeros(500, np.int64), known=known)
    assert set(ranks) == {1 + 100 / 2}
    assert sum(read) == 900


def test_full_ranking_without_known_links_counts_every_candidate():
    scores, row, positive, _, _ = draw_problem(5)
    ranks = rank_full(FunctionScorer(lambda rows: scores[rows], 11), positive, queries=row)
    assert ranks.tolist() == metrics.rank_of(scores[row], positive).tolist()


def test_small_blocks_give_the_same_ranks(monkeypatch):
    scores, row, positive, known_row, known_column = draw_problem(6, pairs=60)
    scorer = FunctionScorer(lambda rows: scores[rows], 11)
    known = known_links(known_row, known_column, 7)
    whole = rank_full(scorer, positive, queries=row, known=known)
    monkeypatch.setattr("edgeformers.evaluation.ranking.BLOCK", 1)
    assert rank_full(scorer, positive, queries=row, known=known).tolist() == whole.tolist()


@pytest.mark.parametrize("many", [1, 8, 100])
def test_tensors_are_ranked_as_arrays_are(many, monkeypatch):
    monkeypatch.setattr("edgeformers.evaluation.ranking.MANY_PAIRS", many)
    scores, row, positive, known_row, known_column = draw_problem(7, pairs=60)
    scores[:, 3], scores[2] = -np.inf, np.inf
    known = known_links(known_row[40:], known_column[40:], 7)
    scorer = InnerProductScorer(np.eye(7, dtype=np.float32), torch.from_numpy(scores.T))
    bonus = BonusScorer(scorer, known, np.ones(7, np.float32))
    problem = {"positives": positive, "queries": row, "known": known}
    expected = [rank_full(each, **problem).tolist() for each in (scorer, bonus)]
    monkeypatch.setattr(
        "edgeformers.evaluation.scorers.as_table", lambda table: table
    )  # as on GPUs
    assert [rank_full(each, **problem).tolist() for each in (scorer, bonus)] == expected


def test_several_scores_are_ranked_in_one_pass():
    scores, row, positive, known_row, known_column = draw_problem(8, pairs=60)
    known, asked = known_links(known_row, known_column, 7), []

    def tables(rows):
        asked.extend(rows.tolist())
        return [sign * scores[rows] for sign in (1, -1)]

    ranks = rank_full_each(tables, row, positive, known, size=8, count=2)
    for sign, own in zip((1, -1), ranks, strict=True):
        scorer = FunctionScorer(lambda rows, sign=sign: sign * scores[rows], 11)
        assert own.tolist() == rank_full(scorer, positive, queries=row, known=known).tolist()
    assert sorted(asked) == np.unique(row).tolist()  # each query was scored once


def test_a_known_link_ahead_does_not_lower_the_rank():
    scorer = FunctionScorer(lambda rows: np.array([[3.0, 2.0, 1.0]])[rows], 3)
    known = known_links([0, 0], [0, 2], 1)
    assert rank_full(scorer, [2]).tolist() == [3]
    assert rank_full(scorer, [2], known=known).tolist() == [2]


def test_a_repeated_known_link_is_excluded_once():
    scorer = FunctionScorer(lambda rows: np.array([[3.0, 2.0, 1.0]])[rows], 3)
    assert rank_full(scorer, [2], known=known_links([0, 0, 0], [0, 0, 0], 1)).tolist() == [2]


def test_one_hundred_thousand_candidates_are_ranked_in_blocks():
    rng = np.random.default_rng(3)
    query = rng.normal(size=(400, 16)).astype(np.float32)
    candidate = rng.normal(size=(100_000, 16)).astype(np.float32)
    positive = rng.integers(0, 100_000, 400)
    known = known_links(np.repeat(np.arange(400), 50), rng.integers(0, 100_000, 20_000), 400)
    ranks = rank_full(InnerProductScorer(query, candidate), positive, known=known)
    one = simple_rank(
        query[7:8] @ candidate.T, 0, positive[7], {(0, c) for c in known.of(np.array([7]))[1]}
    )
    assert ranks[7] == pytest.approx(one, abs=2)  # float32 products in another order


def test_the_paper_protocol_reproduces_the_released_metrics():
    ranks = rank_in_batch(InnerProductScorer(RELEASED_SCORES, np.eye(4)), np.arange(4))
    assert ranks.tolist() == [2, 3, 4, 1]
    assert metrics.mrr(ranks) == pytest.approx(0.520833, abs=1e-6)
    assert metrics.ndcg(ranks) == pytest.approx(0.640402, abs=1e-6)


def test_in_batch_ranks_depend_only_on_their_batch():
    rng = np.random.default_rng(4)
    query, key = rng.normal(size=(10, 3)), rng.normal(size=(10, 3))
    ranks = rank_in_batch(InnerProductScorer(query, key), np.arange(10), batch=4)
    for start, stop in ((0, 4), (4, 8), (8, 10)):
        scorer = InnerProductScorer(query[start:stop], key[start:stop])
        alone = rank_in_batch(scorer, np.arange(stop - start))
        assert ranks[start:stop].tolist() == alone.tolist()
    assert ranks[8:].max() <= 2


def test_a_repeated_candidate_in_a_batch_ties_with_itself():
    key = np.array([[1.0], [1.0], [-1.0]])
    assert rank_in_batch(InnerProductScorer(np.ones((3, 1)), key), [0, 1, 2]).tolist() == [
        1.5,
        1.5,
        3,
    ]


def test_a_repeated_candidate_ties_with_itself_even_if_products_are_rounded_by_place():
    class Rounding(InnerProductScorer):
        def scores(self, rows, columns=None):
            table = super().scores(rows, columns)
            return table + 1e-7 * np.arange(table.shape[1])  # as some matrix products do

    scorer = Rounding(np.ones((4, 1)), np.array([[1.0], [-1.0]]))
    assert rank_in_batch(scorer, [0, 0, 0, 1], queries=[0, 1, 2, 3]).tolist() == [2, 2, 2, 4]


def test_sampled_ranks_agree_with_ranking_the_drawn_negatives():
    scores, row, positive, known_row, known_column = draw_problem(8)
    known = known_links(known_row, known_column, 7)
    scorer = FunctionScorer(lambda rows: scores[rows], 11)
    ranks = rank_sampled(scorer, positive, queries=row, known=known, seed=3, negatives=4)
    drawn = sample_negatives(row, positive, 11, known=known, seed=3, count=4)
    for i, (r, p) in enumerate(zip(row, positive, strict=True)):
        others = scores[r, [c for c in drawn[i] if c >= 0]]
        own = scores[r, p]
        assert ranks[i] == 1 + (others > own).sum() + (others == own).sum() / 2


def test_sampling_all_candidates_equals_full_ranking():
    scores, row, positive, known_row, known_column = draw_problem(9)
    known = known_links(known_row, known_column, 7)
    scorer = FunctionScorer(lambda rows: scores[rows], 11)
    sampled = rank_sampled(scorer, positive, queries=row, known=known)
    assert sampled.tolist() == rank_full(scorer, positive, queries=row, known=known).tolist()
