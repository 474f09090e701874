"""Columns of edges as arrays: words become codes while the table streams by."""

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
from edgeformers.errors import InputError

MAX_CLASSES = 1000
MAX_NODE_LABELS = 10_000  # their names are read whenever the network is opened
CHUNK = 1 << 24  # values turned from one code into another at a time


class WordCodes:
    """Words of a column as numbers, in the order they appear; a null is -1."""

    def __init__(self, what: str, limit: int | None = None) -> None:
        self.what = what
        self.limit = limit
        self.codes: dict[str, int] = {}

    @property
    def words(self) -> list[str]:
        return list(self.codes)

    def encode(self, column: pa.Array) -> NDArray[np.int32]:
        encoded = column.dictionary_encode()
        words = encoded.dictionary.to_pylist()
        known = np.array([self.codes.setdefault(word, len(self.codes)) for word in words], np.int32)
        if self.limit is not None and len(self.codes) > self.limit:
            first, *_, last = self.codes
            hint = "a number (--label-kind number), or " if self.what == "label" else ""
            raise InputError(
                f"the {self.what} has more than {self.limit:,} different values, such as '{first}' "
                f"and '{last}'; is it {hint}not a {self.what} at all?"
            )
        places = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        coded: NDArray[np.int32] = np.append(known, np.int32(-1))[places]
        return coded


class ColumnArrays:
    """Writes the arrays of a streamed table of edges: codes of words, times, weights, lengths."""

    def __init__(self, folder: Path, schema: pa.Schema, label_kind: LabelKind) -> None:
        self.folder = folder
        self.rows = 0
        columns = set(schema.names)
        self.codes: dict[str, WordCodes] = {}
        if "edge_type" in columns:
            self.codes["edge_type"] = WordCodes("edge type", MAX_CLASSES)
        if "label" in columns and label_kind != "number":
            self.codes["label"] = WordCodes("label", MAX_CLASSES if label_kind == "class" else None)
        dtypes: dict[str, Any] = dict.fromkeys(self.codes, np.int32)
        dtypes |= {"text_lengths": np.int32}
        dtypes |= {"time": np.int64} if "time" in columns else {}
        dtypes |= {"weight": np.float32} if "weight" in columns else {}
        dtypes |= {"label": np.float32} if "label" in columns and label_kind == "number" else {}
        self.writers = {name: ArrayWriter(self.path(name), dtypes[name]) for name in dtypes}

    def append(self, batch: pa.RecordBatch) -> None:
        for name, writer in self.writers.items():
            if name == "text_lengths":
                writer.append(pc.utf8_length(batch.column("text")).to_numpy())
            elif name in self.codes:
                writer.append(self.codes[name].encode(batch.column(name)))
            elif name == "time":
                times = batch.column("time").cast(pa.int64())
                writer.append(pc.fill_null(times, NO_TIME).to_numpy())
            else:
                writer.append(self._numbers(name, batch.column(name)))
        self.rows += batch.num_rows

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()

    def path(self, name: str) -> Path:
        """Where the codes or numbers of a column are written."""
        return self.folder / f"{name}.npy"

    def _numbers(self, name: str, column: pa.Array) -> NDArray[np.float64]:
        numbers = parse_numbers(column) if pa.types.is_string(column.type) else column
        values: NDArray[np.float64] = pc.fill_null(numbers, math.nan).to_numpy()
        large = np.flatnonzero(np.abs(values) > np.finfo(np.float32).max)
        if len(large):
            raise InputError(
                f"edge {self.rows + int(large[0]) + 1:,}: the {name} {values[large[0]]} is too "
                "large; numbers up to 3e38 can be kept"
            )
        return values

    def __enter__(self) -> "ColumnArrays":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sorted_words(words: list[str]) -> list[str]:
    """Class names in their natural order: as numbers where all are numbers, else as text."""
    try:
        numbers = {word: float(word) for word in words}
    except ValueError:
        return sorted(words)
    if not all(map(math.isfinite, numbers.values())):
        return sorted(words)
    return sorted(words, key=lambda word: (numbers[word], word))


def write_classes(path: Path, codes: Path, words: list[str]) -> list[str]:
    """Class codes in the natural order of the names, from codes by appearance; gives the names."""
    names = sorted_words(words)
    place = {word: i for i, word in enumerate(names)}
    recode(codes, path, np.array([place[word] for word in words] + [-1], np.int16))
    return names


def write_label_sets(path: Path, codes: Path, words: list[str], separator: str) -> list[str]:
    """A table [E, C] telling which labels each edge has; gives the names of the C labels."""
    sets = [split_labels(word, separator) for word in words]
    names = sorted_words(list(dict.fromkeys(label for labels in sets for label in labels)))
    if len(names) > MAX_CLASSES:
        raise InputError(
            f"the labels have {len(names):,} different names, such as '{names[0]}' and "
            f"'{names[-1]}'; {MAX_CLASSES:,} at most can be told apart"
        )
    place = {name: i for i, name in enumerate(names)}
    member = np.zeros((len(words) + 1, len(names)), bool)
    for row, labels in enumerate(sets):
        member[row, [place[label] for label in labels]] = True
    recode(codes, path, member)
    return names


def recode(codes: Path, out: Path, meaning: NDArray[Any]) -> None:
    """Write `meaning[code]` for every code, a chunk at a time, and remove the codes."""
    written = open_array(codes)
    rows = max(1, CHUNK // max(1, meaning[0].size))
    with ArrayWriter(out, meaning.dtype, meaning.shape[1:]) as writer:
        for start in range(0, len(written), rows):
            writer.append(meaning[written[start : start + rows]])
    codes.unlink()


class NodeLabels:
    """Writes the labels of streamed nodes, several per node: offsets and codes of their names."""

    def __init__(self, folder: Path) -> None:
        self.offsets_path = folder / "node_labels.offsets.npy"
        self.codes_path = folder / "node_labels.codes.npy"
        self.appeared_path = folder / "node_labels.appeared.npy"
        self.words = WordCodes("node label", MAX_NODE_LABELS)
        self.offsets = ArrayWriter(self.offsets_path, np.int64)
        self.codes = ArrayWriter(self.appeared_path, np.int32)
        self.offsets.append(np.zeros(1, np.int64))

    def append(self, column: pa.Array) -> None:
        """Lists of labels; a null list and a null in a list are no label."""
        parents, values = pc.list_parent_indices(column), pc.list_flatten(column)
        named = pc.is_valid(values)
        counts = np.bincount(parents.filter(named).to_numpy(), minlength=len(column))
        self.offsets.append(self.codes.length + np.cumsum(counts))
        self.codes.append(self.words.encode(values.filter(named)))

    def finish(self) -> list[str]:
        """Number the labels in the natural order of their names; gives the names."""
        names = sorted_words(self.words.words)
        if names:
            place = {name: i for i, name in enumerate(names)}
            order = np.array([place[word] for word in self.words.words], np.int32)
            recode(self.appeared_path, self.codes_path, order)
        else:
            self.offsets_path.unlink()
            self.appeared_path.unlink()
        return names

    def __enter__(self) -> "NodeLabels":
        return self

    def __exit__(self, *_: object) -> None:
        self.offsets.close()
        self.codes.close()
