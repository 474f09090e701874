"""Search for the keys with the highest inner products: exact, or FAISS IVF with exact re-scoring.

Shapes: C keys, R width, n queries.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from edgeformers.data.storage import blocks
from edgeformers.data.types import Ids, Mask
from edgeformers.errors import require
from edgeformers.inference.compressed import Compressed, balanced_basis
from edgeformers.inference.encode import Vectors
from edgeformers.threads import available_cores

SMALL = 4_000_000  # numbers in a table of keys that is multiplied as a whole: about a millisecond
SAMPLED = 8_192  # keys from which a basis is computed
FEWEST = 16  # keys whose scores are computed first
TOGETHER = 8  # queries in one pass over the keys; more would only take more memory
LISTED, RESCORED = 128, 400  # columns of keys in IVF lists, and keys that are re-scored
LOWEST = float(np.finfo(np.float32).min)  # any score but -inf


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What one query looks for: the k best keys, without some and with a bonus for others."""

    k: int
    excluded: Ids = field(default_factory=lambda: np.empty(0, np.int64))  # positions
    bonus: dict[int, float] = field(default_factory=dict)  # added to products, by position

    def before(self, stop: int) -> "Wanted":
        """The same among the keys before a position."""
        bonus = {place: value for place, value in self.bonus.items() if place < stop}
        return replace(self, excluded=self.excluded[self.excluded < stop], bonus=bonus)

    def after(self, start: int) -> "Wanted":
        """The same among the keys from a position on, which are numbered from 0."""
        bonus = {place - start: value for place, value in self.bonus.items() if place >= start}
        excluded = self.excluded[self.excluded >= start] - start
        return replace(self, excluded=excluded, bonus=bonus)


Found = tuple[Ids, Vectors]  # positions of keys and their scores, best first


class KeySearch(Protocol):
    """A search over keys [C, R] that are given with each call, and may change after `renew`."""

    def best(
        self, keys: Vectors, queries: Vectors, wanted: Sequence[Wanted], allowed: Mask | None
    ) -> list[Found]:
        """The best keys of each query; only those that are `allowed` [C], by default all."""

    def renew(self, keys: Vectors, positions: Ids) -> None:
        """Take in the new values of some keys."""

    def save(self, folder: Path) -> None:
        """Write the arrays from which `open_search` restores it."""


class BoundedSearch:
    """Exact search that multiplies the leading columns of all keys, as 8-bit integers.

    A key whose bound is below the k-th best score found so far cannot win. For the others, later
    columns are multiplied too; the scores of those that may still win are computed.
    """

    def __init__(self, keys: Compressed, basis: Vectors) -> None:
        self.compressed = keys
        self.basis = basis  # [2, R, R]: A and B
        self._is_used = False

    @classmethod
    def build(cls, keys: Vectors, queries: Vectors) -> "BoundedSearch":
        """The search in the basis of these queries and of some of the keys."""
        basis = balanced_basis(queries, sample_rows(keys, SAMPLED)).astype(np.float32)
        compressed = Compressed.empty(len(keys))
        for at, block in blocks(keys):
            rows = np.arange(at, at + len(block))
            compressed.set(rows, Compressed.of_keys(block, basis[1]))
        return cls(compressed, basis)

    def best(
        self, keys: Vectors, queries: Vectors, wanted: Sequence[Wanted], allowed: Mask | None
    ) -> list[Found]:
        if len(queries) == 1 and not self._is_used:  # importing numba takes a second
            self._is_used = True
            return [best_of_all(keys, queries[0], wanted[0], allowed)]
        from edgeformers.inference.search_kernels import find_best

        k = min(len(keys), max((one.k for one in wanted), default=1))
        places = np.full((len(queries), k), -1, np.int64)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        integers = Compressed.of_queries(queries, self.basis[0])
        bonuses, excluded = _bonuses(wanted), _joined([one.excluded for one in wanted])
        guess = min(len(keys), max(FEWEST, 2 * k))

        def search(rows: slice) -> None:
            ends = slice(rows.start, rows.stop + 1)
            find_best(
                keys,
                *vars(self.compressed).values(),
                queries[rows],
                *(part[rows] for part in integers),
                (bonuses[0][ends], *bonuses[1:]),
                (excluded[0][ends], *excluded[1:]),
                np.empty(0, bool) if allowed is None else allowed,
                (
                    places[rows],
                    scores[rows],
                    np.empty(guess, np.int64),
                    np.empty(guess, np.float32),
                ),
            )

        count = len(queries)
        size = max(1, min(TOGETHER, math.ceil(count / available_cores())))
        parts = [slice(start, min(start + size, count)) for start in range(0, count, size)]
        others = [_threads().submit(search, part) for part in parts[1:]]
        for part in parts[:1]:
            search(part)
        for other in others:
            other.result()
        return [
            best_first(place[place >= 0], score[place >= 0], one.k)
            for place, score, one in zip(places, scores, wanted, strict=True)
        ]

    def renew(self, keys: Vectors, positions: Ids) -> None:
        new = Compressed.of_keys(keys[positions], self.basis[1])
        self.compressed.set(positions, new)

    def save(self, folder: Path) -> None:
        np.save(folder / "basis.npy", self.basis)
        for name, array in vars(self.compressed).items():
            np.save(folder / f"{name}.npy", array)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(available_cores())


def _bonuses(wanted: Sequence[Wanted]) -> tuple[Ids, Ids, Vectors]:
    """Where the bonuses of each query begin, their positions in order, and the bonuses."""
    items = [sorted(one.bonus.items()) for one in wanted]
    ends, places = _joined([np.array([place for place, _ in own], np.int64) for own in items])
    return ends, places, np.array([value for own in items for _, value in own], np.float32)


def _joined(positions: Sequence[Ids]) -> tuple[Ids, Ids]:
    """Where the positions of each query begin, and all positions."""
    ends = np.cumsum([0, *map(len, positions)])
    return ends, np.concatenate([np.empty(0, np.int64), *positions])


class InvertedLists:
    """FAISS IVF: compares the keys in the lists closest to a query, and re-scores the best exactly.

    Lists hold the leading columns of keys, in the basis of `BoundedSearch`, as 8-bit integers.
    Keys that have changed are always re-scored.
    """

    def __init__(self, index: Any, basis: Vectors, probes: int) -> None:
        self.index, self.probes = index, probes
        self.basis = basis  # [2, r, R]: of queries and of keys
        self._changed: Ids = np.empty(0, np.int64)

    @classmethod
    def build(cls, keys: Vectors, queries: Vectors) -> "InvertedLists":
        """As many lists as four times the root of the number of keys."""
        faiss = require("faiss", "serve")
        basis = balanced_basis(queries, sample_rows(keys, SAMPLED)).astype(np.float32)[:, :LISTED]
        width, lists = basis.shape[1], int(4 * math.sqrt(len(keys)))
        quantizer = faiss.IndexFlatIP(width)
        index = faiss.IndexIVFScalarQuantizer(
            quantizer,
            width,
            lists,
            faiss.ScalarQuantizer.QT_8bit,
            faiss.METRIC_INNER_PRODUCT,
            False,
        )
        index.cp.niter, index.cp.max_points_per_centroid = 8, 64
        index.train(sample_rows(keys, 64 * lists) @ basis[1].T)
        for _, block in blocks(keys):
            index.add(block @ basis[1].T)
        return cls(index, basis, 1)

    def best(
        self, keys: Vectors, queries: Vectors, wanted: Sequence[Wanted], allowed: Mask | None
    ) -> list[Found]:
        pairs = zip(queries, wanted, strict=True)
        if allowed is not None and allowed.sum() < len(keys) // 10:
            return [best_of_all(keys, query, own, allowed) for query, own in pairs]
        faiss = require("faiss", "serve")
        bits = None if allowed is None else np.packbits(allowed, bitorder="little")
        chosen = None if bits is None else faiss.IDSelectorBitmap(bits)
        options = faiss.SearchParametersIVF(nprobe=self.probes, sel=chosen)
        count = max(max(RESCORED, 4 * own.k) + len(own.excluded) for own in wanted)
        leading = queries @ self.basis[0].T
        _, listed = self.index.search(leading, min(count, len(keys)), params=options)
        return [
            self._rescored(keys, query, own, places, allowed)
            for (query, own), places in zip(pairs, listed, strict=True)
        ]

    def _rescored(
        self, keys: Vectors, query: Vectors, wanted: Wanted, places: Ids, allowed: Mask | None
    ) -> Found:
        more = np.array([*wanted.bonus], np.int64)
        places = np.unique(np.concatenate([places[places >= 0], self._changed, more]))
        places = np.setdiff1d(places, wanted.excluded, assume_unique=True)
        if allowed is not None:
            places = places[allowed[places]]
        left = len(keys) if allowed is None else int(allowed.sum())
        if len(places) < min(wanted.k, left - len(wanted.excluded)):
            return best_of_all(keys, query, wanted, allowed)
        return best_first(places, _scores(keys, query, places, wanted), wanted.k)

    def renew(self, keys: Vectors, positions: Ids) -> None:
        self._changed = np.union1d(self._changed, positions)

    def save(self, folder: Path) -> None:
        np.save(folder / "basis.npy", self.basis)
        require("faiss", "serve").write_index(self.index, str(folder / "ivf.faiss"))

    @classmethod
    def load(cls, folder: Path, probes: int) -> "InvertedLists":
        """The lists that `save` wrote."""
        index = require("faiss", "serve").read_index(str(folder / "ivf.faiss"))
        return cls(index, np.load(folder / "basis.npy"), probes)


def sample_rows(table: Vectors, count: int) -> Vectors:
    """At most `count` rows of a table, always the same."""
    if len(table) <= count:
        return np.asarray(table)
    rows = np.random.default_rng(0).choice(len(table), count, replace=False)
    return np.asarray(table[np.sort(rows)])


def best_of_all(keys: Vectors, query: Vectors, wanted: Wanted, allowed: Mask | None) -> Found:
    """What one query looks for, by multiplying all keys that are allowed."""
    if allowed is not None and allowed.sum() < len(keys) // 4:
        positions = np.flatnonzero(allowed)
        scores = _scores(keys, query, positions, wanted)
        kept = ~np.isin(positions, wanted.excluded)
        return best_first(positions[kept], scores[kept], wanted.k)
    scores = keys @ query
    _adjust(scores, wanted, allowed)
    return highest(scores, wanted.k)


def _adjust(scores: Vectors, wanted: Wanted, allowed: Mask | None) -> None:
    """Add bonuses to the scores of all keys [C] in place; keys that may not win get -inf."""
    scores[list(wanted.bonus)] += np.array([*wanted.bonus.values()], np.float32)
    scores[wanted.excluded] = -np.inf
    if allowed is not None:
        scores[~allowed] = -np.inf


def _scores(keys: Vectors, query: Vectors, positions: Ids, wanted: Wanted) -> Vectors:
    """The scores of some keys."""
    scores = np.asarray(keys[positions] @ query)
    if wanted.bonus:
        scores += np.array([wanted.bonus.get(place, 0.0) for place in positions.tolist()])
    return scores


def highest(scores: Vectors, k: int) -> Found:
    """The k highest scores of all keys that are not -inf, the highest first."""
    top = np.arange(len(scores))
    if k < len(scores):
        top = torch.from_numpy(scores).topk(k, sorted=False).indices.numpy()
    top = top[scores[top] >= LOWEST]
    return best_first(top, scores[top], k)


def best_first(positions: Ids, scores: Vectors, k: int) -> Found:
    """The k highest scores, the highest first."""
    order = np.argsort(-scores, kind="stable")[:k]
    return positions[order], scores[order]
