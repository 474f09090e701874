"""EdgeTable and NodeTable: the output of every reader, streams of Arrow batches."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from edgeformers.errors import InputError, require

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 65_536  # rows per Arrow batch
BATCH_BYTES = 1 << 28  # maximum size of a batch, below Arrow's limit of 2 GB for strings

#: The canonical columns of an edge, in order. The first three are required.
EDGE_FIELDS: Mapping[str, pa.DataType] = {
    "source": pa.string(),
    "target": pa.string(),
    "text": pa.string(),
    "label": pa.string(),  # as in the input; label_separator joins the labels of a set
    "time": pa.timestamp("us"),
    "split": pa.string(),
    "edge_type": pa.string(),
    "weight": pa.float64(),
}

#: The canonical columns of a node. `side` is "source", "target" or null (one id space).
NODE_FIELDS: Mapping[str, pa.DataType] = {
    "id": pa.string(),
    "side": pa.string(),
    "labels": pa.list_(pa.string()),
    "text": pa.string(),
}

OnError = Literal["stop", "skip"]
LabelKind = Literal["class", "multi", "number"]


@dataclass
class RowErrors:
    """Collects unusable rows: reading stops at the first one, or skips and counts them.

    Examples are listed by file and line, in whatever order they are reported. Reading a table
    again clears them (`restart`).
    """

    mode: OnError = "stop"
    keep: int = 20  # maximum number of examples; all rows are counted
    count: int = 0
    examples: list[str] = field(default_factory=list)
    _lines: list[float] = field(default_factory=list, init=False, repr=False)  # of this file

    def __post_init__(self) -> None:
        if self.mode not in ("stop", "skip"):
            raise InputError(f"`on_error=` must be 'stop' or 'skip' (got '{self.mode}')")

    def report(self, message: str, line: float = math.inf) -> None:
        """Raise an InputError in mode "stop"; count the row in mode "skip"."""
        if self.mode == "stop":
            raise InputError(message)
        self.count += 1
        position = bisect_right(self._lines, line)
        earlier = len(self.examples) - len(self._lines)  # examples of previous files
        self._lines.insert(position, line)
        self.examples.insert(earlier + position, message)
        del self.examples[self.keep :], self._lines[max(self.keep - earlier, 0) :]

    def start_file(self) -> None:
        """List the following reports after all previous ones."""
        self._lines.clear()

    def extend(self, later: "RowErrors") -> None:
        """Add the reports of files that come after all previous ones."""
        self.start_file()
        self.count += later.count
        self.examples = [*self.examples, *later.examples][: self.keep]

    def restart(self) -> None:
        self.count = 0
        self.examples.clear()
        self._lines.clear()


def rows_to_batches(
    rows: Iterable[Mapping[str, Any]], schema: pa.Schema, size: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Python rows as Arrow batches; missing keys are null."""
    source = iter(rows)
    while chunk := list(islice(source, size)):
        columns = [_column([row.get(f.name) for row in chunk], f.type) for f in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], type_: pa.DataType) -> pa.Array:
    """An Arrow column; lone surrogates, which are not valid UTF-8, are escaped."""
    try:
        return pa.array(values, type=type_)
    except UnicodeEncodeError:
        return pa.array(list(map(_encodable, values)), type=type_)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return list(map(_encodable, value)) if isinstance(value, list) else value


def rebatch(
    batches: Iterable[pa.RecordBatch], rows: int = BATCH_ROWS, max_bytes: int = BATCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `rows`, or of fewer rows if these exceed `max_bytes`."""
    pending: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        while batch.num_rows:
            head = batch.slice(0, rows - count)
            while head.num_rows > 1 and size + head.nbytes > max_bytes:
                head = head.slice(0, head.num_rows // 2)
            if not pending or size + head.nbytes <= max_bytes:
                batch = batch.slice(head.num_rows)
                pending.append(head)
                count, size = count + head.num_rows, size + head.nbytes
                if count < rows:
                    continue
            yield pa.concat_batches(pending)
            pending, count, size = [], 0, 0
    if pending:
        yield pa.concat_batches(pending)


@dataclass(frozen=True, kw_only=True)
class _Stream:
    """A table that can be read any number of times, batch by batch."""

    schema: pa.Schema
    open: Callable[[], Iterator[pa.RecordBatch]]
    origin: str  # the source of the rows, for messages and metadata
    errors: RowErrors = field(default_factory=RowErrors)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, batch by batch."""
        self.errors.restart()
        for batch in self.open():
            if not isinstance(batch, pa.RecordBatch) or batch.schema != self.schema:
                got = batch.schema.names if isinstance(batch, pa.RecordBatch) else type(batch)
                raise InputError(
                    f"{self.origin}: a batch of the table does not have its schema (got {got}); "
                    "build it with EdgeTable.from_rows or read_edges"
                )
            yield batch

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def to_pandas(self) -> "pd.DataFrame":
        require("pandas", "pandas")
        return self.to_arrow().to_pandas()


@dataclass(frozen=True, kw_only=True)
class EdgeTable(_Stream):
    """Edges with text: `source`, `target`, `text`, other canonical and extra columns.

    Ids are strings, exactly as in the input. In a bipartite table sources and targets have
    separate id spaces (user "7" is not film "7"). Rows keep the order of the input, which
    determines the edge numbers.
    """

    bipartite: bool
    directed: bool = True
    label_kind: LabelKind = "class"
    label_separator: str | None = None  # between the labels of a set (label_kind "multi")
    classes: Sequence[str] | None = None  # the allowed labels; None: any
    has_published_order: bool = False  # validation and test links are in their published order
    place: Callable[[int], str] | None = None  # the file and line of a row, or "", if known

    @classmethod
    def from_rows(
        cls,
        rows: Callable[[], Iterable[Mapping[str, Any]]],
        *,
        fields: Iterable[str],
        extra: Mapping[str, pa.DataType] | None = None,
        origin: str,
        bipartite: bool,
        directed: bool = True,
        errors: RowErrors | None = None,
    ) -> "EdgeTable":
        """A table from Python rows; each call of `rows()` reads them from the beginning."""
        schema = edge_schema(fields, extra)
        return cls(
            schema=schema,
            open=lambda: rows_to_batches(rows(), schema),
            origin=origin,
            bipartite=bipartite,
            directed=directed,
            errors=errors or RowErrors(),
        )


@dataclass(frozen=True, kw_only=True)
class NodeTable(_Stream):
    """Attributes of nodes: labels (several per node), a text and extra columns."""

    @classmethod
    def from_rows(
        cls,
        rows: Callable[[], Iterable[Mapping[str, Any]]],
        *,
        origin: str,
        extra: Mapping[str, pa.DataType] | None = None,
        errors: RowErrors | None = None,
    ) -> "NodeTable":
        """A table from Python rows with keys id, side, labels (a list) and text."""
        schema = pa.schema([*NODE_FIELDS.items(), *(extra or {}).items()])
        return cls(
            schema=schema,
            open=lambda: rows_to_batches(rows(), schema),
            origin=origin,
            errors=errors or RowErrors(),
        )


def edge_schema(fields: Iterable[str], extra: Mapping[str, pa.DataType] | None = None) -> pa.Schema:
    """A schema of the required columns, the canonical columns `fields` and the extra ones."""
    names = {"source", "target", "text", *fields}
    if unknown := names - EDGE_FIELDS.keys():
        raise ValueError(f"not canonical edge columns: {sorted(unknown)}")
    if clash := EDGE_FIELDS.keys() & (extra or {}).keys():
        raise InputError(f"an extra column cannot have the name {sorted(clash)[0]!r}")
    canonical = [(name, type_) for name, type_ in EDGE_FIELDS.items() if name in names]
    return pa.schema([*canonical, *(extra or {}).items()])


def check_ends(batch: pa.RecordBatch, origin: str, start: int) -> None:
    """Raise an InputError if an edge has no source or target; `start` edges precede the batch."""
    for name in ("source", "target"):
        if batch.column(name).null_count:
            row = pc.index(pc.is_null(batch.column(name)), True).as_py()
            raise InputError(
                f"{origin}, edge {start + row + 1:,}: the {name} is missing; every edge needs a "
                "source and a target"
            )


def naive_utc(time: datetime) -> datetime:
    """A time in UTC without a zone, as edge tables store it; without a zone it is UTC already."""
    return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time


def split_labels(value: str | None, separator: str | None) -> list[str]:
    """The unique labels in a field, without surrounding whitespace."""
    parts = (value or "").split(separator) if separator else [value or ""]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def read_parquet(path: Path) -> pa.Table:
    """The table in a Parquet file. `pyarrow.parquet.read_table` would also import pandas."""
    with pq.ParquetFile(path) as file:
        return file.read()
