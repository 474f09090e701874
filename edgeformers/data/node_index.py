"""NodeIndex: node ids, as users write them, to node numbers and back."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.types import Ids, Side
from edgeformers.errors import InputError, UnknownNodeError

SEARCHED_IDS = 50_000  # ids compared with an unknown one to suggest the closest match


class NodeIndex:
    """The ids of all nodes in the order of their numbers.

    In a bipartite network the first `num_sources` nodes are sources and the others targets, and
    the same id may occur once on each side. With one node type `num_sources` is None, and the
    side makes no difference.
    """

    def __init__(self, ids: pa.ChunkedArray, num_sources: int | None = None) -> None:
        self.ids = ids
        self.num_sources = num_sources

    def __len__(self) -> int:
        return len(self.ids)

    def numbers(self, ids: Sequence[Any], side: Side | None = None) -> Ids:
        """The node numbers of `ids` on a side (None: the first match on any); -1 if unknown."""
        first, known = self._side(side)
        places = pc.index_in(pa.array([str(i) for i in ids], pa.string()), value_set=known)
        offsets = pc.fill_null(places, -1 - first).to_numpy(zero_copy_only=False)
        return np.asarray(offsets, np.int64) + first

    def known_numbers(
        self, ids: Sequence[Any], side: Side | None = None, *, remedy: str = ""
    ) -> Ids:
        """Like `numbers`, but an unknown id is an InputError with the closest ids and a remedy."""
        numbers = self.numbers(ids, side)
        if (numbers < 0).any():
            unknown = str(ids[int(np.argmax(numbers < 0))])
            known = self._side(side)[1].slice(0, SEARCHED_IDS).to_pylist()
            similar = ", ".join(f"'{name}'" for name in get_close_matches(unknown, known))
            hint = f"similar ids are {similar}" if similar else f"an example is '{known[0]}'"
            problem = f"the network has no {side or 'node'} '{unknown}'"
            raise UnknownNodeError("; ".join(filter(None, [problem, hint, remedy])))
        return numbers

    def ids_of(self, numbers: ArrayLike) -> list[str]:
        """The ids of node numbers."""
        nodes = np.asarray(numbers, np.int64)
        if nodes.size and not 0 <= nodes.min() <= nodes.max() < len(self):
            raise InputError(
                f"nodes are numbered from 0 to {len(self) - 1:,} "
                f"(got {nodes.min():,} to {nodes.max():,})"
            )
        ids: list[str] = self.ids.take(pa.array(nodes)).to_pylist()
        return ids

    def hashes(self, numbers: ArrayLike) -> NDArray[np.uint64]:
        """A hash of the id of each node, which does not depend on the numbering."""
        nodes, position = np.unique(np.asarray(numbers, np.int64), return_inverse=True)
        digests = (blake2b(name.encode(), digest_size=8).digest() for name in self.ids_of(nodes))
        return np.frombuffer(b"".join(digests), "<u8")[position].astype(np.uint64)

    def count_shared_ids(self) -> int:
        """How many ids of sources are also ids of targets; 0 with one node type."""
        if self.num_sources is None:
            return 0
        (_, sources), (_, targets) = self._side("source"), self._side("target")
        return int(pc.sum(pc.is_in(sources, value_set=targets)).as_py() or 0)

    def _side(self, side: Side | None) -> tuple[int, pa.Array]:
        """The number of the first node of a side, and the ids of all its nodes."""
        if side is None or self.num_sources is None:
            return 0, self._flat_ids
        if side == "source":
            return 0, self._flat_ids.slice(0, self.num_sources)
        return self.num_sources, self._flat_ids.slice(self.num_sources)

    @cached_property
    def _flat_ids(self) -> pa.Array:
        """All ids in one chunk; a slice of it copies nothing."""
        return self.ids.cast(pa.string()).combine_chunks()
