"""Negatives: never linked, each once, drawn evenly, the same for every model."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.random import hash_keys
from edgeformers.evaluation import LinkTable, sample_negatives
from tests.evaluation.problems import draw_problem, known_links


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
def test_negatives_are_uniform_over_unlinked_candidates(candidates):
    queries, positives = np.arange(6000), np.zeros(6000, np.int64)
    known = known_links(queries, np.full(6000, 5), 6000)
    drawn = sample_negatives(queries, positives, candidates, known=known, seed=1, count=6)
    counts = np.bincount(drawn.ravel(), minlength=candidates)
    expected = 6000 * 6 / (candidates - 2)
    assert counts[[0, 5]].tolist() == [0, 0]
    assert np.abs(np.delete(counts, [0, 5]) - expected).max() < 5 * math.sqrt(expected)


def test_negatives_depend_only_on_the_seed_and_the_pair():
    queries, positives = np.array([3, 1, 2]), np.array([10, 20, 30])
    drawn = sample_negatives(queries, positives, 500, seed=7)
    alone = sample_negatives(queries[1:2], positives[1:2], 500, seed=7)
    assert drawn[1].tolist() == alone[0].tolist()
    assert drawn[1].tolist() != sample_negatives(queries, positives, 500, seed=8)[1].tolist()


@pytest.mark.parametrize("linked", [0, 3, 18, 20], ids=["none", "few", "most", "all"])
def test_a_query_with_few_unlinked_candidates_gets_those_with_the_lowest_keys(linked):
    """The order is part of the protocol: earlier results were drawn in it."""
    rows, columns = np.array([1, 0, 1, 2]), np.array([4, 0, 2, 19])
    known = known_links(np.repeat([0, 1], [2, linked]), [0, 1, *range(linked)], 3)
    drawn = sample_negatives(rows, columns, 20, known=known, seed=5, count=11)
    for row, column, negatives in zip(rows, columns, drawn.tolist(), strict=True):
        keys = hash_keys(5, 0x5A3D, row, column, np.arange(20))
        taken = {*known.of(np.array([row]))[1].tolist(), int(column)}
        free = sorted(set(range(20)) - taken, key=lambda candidate: keys[candidate])
        assert negatives == (free + 11 * [-1])[:11]


def test_memory_for_a_query_of_many_links_follows_its_unlinked_candidates(monkeypatch):
    sizes = []

    def count_keys(*parts):
        keys = hash_keys(*parts)
        sizes.append(keys.size)
        return keys

    monkeypatch.setattr("edgeformers.evaluation.negatives.hash_keys", count_keys)
    known = known_links(np.zeros(9_900, np.int64), np.arange(9_900), 1)
    sample_negatives(np.zeros(200, np.int64), np.arange(200), 10_000, known=known)
    assert sum(sizes) == 200 * 100


def test_a_query_that_is_linked_to_all_candidates_has_no_negatives():
    known = LinkTable.from_pairs([0, 0, 0], [0, 1, 2], 1)
    drawn = sample_negatives([0, 0], [1, 2], 3, known=known, count=2)
    assert (drawn == -1).all()
