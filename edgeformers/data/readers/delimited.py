"""CSV and TSV files: by DuckDB at full speed, and line by line where a line must be named."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from edgeformers.data.readers.files import compression_of, numbered_lines
from edgeformers.data.readers.sources import (
    FAST_RECORD,
    MAX_FIELD,
    NumberedBatch,
    duckdb_batches,
    duckdb_path,
    literal,
    locate,
)
from edgeformers.data.table import RowErrors
from edgeformers.errors import InputError

REREAD_LINES = 1_000_000  # per file: lines read again behind quotes that are never closed
_SURROGATE = re.compile("[\ud800-\udfff]")


class MalformedError(Exception):
    """A row that breaks the rules of the format; the message says how."""


@dataclass(frozen=True)
class DelimitedSource:
    """A CSV or TSV file with a header line; every value is text, exactly as written.

    A field in quotes may hold delimiters, line breaks and doubled quotes; blanks between a
    field's quotes and its delimiters are no part of it. Blank lines are passed over.
    """

    path: Path
    delimiter: str = ","
    quote: str = '"'  # empty: quotes are ordinary characters
    unit: str = "line"

    def __post_init__(self) -> None:
        for name, sign, most in (("delimiter", self.delimiter, 4), ("quote", self.quote, 1)):
            if len(sign.encode("utf-8", "replace")) > most or {"\n", "\r"} & set(sign):
                raise InputError(f"{sign!r} cannot be the {name}; give a single character")
        if not self.delimiter or self.delimiter == self.quote:
            raise InputError(f"{self.delimiter!r} cannot be the delimiter; give it as , or ; or |")

    @property
    def origin(self) -> str:
        return str(self.path)

    def types(self) -> dict[str, pa.DataType]:
        return dict.fromkeys(self._header[1], pa.string())

    def fast(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        path = duckdb_path(self.path)
        if path is None or len(self.delimiter) > 1 or self.delimiter == " ":
            return (located.batch for located in self.careful(names, RowErrors()))
        line, header = self._header
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(header)))
        options = (
            f"auto_detect=false, header=true, skip={line - 1}, delim={literal(self.delimiter)}, "
            f"quote={literal(self.quote)}, escape={literal(self.quote)}, strict_mode=true, "
            f"columns={{{columns}}}, max_line_size={FAST_RECORD}, "
            f"hive_partitioning=false, compression='{compression_of(self.path)}'"
        )
        chosen = ", ".join(f"coalesce(c{header.index(name)}, '')" for name in names)
        return duckdb_batches(f"SELECT {chosen} FROM read_csv({path}, {options})", names)

    def careful(self, names: list[str], errors: RowErrors) -> Iterator[NumberedBatch]:
        wanted = [self._header[1].index(name) for name in names]
        return locate(self._good_rows(wanted, errors), names)

    def _good_rows(
        self, wanted: list[int], errors: RowErrors
    ) -> Iterator[tuple[int, list[str | None]]]:
        width = len(self._header[1])
        rows = self._rows(errors)
        next(rows)  # the header
        for line, row in rows:
            where = f"{self.path}, line {line}"
            while len(row) > width and not row[-1]:
                row.pop()  # spreadsheets end lines with delimiters
            if len(row) != width:
                errors.report(
                    f"{where}: {_count(len(row), 'field')} where the header has {width}; "
                    "quote fields that hold the delimiter, or give the right --delimiter",
                    line,
                )
            elif _is_broken(row):
                errors.report(f"{where}: the bytes are not UTF-8; convert the file to UTF-8", line)
            else:
                yield line, [row[i] for i in wanted]

    def _rows(self, errors: RowErrors) -> Iterator[tuple[int, list[str]]]:
        """(line where the row begins, its fields); reading goes on behind a malformed line."""
        lines = _Lines(self.path)
        parser = None
        for line in lines:
            place = lines.number
            if not line.rstrip("\r\n"):
                continue
            parser = parser or _RowParser(self.delimiter, self.quote, returns="\r" in line)
            lines.remember()
            try:
                row = parser.parse(line, lines)
            except MalformedError as error:
                errors.report(f"{self.path}, line {place}: {error}", place)
                lines.go_back()
            else:
                yield place, row

    @cached_property
    def _header(self) -> tuple[int, list[str]]:
        """The line of the header and the names in it."""
        first = next(self._rows(RowErrors()), None)
        if first is None:
            raise InputError(f"{self.path} is empty; a first line with column names is expected")
        line, names = first
        where = f"{self.path}, line {line}"
        if _is_broken(names):
            raise InputError(f"{where}: the bytes are not UTF-8; convert the file to UTF-8")
        for name in names:
            if name and names.count(name) > 1:
                raise InputError(
                    f"{where}: column '{name}' stands twice in the header; rename one of them"
                )
        return first


class _RowParser:
    """Rows of fields out of lines; a quoted field may take further lines."""

    def __init__(self, delimiter: str, quote: str, *, returns: bool) -> None:
        self.delimiter, self.quote = delimiter, quote
        self.returns = returns  # where no carriage return ends the header, others are characters
        sign, blanks = re.escape(quote or '"'), "" if delimiter.startswith(" ") else " *"
        self.opening = re.compile(f"{blanks}{sign}")
        self.inside = re.compile(f"[^{sign}]*+(?:{sign}{sign}[^{sign}]*+)*+")
        line_end = "\r\n|\n|\r" if returns else "\r?\n"
        self.end = re.compile(f"{re.escape(delimiter)}|{line_end}|\\Z")
        self.closing = re.compile(f"{sign}{blanks}({self.end.pattern})")

    def parse(self, line: str, more: "_Lines") -> list[str]:
        """The fields of the row that begins with `line`; takes `more` lines while it is open."""
        body = line.removesuffix("\n").removesuffix("\r")
        is_one_row = not (self.returns and "\r" in body)
        if is_one_row and (not self.quote or self.quote not in body):
            return body.split(self.delimiter)
        fields: list[str] = []
        at = 0
        while True:
            opening = self.opening.match(line, at) if self.quote else None
            if opening:
                value, line, end = self._quoted(line, opening.end(), more)
            else:
                found = self.end.search(line, at)
                assert found is not None  # the end of the line is always there
                value, end = line[at : found.start()], found.span()
            fields.append(value)
            at = end[1]
            if line[slice(*end)] != self.delimiter:
                more.push(line[at:])  # lines may also end with a carriage return alone
                return fields

    def _quoted(self, line: str, at: int, more: "_Lines") -> tuple[str, str, tuple[int, int]]:
        """(the value, the line it ends on, where the delimiter or the end of that line is)."""
        parts: list[str] = []
        size = 0
        while True:
            inside = self.inside.match(line, at)
            end = inside.end() if inside else at
            parts.append(line[at:end])
            size += end - at
            if end < len(line):
                break
            following = next(more, None) if size < MAX_FIELD else None
            if following is None:
                raise MalformedError(
                    f"a quote ({self.quote}) is opened here and never closed; close it, or pass "
                    "--quote none where quotes are ordinary characters"
                )
            line, at = following, 0
        closing = self.closing.match(line, end)
        if closing is None:
            raise MalformedError(
                f"{line[end + 1 : end + 11].strip()!r} follows a closing quote; double the quotes "
                "within a quoted field, or pass --quote none where quotes are ordinary characters"
            )
        return "".join(parts).replace(self.quote * 2, self.quote), line, closing.span(1)


class _Lines:
    """Decoded lines with their ends, numbered, that can be gone back to."""

    def __init__(self, path: Path) -> None:
        self.number = 0
        self._source = (
            line.decode("utf-8", "surrogateescape")
            for _, line in numbered_lines(path, keep_ends=True)
        )
        self._waiting: deque[str] = deque()
        self._taken: list[str] = []
        self._reread = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._waiting.popleft() if self._waiting else next(self._source)
        self.number += 1
        self._taken.append(line)
        return line

    def push(self, rest: str) -> None:
        """Make what is left of a line the next line."""
        if rest:
            self._waiting.appendleft(rest)

    def remember(self) -> None:
        """Start a row: `go_back` returns to the line that comes next."""
        self._taken.clear()

    def go_back(self) -> None:
        """Read the lines since `remember` again, as long as that stays bounded."""
        if self._reread + len(self._taken) <= REREAD_LINES:
            self._reread += len(self._taken)
            self.number -= len(self._taken)
            self._waiting.extendleft(reversed(self._taken))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _is_broken(fields: list[str]) -> bool:
    """Whether bytes that are not UTF-8 were met; they were decoded to lone surrogates."""
    return any(not field.isascii() and _SURROGATE.search(field) for field in fields)
