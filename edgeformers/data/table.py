"""EdgeTable and NodeTable: what every reader gives, a stream of Arrow batches in fixed columns."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 65_536  # rows per Arrow batch: a few MB
BATCH_BYTES = 1 << 28  # long texts come in smaller batches, far below Arrow's 2 GB limit on strings

#: The canonical columns of an edge, in order. The first three are always there.
EDGE_FIELDS: Mapping[str, pa.DataType] = {
    "source": pa.string(),
    "target": pa.string(),
    "text": pa.string(),
    "label": pa.string(),  # as written; several labels of one edge are joined by label_separator
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
    """What happens to a row that cannot be used: reading stops there, or it is skipped and listed.

    The list follows the lines of each file, whatever order they are reported in. Reading the same
    table again starts it anew (`restart`).
    """

    mode: OnError = "stop"
    keep: int = 20  # how many messages are kept; all are counted
    count: int = 0
    examples: list[str] = field(default_factory=list)
    _lines: list[float] = field(default_factory=list, init=False, repr=False)  # of this file

    def __post_init__(self) -> None:
        if self.mode not in ("stop", "skip"):
            raise InputError(f"on_error must be 'stop' or 'skip' (got '{self.mode}')")

    def report(self, message: str, line: float = math.inf) -> None:
        """Raise InputError in mode "stop"; count the row and go on in mode "skip"."""
        if self.mode == "stop":
            raise InputError(message)
        self.count += 1
        place = bisect_right(self._lines, line)
        earlier = len(self.examples) - len(self._lines)  # examples of the files before
        self._lines.insert(place, line)
        self.examples.insert(earlier + place, message)
        del self.examples[self.keep :], self._lines[max(self.keep - earlier, 0) :]

    def start_file(self) -> None:
        """What is reported from here on is listed behind all that was reported before."""
        self._lines.clear()

    def restart(self) -> None:
        self.count = 0
        self.examples.clear()
        self._lines.clear()


def rows_to_batches(
    rows: Iterable[Mapping[str, Any]], schema: pa.Schema, size: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Python rows as Arrow batches; a key a row lacks is null."""
    source = iter(rows)
    while chunk := list(islice(source, size)):
        columns = [_column([row.get(f.name) for row in chunk], f.type) for f in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], type_: pa.DataType) -> pa.Array:
    """An Arrow column; halves of surrogate pairs, which UTF-8 cannot hold, are spelled out."""
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
    """The same rows in batches of `rows`, or fewer where they hold more than `max_bytes`."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        while batch.num_rows:
            head = batch.slice(0, rows - count)
            while head.num_rows > 1 and size + head.nbytes > max_bytes:
                head = head.slice(0, head.num_rows // 2)
            if not waiting or size + head.nbytes <= max_bytes:
                batch = batch.slice(head.num_rows)
                waiting.append(head)
                count, size = count + head.num_rows, size + head.nbytes
                if count < rows:
                    continue
            yield pa.concat_batches(waiting)
            waiting, count, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


@dataclass(frozen=True, kw_only=True)
class _Stream:
    """A table that can be read from its beginning any number of times, a batch at a time."""

    schema: pa.Schema
    open: Callable[[], Iterator[pa.RecordBatch]]
    origin: str  # where the rows come from, for messages and provenance
    errors: RowErrors = field(default_factory=RowErrors)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, a batch at a time, from the beginning."""
        self.errors.restart()
        return self.open()

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def to_pandas(self) -> "pd.DataFrame":
        return self.to_arrow().to_pandas()


@dataclass(frozen=True, kw_only=True)
class EdgeTable(_Stream):
    """Edges that carry text: `source`, `target`, `text`, what else is known, and extra columns.

    Ids are strings, exactly as written. In a bipartite table sources and targets are two id
    spaces ("7" the user is not "7" the film); otherwise they are one. The rows keep the order
    of the input, and that order is the edge numbering of everything built from the table.
    """

    bipartite: bool
    directed: bool = True
    label_kind: LabelKind = "class"
    label_separator: str | None = None  # between the labels of an edge that has several ("multi")

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
        """A table from Python rows: `rows()` starts the reading anew each time it is called."""
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
    """What is known of nodes beside their edges: labels (several per node) and a text."""

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
    """Canonical columns `fields` (always with source, target, text) and the extra ones after."""
    wanted = {"source", "target", "text", *fields}
    if unknown := wanted - EDGE_FIELDS.keys():
        raise ValueError(f"not canonical edge columns: {sorted(unknown)}")
    if clash := EDGE_FIELDS.keys() & (extra or {}).keys():
        raise InputError(f"an extra column may not be called {sorted(clash)[0]!r}")
    canonical = [(name, type_) for name, type_ in EDGE_FIELDS.items() if name in wanted]
    return pa.schema([*canonical, *(extra or {}).items()])


def check_ends(batch: pa.RecordBatch, origin: str, start: int) -> None:
    """Refuse an edge that lacks an end, by its number; `start` edges came before the batch."""
    for name in ("source", "target"):
        if batch.column(name).null_count:
            row = pc.index(pc.is_null(batch.column(name)), True).as_py()
            raise InputError(
                f"{origin}, edge {start + row + 1:,}: the {name} is missing; every edge needs "
                "both ends"
            )


def naive_utc(time: datetime) -> datetime:
    """A time in UTC without a zone, as edge tables store it; without a zone it is UTC already."""
    return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time


def split_labels(value: str | None, separator: str | None) -> list[str]:
    """The labels written in one field, each once, blanks around them dropped."""
    parts = (value or "").split(separator) if separator else [value or ""]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))
