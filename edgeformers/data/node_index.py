"""NodeIndex: nodes as the user writes them, and as the model numbers them."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from edgeformers.data.loader import Ids
from edgeformers.data.splits import Side
from edgeformers.errors import InputError

SEARCHED_NAMES = 50_000  # among which the nearest to an unknown name is looked for


class NodeIndex:
    """Ids as the user writes them <-> node numbers; an id never met is -1."""

    def __init__(self, names: pa.ChunkedArray, num_sources: int | None) -> None:
        self.names = names
        self.num_sources = num_sources  # None: one kind of node
        self._of_side = cache(self._slice)

    def numbers(self, names: Sequence[Any], side: Side) -> Ids:
        """The node numbers of ids on one side."""
        first, known = self._of_side(side)
        found = pc.index_in(pa.array([str(name) for name in names], pa.string()), value_set=known)
        places = pc.fill_null(found, -1 - first).to_numpy(zero_copy_only=False)
        return np.asarray(places, np.int64) + first

    def known_numbers(self, names: Sequence[Any], side: Side) -> Ids:
        """The node numbers of ids on one side; an unknown one is answered with the nearest."""
        numbers = self.numbers(names, side)
        if (numbers < 0).any():
            name = str(names[int(np.argmax(numbers < 0))])
            known = self._of_side(side)[1].slice(0, SEARCHED_NAMES).to_pylist()
            guess = get_close_matches(name, known, n=1)
            hint = f"did you mean '{guess[0]}'?" if guess else f"there is '{known[0]}', for one"
            raise InputError(f"there is no {side} '{name}' in the network; {hint}")
        return numbers

    def of(self, numbers: Sequence[int] | NDArray[Any]) -> list[str]:
        """The ids of node numbers."""
        found: list[str] = self.names.take(pa.array(np.asarray(numbers, np.int64))).to_pylist()
        return found

    def _slice(self, side: Side) -> tuple[int, pa.Array]:
        """The first node of a side and the names of all its nodes."""
        first, stop = 0, len(self.names)
        if self.num_sources is not None:
            first, stop = (0, self.num_sources) if side == "source" else (self.num_sources, stop)
        known = self.names.slice(first, stop - first).cast(pa.string()).combine_chunks()
        return first, known
