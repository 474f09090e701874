"""Row sources: Parquet files and data frames, and the base of the text formats.

A text file is read by DuckDB at full speed. Only if a row cannot be used, or rows are to be
skipped, is it read again line by line, so that errors can name the line.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from edgeformers.data.table import BATCH_ROWS, RowErrors
from edgeformers.errors import InputError, require

MAX_DUCKDB_RECORD = 1 << 21  # bytes per row; DuckDB's buffers are many times that
#: (library, class) of data frames; compared by name, so that neither library is imported.
FRAME_TYPES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame")}


@dataclass(frozen=True)
class NumberedBatch:
    """A batch with the line or row number of each of its rows."""

    batch: pa.RecordBatch
    numbers: Sequence[int]


class FastReadError(Exception):
    """DuckDB cannot read the file; reading it line by line finds the reason, or reads it."""


class RowSource(ABC):
    """A file or data frame that provides rows of named columns."""

    unit: ClassVar = "row"  # what error messages number

    @property
    @abstractmethod
    def origin(self) -> str:
        """The name of the source in error messages."""

    @abstractmethod
    def types(self) -> dict[str, pa.DataType]:
        """The available columns with their types."""

    @abstractmethod
    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """The named columns at full speed; may raise FastReadError at any point."""

    def numbered_batches(self, names: list[str], errors: RowErrors) -> Iterator[NumberedBatch]:
        """The same rows with their numbers; malformed rows are reported to `errors`."""
        start = 1
        for batch in self.batches(names):
            yield NumberedBatch(batch, range(start, start + batch.num_rows))
            start += batch.num_rows


@dataclass(frozen=True)
class FrameSource(RowSource):
    """A pandas, polars or pyarrow table."""

    table: pa.Table
    origin = "the data frame"

    def types(self) -> dict[str, pa.DataType]:
        return _types(self.table.schema, self.origin)

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(names).to_batches(BATCH_ROWS)


@dataclass(frozen=True)
class FileSource(RowSource):
    """The base of sources that read a file."""

    path: Path

    @property
    def origin(self) -> str:
        return str(self.path)


class ParquetSource(FileSource):
    """A Parquet file, read in batches of the requested columns."""

    def types(self) -> dict[str, pa.DataType]:
        with self._open() as file:
            return _types(file.schema_arrow, self.origin)

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        with self._open() as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=names):
                yield batch.select(names)

    @contextmanager
    def _open(self) -> Iterator[pq.ParquetFile]:
        try:
            with pq.ParquetFile(self.path) as file:
                yield file
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise InputError(
                f"{self.path} is damaged or not a Parquet file ({_first_line(error)}); download "
                "it again, or set `format=`"
            ) from error


class TextSource(FileSource):
    """The base of text formats: provides rows by a DuckDB query, and parsed line by line."""

    unit = "line"

    @abstractmethod
    def query(self, names: list[str]) -> str | None:
        """The DuckDB query for these columns, or None if DuckDB cannot read the file."""

    @abstractmethod
    def rows(self, names: list[str], errors: RowErrors) -> Iterator[tuple[int, list[Any]]]:
        """(line, values of these columns) of every row; malformed ones are reported."""

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        is_glob = set("*?[") & set(str(self.path))  # to DuckDB
        query = None if is_glob else self.query(names)
        if query is None:
            return (numbered.batch for numbered in self.numbered_batches(names, RowErrors()))
        return _duckdb_batches(query, names)

    def numbered_batches(self, names: list[str], errors: RowErrors) -> Iterator[NumberedBatch]:
        types = [self.types()[name] for name in names]
        rows = self.rows(names, errors)
        while chunk := list(islice(rows, BATCH_ROWS)):
            numbers, values = zip(*chunk, strict=True)
            columns = zip(zip(*values, strict=True), types, strict=True)
            arrays = [pa.array(column, type_) for column, type_ in columns]
            yield NumberedBatch(pa.RecordBatch.from_arrays(arrays, names=names), numbers)


def is_frame(data: Any) -> bool:
    """Whether `data` is a pandas, polars or pyarrow table."""
    return isinstance(data, pa.Table | pa.RecordBatch) or _class_of(data) in FRAME_TYPES


def frame_to_arrow(frame: Any) -> pa.Table:
    """A pandas, polars or pyarrow table as a pyarrow table."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    library, name = _class_of(frame)
    try:
        if library == "pandas":
            return pa.Table.from_pandas(frame, preserve_index=False)
        return (frame.collect() if name == "LazyFrame" else frame).to_arrow()
    except (pa.ArrowException, ValueError) as error:  # mixed types, or duplicate names
        raise InputError(
            f"the data frame cannot be read ({_first_line(error)}); give every column a single "
            "type and a unique name"
        ) from error


def sql_string(text: str) -> str:
    """A string literal for a query."""
    return "'" + text.replace("'", "''") + "'"


def sql_names(names: Iterable[str]) -> str:
    """Column names for a query."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def _duckdb_batches(query: str, names: list[str]) -> Iterator[pa.RecordBatch]:
    duckdb = require("duckdb", "data")
    try:
        with duckdb.connect() as connection:
            for batch in connection.sql(query).to_arrow_reader(BATCH_ROWS):
                yield pa.RecordBatch.from_arrays(batch.columns, names=names)
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # Arrow wraps DuckDB's errors
        raise FastReadError(str(error)) from error


def _types(schema: pa.Schema, origin: str) -> dict[str, pa.DataType]:
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise InputError(f"{origin}: there are two columns '{name}'; rename one of them")
    return {field.name: field.type for field in schema}


def _class_of(data: Any) -> tuple[str, str]:
    return type(data).__module__.partition(".")[0], type(data).__name__


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
