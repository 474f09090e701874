"""Columns of categories as codes: classes, label sets, edge types and node labels."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from edgeformers.data.table import split_labels
from edgeformers.data.types import IntArray
from edgeformers.errors import InputError

MAX_CLASSES = 1000
CHUNK = 1 << 24  # cells of a table of label sets written at a time


class CategoryEncoder:
    """Encodes strings as integers in order of appearance; null is -1."""

    def __init__(self, what: str, limit: int | None = None) -> None:
        self.what = what  # for error messages
        self.limit = limit  # on the number of categories
        self.codes: dict[str, int] = {}

    def encode(self, column: pa.Array) -> NDArray[np.int32]:
        encoded = column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        codes = np.array([self.codes.setdefault(v, len(self.codes)) for v in values], np.int32)
        if self.limit is not None and len(self.codes) > self.limit:
            first, *_, last = self.codes
            hint = "a number (`label_kind='number'`), or " if self.what == "label" else ""
            raise InputError(
                f"the {self.what} has more than {self.limit:,} different values, such as '{first}' "
                f"and '{last}'; is it {hint}not a {self.what} at all?"
            )
        indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        result: NDArray[np.int32] = np.append(codes, np.int32(-1))[indices]
        return result

    def sort(self, codes: NDArray[np.int32], dtype: type) -> tuple[list[str], IntArray]:
        """The categories in natural order, and `codes` as positions in it; -1 stays -1."""
        names = natural_order(list(self.codes))
        rank = {name: i for i, name in enumerate(names)}
        return names, np.array([*map(rank.__getitem__, self.codes), -1], dtype)[codes]


def natural_order(categories: list[str]) -> list[str]:
    """Class names sorted as numbers if all are finite numbers, else as text."""
    try:
        numbers = {name: float(name) for name in categories}
    except ValueError:
        return sorted(categories)
    if not all(map(math.isfinite, numbers.values())):
        return sorted(categories)
    return sorted(categories, key=lambda name: (numbers[name], name))


def write_label_sets(
    path: Path, codes: NDArray[np.int32], categories: list[str], separator: str
) -> list[str]:
    """Write a table [E, C] of the labels of each edge; returns the names of the C labels."""
    sets = [split_labels(category, separator) for category in categories]
    names = natural_order(list(dict.fromkeys(label for labels in sets for label in labels)))
    if len(names) > MAX_CLASSES:
        raise InputError(
            f"the labels have {len(names):,} different names, such as '{names[0]}' and "
            f"'{names[-1]}'; the maximum is {MAX_CLASSES:,}"
        )
    rank = {name: i for i, name in enumerate(names)}
    is_member = np.zeros((len(categories) + 1, len(names)), bool)  # the last row: no label
    for row, labels in enumerate(sets):
        is_member[row, [rank[label] for label in labels]] = True
    table = open_memmap(path, "w+", bool, (len(codes), len(names)))
    rows = max(1, CHUNK // max(1, len(names)))
    for start in range(0, len(codes), rows):
        table[start : start + rows] = is_member[codes[start : start + rows]]
    table.flush()
    return names
