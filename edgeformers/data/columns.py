"""Columns of a streamed table as arrays on disk: labels, edge types, times, weights."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from edgeformers.data.arrays import ArrayWriter, open_array
from edgeformers.data.readers.canonical import parse_numbers
from edgeformers.data.splits import NO_TIME
from edgeformers.data.table import LabelKind, split_labels
from edgeformers.data.types import Floats
from edgeformers.errors import InputError

MAX_CLASSES = 1000
MAX_NODE_LABELS = 10_000  # their names are read whenever the network is opened
CHUNK = 1 << 24  # values recoded at a time


class CategoryEncoder:
    """Encodes strings as integers in order of appearance; null is -1."""

    def __init__(self, what: str, limit: int | None = None) -> None:
        self.what = what  # for error messages
        self.limit = limit  # on the number of categories
        self.codes: dict[str, int] = {}

    @property
    def categories(self) -> list[str]:
        return list(self.codes)

    def encode(self, column: pa.Array) -> NDArray[np.int32]:
        encoded = column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        codes = np.array([self.codes.setdefault(v, len(self.codes)) for v in values], np.int32)
        if self.limit is not None and len(self.codes) > self.limit:
            first, *_, last = self.codes
            hint = "a number (--label-kind number), or " if self.what == "label" else ""
            raise InputError(
                f"the {self.what} has more than {self.limit:,} different values, such as '{first}' "
                f"and '{last}'; is it {hint}not a {self.what} at all?"
            )
        indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        result: NDArray[np.int32] = np.append(codes, np.int32(-1))[indices]
        return result


class EdgeColumnWriter:
    """Writes one array per edge column: category codes, times, numbers and text lengths."""

    def __init__(self, folder: Path, schema: pa.Schema, label_kind: LabelKind) -> None:
        self.folder = folder
        self.rows = 0
        columns = set(schema.names)
        self.encoders: dict[str, CategoryEncoder] = {}
        if "edge_type" in columns:
            self.encoders["edge_type"] = CategoryEncoder("edge type", MAX_CLASSES)
        if "label" in columns and label_kind != "number":
            limit = MAX_CLASSES if label_kind == "class" else None
            self.encoders["label"] = CategoryEncoder("label", limit)
        numeric = {"time": np.int64, "weight": np.float32, "label": np.float32}
        dtypes: dict[str, Any] = {name: dtype for name, dtype in numeric.items() if name in columns}
        dtypes |= {"text_lengths": np.int32} | dict.fromkeys(self.encoders, np.int32)
        self.writers = {name: ArrayWriter(self.path(name), dtypes[name]) for name in dtypes}

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def append(self, batch: pa.RecordBatch) -> None:
        for name, writer in self.writers.items():
            if name == "text_lengths":
                writer.append(pc.utf8_length(batch.column("text")).to_numpy())
            elif name in self.encoders:
                writer.append(self.encoders[name].encode(batch.column(name)))
            elif name == "time":
                times = batch.column("time").cast(pa.int64())
                writer.append(pc.fill_null(times, NO_TIME).to_numpy())
            else:
                writer.append(self._numbers(name, batch.column(name)))
        self.rows += batch.num_rows

    def _numbers(self, name: str, column: pa.Array) -> Floats:
        numbers = parse_numbers(column) if pa.types.is_string(column.type) else column
        values: Floats = pc.fill_null(numbers, math.nan).to_numpy()
        large = np.flatnonzero(np.abs(values) > np.finfo(np.float32).max)
        if len(large):
            raise InputError(
                f"edge {self.rows + int(large[0]) + 1:,}: the {name} {values[large[0]]} is too "
                "large; the maximum is 3e38"
            )
        return values

    def __enter__(self) -> "EdgeColumnWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self.writers.values():
            writer.close()


class NodeLabelWriter:
    """Writes the labels of streamed nodes as offsets and label codes."""

    def __init__(self, folder: Path) -> None:
        self.offsets_path = folder / "node_labels.offsets.npy"
        self.codes_path = folder / "node_labels.codes.npy"
        self.unsorted_path = folder / "node_labels.unsorted.npy"
        self.encoder = CategoryEncoder("node label", MAX_NODE_LABELS)
        self.offsets = ArrayWriter(self.offsets_path, np.int64)
        self.codes = ArrayWriter(self.unsorted_path, np.int32)
        self.offsets.append(np.zeros(1, np.int64))

    def append(self, column: pa.Array) -> None:
        """Append one list of labels per node; nulls are ignored."""
        parents, values = pc.list_parent_indices(column), pc.list_flatten(column)
        is_valid = pc.is_valid(values)
        counts = np.bincount(parents.filter(is_valid).to_numpy(), minlength=len(column))
        self.offsets.append(self.codes.length + np.cumsum(counts))
        self.codes.append(self.encoder.encode(values.filter(is_valid)))

    def finish(self) -> list[str]:
        """Renumber the labels in natural order, and return their names in that order."""
        if not self.encoder.categories:
            self.offsets_path.unlink()
            self.unsorted_path.unlink()
            return []
        names, order = _natural_codes(self.encoder.categories, np.int32)
        recode(self.unsorted_path, self.codes_path, order)
        return names

    def __enter__(self) -> "NodeLabelWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.offsets.close()
        self.codes.close()


def natural_order(categories: list[str]) -> list[str]:
    """Class names sorted as numbers if all are finite numbers, else as text."""
    try:
        numbers = {name: float(name) for name in categories}
    except ValueError:
        return sorted(categories)
    if not all(map(math.isfinite, numbers.values())):
        return sorted(categories)
    return sorted(categories, key=lambda name: (numbers[name], name))


def _natural_codes(categories: list[str], dtype: type) -> tuple[list[str], NDArray[Any]]:
    """Names in natural order, and the rank of each category in it."""
    names = natural_order(categories)
    rank = {name: i for i, name in enumerate(names)}
    return names, np.array([rank[name] for name in categories], dtype)


def write_classes(path: Path, codes: Path, categories: list[str]) -> list[str]:
    """Write class codes in natural order, from codes by appearance; returns the class names."""
    names, order = _natural_codes(categories, np.int16)
    recode(codes, path, np.append(order, np.int16(-1)))
    return names


def write_label_sets(path: Path, codes: Path, categories: list[str], separator: str) -> list[str]:
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
    recode(codes, path, is_member)
    return names


def recode(codes: Path, out: Path, values: NDArray[Any]) -> None:
    """Write `values[code]` for every code, in chunks, and remove the file of codes."""
    array = open_array(codes)
    rows = max(1, CHUNK // max(1, values[0].size))
    with ArrayWriter(out, values.dtype, values.shape[1:]) as writer:
        for start in range(0, len(array), rows):
            writer.append(values[array[start : start + rows]])
    codes.unlink()
