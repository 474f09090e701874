"""From columns of strings as written to the canonical columns, naming every row that cannot be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.sources import is_list, is_readable, is_text
from edgeformers.data.splits import PART_ALIASES
from edgeformers.data.table import EDGE_FIELDS, LabelKind, split_labels
from edgeformers.errors import InputError, require, suggest

#: A number alone in a time column: a year, a date without dashes, or a Unix time whose size tells
#: seconds, milliseconds or microseconds apart. Everything else is read as an ISO 8601 time in UTC.
#: Times are those of the years 1 to 9999.
_TIMES_SQL = r"""
SELECT CASE WHEN us BETWEEN -62135596800000000 AND 253402300799999999 THEN us END FROM (
SELECT CASE
    WHEN NOT regexp_matches(t, '^[-+]?\d') THEN NULL
    WHEN NOT regexp_full_match(t, '-?\d+(\.\d+)?(e\+\d+)?')
        THEN epoch_us(try_cast(t AS TIMESTAMPTZ))
    WHEN regexp_full_match(t, '(1|2)\d{3}') THEN epoch_us(try_cast(t || '-01-01' AS TIMESTAMPTZ))
    WHEN regexp_full_match(t, '(19|20)\d{6}')
        THEN epoch_us(try_cast(t[:4] || '-' || t[5:6] || '-' || t[7:] AS TIMESTAMPTZ))
    WHEN abs(t::DOUBLE) < 1e11 THEN (t::DECIMAL(30, 6) * 1000000)::BIGINT
    WHEN abs(t::DOUBLE) < 1e14 THEN (t::DECIMAL(30, 6) * 1000)::BIGINT
    WHEN abs(t::DOUBLE) < 1e17 THEN t::DECIMAL(30, 6)::BIGINT
END AS us FROM (SELECT trim(time, E' \t\r\n') AS t FROM times))
"""


DELIMITERS = (";", "\t", "|", ",")  # that a header of one column gives away
EDGE_OPTIONS = {role: f"--{role.replace('_', '-')}" for role in [*EDGE_FIELDS, "keep"]}
EDGE_OPTIONS |= {"split": "--split-column"}
NODE_OPTIONS = {"id": "--node-id", "labels": "--node-labels", "text": "--node-text"}


@dataclass(frozen=True, kw_only=True)
class EdgeColumns:
    """Which column of a file plays which part of an edge; `keep` are carried along as they are."""

    source: str = "source"
    target: str = "target"
    text: str = "text"
    label: str | None = None
    time: str | None = None
    split: str | None = None
    edge_type: str | None = None
    weight: str | None = None
    keep: tuple[str, ...] = ()
    label_kind: LabelKind = "class"
    label_separator: str | None = None
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.label_kind not in get_args(LabelKind):
            known = suggest(str(self.label_kind), get_args(LabelKind))
            raise InputError(f"label_kind '{self.label_kind}' is unknown; {known}")
        if (self.label_kind == "multi") != (self.label_separator is not None):
            raise InputError(
                "several labels per edge need both label_kind 'multi' and a label_separator"
            )

    @property
    def roles(self) -> dict[str, str]:
        """Canonical name -> the column's name in the file, for the parts that were named."""
        named = {role: getattr(self, role) for role in EDGE_FIELDS}
        return {role: name for role, name in named.items() if name is not None}

    @property
    def names(self) -> list[str]:
        """All columns to read, each once."""
        return list(dict.fromkeys([*self.roles.values(), *self.keep]))

    def check(self, available: Mapping[str, pa.DataType], where: str) -> None:
        """Every named column must be there, of a type its part can be; the nearest is named."""
        named = {**{role: [name] for role, name in self.roles.items()}, "keep": self.keep}
        check_columns(named, available, where, EDGE_OPTIONS)
        for role, name in self.roles.items():
            check_readable(role, name, available[name], where, may_be_list=role == "label")


def check_columns(
    named: Mapping[str, Sequence[str]],
    available: Mapping[str, pa.DataType],
    where: str,
    options: Mapping[str, str],
) -> None:
    """Every named column must be there; the message has the nearest one and the option."""
    for role, name in ((role, name) for role, names in named.items() for name in names):
        if name in available:
            continue
        only = next(iter(available), "") if len(available) == 1 else ""
        if sign := next((sign for sign in DELIMITERS if sign in only), None):
            remedy = f"give --delimiter {sign!r}"
        else:
            option = f" (name it with {options[role]})" if role in options else ""
            remedy = suggest(name, map(shortened, available)) + option
        raise InputError(f"{where}: there is no column '{name}' ({role}); {remedy}")


def check_readable(
    role: str, name: str, type_: pa.DataType, where: str, *, may_be_list: bool
) -> None:
    """A column that plays a part must hold single values, or lists where several may be."""
    if not (is_readable(type_) or (may_be_list and is_list(type_) and is_text(type_.value_type))):
        raise InputError(
            f"{where}: column '{name}' ({role}) holds {type_}; name a column of texts or numbers"
        )


Problems = dict[int, str]  # row of the batch -> what is wrong with it


def canonical_batch(
    raw: pa.RecordBatch, columns: EdgeColumns, schema: pa.Schema
) -> tuple[pa.RecordBatch, Problems]:
    """The batch in canonical columns, and what is wrong with the rows that cannot be used."""
    problems: Problems = {}
    arrays: list[pa.Array] = []
    for out in schema:
        name = columns.roles.get(out.name, out.name)
        column = raw.column(name)
        if out.name in ("source", "target"):
            _note(problems, is_blank(column), name, "is empty; every edge needs both ends")
        elif out.name == "text":
            column = pc.fill_null(column, "")
        elif out.name == "time":
            column = _parse(column, parse_times, problems, name, "a time", _TIME_HINT)
        elif out.name == "weight":
            column = _parse(column, parse_numbers, problems, name, "a number", "such as 0.5")
        elif out.name in ("label", "edge_type"):
            column = _blank_to_null(column)
            if out.name == "label":
                _check_labels(problems, column, name, columns)
        elif out.name == "split":
            column = pc.utf8_lower(_blank_to_null(column))
            _check_words(problems, column, name, list(PART_ALIASES), "a split")
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema), problems


_TIME_HINT = "as 2023-05-31T12:00:00, 2023-05-31 or Unix seconds"


def parse_times(column: pa.Array) -> pa.Array:
    """Times as written -> timestamp[us] in UTC; what cannot be read is null."""
    connection = _time_parser()
    connection.register("times", pa.table({"time": column}))
    parsed = connection.sql(_TIMES_SQL).to_arrow_table().column(0).combine_chunks()
    connection.unregister("times")
    return parsed.cast(pa.timestamp("us"))


def looks_like_numbers(texts: pa.Array) -> bool:
    """Whether a text column holds nothing but numbers (ten at least)."""
    filled = texts.filter(pc.invert(is_blank(texts)))
    return len(filled) >= 10 and pc.all(_is_number(filled)).as_py() is True


@cache
def _time_parser() -> Any:
    connection = require("duckdb", "data").connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def parse_numbers(column: pa.Array) -> pa.Array:
    """Numbers as written -> float64; what cannot be read is null."""
    trimmed = pc.utf8_trim_whitespace(column)
    numbers = pc.if_else(_is_number(trimmed), trimmed, None).cast(pa.float64())
    return pc.if_else(pc.is_finite(numbers), numbers, None)


def _is_number(column: pa.Array) -> pa.Array:
    return pc.match_substring_regex(column, r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?\s*$")


def is_blank(column: pa.Array) -> pa.Array:
    """Where a column is null, empty or only blanks."""
    return pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True)


def _blank_to_null(column: pa.Array) -> pa.Array:
    return pc.if_else(is_blank(column), None, pc.utf8_trim_whitespace(column))


def _parse(
    column: pa.Array, parse: Any, problems: Problems, name: str, what: str, hint: str
) -> pa.Array:
    parsed = parse(column)
    unread = pc.and_(pc.is_null(parsed), pc.invert(is_blank(column)))
    _note(problems, unread, name, f"is not {what}; write it {hint}", column)
    return parsed


def _check_labels(problems: Problems, column: pa.Array, name: str, columns: EdgeColumns) -> None:
    if columns.label_kind == "number":
        _parse(column, parse_numbers, problems, name, "a number", "such as 3.5")
    elif columns.classes is not None:
        words = column.unique().to_pylist()  # with several labels, a word is their combination
        bad = [
            w
            for w in words
            if w and set(split_labels(w, columns.label_separator)) - set(columns.classes)
        ]
        unknown = pc.is_in(column, pa.array(bad, pa.string()))
        known = ", ".join(columns.classes)
        _note(problems, unknown, name, f"is not a class; available: {known}", column)


def _check_words(
    problems: Problems, column: pa.Array, name: str, words: Sequence[str], what: str
) -> None:
    unknown = pc.and_(
        pc.is_valid(column), pc.invert(pc.is_in(column, pa.array(words, pa.string())))
    )
    known = ", ".join(words)
    _note(problems, unknown, name, f"is not {what}; available: {known}", column)


def _note(
    problems: Problems, bad: pa.Array, name: str, what: str, values: pa.Array | None = None
) -> None:
    for row in pc.indices_nonzero(bad).to_pylist():
        met = "" if values is None else f": '{shortened(values[row].as_py())}'"
        problems.setdefault(row, f"column '{name}'{met} {what}")


def shortened(value: str) -> str:
    """A value as a message shows it: on one line, and its beginning only if it is long."""
    line = " ".join(value.split())
    return line if len(line) <= 60 else line[:57] + "..."


def extra_types(keep: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Extra columns keep their type; views and large strings become plain strings."""
    return {name: pa.string() if is_text(type_) else type_ for name, type_ in keep.items()}
