"""VectorCache: what a trained model has encoded is not encoded again."""

from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.types import Ids
from edgeformers.inference.encode import Vectors
from edgeformers.inference.growing import GrowingArray

MOST_BYTES = 1 << 29  # of vectors that are kept


class VectorCache:
    """The vectors of nodes or edges, by kind and number, until they take `most_bytes`.

    For a model that is not trained any more, and one network. Threads may share it.

    Shapes: n nodes or edges, D width.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._tables: dict[str, _Table] = {}
        self._lock = Lock()

    def vectors(self, kind: str, ids: Ids, count: int, encode: Callable[[Ids], Vectors]) -> Vectors:
        """The vectors [n, D] of `ids`, which are below `count`; missing ones are encoded."""
        table = self._tables.get(kind)
        is_missing = np.ones(len(ids), bool) if table is None else table.places[ids] == 0
        if not is_missing.any() and table is not None:
            return table.take(ids)
        missing = ids if is_missing.all() else np.unique(ids[is_missing])
        encoded = encode(missing)
        with self._lock:
            self._add(kind, missing, encoded, count)
        if len(missing) == len(ids):
            return encoded
        found = np.empty((len(ids), encoded.shape[1]), np.float32)
        found[is_missing] = encoded[np.searchsorted(missing, ids[is_missing])]
        if table is not None:
            found[~is_missing] = table.take(ids[~is_missing])
        return found

    def share(self, kind: str) -> float:
        """The share of the nodes or edges of a kind whose vectors are here."""
        table = self._tables.get(kind)
        return 0.0 if table is None else len(table.vectors.rows) / max(1, len(table.places))

    def _add(self, kind: str, ids: Ids, vectors: Vectors, count: int) -> None:
        stored = sum(table.vectors.rows.nbytes for table in self._tables.values())
        if stored + vectors.nbytes > self.most_bytes:
            return
        if kind not in self._tables:
            self._tables[kind] = _Table(count, vectors.shape[1])
        self._tables[kind].add(ids, vectors)


class _Table:
    def __init__(self, count: int, width: int) -> None:
        self.places: NDArray[np.int32] = np.zeros(count, np.int32)  # from 1 on; 0: not stored
        self.vectors = GrowingArray(np.empty((0, width), np.float32))

    def add(self, ids: Ids, vectors: Vectors) -> None:
        first = len(self.vectors.rows) + 1
        self.vectors.append(vectors)
        self.places[ids] = np.arange(first, first + len(ids))  # last: other threads may read

    def take(self, ids: Ids) -> Vectors:
        found: Vectors = self.vectors.rows[self.places[ids] - 1]
        return found
