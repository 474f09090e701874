"""Converts columns as written to canonical columns, and finds the rows that are invalid."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.sources import RowSource
from edgeformers.data.readers.times import MISSING, TIME, TimeFormat, parse_times, wrong_format
from edgeformers.data.readers.values import excerpt, is_blank, is_number, parse_numbers
from edgeformers.data.splits import PART_ALIASES
from edgeformers.data.table import NODE_FIELDS, LabelKind, split_labels
from edgeformers.errors import InputError, suggest

DELIMITERS = (";", "\t", "|", ",")  # likely ones, if the header has a single column
LIST_SEPARATOR = "\x1f"  # joins the labels of a list column
MAX_EXACT_FLOAT = 1 << 53  # integers below are exact as floats


@dataclass(frozen=True)
class Columns:
    """The columns to read: one for each role, and extra ones that are kept unchanged."""

    roles: Mapping[str, str]  # canonical name -> name in the file
    keep: Mapping[str, str]  # name in the table -> name in the file

    @property
    def names(self) -> list[str]:
        """All columns to read, each once."""
        return list(dict.fromkeys([*self.roles.values(), *self.keep.values()]))

    def check(
        self, sources: Sequence[RowSource]
    ) -> tuple[dict[str, pa.DataType], dict[str, pa.DataType]]:
        """The types of the available columns and of the extra ones, the same in all sources."""
        first = sources[0].types()
        for source in sources:
            types = source.types()
            for role, name in [
                *self.roles.items(),
                *(("keep", name) for name in self.keep.values()),
            ]:
                if name not in types:
                    remedy = self._missing_remedy(role, name, list(types))
                    raise InputError(f"{source.origin}: no column '{name}' ({role}); {remedy}")
                if role != "keep" and not _is_readable(types[name], role):
                    raise InputError(
                        f"{source.origin}: column '{name}' ({role}) holds {types[name]}; "
                        f"{_readable_remedy(types[name], role)}"
                    )
                if not _is_compatible(types[name], first[name], role):
                    raise InputError(
                        f"{source.origin}: column '{name}' holds {types[name]}, but in "
                        f"{sources[0].origin} it holds {first[name]}; write both as one type"
                    )
        return first, {new: _plain_type(first[name]) for new, name in self.keep.items()}

    def _missing_remedy(self, role: str, name: str, available: list[str]) -> str:
        if len(available) == 1:
            delimiter = next((sign for sign in DELIMITERS if sign in available[0]), None)
            if delimiter:
                return f"pass `delimiter={delimiter!r}`"
        of_reader = " of read_nodes" if "id" in self.roles else ""
        padded = [column for column in available if column.strip() == name]
        if padded:
            return f"{padded[0]!r} has spaces around it; rename it, or set `{role}=`{of_reader}"
        return f"{suggest(name, map(excerpt, available))} (set it with `{role}=`{of_reader})"


@dataclass(frozen=True)
class LabelFormat:
    """How the label column is written."""

    kind: LabelKind = "class"
    separator: str | None = None  # between the labels of an edge, if kind is "multi"
    classes: Sequence[str] | None = None  # the allowed labels

    def __post_init__(self) -> None:
        if self.kind not in get_args(LabelKind):
            known = suggest(str(self.kind), get_args(LabelKind))
            raise InputError(f"unknown `label_kind={self.kind!r}`; {known}")
        if (self.kind == "multi") != (self.separator is not None):
            raise InputError("`label_kind='multi'` and `label_separator=` must be set together")


class Problems(dict[int, str]):
    """What is wrong with rows of a batch: row -> message."""

    def add(self, rows: pa.Array, name: str, what: str, values: pa.Array | None = None) -> None:
        """Note the rows where the mask `rows` is True, with their values if given."""
        for row in pc.indices_nonzero(rows).to_pylist():
            value = "" if values is None else f": '{excerpt(values[row].as_py())}'"
            self.setdefault(row, f"column '{name}'{value} {what}")


def convert_edges(
    raw: pa.RecordBatch,
    columns: Columns,
    labels: LabelFormat,
    schema: pa.Schema,
    times: TimeFormat = "each",
) -> tuple[pa.RecordBatch, Problems]:
    """A batch as written -> canonical columns of edges, and the invalid rows.

    `times` is the format of the numbers in the time column.
    """
    raw, problems = to_text(raw, columns.roles, list_role="label")
    arrays: list[pa.Array] = []
    for role in schema.names:
        name = columns.roles.get(role) or columns.keep[role]
        column = raw.column(name)
        if role in ("source", "target"):
            problems.add(is_blank(column), name, "is empty; every edge needs source and target")
        elif role == "text":
            column = pc.fill_null(column, "")
        elif role == "time":
            column = _parse_times(column, times, problems, name)
        elif role == "weight":
            column = _parse_numbers(column, problems, name, "0.5")
        elif role in ("label", "edge_type", "split"):
            column = _strip(column)
            if role == "label":
                _check_labels(problems, column, name, labels)
            elif role == "split":
                column = pc.utf8_lower(column)
                _check_allowed(problems, column, name, list(PART_ALIASES), PART_ALIASES)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema), problems


def convert_nodes(
    raw: pa.RecordBatch,
    columns: Columns,
    schema: pa.Schema,
    side: str | None,
    separator: str | None,
) -> tuple[pa.RecordBatch, Problems]:
    """A batch as written -> canonical columns of nodes, and the invalid rows."""
    raw, problems = to_text(raw, columns.roles, list_role="labels")
    roles, rows = columns.roles, raw.num_rows
    ids = raw.column(roles["id"])
    problems.add(is_blank(ids), roles["id"], "is empty; every node needs an id")
    labels, text = pa.nulls(rows, pa.list_(pa.string())), pa.nulls(rows, pa.string())
    if "labels" in roles:
        values = raw.column(roles["labels"]).to_pylist()
        labels = pa.array([split_labels(value, separator) for value in values], labels.type)
    if "text" in roles:
        text = raw.column(roles["text"])
        text = pc.if_else(is_blank(text), None, text)
    extra = [raw.column(columns.keep[name]) for name in schema.names[len(NODE_FIELDS) :]]
    arrays = [ids, pa.array([side] * rows, pa.string()), labels, text, *extra]
    return pa.RecordBatch.from_arrays(arrays, schema=schema), problems


def is_text(type_: pa.DataType) -> bool:
    """Whether a column of this type is text, in any Arrow layout."""
    return type_ in (pa.string(), pa.large_string(), pa.string_view())


def is_list(type_: pa.DataType) -> bool:
    """Whether a column of this type holds lists, in any Arrow layout."""
    return isinstance(type_, pa.ListType | pa.LargeListType | pa.FixedSizeListType)


def _is_readable(type_: pa.DataType, role: str) -> bool:
    if role in ("label", "labels") and is_list(type_):
        return is_text(type_.value_type)
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    is_duration = role == "time" and pa.types.is_duration(type_)
    is_other = pa.types.is_nested(type_) or pa.types.is_fixed_size_binary(type_)
    return not (is_duration or is_other or _is_period(type_))


def _readable_remedy(type_: pa.DataType, role: str) -> str:
    if _is_period(type_):
        return "use the time at which each period starts (`.dt.to_timestamp()` in pandas)"
    if role == "time" and pa.types.is_duration(type_):
        return "use a column of times, such as the start plus these durations"
    return "use a column of texts or numbers"


def _is_period(type_: pa.DataType) -> bool:
    """Whether a pandas column holds periods, which Arrow would read as their numbers."""
    return isinstance(type_, pa.BaseExtensionType) and type_.extension_name == "pandas.period"


def _is_compatible(type_: pa.DataType, first: pa.DataType, role: str) -> bool:
    """Whether two files agree: kept columns in their type, labels in being lists or not."""
    if role == "keep":
        return bool(_plain_type(type_) == _plain_type(first))
    return role not in ("label", "labels") or is_list(type_) == is_list(first)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    return pa.string() if is_text(type_) else type_


def to_text(
    batch: pa.RecordBatch, roles: Mapping[str, str], list_role: str
) -> tuple[pa.RecordBatch, Problems]:
    """The batch with every column that has a role as strings; lists of labels are joined.

    Other programs write integer ids as floats and missing ones as NaN: integral floats lose
    their ".0", and NaN becomes null.
    """
    arrays: list[pa.Array] = []
    problems = Problems()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if is_list(column.type) and name == roles.get(list_role):
            column = _join_lists(column)
        elif name in roles.values() or is_text(column.type):
            try:
                column = _to_strings(column)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                if not _holds_bytes(column.type):
                    reason = str(error).partition("\n")[0]
                    raise InputError(
                        f"column '{name}' holds {column.type}, which cannot be read as text "
                        f"({reason}); convert it to text"
                    ) from error
                column, invalid = _decode(column)
                problems.add(invalid, name, "is not UTF-8; convert it to UTF-8")
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names), problems


def _join_lists(column: pa.Array) -> pa.Array:
    column = column.cast(pa.list_(pa.string()))
    if column.flatten().null_count:
        lists = column.to_pylist()
        lists = [labels and [label for label in labels if label is not None] for labels in lists]
        column = pa.array(lists, column.type)
    return pc.binary_join(column, LIST_SEPARATOR)


def _to_strings(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float32()) if column.type == pa.float16() else column
        column = pc.if_else(pc.is_nan(column), None, column)
        is_exact = pc.less(pc.abs(column), MAX_EXACT_FLOAT)
        is_integral = pc.and_(pc.equal(pc.round(column), column), is_exact)
        digits = pc.if_else(is_integral, column, None).cast(pa.int64()).cast(pa.string())
        return pc.coalesce(digits, column.cast(pa.string()))
    texts = column.cast(pa.string())
    texts.validate(full=True)
    return texts


def _holds_bytes(type_: pa.DataType) -> bool:
    """Whether a column of this type holds texts or bytes, which may not be UTF-8."""
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    return is_text(type_) or type_ in (pa.binary(), pa.large_binary(), pa.binary_view())


def _decode(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Bytes as strings, null if they are not UTF-8, and where that is so."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    texts: list[str | None] = []
    for value in column.cast(pa.large_binary()).to_pylist():
        try:
            texts.append(None if value is None else value.decode("utf-8"))
        except UnicodeDecodeError:
            texts.append(None)
    strings = pa.array(texts, pa.string())
    return strings, pc.and_(pc.is_null(strings), pc.is_valid(column))


def _strip(column: pa.Array) -> pa.Array:
    """The column without surrounding whitespace; blank values are null."""
    return pc.if_else(is_blank(column), None, pc.utf8_trim_whitespace(column))


def _parse_numbers(column: pa.Array, problems: Problems, name: str, example: str) -> pa.Array:
    parsed = parse_numbers(column)
    wrong = f"is not a number; write it as {example}"
    problems.add(_is_unread(parsed, column), name, wrong, column)
    return parsed


def _parse_times(column: pa.Array, format: TimeFormat, problems: Problems, name: str) -> pa.Array:
    parsed = parse_times(column, format)
    is_unread = _is_unread(parsed, column)
    word = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    is_missing = pc.is_in(word, pa.array(MISSING))
    problems.add(is_missing, name, "is not a time; leave it empty if the time is unknown", column)
    problems.add(pc.and_(is_unread, is_number(column)), name, wrong_format(format), column)
    problems.add(is_unread, name, f"is not {TIME}", column)
    return parsed


def _is_unread(parsed: pa.Array, column: pa.Array) -> pa.Array:
    """Where a column has a value that could not be parsed."""
    return pc.and_(pc.is_null(parsed), pc.invert(is_blank(column)))


def _check_labels(problems: Problems, column: pa.Array, name: str, labels: LabelFormat) -> None:
    if labels.kind == "number":
        _parse_numbers(column, problems, name, "3.5")
    elif labels.classes is not None:
        classes = set(labels.classes)
        values = filter(None, column.unique().to_pylist())  # combinations, if kind is "multi"
        valid = [v for v in values if classes.issuperset(split_labels(v, labels.separator))]
        _check_allowed(problems, column, name, valid, labels.classes)


def _check_allowed(
    problems: Problems, column: pa.Array, name: str, allowed: list[str], shown: Iterable[str]
) -> None:
    is_allowed = pc.is_in(column, pa.array(allowed, pa.string()))
    unknown = pc.and_(pc.is_valid(column), pc.invert(is_allowed))
    problems.add(unknown, name, f"is not one of {', '.join(shown)}", column)
