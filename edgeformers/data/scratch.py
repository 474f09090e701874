"""Arrays too large for memory: temporary files in their place, and rows read in blocks."""

import math
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgeformers.data.types import Ids, IntArray, Mask

LARGE_ARRAY = 1 << 28  # bytes
BLOCK = 1 << 20  # rows in memory at a time


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An uninitialized array; a large one is mapped to a temporary file without a name.

    The system can then write its pages to disk instead of running out of memory. The file is in
    the folder that TMPDIR names, and vanishes with the array.
    """
    if math.prod(shape) * np.dtype(dtype).itemsize < LARGE_ARRAY:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, "w+", shape=shape)


def row_slices(count: int, size: int | None = None) -> Iterator[slice]:
    """Consecutive rows, `BLOCK` or `size` at a time."""
    size = size or BLOCK
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def count_values(values: IntArray, minlength: int = 0, chosen: Ids | None = None) -> Ids:
    """`np.bincount` of all values, or those of the chosen rows, without a copy of them."""
    counts = np.zeros(minlength, np.int64)
    for rows in row_slices(len(values if chosen is None else chosen)):
        block = values[rows] if chosen is None else values[chosen[rows]]
        found = np.bincount(block, minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
    return counts


def rows_where(is_chosen: Callable[[slice], Mask], count: int) -> Ids:
    """The numbers of the rows below `count` that are chosen, tested a slice at a time."""
    parts = list(row_slices(count))
    rows = scratch_array((sum(int(is_chosen(part).sum()) for part in parts),), np.int64)
    end = 0
    for part in parts:
        found = np.flatnonzero(is_chosen(part))
        rows[end : end + len(found)] = part.start + found
        end += len(found)
    return rows
