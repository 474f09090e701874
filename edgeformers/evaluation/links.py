"""Links between queries and candidates: the link table, and checks of query-candidate pairs.

Queries are rows and candidates are columns, both numbered from 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from edgeformers.data.scratch import row_slices, scratch_array
from edgeformers.data.types import Ids, IntArray, Mask
from edgeformers.errors import InputError

Array = TypeVar("Array", Ids, Tensor)

BLOCK = 1 << 24  # elements held in memory at once while ranking or resampling
_NO_KEY = np.iinfo(np.int64).max  # sorts after every key


@dataclass(frozen=True)
class LinkTable:
    """Distinct links as compressed sparse rows.

    The candidates linked to query q are `candidates[indptr[q] : indptr[q + 1]]`, sorted; `counts`
    holds the number of edges behind each link.
    """

    indptr: Ids  # [Q + 1]
    candidates: Ids  # [links]
    counts: NDArray[np.float64]  # [links]
    num_candidates: int

    @classmethod
    def from_pairs(
        cls,
        queries: ArrayLike,
        candidates: ArrayLike,
        num_queries: int,
        num_candidates: int | None = None,
    ) -> "LinkTable":
        """Build a table from pairs in any order; repeated pairs are counted."""
        rows, columns = np.asarray(queries, np.int64), np.asarray(candidates, np.int64)
        keys, counts = np.unique(_pair_keys(rows, columns), return_counts=True)
        if num_candidates is None:
            num_candidates = int(columns.max(initial=-1)) + 1
        return cls(
            np.searchsorted(keys, np.arange(num_queries + 1) << 32),
            keys & 0xFFFFFFFF,
            counts.astype(np.float64),
            num_candidates,
        )

    @classmethod
    def from_csr(cls, indptr: Ids, candidates: Ids) -> "LinkTable":
        """A table of single edges between nodes of one type."""
        return cls(indptr, candidates, np.ones(len(candidates)), len(indptr) - 1)

    @property
    def num_queries(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_links(self) -> int:
        return len(self.candidates)

    @cached_property
    def queries(self) -> Ids:
        """The query of every link."""
        return np.repeat(np.arange(self.num_queries), self.degrees)

    @cached_property
    def degrees(self) -> Ids:
        """The number of links of every query."""
        return np.diff(self.indptr)

    @cached_property
    def popularity(self) -> NDArray[np.float64]:
        """The number of edges to every candidate."""
        return np.bincount(self.candidates, self.counts, self.num_candidates).astype(np.float64)

    def of(self, queries: Ids) -> tuple[Ids, Ids]:
        """All links of the given queries as (position in `queries`, candidate)."""
        position, link = row_entries(self.indptr, queries)
        return position, self.candidates[link]

    def among(self, queries: Ids, candidates: Ids) -> tuple[Ids, Ids]:
        """Links between the two as (position in `queries`, position in `candidates`)."""
        position, linked = self.of(queries)
        size = max(linked.max(initial=-1), candidates.max(initial=-1)) + 1
        column = np.full(int(size), -1)
        column[candidates] = np.arange(len(candidates))
        is_listed = column[linked] >= 0
        return position[is_listed], column[linked[is_listed]]

    def contains(self, queries: Ids, candidates: Ids) -> Mask:
        """Whether each (query, candidate) pair is linked; the arguments are broadcast."""
        keys = _pair_keys(queries, candidates)
        return np.asarray(self._keys[np.searchsorted(self._keys, keys)] == keys)

    def transpose(self) -> "LinkTable":
        """The same links with queries and candidates swapped."""
        order = np.argsort(self.candidates, kind="stable")
        indptr = np.searchsorted(self.candidates, np.arange(self.num_candidates + 1), sorter=order)
        return LinkTable(indptr, self.queries[order], self.counts[order], self.num_queries)

    def to(self, device: torch.device | str) -> "LinkMask":
        """A copy on a torch device that masks whole score matrices."""
        return LinkMask(torch.from_numpy(self._keys).to(device))

    @cached_property
    def _keys(self) -> Ids:
        """The sorted keys of all links, followed by one that no pair has."""
        return np.append(_pair_keys(self.queries, self.candidates), _NO_KEY)


@dataclass(frozen=True)
class LinkMask:
    """The links of a `LinkTable` on a torch device."""

    keys: Tensor  # of `_pair_keys`, sorted, followed by one that no pair has

    @classmethod
    def of_edges(cls, src: IntArray, dst: IntArray, edges: Ids) -> "LinkMask":
        """The links of some edges; many are sorted in a temporary file (`scratch_array`)."""
        keys = scratch_array((len(edges) + 1,), np.int64)
        for rows in row_slices(len(edges)):
            chosen = edges[rows]
            keys[rows] = _pair_keys(src[chosen].astype(np.int64), dst[chosen].astype(np.int64))
        keys[-1] = _NO_KEY
        keys.sort()
        end = 0
        for rows in row_slices(len(keys)):
            last = keys[end - 1] if end else -1  # of the keys before the block
            block = keys[rows][np.diff(keys[rows], prepend=last) > 0]
            keys[end : end + len(block)] = block
            end += len(block)
        return cls(torch.from_numpy(keys[:end]))

    def to(self, device: torch.device | str) -> "LinkMask":
        return LinkMask(self.keys.to(device))

    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Queries [n] and candidates [m] -> whether they are linked [n, m]; never for -1."""
        keys = _pair_keys(queries[:, None], candidates)
        return self.keys[torch.searchsorted(self.keys, keys)] == keys


def _pair_keys(queries: Array, candidates: Array) -> Array:
    """One integer per pair, ordered by query and then candidate; negative if either is -1."""
    return (queries << 32) | candidates


def node_positions(nodes: ArrayLike, among: ArrayLike) -> Ids:
    """The position of each node in the array `among`, which may be in any order."""
    wanted, nodes_there = np.asarray(nodes, np.int64), np.asarray(among, np.int64)
    order = np.argsort(nodes_there, kind="stable")
    at = np.searchsorted(nodes_there, wanted, sorter=order)
    position = np.append(order, -1)[at]
    missing = wanted[np.append(nodes_there, -1)[position] != wanted]
    if len(missing):
        raise InputError(f"node {missing[0]} is not among the {len(nodes_there):,} given nodes")
    return position


def validated_pairs(
    positives: ArrayLike, queries: ArrayLike | None, num_candidates: int
) -> tuple[Ids, Ids]:
    """Queries and positives as arrays; query i defaults to row i."""
    columns = np.asarray(positives, np.int64)
    rows = np.arange(len(columns)) if queries is None else np.asarray(queries, np.int64)
    if rows.shape != columns.shape:
        raise InputError(
            "queries and positives must have the same length "
            f"(got {len(rows)} queries and {len(columns)} positives)"
        )
    invalid = columns[(columns < 0) | (columns >= num_candidates)]
    if len(invalid):
        raise InputError(
            f"positives must be candidate columns from 0 to {num_candidates - 1} "
            f"(got {invalid[0]}); use node_positions to look up nodes"
        )
    if rows.min(initial=0) < 0:
        raise InputError(f"queries must be rows numbered from 0 (got {rows.min()})")
    return rows, columns


def row_entries(indptr: Ids, rows: Ids) -> tuple[Ids, Ids]:
    """All entries of the given compressed sparse rows as (position in `rows`, entry)."""
    starts = indptr[rows]
    sizes = indptr[rows + 1] - starts
    position = np.repeat(np.arange(len(rows)), sizes)
    first = np.cumsum(sizes) - sizes
    return position, np.arange(len(position)) + (starts - first)[position]


def index_blocks(count: int, size: int) -> Iterator[Ids]:
    """0 to `count` - 1 in consecutive blocks of `size`; the last may be shorter."""
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))
