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
COLUMNS = (16, 32, 48, 64, 96, 128, 192, 256, 384)  # leading columns to choose from
SCATTERED = 64  # what a number of a scattered row costs, in integers multiplied in sequence
PARTS = 4  # of the other columns, each with a bound of its own
ROUNDING = 1e-5  # error of a product in float32, relative to the norms
FEWEST = 64  # keys whose scores are computed first
LISTED, RESCORED = 128, 400  # columns of keys in IVF lists, and keys that are re-scored
LOWEST = float(np.finfo(np.float32).min)  # any score but -inf
BLOCK = 1 << 24  # bounds in memory at once


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
    """Exact search that multiplies only the leading columns of all keys, as 8-bit integers.

    A change of basis q . k = (A q) . (B k) gives queries and keys the same, diagonal covariance,
    so that the first columns have nearly all of the score. By the Cauchy-Schwarz inequality the
    others, and what integers do not represent, add at most products of norms. A key whose bound is
    below the k-th best score found so far cannot win; the scores of all others are computed.
    """

    def __init__(self, keys: "Compressed", basis: Vectors) -> None:
        self.compressed = keys
        self.basis = basis  # [2, R, R]: A and B

    @classmethod
    def build(cls, keys: Vectors, queries: Vectors) -> "BoundedSearch":
        """The search with the number of columns that costs least for some of the queries."""
        sampled, tried = sample_rows(keys, SAMPLED), sample_rows(queries, TRIED)
        basis = balanced_basis(queries, sampled).astype(np.float32)
        columns = _choose_columns(sampled, tried, basis, len(keys))
        compressed = Compressed(
            leading=np.empty((len(keys), columns), np.int8),
            scale=np.empty(len(keys), np.float32),
            norms=np.empty((PARTS + 3, len(keys)), np.float32),
        )
        for at, block in blocks(keys):
            rows = np.arange(at, at + len(block))
            compressed.set(rows, Compressed.of_keys(block, basis[1], columns))
        return cls(compressed, basis)

    @property
    def num_columns(self) -> int:
        """How many columns are leading."""
        return int(self.compressed.leading.shape[1])

    def best(
        self, keys: Vectors, queries: Vectors, wanted: Sequence[Wanted], allowed: Mask | None
    ) -> list[Found]:
        if allowed is not None and allowed.sum() * keys.shape[1] <= SMALL // 10:
            pairs = zip(queries, wanted, strict=True)
            return [best_of_all(keys, query, own, allowed) for query, own in pairs]
        found, size = [], max(1, BLOCK // max(1, len(keys)))
        for at in range(0, len(queries), size):
            block = queries[at : at + size]
            bounds = self.compressed.bounds(block, self.basis[0])
            for query, own, row in zip(block, wanted[at : at + size], bounds, strict=True):
                found.append(self._best(keys, query, own, row, allowed))
        return found

    def _best(
        self, keys: Vectors, query: Vectors, wanted: Wanted, bounds: Vectors, allowed: Mask | None
    ) -> Found:
        _adjust(bounds, wanted, allowed)
        first = _top(bounds, max(FEWEST, 4 * wanted.k))
        scores = _scores(keys, query, first, wanted)
        least = LOWEST
        if len(first) >= wanted.k:
            least = float(np.partition(scores, -wanted.k)[-wanted.k])
        rest = np.flatnonzero(bounds >= least)
        if len(rest) > len(keys) // 4:
            return best_of_all(keys, query, wanted, allowed)
        if len(rest) > np.count_nonzero(bounds[first] >= least):
            first, scores = rest, _scores(keys, query, rest, wanted)
        return best_first(first, scores, wanted.k)

    def renew(self, keys: Vectors, positions: Ids) -> None:
        new = Compressed.of_keys(keys[positions], self.basis[1], self.num_columns)
        self.compressed.set(positions, new)

    def save(self, folder: Path) -> None:
        np.save(folder / "basis.npy", self.basis)
        for name, array in vars(self.compressed).items():
            np.save(folder / f"{name}.npy", array)


@dataclass(frozen=True)
class Compressed:
    """Keys as integers for their leading columns, and norms that bound all that these leave out.

    `norms`: of the other columns in PARTS, of the key times the error of rounding, of what the
    integers leave out, and of the leading columns.
    """

    leading: NDArray[np.int8]  # [C, r]
    scale: Vectors  # [C], of the integers
    norms: Vectors  # [PARTS + 3, C]

    @classmethod
    def of_keys(cls, keys: Vectors, basis: Vectors, columns: int) -> "Compressed":
        """Vectors of keys in the basis of keys."""
        leading, scale, norms = _compress(keys, basis, columns)
        return cls(leading, scale, norms.T)

    def set(self, rows: Ids, new: "Compressed") -> None:
        """Replace some keys."""
        self.leading[rows], self.scale[rows], self.norms[:, rows] = vars(new).values()

    def bounds(self, queries: Vectors, basis: Vectors) -> Vectors:
        """Upper bounds [n, C] of the inner products of queries with all keys."""
        leading, scale, norms = _compress(queries, basis, self.leading.shape[1])
        left_out, whole = norms[:, -2], norms[:, -1]
        norms[:, -2:] = np.stack([whole + left_out, left_out], 1)  # times those of the keys
        products = torch._int_mm(torch.from_numpy(leading), torch.from_numpy(self.leading).T)
        scaled = products.float().mul_(torch.from_numpy(self.scale))
        bounds = torch.from_numpy(norms) @ torch.from_numpy(self.norms)
        added: Vectors = bounds.addcmul_(scaled, torch.from_numpy(scale)[:, None]).numpy()
        return added


def _compress(
    vectors: Vectors, basis: Vectors, columns: int
) -> tuple[NDArray[np.int8], Vectors, Vectors]:
    """Integers [n, columns], their scale [n], and norms [n, PARTS + 3] as `Compressed` has them."""
    turned = vectors @ basis.T
    leading = turned[:, :columns]
    scale = np.abs(leading).max(1) / 127
    scale[scale == 0] = 1.0
    integers = np.rint(leading / scale[:, None])
    parts = np.array_split(turned[:, columns:], PARTS, axis=1)
    left_out = leading - integers * scale[:, None]
    norms = [np.linalg.norm(part, axis=1) for part in (*parts, vectors, left_out, leading)]
    norms[PARTS] *= math.sqrt(ROUNDING)
    return integers.astype(np.int8), scale, np.stack(norms, 1)


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
    """The number of leading columns for which a search reads the fewest numbers.

    It reads these columns of all keys, and all columns of those that they cannot rule out.
    """
    width = keys.shape[1]
    place = max(1, round(10 * len(keys) / num_keys))  # of the tenth best among the sampled keys
    least = np.sort(queries @ keys.T, axis=1)[:, -place]
    costs = {}
    for columns in [number for number in COLUMNS if number < width] or [width]:
        bounds = Compressed.of_keys(keys, basis[1], columns).bounds(queries, basis[0])
        left = (bounds >= least[:, None]).mean() * num_keys
        costs[columns] = num_keys * columns + SCATTERED * left * width
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
    best = _top(scores, wanted.k)
    return best_first(best, scores[best], wanted.k)


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


def _top(scores: Vectors, count: int) -> Ids:
    """The positions of the highest scores that are not -inf, in any order."""
    top = np.arange(len(scores))
    if count < len(scores):
        top = torch.from_numpy(scores).topk(count, sorted=False).indices.numpy()
    return top[scores[top] >= LOWEST]


def best_first(positions: Ids, scores: Vectors, k: int) -> Found:
    """The k highest scores, the highest first."""
    order = np.argsort(-scores, kind="stable")[:k]
    return positions[order], scores[order]
