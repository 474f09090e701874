"""Tables of edges and nodes: CSV, TSV, JSON lines, Parquet and data frames, of any size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.canonical import (
    NODE_OPTIONS,
    EdgeColumns,
    Problems,
    canonical_batch,
    check_columns,
    check_readable,
    extra_types,
    is_blank,
    looks_like_numbers,
    shortened,
)
from edgeformers.data.readers.delimited import DelimitedSource
from edgeformers.data.readers.files import COMPRESSIONS, expand_paths, plain_suffix
from edgeformers.data.readers.jsonlines import JsonLinesSource
from edgeformers.data.readers.sources import (
    LIST_SEPARATOR,
    FastReadError,
    FrameSource,
    ParquetSource,
    Source,
    as_text,
    frame_to_arrow,
    is_frame,
    is_list,
    is_text,
)
from edgeformers.data.table import (
    NODE_FIELDS,
    EdgeTable,
    LabelKind,
    NodeTable,
    OnError,
    RowErrors,
    edge_schema,
    split_labels,
)
from edgeformers.errors import InputError

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
TABLE_FORMATS = ("csv", "tsv", "jsonl", "parquet")

Check = Callable[[Source, pa.RecordBatch], tuple[pa.RecordBatch, Problems]]


def read_edges(
    data: Any,
    *,
    source: str = "source",
    target: str = "target",
    text: str = "text",
    label: str | None = None,
    time: str | None = None,
    split: str | None = None,
    edge_type: str | None = None,
    weight: str | None = None,
    keep: Sequence[str] = (),
    bipartite: bool = True,
    directed: bool = True,
    classes: Sequence[str] | None = None,
    label_kind: LabelKind | None = None,
    label_separator: str | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    quote: str = '"',
    on_error: OnError = "stop",
) -> EdgeTable:
    """Edges from files (a path, a glob, several) or from a pandas, polars or pyarrow frame.

    Each argument from `source` to `weight` names a column. Ids are kept exactly as written;
    labels, splits and edge types lose the blanks around them. `bipartite` says whether sources
    and targets are two id spaces. `classes` lists the labels allowed. A label is a class;
    `label_kind="number"` makes it a number, and a `label_separator` (or a column of lists)
    several labels per edge ("multi"). Files are read as `format` (csv, tsv, jsonl, parquet),
    which the suffix tells otherwise, .gz and .zst included. With `on_error="skip"` rows that
    cannot be used are left out and listed in `table.errors`.
    """
    columns = EdgeColumns(
        source=source,
        target=target,
        text=text,
        label=label,
        time=time,
        split=split,
        edge_type=edge_type,
        weight=weight,
        keep=tuple(keep),
        label_kind=label_kind or ("multi" if label_separator else "class"),
        label_separator=label_separator,
        classes=None if classes is None else tuple(map(str, classes)),
    )
    sources = open_sources(data, format=format, delimiter=delimiter, quote=quote)
    types = _common_types(sources, columns)
    extra = extra_types({name: types[name] for name in columns.keep})
    schema = edge_schema(columns.roles, extra)
    if label is not None and is_list(types[label]):
        columns = replace(columns, label_kind="multi", label_separator=LIST_SEPARATOR)
    errors = RowErrors(on_error)
    return EdgeTable(
        schema=schema,
        open=lambda: _edge_batches(sources, columns, schema, errors),
        origin=", ".join(one.origin for one in sources[:3]) + (", ..." if len(sources) > 3 else ""),
        bipartite=bipartite,
        directed=directed,
        label_kind=columns.label_kind,
        label_separator=columns.label_separator,
        errors=errors,
    )


def read_nodes(
    data: Any,
    *,
    id: str = "id",
    labels: str | None = None,
    text: str | None = None,
    side: str | None = None,
    label_separator: str | None = None,
    keep: Sequence[str] = (),
    format: str | None = None,
    delimiter: str | None = None,
    quote: str = '"',
    on_error: OnError = "stop",
) -> NodeTable:
    """What is known of nodes: labels (several per node by `label_separator` or a list) and a text.

    In a bipartite network `side` ("source" or "target") says whose table this is.
    """
    if side not in (None, "source", "target"):
        raise InputError(f"side must be 'source' or 'target' (got '{side}')")
    sources = open_sources(data, format=format, delimiter=delimiter, quote=quote)
    named = {"id": id, **({"labels": labels} if labels else {}), **({"text": text} if text else {})}
    for one in sources:
        types = one.types()
        columns = {role: [name] for role, name in named.items()}
        check_columns({**columns, "keep": keep}, types, one.origin, NODE_OPTIONS)
        for role, name in named.items():
            check_readable(role, name, types[name], one.origin, may_be_list=role == "labels")
    extra = extra_types({name: types[name] for name in keep})
    schema = pa.schema([*NODE_FIELDS.items(), *extra.items()])
    if labels and is_list(types[labels]):
        label_separator = LIST_SEPARATOR
    errors = RowErrors(on_error)

    def check(one: Source, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Problems]:
        raw, broken = as_text(batch, named.values(), lists=labels)
        blank = pc.indices_nonzero(is_blank(raw.column(id))).to_pylist()
        problems = dict.fromkeys(blank, f"column '{id}' is empty; every node needs an id")
        return _node_batch(raw, named, schema, side, label_separator), problems | broken

    names = list(dict.fromkeys([*named.values(), *keep]))
    return NodeTable(
        schema=schema,
        open=lambda: _checked(sources, names, check, errors),
        origin=sources[0].origin,
        errors=errors,
    )


def open_sources(
    data: Any, *, format: str | None = None, delimiter: str | None = None, quote: str = '"'
) -> list[Source]:
    """The files or the frame that `data` names."""
    if is_frame(data):
        return [FrameSource(frame_to_arrow(data))]
    paths = [data] if isinstance(data, str | PathLike) else data
    if not isinstance(paths, Sequence) or not all(isinstance(p, str | PathLike) for p in paths):
        raise InputError(
            "edges are read from files or from pandas, polars and pyarrow frames "
            f"(got {type(data).__name__})"
        )
    return [_open_file(path, format, delimiter, quote) for path in expand_paths(paths)]


def _open_file(path: Path, format: str | None, delimiter: str | None, quote: str) -> Source:
    if path.is_dir():
        raise InputError(f"{path} is a folder; name its files, for instance '{path}/*.csv'")
    kind = format or FORMATS.get(plain_suffix(path))
    if kind is None or kind not in TABLE_FORMATS:
        unknown = f"'{format}' is no table format" if format else "the suffix tells no format"
        raise InputError(f"{path}: {unknown}; give --format {', '.join(TABLE_FORMATS)}")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; a table with one row per edge is expected")
    if kind == "parquet":
        if path.suffix.lower() in COMPRESSIONS:
            raise InputError(f"{path}: unpack it; a Parquet file is compressed within")
        return ParquetSource(path)
    if kind == "jsonl":
        return JsonLinesSource(path)
    return DelimitedSource(path, delimiter or ("," if kind == "csv" else "\t"), quote)


def _common_types(sources: list[Source], columns: EdgeColumns) -> dict[str, pa.DataType]:
    """The types of the columns; every file must have those that are named, of the same type."""
    first = sources[0].types()
    for one in sources:
        types = one.types()
        columns.check(types, one.origin)
        for name in [*columns.keep, *([columns.label] if columns.label else [])]:
            same = extra_types({name: types[name]}) == extra_types({name: first[name]})
            if not same and (name in columns.keep or is_list(types[name]) != is_list(first[name])):
                raise InputError(
                    f"{one.origin}: column '{name}' holds {types[name]} where {sources[0].origin} "
                    f"holds {first[name]}; write both as one type"
                )
    return first


def _edge_batches(
    sources: list[Source], columns: EdgeColumns, schema: pa.Schema, errors: RowErrors
) -> Iterator[pa.RecordBatch]:
    rows = 0

    def check(one: Source, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Problems]:
        raw, broken = as_text(batch, columns.roles.values(), lists=columns.label)
        if rows == 0:
            _check_text_column(one, raw, columns)
        good, problems = canonical_batch(raw, columns, schema)
        return good, problems | broken

    for batch in _checked(sources, columns.names, check, errors):
        rows += batch.num_rows
        yield batch
    if not rows:
        why = "one row per edge is expected"
        if errors.count:
            why = f"every row was skipped ({errors.count:,}), the first: {errors.examples[0]}"
        raise InputError(f"{sources[0].origin} has no edges; {why}")


def _checked(
    sources: list[Source], names: list[str], check: Check, errors: RowErrors
) -> Iterator[pa.RecordBatch]:
    """Checked batches of every source, fast unless rows may have to be skipped."""
    read = _read_carefully if errors.mode == "skip" else _read_fast
    for one in sources:
        errors.start_file()
        yield from read(one, names, check, errors)


def _read_fast(
    one: Source, names: list[str], check: Check, errors: RowErrors
) -> Iterator[pa.RecordBatch]:
    """Batches as fast as they come; from a row that stops this on, line by line.

    Reading line by line names the row that cannot be used. Where there is none, as in a file
    that mixes line ends, it gives the rows that are still missing.
    """
    given = 0
    try:
        for raw in one.fast(names):
            batch, problems = check(one, raw)
            if problems:
                break
            yield batch
            given += batch.num_rows
        else:
            return
    except FastReadError:
        pass  # whatever it was, the careful reading meets it too, or does without
    for batch in _read_carefully(one, names, check, errors):
        missing = batch.slice(min(given, batch.num_rows))
        given -= batch.num_rows - missing.num_rows
        if missing.num_rows:
            yield missing


def _read_carefully(
    one: Source, names: list[str], check: Check, errors: RowErrors
) -> Iterator[pa.RecordBatch]:
    for located in one.careful(names, errors):
        batch, problems = check(one, located.batch)
        for row, message in sorted(problems.items()):
            place = located.places[row]
            errors.report(f"{one.origin}, {one.unit} {place}: {message}", place)
        good = np.ones(batch.num_rows, bool)
        good[list(problems)] = False
        yield batch.filter(pa.array(good))


def _check_text_column(one: Source, raw: pa.RecordBatch, columns: EdgeColumns) -> None:
    if not looks_like_numbers(raw.column(columns.text)):
        return
    example = next(value for value in raw.column(columns.text).to_pylist() if value)
    taken = columns.roles.values()
    others = [name for name, type_ in one.types().items() if is_text(type_) and name not in taken]
    remedy = f"available: {', '.join(others)}" if others else "there is no other column of text"
    raise InputError(
        f"{one.origin}: the text column '{columns.text}' holds only numbers (such as "
        f"'{shortened(example)}'); name the column with the words; {remedy}"
    )


def _node_batch(
    raw: pa.RecordBatch,
    named: dict[str, str],
    schema: pa.Schema,
    side: str | None,
    separator: str | None,
) -> pa.RecordBatch:
    count = raw.num_rows
    text = pa.nulls(count, pa.string())
    if "text" in named:
        text = pc.if_else(is_blank(raw.column(named["text"])), None, raw.column(named["text"]))
    labels = pa.nulls(count, pa.list_(pa.string()))
    if "labels" in named:
        column = raw.column(named["labels"]).to_pylist()
        labels = pa.array([split_labels(value, separator) for value in column], labels.type)
    sides = pa.array([side] * count, pa.string())
    extra = [raw.column(name) for name in schema.names[len(NODE_FIELDS) :]]
    arrays = [raw.column(named["id"]), sides, labels, text, *extra]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
