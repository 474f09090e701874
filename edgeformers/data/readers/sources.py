"""Where rows come from: what a source of rows is, Parquet files, data frames, DuckDB.

A text file is read twice over at most: by DuckDB at full speed, and, only when a row cannot be
used or rows are to be skipped, once more line by line so that the line can be named.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from edgeformers.data.table import BATCH_ROWS, RowErrors
from edgeformers.errors import InputError, require

MAX_FIELD = 1 << 28  # characters in one field: a guard against unclosed quotes
FAST_RECORD = 1 << 21  # bytes of a row or record that DuckDB reads; its buffers are many times that
LIST_SEPARATOR = "\x1f"  # between the labels of a column of lists, once they are joined
#: (library, class) of data frames; recognized by name, so that neither library is imported.
FRAME_TYPES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame")}
EXACT = 1 << 53  # whole numbers up to here are exact as floats


@dataclass(frozen=True)
class NumberedBatch:
    """A batch whose row i stands at place `places[i]` of the file."""

    batch: pa.RecordBatch
    places: Sequence[int]


class FastReadError(Exception):
    """DuckDB does not read the file; reading line by line tells why, or reads it."""


class Source(Protocol):
    """One file or frame that gives rows of named columns."""

    @property
    def origin(self) -> str:
        """What the source is called in messages."""
        ...

    @property
    def unit(self) -> str:
        """What a place is: a line or a row."""
        ...

    def types(self) -> dict[str, pa.DataType]:
        """The columns there are, with the types they are read as."""
        ...

    def fast(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """The named columns, at full speed; may end in a FastReadError anywhere."""
        ...

    def careful(self, names: list[str], errors: RowErrors) -> Iterator[NumberedBatch]:
        """The same rows with their places; malformed ones are reported to `errors`."""
        ...


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file, read column by column and batch by batch."""

    path: Path
    unit: str = "row"

    @property
    def origin(self) -> str:
        return str(self.path)

    def types(self) -> dict[str, pa.DataType]:
        with self._open() as file:
            return _types(file.schema_arrow, self.origin)

    def fast(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        try:
            with self._open() as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=names):
                    yield batch.select(names)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{self.path}: the Parquet file is damaged ({_first_line(error)}); fetch it again"
            ) from error

    def careful(self, names: list[str], errors: RowErrors) -> Iterator[NumberedBatch]:
        return _number_rows(self.fast(names))

    def _open(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.path)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise InputError(
                f"{self.path} is not a Parquet file ({_first_line(error)}); "
                "fetch it again, or give its --format"
            ) from error


@dataclass(frozen=True)
class FrameSource:
    """A pandas, polars or pyarrow table that is already in memory."""

    table: pa.Table
    origin: str = "the data frame"
    unit: str = "row"

    def types(self) -> dict[str, pa.DataType]:
        return _types(self.table.schema, self.origin)

    def fast(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        return cast(Iterator[pa.RecordBatch], iter(self.table.select(names).to_batches(BATCH_ROWS)))

    def careful(self, names: list[str], errors: RowErrors) -> Iterator[NumberedBatch]:
        return _number_rows(self.fast(names))


def is_frame(data: Any) -> bool:
    """Whether `data` is a pandas, polars or pyarrow table."""
    return isinstance(data, pa.Table | pa.RecordBatch) or _frame_type(data) in FRAME_TYPES


def frame_to_arrow(frame: Any) -> pa.Table:
    """A pandas, polars or pyarrow table as a pyarrow table."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    library, name = _frame_type(frame)
    try:
        if library == "pandas":
            return pa.Table.from_pandas(frame, preserve_index=False)
        return (frame.collect() if name == "LazyFrame" else frame).to_arrow()
    except (pa.ArrowException, ValueError) as error:  # of several types, or named twice
        raise InputError(
            f"the data frame cannot be read ({_first_line(error)}); give every column one type and "
            "a name of its own"
        ) from error


def _frame_type(data: Any) -> tuple[str, str]:
    return type(data).__module__.partition(".")[0], type(data).__name__


def as_text(
    batch: pa.RecordBatch, names: Iterable[str], lists: str | None = None
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """The batch with the named columns turned into text, and the rows where that cannot be.

    The lists of the column `lists` are joined. Whole numbers in a column of floats lose their
    ".0", and nan is nothing: this is how ids look that have been through other programs.
    """
    arrays: list[pa.Array] = []
    problems: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if is_list(column.type) and name == lists:
            column = pc.binary_join(_to_lists(column), LIST_SEPARATOR)
        elif name in names or is_text(column.type):
            try:
                column = _to_string(column)
            except pa.ArrowInvalid:
                column, broken = _decode(column)
                message = f"column '{name}': the bytes are not UTF-8; convert them to UTF-8"
                problems |= dict.fromkeys(broken, message)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names), problems


def _to_lists(column: pa.Array) -> pa.Array:
    """Lists of strings without nulls in them."""
    column = column.cast(pa.list_(pa.string()))
    if column.flatten().null_count == 0:
        return column
    lists = [one and [label for label in one if label is not None] for one in column.to_pylist()]
    return pa.array(lists, column.type)


def _to_string(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
        whole = pc.and_(pc.equal(pc.round(column), column), pc.less(pc.abs(column), EXACT))
        digits = pc.if_else(whole, column, None).cast(pa.int64()).cast(pa.string())
        return pc.coalesce(digits, column.cast(pa.string()))
    texts = column.cast(pa.string())
    texts.validate(full=True)
    return texts


def _decode(column: pa.Array) -> tuple[pa.Array, list[int]]:
    """A column of bytes as text with nulls where they are not UTF-8, and those rows."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    texts: list[str | None] = []
    broken: list[int] = []
    for row, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            texts.append(None if value is None else value.decode("utf-8"))
        except UnicodeDecodeError:
            texts.append(None)
            broken.append(row)
    return pa.array(texts, pa.string()), broken


def is_text(type_: pa.DataType) -> bool:
    """Whether a column of this type is text, in any of Arrow's layouts."""
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    )


def is_list(type_: pa.DataType) -> bool:
    """Whether a column of this type holds lists, in any of Arrow's layouts."""
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
    )


def is_readable(type_: pa.DataType) -> bool:
    """Whether values of this type can be written as text."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return not (pa.types.is_nested(type_) or pa.types.is_fixed_size_binary(type_))


def duckdb_batches(sql: str, names: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a query as batches whose columns are called `names`."""
    duckdb = require("duckdb", "data")
    try:
        with duckdb.connect() as connection:
            for batch in connection.sql(sql).to_arrow_reader(BATCH_ROWS):
                yield pa.RecordBatch.from_arrays(batch.columns, names=names)
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # Arrow wraps DuckDB's as its own
        raise FastReadError(str(error)) from error


def duckdb_path(path: Path) -> str | None:
    """A file's name in a query; None where DuckDB would take it for a pattern."""
    return None if set("*?[") & set(str(path)) else literal(str(path))


def literal(text: str) -> str:
    """A string in a query."""
    return "'" + text.replace("'", "''") + "'"


def quoted_names(names: list[str]) -> str:
    """Columns in a query."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def locate(
    rows: Iterator[tuple[int, list[Any]]], names: list[str], types: list[pa.DataType] | None = None
) -> Iterator[NumberedBatch]:
    """Rows with their places as batches."""
    types = types or [pa.string()] * len(names)
    while chunk := list(islice(rows, BATCH_ROWS)):
        places, values = zip(*chunk, strict=True)
        columns = [
            pa.array(column, type_)
            for column, type_ in zip(zip(*values, strict=True), types, strict=True)
        ]
        yield NumberedBatch(pa.RecordBatch.from_arrays(columns, names=names), places)


def _number_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[NumberedBatch]:
    start = 1
    for batch in batches:
        yield NumberedBatch(batch, range(start, start + batch.num_rows))
        start += batch.num_rows


def _types(schema: pa.Schema, origin: str) -> dict[str, pa.DataType]:
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise InputError(f"{origin}: there are two columns '{name}'; rename one of them")
    return {field.name: field.type for field in schema}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
