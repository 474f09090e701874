"""JSON Lines files: read by DuckDB, and line by line where an error must name its line."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from edgeformers.data.readers.files import compression_of, numbered_lines, parse_lines
from edgeformers.data.readers.sources import MAX_DUCKDB_RECORD, TextSource, sql_names, sql_string
from edgeformers.data.table import RowErrors
from edgeformers.errors import InputError

PROBED_RECORDS = 1000  # records read to find the keys
_REMEDY = 'write one {"source": ..., "target": ..., "text": ...} per line'
#: What DuckDB accepts and Python does not: trailing commas and other spellings of NaN.
_LENIENT = re.compile(
    r'("(?:[^"\\]|\\.)*+")|,(?=[ \t\r\n]*[}\]])|(?<![\w.])(-?)(nan|inf(?:inity)?)(?!\w)', re.I
)


class _Record(dict[str, Any]):
    """A JSON object, with a key that occurs twice in it."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated_key = None
        if len(self) < len(pairs):
            keys = [key for key, _ in pairs]
            self.repeated_key = next(key for key in keys if keys.count(key) > 1)


@dataclass(frozen=True)
class JsonLinesSource(TextSource):
    """A file with one JSON object per line; numbers are read as text."""

    def types(self) -> dict[str, pa.DataType]:
        return dict(self._types)

    @cached_property
    def _types(self) -> dict[str, pa.DataType]:
        """The keys of the first records: lists if all values are lists of strings, else text."""
        first = next((line for _, line in numbered_lines(self.path) if line.strip()), b"")
        if first.lstrip().startswith(b"["):
            raise InputError(f"{self.path} is a JSON array; {_REMEDY}, for example by 'jq -c .[]'")
        kinds: dict[str, set[bool]] = {}  # of values that are not null: is it a list of strings?
        errors = RowErrors("skip")  # they are reported when the rows are read
        for count, (_, record) in enumerate(self._records(errors), start=1):
            for key, value in record.items():
                kind = kinds.setdefault(key, set())
                if value is not None:
                    kind.add(_is_string_list(value))
            if count == PROBED_RECORDS:
                break
        if not kinds:
            raise InputError(
                errors.examples[0] if errors.examples else f"{self.path} has no records; {_REMEDY}"
            )
        texts, text = pa.list_(pa.string()), pa.string()
        return {key: texts if kind == {True} else text for key, kind in kinds.items()}

    def query(self, names: list[str]) -> str:
        types = self._types
        kinds = ["VARCHAR[]" if pa.types.is_list(types[name]) else "VARCHAR" for name in names]
        pairs = zip(names, kinds, strict=True)
        columns = ", ".join(f"{sql_string(name)}: '{kind}'" for name, kind in pairs)
        return (
            f"SELECT {sql_names(names)} FROM read_json({sql_string(str(self.path))}, "
            f"format='newline_delimited', columns={{{columns}}}, "
            f"maximum_object_size={MAX_DUCKDB_RECORD}, hive_partitioning=false, "
            f"compression='{compression_of(self.path)}')"
        )

    def rows(self, names: list[str], errors: RowErrors) -> Iterator[tuple[int, list[Any]]]:
        types = self._types
        for line, record in self._records(errors):
            if record.repeated_key in names:
                errors.report(
                    f"{self.path}, line {line}: the key '{record.repeated_key}' occurs twice; "
                    "rename one of them",
                    line,
                )
            else:
                yield line, [_as_written(record.get(name), types[name]) for name in names]

    def _records(self, errors: RowErrors) -> Iterator[tuple[int, _Record]]:
        return parse_lines(self.path, _parse, errors)


def _parse(text: str) -> _Record:
    """The object on a line; a ValueError says what is wrong with it."""
    record = _loads(text)
    if not isinstance(record, _Record):
        raise ValueError(f"expected a JSON object (got {text.strip()[:40]}); {_REMEDY}")
    if "\\u" in text and not _is_unicode(record):
        raise ValueError("an escape such as \\ud800 is half a surrogate pair; write both halves")
    return record


def _loads(text: str) -> Any:
    try:
        try:
            return json.loads(text, object_pairs_hook=_Record)
        except json.JSONDecodeError as error:
            try:
                text = _LENIENT.sub(_standard_json, text.strip())
                return json.loads(text, object_pairs_hook=_Record)
            except json.JSONDecodeError:
                raise error from None
    except json.JSONDecodeError as error:
        message = f"invalid JSON ({error.msg} at character {error.pos + 1}); {_REMEDY}"
        raise ValueError(message) from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply; remove the nested key") from None


def _standard_json(match: re.Match[str]) -> str:
    string, sign, word = match.groups()
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


def _is_string_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _as_written(value: Any, type_: pa.DataType) -> Any:
    if not pa.types.is_list(type_) or value is None:
        return _text(value)
    return [_text(item) for item in value] if isinstance(value, list) else [_text(value)]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
