"""Uniform negative samples for evaluation, the same for every model."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.random import hash_keys
from edgeformers.data.types import Ids, Mask
from edgeformers.evaluation.links import BLOCK, LinkTable, index_blocks, validated_pairs

NEGATIVES = 99  # per pair in the protocol `sampled`
LAST_KEY = np.uint64(2**64 - 1)  # of candidates that must not be drawn

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
    few_free = few_free[np.argsort(rows[few_free], kind="stable")]
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
    """Shuffle the candidates that are not linked and take the first `count`."""
    queries, position = np.unique(rows, return_inverse=True)
    linked = np.zeros((len(queries), num_candidates), bool)
    linked[known.of(queries)] = True
    candidates = np.flatnonzero(~linked.all(0))  # a query of many links has few left
    keys = hash_keys(seed, _NEGATIVE_STREAM, rows[:, None], columns[:, None], candidates)
    keys[linked[:, candidates][position] | (candidates == columns[:, None])] = LAST_KEY
    lowest = lowest_keys(keys, count)
    return np.append(candidates, -1)[np.where(lowest < 0, len(candidates), lowest)]


def lowest_keys(keys: NDArray[np.uint64], count: int) -> Ids:
    """The columns [n, count] of the lowest keys of each row, in order; -1 instead of LAST_KEY."""
    keys = np.pad(keys, ((0, 0), (0, count)), constant_values=LAST_KEY)
    first = np.argpartition(keys, count - 1, axis=1)[:, :count]
    chosen = np.take_along_axis(keys, first, axis=1)
    order = np.take_along_axis(first, np.argsort(chosen, axis=1), axis=1)
    return np.where(np.take_along_axis(keys, order, axis=1) == LAST_KEY, -1, order)


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
