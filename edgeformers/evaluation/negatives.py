"""Uniform negative samples for evaluation, the same for every model."""

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.random import hash_keys
from edgeformers.data.types import Ids, Mask
from edgeformers.evaluation.links import BLOCK, LinkTable, index_blocks, validated_pairs

NEGATIVES = 99  # per pair in the protocol `sampled`

_NEGATIVE_STREAM = 0x5A3D  # distinguishes these draws from others with the same seed


def sample_negatives(
    queries: ArrayLike,
    positives: ArrayLike,
    num_candidates: int,
    *,
    known: LinkTable | None = None,
    seed: int = 0,
    count: int = NEGATIVES,
) -> Ids:
    """Candidates [n, count] drawn uniformly without replacement from those not linked to the query.

    A query with fewer such candidates gets all of them, padded with -1. The draw depends only on
    the seed, the query and the positive, so that every model gets the same negatives.
    """
    rows, columns = validated_pairs(positives, queries, num_candidates)
    known = known or LinkTable.from_pairs([], [], int(rows.max(initial=0)) + 1)
    num_free = num_candidates - known.degrees[rows] - ~known.contains(rows, columns)
    few_free = np.flatnonzero(num_free < max(2 * count, num_candidates // 2))
    drawn = np.empty((len(rows), count), np.int64)
    for part in index_blocks(len(few_free), max(1, BLOCK // 4 // max(num_candidates, 1))):
        at = few_free[part]
        drawn[at] = _shuffle_free(rows[at], columns[at], num_candidates, known, seed, count)
    at = np.setdiff1d(np.arange(len(rows)), few_free)
    drawn[at] = _draw_free(rows[at], columns[at], num_candidates, known, seed, count)
    return drawn


def _shuffle_free(
    rows: Ids, columns: Ids, num_candidates: int, known: LinkTable, seed: int, count: int
) -> Ids:
    """Shuffle all candidates, the linked ones last, and take the first `count`."""
    candidates = np.arange(num_candidates)
    keys = hash_keys(seed, _NEGATIVE_STREAM, rows[:, None], columns[:, None], candidates)
    linked = np.zeros(keys.shape, bool)
    linked[known.of(rows)] = True
    linked[np.arange(len(rows)), columns] = True
    order = np.lexsort((keys, linked), axis=1)[:, :count]
    drawn = np.where(np.take_along_axis(linked, order, axis=1), -1, order)
    return np.pad(drawn, ((0, 0), (0, count - order.shape[1])), constant_values=-1)


def _draw_free(
    rows: Ids, columns: Ids, num_candidates: int, known: LinkTable, seed: int, count: int
) -> Ids:
    """Draw candidates, and redraw those that are linked or already drawn."""
    drawn = np.empty((len(rows), count), np.int64)
    pair, slot = np.indices(drawn.shape).reshape(2, -1)
    attempt = 0
    while len(pair):
        keys = hash_keys(seed, _NEGATIVE_STREAM, rows[pair], columns[pair], slot, attempt)
        drawn[pair, slot] = keys % np.uint64(num_candidates)
        redrawn = np.unique(pair)
        table = drawn[redrawn]
        wrong = known.contains(rows[redrawn, None], table) | (table == columns[redrawn, None])
        position, slot = np.nonzero(wrong | _is_repeated(table))
        pair, attempt = redrawn[position], attempt + 1
    return drawn


def _is_repeated(table: Ids) -> Mask:
    """Whether a number occurs earlier in its row."""
    order = np.argsort(table, axis=1, kind="stable")
    ordered = np.take_along_axis(table, order, axis=1)
    repeated = np.zeros(table.shape, bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return repeated
