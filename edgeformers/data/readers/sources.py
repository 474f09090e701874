"""Row sources: JSON Lines and Parquet files, data frames, and the base of the text formats.

A text file is read by DuckDB at full speed. Only if a row cannot be used, or rows are to be
skipped, is it read again line by line, so that errors can name the line.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from edgeformers.data.readers.files import compression_of, numbered_lines, parse_lines
from edgeformers.data.table import BATCH_ROWS, RowErrors
from edgeformers.errors import InputError
from edgeformers.threads import num_threads

MAX_DUCKDB_RECORD = 1 << 21  # bytes per row; DuckDB's buffers are many times that
PROBED_RECORDS = 1000  # records read to find the keys
PROBED_LINES = 10_000  # lines read to find these records
#: (library, class) of data frames; compared by name, so that neither library is imported.
FRAME_TYPES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame")}
#: What to do about a JSON file, and what DuckDB accepts in it and Python does not: trailing commas
#: and other spellings of NaN.
REMEDY = 'write one {"source": ..., "target": ..., "text": ...} per line'
LENIENT = re.compile(
    r'("(?:[^"\\]|\\.)*+")|,(?=[ \t\r\n]*[}\]])|(?<![\w.])(-?)(nan|inf(?:inity)?)(?!\w)', re.I
)

READERS = 8  # files read at a time, at most, because each one needs memory

NumberedBatch = tuple[pa.RecordBatch, Sequence[int]]  # with the line or row number of each row


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
            yield batch, range(start, start + batch.num_rows)
            start += batch.num_rows

    def readable_batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows without malformed ones; rows before the first of these may come twice."""
        try:
            yield from self.batches(names)
        except (FastReadError, InputError):
            yield from (batch for batch, _ in self.numbered_batches(names, RowErrors("skip")))


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
            for group in range(file.num_row_groups):  # a reader keeps all that it has read
                for batch in file.iter_batches(BATCH_ROWS, [group], names):
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
            return (batch for batch, _ in self.numbered_batches(names, RowErrors()))
        return _duckdb_batches(query, names)

    def numbered_batches(self, names: list[str], errors: RowErrors) -> Iterator[NumberedBatch]:
        types = [self.types()[name] for name in names]
        rows = self.rows(names, errors)
        while chunk := list(islice(rows, BATCH_ROWS)):
            numbers, values = zip(*chunk, strict=True)
            columns = zip(zip(*values, strict=True), types, strict=True)
            arrays = [pa.array(column, type_) for column, type_ in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=names), numbers


class JsonLinesSource(TextSource):
    """A file with one JSON object per line; numbers are read as text."""

    def types(self) -> dict[str, pa.DataType]:
        return dict(self._types)

    @cached_property
    def _types(self) -> dict[str, pa.DataType]:
        """The keys of the first records: lists if all values are lists of strings, else text."""
        first = next((line for _, line in numbered_lines(self.path) if line.strip()), b"")
        if first.lstrip().startswith(b"["):
            raise InputError(f"{self.path} is a JSON array; {REMEDY}, for example by 'jq -c .[]'")
        kinds: dict[str, set[bool]] = {}  # of values that are not null: is it a list of strings?
        errors = RowErrors("skip")  # they are reported when the rows are read
        records = parse_lines(self.path, _parse_record, errors, limit=PROBED_LINES)
        for _, record in islice(records, PROBED_RECORDS):
            for key, value in record.items():
                is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
                kinds.setdefault(key, set()).update([] if value is None else [is_list])
        if not kinds:
            raise InputError((errors.examples or [f"{self.path} has no records; {REMEDY}"])[0])
        texts, text = pa.list_(pa.string()), pa.string()
        return {key: texts if kind == {True} else text for key, kind in kinds.items()}

    def query(self, names: list[str]) -> str:
        selected = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        kinds = {
            name: "VARCHAR[]" if pa.types.is_list(self._types[name]) else "VARCHAR"
            for name in names
        }
        columns = ", ".join(f"{sql_string(name)}: '{kind}'" for name, kind in kinds.items())
        return (
            f"SELECT {selected} FROM read_json({sql_string(str(self.path))}, "
            f"format='newline_delimited', columns={{{columns}}}, "
            f"maximum_object_size={MAX_DUCKDB_RECORD}, hive_partitioning=false, "
            f"compression='{compression_of(self.path)}')"
        )

    def rows(self, names: list[str], errors: RowErrors) -> Iterator[tuple[int, list[Any]]]:
        is_list = {name: pa.types.is_list(self._types[name]) for name in names}

        def select(text: str) -> list[Any]:
            record = _parse_record(text)
            if record.repeated_key in names:
                raise ValueError(f"the key '{record.repeated_key}' occurs twice; rename one")
            return [_as_written(record.get(name), is_list[name]) for name in names]

        return parse_lines(self.path, select, errors)


class _Record(dict[str, Any]):
    """A JSON object, with a key that occurs twice in it."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        keys = [key for key, _ in pairs]
        is_unique = len(self) == len(pairs)
        self.repeated_key = None if is_unique else next(k for k in keys if keys.count(k) > 1)


def _parse_record(text: str) -> _Record:
    """The object on a line; a ValueError says what is wrong with it."""
    record = _loads(text)
    if not isinstance(record, _Record):
        raise ValueError(f"expected a JSON object (got {text.strip()[:40]}); {REMEDY}")
    if "\\u" in text:
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            half = "an escape such as \\ud800 is half a surrogate pair; write both halves"
            raise ValueError(half) from None
    return record


def _loads(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_Record)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply; remove the nested key") from None
    except json.JSONDecodeError as error:
        with suppress(json.JSONDecodeError):
            return json.loads(LENIENT.sub(_standard_json, text.strip()), object_pairs_hook=_Record)
        message = f"invalid JSON ({error.msg} at character {error.pos + 1}); {REMEDY}"
        raise ValueError(message) from None


def _standard_json(match: re.Match[str]) -> str:
    string, sign, word = match.groups()
    if string is not None:
        return string
    if word is None:
        return ""
    return "NaN" if word.lower() == "nan" else f"{sign}Infinity"


def _as_written(value: Any, is_list: bool) -> Any:
    if is_list and value is not None:
        items = value if isinstance(value, list) else [value]
        return [_as_written(item, False) for item in items]
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def num_readers(files: int) -> int:
    """How many of some files to read at a time."""
    return max(1, min(READERS, num_threads(), files))


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
        frame = frame.collect() if name == "LazyFrame" else frame
        if any("\0" in column for column in frame.columns):  # on which polars panics
            raise ValueError("a column name contains a NUL character")
        return frame.to_arrow()
    except Exception as error:  # of many kinds: mixed types, duplicate names, failed queries
        raise InputError(
            f"the data frame cannot be read ({_first_line(error)}); give every column a single "
            "type and a unique name"
        ) from error


def sql_string(text: str) -> str:
    """A string literal for a query."""
    return "'" + text.replace("'", "''") + "'"


def _duckdb_batches(query: str, names: list[str]) -> Iterator[pa.RecordBatch]:
    import duckdb

    try:
        with duckdb.connect(config={"threads": num_threads()}) as connection:
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
