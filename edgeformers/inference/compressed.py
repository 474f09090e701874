"""Vectors as 8-bit integers, with norms that bound what the integers leave out of a product.

A change of basis q . k = (A q) . (B k) gives queries and keys the same, diagonal second moment, so
that the first columns have nearly all of a product. By the Cauchy-Schwarz inequality the others,
and what integers do not represent, add at most products of norms.

Shapes: C keys, R width, n queries.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.types import Floats, Ids
from edgeformers.inference.encode import Vectors

#: Columns of all keys that are multiplied, and columns after these. The compiled loops are several
#: times faster if their length is a constant; narrower vectors are filled up with zeros.
FIRST, LATER = 128, 384
PARTS = 4  # of the other columns, each with a bound of its own
LARGEST = 16_383  # integer of a query; sums of products with 8 bits stay below 2**31
ROUNDING = 1e-5  # error of a product in float32, relative to the norms
#: Units in which norms and their weights are about equally long, so that the product of lengths is
#: a close bound: what integers of keys leave out, columns and parts, what those of queries do.
UNITS = np.array([0.1, 1.0, *[1.0] * PARTS, 100.0], np.float32)
NORMS = len(UNITS)


@dataclass(frozen=True)
class Compressed:
    """Keys as integers, and norms that bound all that these leave out.

    The columns of a key are divided into the first, the later, and PARTS of all others. `scales`:
    the scale of the first integers, and the norm of `norms`. `norms`: of what the first integers
    leave out, of the later columns and the parts, and of the whole key, in either basis, for what
    integers of the query leave out. `steps`: the scale of the later integers, and the norm of what
    they leave out less that of their columns.
    """

    first: NDArray[np.int8]  # [C, FIRST]
    scales: Vectors  # [C, 2]
    norms: Vectors  # [C, NORMS]
    later: NDArray[np.int8]  # [C, LATER]
    steps: Vectors  # [C, 2]

    @classmethod
    def empty(cls, count: int) -> "Compressed":
        """Room for keys that are set later."""
        return cls(
            np.empty((count, FIRST), np.int8),
            np.empty((count, 2), np.float32),
            np.empty((count, NORMS), np.float32),
            np.empty((count, LATER), np.int8),
            np.empty((count, 2), np.float32),
        )

    @classmethod
    def of_keys(cls, keys: Vectors, basis: Vectors) -> "Compressed":
        """Vectors of keys in the basis of keys."""
        turned = keys @ basis.T
        first, later, *parts = _divided(turned)
        integers, scale, left_out = _as_integers(first)
        later_integers, later_scale, later_left_out = _as_integers(later)
        whole = np.maximum(_norm(turned), _norm(keys))
        norms = np.stack([left_out, *map(_norm, (later, *parts)), whole], 1).astype(np.float32)
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
        queries: Vectors, basis: Vectors
    ) -> tuple[NDArray[np.int16], NDArray[np.int16], Vectors]:
        """First and later integers of queries, and their weights [n, 1 + NORMS] of keys' norms.

        Before the weights comes the scale of the integers.
        """
        turned = (basis @ queries.T).T  # for a few rows faster than the other way around
        first, later, *parts = _divided(turned)
        leading = np.concatenate([first, later], 1)
        scale = np.abs(leading).max(1, initial=0.0) / LARGEST
        scale[scale == 0] = 1.0
        integers = np.rint(leading / scale[:, None])
        whole = _norm(leading - integers * scale[:, None])
        whole += ROUNDING * np.maximum(_norm(turned), _norm(queries))
        weights = np.stack([*map(_norm, (first, later, *parts)), whole], 1) * UNITS
        numbers = integers.astype(np.int16)
        return (
            np.ascontiguousarray(numbers[:, :FIRST]),
            np.ascontiguousarray(numbers[:, FIRST:]),
            np.column_stack([scale, weights]).astype(np.float32),
        )

    def set(self, rows: Ids, new: "Compressed") -> None:
        """Replace some keys."""
        for name, array in vars(new).items():
            getattr(self, name)[rows] = array


def balanced_basis(queries: Vectors, keys: Vectors) -> Floats:
    """Matrices A and B [2, R, R] with A^T B = I that diagonalize both second moments alike.

    They are those of balanced truncation: the singular vectors of the product of the two roots.
    """
    roots = [_root(vectors.astype(np.float64)) for vectors in (queries, keys)]
    left, values, right = np.linalg.svd(roots[0].T @ roots[1])
    scale = 1 / np.sqrt(np.maximum(values, 1e-12 * values[0]))[:, None]
    return np.stack([scale * (right @ roots[1].T), scale * (left.T @ roots[0].T)])


def _root(vectors: Floats) -> Floats:
    """A root of the second moment; the floor keeps directions that no sampled vector has."""
    moment = vectors.T @ vectors / max(1, len(vectors))
    values, basis = np.linalg.eigh(moment)
    floor = 1e-6 * max(values[-1], 1e-12)
    return np.asarray(basis * np.sqrt(np.maximum(values, floor)))


def _divided(turned: Vectors) -> list[Vectors]:
    """The first columns, the later ones, and PARTS of the others."""
    missing = max(0, FIRST + LATER - turned.shape[1])
    turned = np.pad(turned, ((0, 0), (0, missing))) if missing else turned
    others = np.linspace(FIRST + LATER, turned.shape[1], PARTS + 1).astype(int).tolist()
    return [turned[:, start:end] for start, end in pairwise([0, FIRST, *others])]


def _as_integers(vectors: Vectors) -> tuple[NDArray[np.int8], Vectors, Vectors]:
    """Integers [n, r], their scale [n], and the norm [n] of what they leave out."""
    scale = np.abs(vectors).max(1, initial=0.0) / 127
    scale[scale == 0] = 1.0
    integers = np.rint(vectors / scale[:, None])
    return integers.astype(np.int8), scale, _norm(vectors - integers * scale[:, None])


def _norm(vectors: Vectors) -> Vectors:
    norms: Vectors = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    return norms
