"""Negatives: never linked, each once, drawn evenly, the same for every model."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.evaluation import sample_negatives
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
