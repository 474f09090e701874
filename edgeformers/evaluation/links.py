"""Pairs of a query and a candidate: their checks, and the links known among them.

Queries and candidates are rows and columns, numbered from 0 by whoever makes the scorer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.errors import InputError

Rows = NDArray[np.int64]
Truths = NDArray[np.bool_]

BLOCK = 1 << 24  # numbers held at once while ranking or resampling


@dataclass(frozen=True)
class LinkTable:
    """Links no protocol may count as wrong: the candidates linked to each query, in any split.

    Compressed rows: those of query q are `candidates[indptr[q] : indptr[q + 1]]`, sorted, each
    once. In a network of one kind of node the query itself belongs among them.
    """

    indptr: Rows
    candidates: Rows

    @classmethod
    def from_pairs(cls, queries: ArrayLike, candidates: ArrayLike, num_queries: int) -> "LinkTable":
        """From pairs in any order, repeated or not."""
        rows, columns = np.asarray(queries, np.int64), np.asarray(candidates, np.int64)
        keys = np.unique(_pair_keys(rows, columns))
        starts = np.arange(num_queries + 1) << 32
        return cls(np.searchsorted(keys, starts), keys & 0xFFFFFFFF)

    def of(self, rows: Rows) -> tuple[Rows, Rows]:
        """(place in `rows`, candidate) of every known link of the given queries."""
        counts = self.indptr[rows + 1] - self.indptr[rows]
        place = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        return place, self.candidates[self.indptr[rows][place] + within]

    def among(self, rows: Rows, candidates: Rows) -> tuple[Rows, Rows]:
        """(place in `rows`, place in `candidates`) of the known links between the two."""
        place, found = self.of(rows)
        most = max(found.max(initial=-1), candidates.max(initial=-1))
        column = np.full(int(most) + 1, -1)
        column[candidates] = np.arange(len(candidates))
        is_asked = column[found] >= 0
        return place[is_asked], column[found[is_asked]]

    def contains(self, rows: Rows, columns: Rows) -> Truths:
        """Whether each (query, candidate), broadcast against each other, is known."""
        wanted = _pair_keys(rows, columns)
        at = np.searchsorted(self._keys, wanted)
        return np.asarray(np.append(self._keys, -1)[at] == wanted)

    @cached_property
    def _keys(self) -> Rows:
        row = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return _pair_keys(row, self.candidates)


def _pair_keys(rows: Rows, columns: Rows) -> Rows:
    return (rows << 32) | columns


def columns_of(nodes: ArrayLike, candidates: ArrayLike) -> Rows:
    """The place of each node among the candidate nodes, which may be in any order."""
    wanted, among = np.asarray(nodes, np.int64), np.asarray(candidates, np.int64)
    order = np.argsort(among, kind="stable")
    at = np.searchsorted(among, wanted, sorter=order)
    place = np.append(order, -1)[at]
    missing = wanted[np.append(among, -1)[place] != wanted]
    if len(missing):
        raise InputError(
            f"node {missing[0]} is to be found but is not among the {len(among):,} candidates"
        )
    return place


def checked_pairs(
    positives: ArrayLike, queries: ArrayLike | None, num_candidates: int
) -> tuple[Rows, Rows]:
    """Rows and columns of the pairs; a column that is none would be ranked as another."""
    columns = np.asarray(positives, np.int64)
    rows = np.arange(len(columns)) if queries is None else np.asarray(queries, np.int64)
    if rows.shape != columns.shape:
        raise InputError(
            f"every pair has a query and a positive (got {len(rows)} queries "
            f"and {len(columns)} positives)"
        )
    bad = columns[(columns < 0) | (columns >= num_candidates)]
    if len(bad):
        raise InputError(
            f"a pair's positive is the column of a candidate, 0 to {num_candidates - 1} "
            f"(got {bad[0]}); columns_of finds it from the node"
        )
    if rows.min(initial=0) < 0:
        raise InputError(f"a pair's query is a row numbered from 0 (got {rows.min()})")
    return rows, columns


def parts(count: int, size: int) -> Iterator[Rows]:
    """0 to `count` - 1 in runs of `size`, the last perhaps shorter."""
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))
