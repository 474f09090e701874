"""CSV and TSV files: read by DuckDB, and line by line where an error must name its line.

The line parser is written by hand: Python's csv module has neither the line where a row begins,
nor recovery after a malformed row, nor delimiters of several characters, nor DuckDB's treatment
of spaces around quotes.
"""

import csv
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgeformers.data.readers.files import NOT_UTF8, compression_of, numbered_lines, parse_rows
from edgeformers.data.readers.sources import MAX_DUCKDB_RECORD, TextSource, sql_string
from edgeformers.data.table import RowErrors
from edgeformers.errors import InputError

MAX_FIELD = 1 << 28  # characters; a longer field is taken for an unclosed quote
MAX_REREAD = 1_000_000  # lines per file that are read again after unclosed quotes
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class DelimitedSource(TextSource):
    """A CSV or TSV file with a header; every value is text, exactly as written.

    A quoted field may contain delimiters, line breaks and doubled quotes; spaces between its
    quotes and the delimiters are ignored. Blank lines are skipped.
    """

    delimiter: str = ","
    quote: str = '"'  # empty: quotes are ordinary characters

    def __post_init__(self) -> None:
        for name, sign, size in (("delimiter", self.delimiter, 4), ("quote", self.quote, 1)):
            if len(sign.encode("utf-8", "replace")) > size or {"\n", "\r"} & set(sign):
                raise InputError(f"{sign!r} cannot be the {name}; pass a single character")
        if not self.delimiter or self.delimiter == self.quote:
            raise InputError(f"{self.delimiter!r} cannot be the delimiter; pass , or ; or |")

    def types(self) -> dict[str, pa.DataType]:
        return dict.fromkeys(self._header[1], pa.string())

    @cached_property
    def _header(self) -> tuple[int, list[str]]:
        """The line of the header and its column names."""
        header = next(self._parsed_rows(RowErrors()), None)
        if header is None:
            raise InputError(f"{self.path} is empty; expected a first line with column names")
        line, names = header
        if _is_broken(names):
            raise InputError(f"{self.path}, line {line}: {NOT_UTF8}")
        if repeated := [name for name in names if name and names.count(name) > 1]:
            raise InputError(
                f"{self.path}, line {line}: column '{repeated[0]}' occurs twice in the header; "
                "rename one of them"
            )
        return header

    def query(self, names: list[str]) -> str | None:
        if len(self.delimiter) > 1 or self.delimiter == " ":
            return None
        line, header = self._header
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(header)))
        selected = ", ".join(f"coalesce(c{header.index(name)}, '')" for name in names)
        return (
            f"SELECT {selected} FROM read_csv({sql_string(str(self.path))}, auto_detect=false, "
            f"header=true, skip={line - 1}, delim={sql_string(self.delimiter)}, "
            f"quote={sql_string(self.quote)}, escape={sql_string(self.quote)}, strict_mode=true, "
            f"columns={{{columns}}}, max_line_size={MAX_DUCKDB_RECORD}, "
            f"hive_partitioning=false, compression='{compression_of(self.path)}')"
        )

    def rows(self, names: list[str], errors: RowErrors) -> Iterator[tuple[int, list[str]]]:
        header = self._header[1]
        width, selected = len(header), [header.index(name) for name in names]

        def select(row: list[str]) -> list[str]:
            while len(row) > width and not row[-1]:
                row.pop()  # spreadsheets add delimiters at the end of lines
            if len(row) != width:
                fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
                raise ValueError(
                    f"{fields}, but the header has {width}; quote fields that contain the "
                    "delimiter, or set `delimiter=`"
                )
            if _is_broken(row):
                raise ValueError(NOT_UTF8)
            return [row[i] for i in selected]

        return parse_rows(islice(self._parsed_rows(errors), 1, None), select, self.path, errors)

    def _parsed_rows(self, errors: RowErrors) -> Iterator[tuple[int, list[str]]]:
        """(line where the row begins, fields); continues on the line after a malformed row."""
        lines = _Lines(self.path)
        parser = None
        for line in lines:
            number = lines.number
            if not line.rstrip("\r\n"):
                continue
            parser = parser or _RowParser(self.delimiter, self.quote, returns="\r" in line)
            lines.taken.clear()
            try:
                row = parser.parse(line, lines)
            except csv.Error as error:
                errors.report(f"{self.path}, line {number}: {error}", number)
                lines.go_back()
            else:
                yield number, row


class _RowParser:
    """Splits lines into fields; a quoted field may continue on further lines."""

    def __init__(self, delimiter: str, quote: str, *, returns: bool) -> None:
        self.delimiter, self.quote = delimiter, quote
        self.returns = returns  # if the header has no carriage return, others are ordinary
        sign, spaces = re.escape(quote or '"'), "" if delimiter.startswith(" ") else " *"
        line_end = "\r\n|\n|\r" if returns else "\r?\n"
        self.end = re.compile(f"{re.escape(delimiter)}|{line_end}|\\Z")
        self.opening = re.compile(f"{spaces}{sign}")
        self.inside: Any = re.compile(f"[^{sign}]*+(?:{sign}{sign}[^{sign}]*+)*+").match
        self.closing = re.compile(f"{sign}{spaces}({self.end.pattern})")

    def parse(self, line: str, lines: "_Lines") -> list[str]:
        """The fields of the row that begins with `line`; takes more of `lines` if needed."""
        body = line.removesuffix("\n").removesuffix("\r")
        is_single_row = not (self.returns and "\r" in body)
        if is_single_row and (not self.quote or self.quote not in body):
            return body.split(self.delimiter)
        fields: list[str] = []
        start = 0
        while True:
            opening = self.opening.match(line, start) if self.quote else None
            if opening:
                value, line, end = self._quoted(line, opening.end(), lines)
            else:
                match = self.end.search(line, start)
                assert match is not None  # the pattern matches at the end of the line
                value, end = line[start : match.start()], match.span()
            fields.append(value)
            start = end[1]
            if line[slice(*end)] != self.delimiter:
                if start < len(line):  # a carriage return alone also ends a row
                    lines.waiting.appendleft(line[start:])
                return fields

    def _quoted(self, line: str, start: int, lines: "_Lines") -> tuple[str, str, tuple[int, int]]:
        """(value, line where it ends, span of the delimiter or line end after it)."""
        parts: list[str] = []
        size = 0
        while (end := self.inside(line, start).end()) == len(line):
            parts.append(line[start:])
            size += end - start
            line, start = next(lines, "") if size < MAX_FIELD else "", 0
            if not line:
                raise csv.Error(
                    f"a quote ({self.quote}) is opened here and never closed; close it, or pass "
                    "`quote=''` if quotes are ordinary characters"
                )
        parts.append(line[start:end])
        closing = self.closing.match(line, end)
        if closing is None:
            raise csv.Error(
                f"{line[end + 1 : end + 11].strip()!r} follows a closing quote; double the quotes "
                "inside quoted fields, or pass `quote=''` if quotes are ordinary characters"
            )
        return "".join(parts).replace(self.quote * 2, self.quote), line, closing.span(1)


class _Lines(Iterator[str]):
    """Decoded, numbered lines with their ends, which can be read again."""

    def __init__(self, path: Path) -> None:
        self.number = 0
        self._source = (
            line.decode("utf-8", "surrogateescape")
            for _, line in numbered_lines(path, keep_ends=True)
        )
        self.waiting: deque[str] = deque()
        self.taken: list[str] = []  # since they were last cleared
        self._reread = 0

    def __next__(self) -> str:
        line = self.waiting.popleft() if self.waiting else next(self._source)
        self.number += 1
        self.taken.append(line)
        return line

    def go_back(self) -> None:
        """Read the lines in `taken` again, unless too many have been read again already."""
        if self._reread + len(self.taken) <= MAX_REREAD:
            self._reread += len(self.taken)
            self.number -= len(self.taken)
            self.waiting.extendleft(reversed(self.taken))


def _is_broken(fields: list[str]) -> bool:
    """Whether bytes were not UTF-8 and have been decoded to lone surrogates."""
    return any(not field.isascii() and _SURROGATE.search(field) for field in fields)
