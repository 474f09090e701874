"""Search for the keys with the highest inner products: exact, or FAISS IVF with exact re-scoring.

Shapes: C keys, R width, n queries, r leading columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from edgeformers.data.storage import blocks
from edgeformers.data.types import Floats, Ids, Mask
from edgeformers.errors import require
from edgeformers.inference.encode import Vectors

SMALL = 4_000_000  # numbers in a table of keys that is multiplied as a whole: about a millisecond
SAMPLED, TRIED = 8_192, 64  # keys, and queries, by which the search is chosen
COLUMNS = (16, 32, 48, 64, 96, 128, 192, 256, 384)  # first columns to choose from
LATER = 128  # columns after these
PARTS = 4  # of the other columns, each with a bound of its own
LARGEST = 16_383  # integer of a query; sums of products with 8 bits stay below 2**31
#: What a bound costs, later columns of a key, and a score, in integers multiplied in sequence.
BOUND, REFINED, SCORED = 40, 1_200, 4_000
ROUNDING = 1e-5  # error of a product in float32, relative to the norms
#: Units in which norms and their weights are about equally long, so that the product of lengths is
#: a close bound: what integers of keys leave out, columns and parts, what those of queries do.
UNITS = np.array([0.1, 1.0, *[1.0] * PARTS, 100.0], np.float32)
FEWEST = 64  # keys whose scores are computed first
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
    """Exact search that multiplies a few leading columns of all keys, as 8-bit integers.

    A change of basis q . k = (A q) . (B k) gives queries and keys the same, diagonal covariance,
    so that the first columns have nearly all of the score. By the Cauchy-Schwarz inequality the
    others, and what integers do not represent, add at most products of norms. A key whose bound is
    below the k-th best score found so far cannot win. For the others, later columns are multiplied
    too; the scores of those that may still win are computed.
    """

    def __init__(self, keys: "Compressed", basis: Vectors) -> None:
        self.compressed = keys
        self.basis = basis  # [2, R, R]: A and B
        self._is_used = False

    @classmethod
    def build(cls, keys: Vectors, queries: Vectors) -> "BoundedSearch":
        """The search with the number of columns that costs least for some of the queries."""
        sampled, tried = sample_rows(keys, SAMPLED), sample_rows(queries, TRIED)
        basis = balanced_basis(queries, sampled).astype(np.float32)
        columns = _choose_columns(sampled, tried, basis, len(keys))
        example = Compressed.of_keys(keys[:1], basis[1], columns)
        compressed = Compressed(
            *(np.empty((len(keys), part.shape[1]), part.dtype) for part in vars(example).values())
        )
        for at, block in blocks(keys):
            rows = np.arange(at, at + len(block))
            compressed.set(rows, Compressed.of_keys(block, basis[1], columns))
        return cls(compressed, basis)

    @property
    def num_columns(self) -> int:
        """How many columns of all keys are multiplied."""
        return int(self.compressed.first.shape[1])

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
        guess = min(len(keys), max(FEWEST, 4 * k))
        find_best(
            keys,
            *vars(self.compressed).values(),
            queries,
            *Compressed.of_queries(queries, self.basis[0], self.num_columns),
            _bonuses(wanted),
            _joined([one.excluded for one in wanted]),
            np.empty(0, bool) if allowed is None else allowed,
            (places, scores, np.empty(guess, np.int64), np.empty(guess, np.float32)),
        )
        return [
            best_first(place[place >= 0], score[place >= 0], one.k)
            for place, score, one in zip(places, scores, wanted, strict=True)
        ]

    def renew(self, keys: Vectors, positions: Ids) -> None:
        new = Compressed.of_keys(keys[positions], self.basis[1], self.num_columns)
        self.compressed.set(positions, new)

    def save(self, folder: Path) -> None:
        np.save(folder / "basis.npy", self.basis)
        for name, array in vars(self.compressed).items():
            np.save(folder / f"{name}.npy", array)


@dataclass(frozen=True)
class Compressed:
    """Keys as integers, and norms that bound all that these leave out.

    The columns of a key are divided into the first, the later, and PARTS of all others. `scales`:
    the scale of the first integers, and the norm of `norms`. `norms`: of what the first integers
    leave out, of the later columns and the parts, and of the whole key, for rounding. `steps`: the
    scale of the later integers, and the norm of what they leave out less that of their columns.
    """

    first: NDArray[np.int8]  # [C, r]
    scales: Vectors  # [C, 2]
    norms: Vectors  # [C, 1 + 1 + PARTS + 1]
    later: NDArray[np.int8]  # [C, LATER], or as many as there are
    steps: Vectors  # [C, 2]

    @classmethod
    def of_keys(cls, keys: Vectors, basis: Vectors, columns: int) -> "Compressed":
        """Vectors of keys in the basis of keys."""
        first, later, *parts = _divided(keys @ basis.T, columns)
        integers, scale, left_out = _as_integers(first)
        later_integers, later_scale, later_left_out = _as_integers(later)
        norms = np.stack([left_out, *map(_norm, (later, *parts, keys))], 1).astype(np.float32)
        norms /= UNITS
        return cls(
            integers,
            np.stack([scale, _norm(norms)], 1).astype(np.float32),
            norms,
            later_integers,
            np.stack([later_scale, later_left_out - _norm(later)], 1).astype(np.float32),
        )

    @staticmethod
    def of_queries(
        queries: Vectors, basis: Vectors, columns: int
    ) -> tuple[NDArray[np.int16], NDArray[np.int16], Vectors]:
        """First and later integers [n, r] of queries, and their weights of the keys' norms."""
        first, later, *parts = _divided(queries @ basis.T, columns)
        leading = np.concatenate([first, later], 1)
        scale = np.abs(leading).max(1, initial=0.0) / LARGEST
        scale[scale == 0] = 1.0
        integers = np.rint(leading / scale[:, None])
        whole = _norm(leading - integers * scale[:, None]) + ROUNDING * _norm(queries)
        weights = np.stack([*map(_norm, (first, later, *parts)), whole], 1) * UNITS
        numbers = integers.astype(np.int16)
        return (
            np.ascontiguousarray(numbers[:, :columns]),
            np.ascontiguousarray(numbers[:, columns:]),
            np.column_stack([scale, weights]).astype(np.float32),
        )

    def set(self, rows: Ids, new: "Compressed") -> None:
        """Replace some keys."""
        for name, array in vars(new).items():
            getattr(self, name)[rows] = array

    def bounds(
        self, numbers: NDArray[np.int16], later_numbers: NDArray[np.int16], weights: Vectors
    ) -> tuple[Vectors, Vectors]:
        """Upper bounds [n, C] of products with all keys: by the first, and by later columns too."""
        scale = weights[:, :1]
        products = numbers.astype(np.float32) @ self.first.T.astype(np.float32)
        by_first = products * scale * self.scales[:, 0] + weights[:, 1:] @ self.norms.T
        products = later_numbers.astype(np.float32) @ self.later.T.astype(np.float32)
        change = products * scale * self.steps[:, 0] + weights[:, 2, None] * self.steps[:, 1]
        return by_first, by_first + change


def _divided(turned: Vectors, columns: int) -> list[Vectors]:
    """The first columns, the later ones, and PARTS of the others."""
    first, later, rest = np.split(turned, [columns, columns + LATER], axis=1)
    return [first, later, *np.array_split(rest, PARTS, axis=1)]


def _as_integers(vectors: Vectors) -> tuple[NDArray[np.int8], Vectors, Vectors]:
    """Integers [n, r], their scale [n], and the norm [n] of what they leave out."""
    scale = np.abs(vectors).max(1, initial=0.0) / 127
    scale[scale == 0] = 1.0
    integers = np.rint(vectors / scale[:, None])
    return integers.astype(np.int8), scale, _norm(vectors - integers * scale[:, None])


def _norm(vectors: Vectors) -> Vectors:
    norms: Vectors = np.linalg.norm(vectors, axis=1)
    return norms


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


def _choose_columns(keys: Vectors, queries: Vectors, basis: Vectors, num_keys: int) -> int:
    """The number of first columns for which a search costs least.

    It reads these columns of all keys, later ones of those that they cannot rule out, and all
    columns of those that remain.
    """
    width = keys.shape[1]
    place = max(1, round(10 * len(keys) / num_keys))  # of the tenth best among the sampled keys
    least = np.sort(queries @ keys.T, axis=1)[:, -place]
    costs = {}
    for columns in [number for number in COLUMNS if number < width] or [width]:
        compressed = Compressed.of_keys(keys, basis[1], columns)
        bounds = compressed.bounds(*Compressed.of_queries(queries, basis[0], columns))
        left, scored = ((own >= least[:, None]).mean() * num_keys for own in bounds)
        costs[columns] = num_keys * (BOUND + columns) + REFINED * left + SCORED * scored
    return min(costs, key=lambda columns: costs[columns])


def balanced_basis(queries: Vectors, keys: Vectors) -> Floats:
    """Matrices A and B [2, R, R] with A^T B = I that diagonalize both second moments alike.

    They are those of balanced truncation: the singular vectors of the product of the two roots.
    """
    roots = [_root(vectors.astype(np.float64)) for vectors in (queries, keys)]
    left, values, right = np.linalg.svd(roots[0].T @ roots[1])
    scale = 1 / np.sqrt(np.maximum(values, 1e-12 * values[0]))[:, None]
    return np.stack([scale * (right @ roots[1].T), scale * (left.T @ roots[0].T)])


def sample_rows(table: Vectors, count: int) -> Vectors:
    """At most `count` rows of a table, always the same."""
    if len(table) <= count:
        return np.asarray(table)
    rows = np.random.default_rng(0).choice(len(table), count, replace=False)
    return np.asarray(table[np.sort(rows)])


def _root(vectors: Floats) -> Floats:
    """A root of the second moment; the floor keeps directions that no sampled vector has."""
    moment = vectors.T @ vectors / max(1, len(vectors))
    values, basis = np.linalg.eigh(moment)
    floor = 1e-6 * max(values[-1], 1e-12)
    return np.asarray(basis * np.sqrt(np.maximum(values, floor)))


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
