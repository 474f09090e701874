"""JSON lines: by DuckDB at full speed, and line by line where a line must be named."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgeformers.data.readers.files import compression_of, numbered_lines
from edgeformers.data.readers.sources import (
    FAST_RECORD,
    NumberedBatch,
    duckdb_batches,
    duckdb_path,
    literal,
    locate,
    quoted_names,
)
from edgeformers.data.table import RowErrors
from edgeformers.errors import InputError

PROBE = 1000  # records looked at to learn the keys
_REMEDY = 'write one whole {"source": ..., "target": ..., "text": ...} per line'
#: What DuckDB reads and Python does not: a comma before a closing bracket, other names of nan.
_LENIENT = re.compile(
    r'("(?:[^"\\]|\\.)*+")|,(?=[ \t\r\n]*[}\]])|(?<![\w.])(-?)(nan|inf(?:inity)?)(?!\w)', re.I
)


class _Record(dict[str, Any]):
    """A JSON object that remembers a key it was given twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = None
        if len(self) < len(pairs):
            keys = [key for key, _ in pairs]
            self.twice = next(key for key in keys if keys.count(key) > 1)


@dataclass(frozen=True)
class JsonLinesSource:
    """A file with one JSON object per line; numbers arrive as their text."""

    path: Path
    unit: str = "line"

    @property
    def origin(self) -> str:
        return str(self.path)

    def types(self) -> dict[str, pa.DataType]:
        return dict(self._types)

    @cached_property
    def _types(self) -> dict[str, pa.DataType]:
        """The keys of the first records; one whose values are all lists of strings is a list."""
        first = next((line for _, line in numbered_lines(self.path) if line.strip()), b"")
        if first.lstrip().startswith(b"["):
            raise InputError(f"{self.path} is a JSON array; {_REMEDY}, as 'jq -c .[]' does")
        kinds: dict[str, set[str]] = {}
        errors = RowErrors("skip")  # the reading itself reports them
        for count, (_, record) in enumerate(self._records(errors), start=1):
            for key, value in record.items():
                kinds.setdefault(key, set()).add(_kind(value))
            if count == PROBE:
                break
        if not kinds:
            raise InputError(
                errors.examples[0] if errors.examples else f"{self.path} has no records; {_REMEDY}"
            )
        texts = pa.list_(pa.string())
        return {
            key: texts if kind - {"null"} == {"list"} else pa.string()
            for key, kind in kinds.items()
        }

    def fast(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        path = duckdb_path(self.path)
        if path is None:
            return (located.batch for located in self.careful(names, RowErrors()))
        kinds = {
            name: "VARCHAR[]" if pa.types.is_list(self._types[name]) else "VARCHAR"
            for name in names
        }
        columns = ", ".join(f"{literal(name)}: '{kind}'" for name, kind in kinds.items())
        options = (
            f"format='newline_delimited', columns={{{columns}}}, maximum_object_size="
            f"{FAST_RECORD}, hive_partitioning=false, compression='{compression_of(self.path)}'"
        )
        return duckdb_batches(
            f"SELECT {quoted_names(names)} FROM read_json({path}, {options})", names
        )

    def careful(self, names: list[str], errors: RowErrors) -> Iterator[NumberedBatch]:
        types = [self._types[name] for name in names]
        return locate(self._rows(names, types, errors), names, types)

    def _rows(
        self, names: list[str], types: list[pa.DataType], errors: RowErrors
    ) -> Iterator[tuple[int, list[Any]]]:
        for line, record in self._records(errors):
            where = f"{self.path}, line {line}"
            if record.twice in names:
                errors.report(
                    f"{where}: the key '{record.twice}' stands twice; rename one of them", line
                )
                continue
            row = [
                _as_written(record.get(name), type_)
                for name, type_ in zip(names, types, strict=True)
            ]
            yield line, row

    def _records(self, errors: RowErrors) -> Iterator[tuple[int, _Record]]:
        for line, content in numbered_lines(self.path):
            if not content.strip():
                continue
            try:
                record = _parse(content)
            except ValueError as error:
                errors.report(f"{self.path}, line {line}: {error}", line)
            else:
                yield line, record


def _parse(content: bytes) -> _Record:
    """The object on a line, or a ValueError that says what is wrong with it."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("the bytes are not UTF-8; convert the file to UTF-8") from None
    record = _loads(text)
    if isinstance(record, list):
        raise ValueError(f"a JSON array where an object is expected; {_REMEDY}")
    if not isinstance(record, _Record):
        raise ValueError(f"{text.strip()[:40]} where a JSON object is expected; {_REMEDY}")
    if "\\u" in text and not _is_unicode(record):
        raise ValueError("an escape such as \\ud800 is half a character; write both halves")
    return record


def _loads(text: str) -> Any:
    try:
        try:
            return json.loads(text, object_pairs_hook=_Record)
        except json.JSONDecodeError as error:
            mended = _LENIENT.sub(_mend, text.strip())
            if mended == text:
                raise
            try:
                return json.loads(mended, object_pairs_hook=_Record)
            except json.JSONDecodeError:
                raise error from None
    except json.JSONDecodeError as error:
        message = f"broken JSON ({error.msg} at character {error.pos + 1}); {_REMEDY}"
        raise ValueError(message) from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply; leave the nested key out") from None


def _mend(found: re.Match[str]) -> str:
    string, sign, word = found.groups()
    if string is not None:
        return string
    if word is None:
        return ""
    return "NaN" if word.lower() == "nan" else f"{sign}Infinity"


def _is_unicode(record: _Record) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return "list" if is_list else "other"


def _as_written(value: Any, type_: pa.DataType) -> Any:
    if not pa.types.is_list(type_) or value is None:
        return _text(value)
    return [_text(one) for one in value] if isinstance(value, list) else [_text(value)]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
