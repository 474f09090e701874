"""IdTable: numbers strings in order of first appearance, in a few flat arrays."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from edgeformers.data.jit import jit
from edgeformers.data.numba_kernels import find_strings, hash_strings, place_entries
from edgeformers.errors import InputError

MAX_IDS = 2**31 - 1


class IdTable:
    """A hash table from strings to numbers, without a Python object per string.

    It takes the bytes of the strings plus 25 to 50 bytes for each.
    """

    def __init__(self) -> None:
        self._count = 0
        self._bytes = np.empty(0, np.uint8)  # of all strings, one after another
        self._ends = np.zeros(1, np.int64)  # string i is _bytes[_ends[i] : _ends[i + 1]]
        self._hashes = np.empty(0, np.uint64)
        self._slots = np.full(1024, -1, np.int32)  # the numbers, by hash

    def __len__(self) -> int:
        return self._count

    def add(self, strings: pa.Array) -> NDArray[np.int32]:
        """The number of each string; new ones get the next numbers."""
        data, offsets = string_buffers(strings)
        self._reserve(len(strings), int(offsets[-1] - offsets[0]))
        return self._find(data, offsets, grow=True)

    def find(self, strings: pa.Array) -> NDArray[np.int32]:
        """The number of each string; -1 if it is unknown."""
        return self._find(*string_buffers(strings), grow=False)

    def strings(self, start: int, stop: int) -> pa.Array:
        """The strings with the numbers from `start` up to `stop`."""
        ends = self._ends[start : stop + 1]
        offsets = (ends - ends[0]).astype(np.int32)
        data = self._bytes[ends[0] : ends[-1]].copy()
        return pa.StringArray.from_buffers(
            len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data)
        )

    def _find(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int32], *, grow: bool
    ) -> NDArray[np.int32]:
        numbers = np.empty(len(offsets) - 1, np.int32)
        arrays = (self._slots, self._hashes, self._ends, self._bytes)
        hashes = jit(hash_strings, len(data))(data, offsets)
        find = jit(find_strings, len(data))
        self._count = find(data, offsets, hashes, *arrays, self._count, grow, numbers)
        return numbers

    def _reserve(self, count: int, num_bytes: int) -> None:
        """Make room for so many new strings."""
        entries = self._count + count
        if entries > MAX_IDS:
            raise InputError(f"the table has more than {MAX_IDS:,} different ids; use fewer")
        self._bytes = _grown(self._bytes, int(self._ends[self._count]) + num_bytes)
        self._ends = _grown(self._ends, entries + 1)
        self._hashes = _grown(self._hashes, entries)
        if 2 * entries > len(self._slots):
            size = 1 << (2 * entries - 1).bit_length()
            self._slots = np.full(size, -1, np.int32)
            jit(place_entries, self._count)(self._hashes[: self._count], self._slots)


def string_buffers(strings: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The bytes of a string column and the offsets of its strings, without a copy."""
    _, offsets, data = strings.buffers()
    if not len(strings):
        return _read_only(np.empty(0, np.uint8)), _read_only(np.zeros(1, np.int32))
    ends = np.frombuffer(offsets, np.int32, len(strings) + 1, 4 * strings.offset)
    return _read_only(np.frombuffer(data or b"", np.uint8)), _read_only(ends)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The array, read-only: numba compiles once, whether or not Arrow's buffers can be written."""
    array.flags.writeable = False
    return array


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array, or a copy with room for `size` values and half as many again."""
    if size <= len(array):
        return array
    larger = np.empty(size + size // 2, array.dtype)
    larger[: len(array)] = array
    return larger
