"""NodeIndex: node ids, as users write them, to node numbers and back."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cached_property
from hashlib import blake2b
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.id_table import IdTable
from edgeformers.data.types import Ids, IntArray, Side
from edgeformers.errors import FormatError, InputError, UnknownNodeError

FEW_IDS, SCANS = 100, 4  # ids, and lookups of so few: a table takes a second, to import numba
SAME_ID = "two nodes have the same id; prepare the network again"
SEARCHED_IDS = 2_000  # ids compared with an unknown one to suggest the closest match


class NodeIndex:
    """The ids of all nodes in the order of their numbers.

    In a bipartite network the first `num_sources` nodes are sources and the others targets, and
    the same id may occur once on each side. With one node type `num_sources` is None, and the
    side makes no difference.
    """

    def __init__(self, ids: pa.ChunkedArray, num_sources: int | None = None) -> None:
        self.ids = ids
        self.num_sources = num_sources
        self._tables: dict[Side | None, IdTable] = {}
        self._scans = 0

    def __len__(self) -> int:
        return len(self.ids)

    def numbers(self, ids: Sequence[Any], side: Side | None = None) -> Ids:
        """The node numbers of `ids` on a side (None: the first match on any); -1 if unknown."""
        wanted = pa.array([str(i) for i in ids], pa.string())
        scans = len(wanted) <= FEW_IDS and self._scans < SCANS
        self._scans += 1
        is_one_type = self.num_sources is None
        sides: Sequence[Side | None] = [side] if side or is_one_type else get_args(Side)
        numbers = np.full(len(wanted), -1, np.int64)
        for own in sides:
            kind = None if is_one_type else own
            is_scanned = scans and kind not in self._tables
            places: IntArray = (
                _scan(self._side(own)[1], wanted) if is_scanned else self._table(kind).find(wanted)
            )
            numbers = np.where((numbers < 0) & (places >= 0), places + self._side(own)[0], numbers)
        return numbers

    def make_tables(self) -> None:
        """Get ready to look up many ids; otherwise the first lookups go through all ids."""
        sides: Sequence[Side | None] = [None] if self.num_sources is None else get_args(Side)
        for side in sides:
            self._table(side)

    def known_numbers(
        self, ids: Sequence[Any], side: Side | None = None, *, remedy: str = ""
    ) -> Ids:
        """Like `numbers`, but an unknown id is an InputError with the closest ids and a remedy."""
        numbers = self.numbers(ids, side)
        if (numbers < 0).any():
            unknown = str(ids[int(np.argmax(numbers < 0))])
            known = _resembling(unknown, self._side(side)[1])
            similar = ", ".join(f"'{name}'" for name in get_close_matches(unknown, known))
            hint = f"similar ids are {similar}" if similar else f"an example is '{known[0]}'"
            problem = f"the network has no {side or 'node'} '{unknown}'"
            raise UnknownNodeError("; ".join(filter(None, [problem, hint, remedy])))
        return numbers

    def numbers_in(self, other: "NodeIndex") -> Ids:
        """The number that each node has in another index, by id and side; -1 if it has none."""
        if (self.num_sources is None) != (other.num_sources is None):
            raise InputError("one network has sources and targets, the other a single node type")
        numbers = []
        for side in (None,) if self.num_sources is None else get_args(Side):
            places = other._table(side).find(self._side(side)[1])
            numbers.append(np.where(places >= 0, places + other._side(side)[0], -1))
        return np.concatenate(numbers)

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

    def _table(self, side: Side | None) -> IdTable:
        """Finds the ids of a side."""
        if side not in self._tables:
            table, ids = IdTable(), self._side(side)[1]
            table.add(ids)
            if len(table) != len(ids):
                raise FormatError(SAME_ID)
            self._tables[side] = table
        return self._tables[side]

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


class GrowingNodeIndex(NodeIndex):
    """The nodes of a network and those that arrived later, which have the next numbers."""

    def __init__(self, index: NodeIndex) -> None:
        super().__init__(index.ids, index.num_sources)
        self._tables = index._tables  # which are made once
        self._later: dict[tuple[Side | None, str], int] = {}
        self._later_ids: list[str] = []
        self._forgotten: set[int] = set()

    def __len__(self) -> int:
        return len(self.ids) + len(self._later_ids)

    def add(self, name: str, side: Side) -> int:
        """The number of a node on a side; a new one gets the next number."""
        (number,) = super().numbers([name], side).tolist()
        if number < 0:
            key = (None if self.num_sources is None else side, name)
            number = self._later.setdefault(key, len(self))
            if number == len(self):
                self._later_ids.append(name)
            self._forgotten.discard(number)
        return int(number)

    def forget(self, number: int) -> None:
        """Answer that a later node is unknown until it is added again."""
        if number >= len(self.ids):
            self._forgotten.add(number)

    def later(self) -> dict[tuple[Side | None, str], int]:
        """The numbers of the nodes that arrived later, by side (None: one node type) and id."""
        return {key: n for key, n in self._later.items() if n not in self._forgotten}

    def numbers(self, ids: Sequence[Any], side: Side | None = None) -> Ids:
        numbers = super().numbers(ids, side)
        is_one_type = self.num_sources is None
        sides = [None] if is_one_type else [side] if side else get_args(Side)
        for at in np.flatnonzero(numbers < 0).tolist() if self._later else ():
            keys = ((own, str(ids[at])) for own in sides)
            known = (self._later[key] for key in keys if key in self._later)
            numbers[at] = next((n for n in known if n not in self._forgotten), -1)
        return numbers

    def ids_of(self, numbers: ArrayLike) -> list[str]:
        nodes = np.asarray(numbers, np.int64)
        is_later = (nodes >= len(self.ids)) & (nodes < len(self))
        names = super().ids_of(np.where(is_later, 0, nodes))
        for at in np.flatnonzero(is_later).tolist():
            names[at] = self._later_ids[nodes[at] - len(self.ids)]
        return names


def _scan(ids: pa.Array, wanted: pa.Array) -> Ids:
    """The place of each of a few strings among the ids; -1 if it is not there."""
    distinct = wanted.unique()
    matches = pc.index_in(ids, value_set=distinct).fill_null(-1).to_numpy()
    at, places = np.flatnonzero(matches >= 0), np.full(len(distinct), -1, np.int64)
    places[matches[at]] = at
    if (places >= 0).sum() < len(at):
        raise FormatError(SAME_ID)
    found: Ids = places[pc.index_in(wanted, value_set=distinct).to_numpy()]
    return found


def _resembling(unknown: str, ids: pa.Array) -> list[str]:
    """Some ids: of a large network those with the longest prefix or suffix of an unknown one."""
    parts: list[tuple[Callable[..., pa.Array], Callable[[int], str]]] = [
        (pc.starts_with, lambda length: unknown[:length]),
        (pc.ends_with, lambda length: unknown[len(unknown) - length :]),
    ]
    alike: list[str] = []
    for matches, part in parts if len(ids) > SEARCHED_IDS else ():
        longest = bisect_left(
            range(1, len(unknown) + 1),
            True,
            key=lambda n: not pc.any(matches(ids, part(n))).as_py(),
        )
        if longest:
            matching = ids.filter(matches(ids, part(longest)))
            alike += matching.slice(0, SEARCHED_IDS // 2).to_pylist()
    return alike or list(ids.slice(0, SEARCHED_IDS).to_pylist())
