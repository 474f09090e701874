"""Candidates that are no known link of a query, drawn evenly: the same for every model."""

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.random import hash_keys
from edgeformers.data.types import Ids, Mask
from edgeformers.evaluation.links import BLOCK, LinkTable, index_blocks, validated_pairs

NEGATIVES = 99  # drawn per pair by the protocol `sampled`

_NEGATIVE_STREAM = 0x5A3D  # names the draws of `sample_negatives` among all that use a seed


def sample_negatives(
    queries: ArrayLike,
    positives: ArrayLike,
    num_candidates: int,
    *,
    known: LinkTable | None = None,
    seed: int = 0,
    count: int = NEGATIVES,
) -> Ids:
    """Candidates [n, count] drawn evenly, each once, from those not linked to the query.

    Where a query has fewer such candidates it gets all of them, and -1 in the other places. The
    draw depends on the seed, the query and the positive alone: every model meets the same.
    """
    rows, columns = validated_pairs(positives, queries, num_candidates)
    known = known or LinkTable.from_pairs([], [], int(rows.max(initial=0)) + 1)
    linked = known.indptr[rows + 1] - known.indptr[rows] + ~known.contains(rows, columns)
    free = num_candidates - linked
    dense = np.flatnonzero(free < max(2 * count, num_candidates // 2))
    drawn = np.empty((len(rows), count), np.int64)
    for part in index_blocks(len(dense), max(1, BLOCK // 4 // max(num_candidates, 1))):
        some = dense[part]
        drawn[some] = _shuffle_free(rows[some], columns[some], num_candidates, known, seed, count)
    loose = np.setdiff1d(np.arange(len(rows)), dense)
    drawn[loose] = _draw_free(rows[loose], columns[loose], num_candidates, known, seed, count)
    return drawn


def _shuffle_free(
    rows: Ids, columns: Ids, num_candidates: int, known: LinkTable, seed: int, count: int
) -> Ids:
    """All candidates in random order, the linked ones last, cut to `count`."""
    everyone = np.arange(num_candidates)
    keys = hash_keys(seed, _NEGATIVE_STREAM, rows[:, None], columns[:, None], everyone)
    linked = np.zeros(keys.shape, bool)
    linked[known.of(rows)] = True
    linked[np.arange(len(rows)), columns] = True
    order = np.lexsort((keys, linked), axis=1)[:, :count]
    drawn = np.where(np.take_along_axis(linked, order, axis=1), -1, order)
    return np.pad(drawn, ((0, 0), (0, count - order.shape[1])), constant_values=-1)


def _draw_free(
    rows: Ids, columns: Ids, num_candidates: int, known: LinkTable, seed: int, count: int
) -> Ids:
    """Draw, and draw again what is linked or has been drawn already."""
    drawn = np.empty((len(rows), count), np.int64)
    pair, slot = np.indices(drawn.shape).reshape(2, -1)
    attempt = 0
    while len(pair):
        keys = hash_keys(seed, _NEGATIVE_STREAM, rows[pair], columns[pair], slot, attempt)
        drawn[pair, slot] = keys % np.uint64(num_candidates)
        again = np.unique(pair)
        part = drawn[again]
        wrong = known.contains(rows[again, None], part) | (part == columns[again, None])
        place, slot = np.nonzero(wrong | _repeated(part))
        pair, attempt = again[place], attempt + 1
    return drawn


def _repeated(table: Ids) -> Mask:
    """Where a row has a number that it has before."""
    order = np.argsort(table, axis=1, kind="stable")
    ordered = np.take_along_axis(table, order, axis=1)
    repeats = np.zeros(table.shape, bool)
    np.put_along_axis(repeats, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return repeats
