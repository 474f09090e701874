"""Ranking problems small enough to solve by hand."""

import numpy as np

from edgeformers.evaluation import LinkTable


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
    return LinkTable.from_pairs(rows, columns, num_queries)
