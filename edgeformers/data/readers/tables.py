"""Reads tables of edges and nodes of any size: CSV, TSV, JSON Lines, Parquet and data frames."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.prefetch import read_in_parallel
from edgeformers.data.readers.canonical import (
    LIST_SEPARATOR,
    Columns,
    LabelFormat,
    Problems,
    convert_edges,
    convert_nodes,
    is_list,
    is_text,
    to_text,
)
from edgeformers.data.readers.delimited import DelimitedSource
from edgeformers.data.readers.files import COMPRESSIONS, expand_paths, plain_suffix
from edgeformers.data.readers.sources import (
    FastReadError,
    FrameSource,
    JsonLinesSource,
    ParquetSource,
    RowSource,
    frame_to_arrow,
    is_frame,
    num_readers,
)
from edgeformers.data.readers.times import TimeFormat, choose_format
from edgeformers.data.readers.values import excerpt, is_blank, is_number
from edgeformers.data.table import (
    NODE_FIELDS,
    EdgeTable,
    LabelKind,
    NodeTable,
    OnError,
    RowErrors,
    edge_schema,
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
MAX_PLACE = 1_000_000  # rows that are read again to find the line of one

Converted = tuple[pa.RecordBatch, Problems]
Convert = Callable[[pa.RecordBatch], Converted]


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
    keep: Sequence[str] | Mapping[str, str] = (),
    bipartite: bool = True,
    directed: bool = True,
    classes: Sequence[object] | None = None,
    label_kind: LabelKind | None = None,
    label_separator: str | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    quote: str = '"',
    on_error: OnError = "stop",
) -> EdgeTable:
    """Edges from files (paths or globs) or from a pandas, polars or pyarrow table.

    Each argument from `source` to `weight` names a column. `keep` names further ones, or maps new
    names to them. Ids are kept exactly as written;
    labels, splits and edge types are stripped of whitespace. With `bipartite`, sources and
    targets are two id spaces. `classes` lists the allowed labels. By default a label is a class;
    `label_kind="number"` makes it a number, and a `label_separator` (or a list column) gives
    each edge several labels ("multi"). The `format` (csv, tsv, jsonl, parquet) defaults to that
    of the suffix; .gz and .zst are decompressed. With `on_error="skip"`, rows that cannot be
    used are skipped and listed in `table.errors`.
    """
    names = {"source": source, "target": target, "text": text, "label": label, "time": time}
    names |= {"split": split, "edge_type": edge_type, "weight": weight}
    roles = {role: name for role, name in names.items() if name is not None}
    columns = Columns(
        roles, keep if isinstance(keep, Mapping) else dict(zip(keep, keep, strict=True))
    )
    kind = label_kind or ("multi" if label_separator else "class")
    allowed = None if classes is None else [str(name) for name in classes]
    labels = LabelFormat(kind, label_separator, allowed)
    sources = open_sources(data, format=format, delimiter=delimiter, quote=quote)
    types, extra = columns.check(sources)
    if label is not None and is_list(types[label]):
        labels = replace(labels, kind="multi", separator=LIST_SEPARATOR)
    schema = edge_schema(roles, extra)
    errors = RowErrors(on_error)

    @cache
    def convert() -> Convert:
        times = _time_format(sources, time) if time is not None else "each"
        return lambda raw: convert_edges(raw, columns, labels, schema, times)

    return EdgeTable(
        schema=schema,
        open=lambda: _edge_batches(sources, columns, convert(), errors),
        origin=", ".join(s.origin for s in sources[:3]) + (", ..." if len(sources) > 3 else ""),
        bipartite=bipartite,
        directed=directed,
        label_kind=labels.kind,
        label_separator=labels.separator,
        classes=labels.classes,
        errors=errors,
        place=lambda row: _place(sources, columns, convert(), row),
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
    """Node labels (several per node with a `label_separator` or a list column) and texts.

    In a bipartite network, `side` ("source" or "target") says which nodes the table describes.
    """
    if side not in (None, "source", "target"):
        raise InputError(f"`side=` must be 'source' or 'target' (got '{side}')")
    names = {"id": id, "labels": labels, "text": text}
    roles = {role: name for role, name in names.items() if name is not None}
    columns = Columns(roles, dict(zip(keep, keep, strict=True)))
    sources = open_sources(data, format=format, delimiter=delimiter, quote=quote)
    types, extra = columns.check(sources)
    separator = LIST_SEPARATOR if labels and is_list(types[labels]) else label_separator
    schema = pa.schema([*NODE_FIELDS.items(), *extra.items()])
    errors = RowErrors(on_error)

    def convert(raw: pa.RecordBatch) -> Converted:
        return convert_nodes(raw, columns, schema, side, separator)

    def batches() -> Iterator[pa.RecordBatch]:
        for source in sources:
            yield from _converted(source, columns.names, convert, errors)

    return NodeTable(schema=schema, open=batches, origin=sources[0].origin, errors=errors)


def open_sources(
    data: Any, *, format: str | None = None, delimiter: str | None = None, quote: str = '"'
) -> list[RowSource]:
    """The row sources of files or of a data frame."""
    if is_frame(data):
        return [FrameSource(frame_to_arrow(data))]
    paths = [data] if isinstance(data, str | PathLike) else data
    if not isinstance(paths, Sequence) or not all(isinstance(p, str | PathLike) for p in paths):
        raise InputError(
            "tables are read from files or from pandas, polars and pyarrow tables "
            f"(got {type(data).__name__})"
        )
    files = [file for path in expand_paths(paths) for file in _shards(path, format)]
    return [_open_file(file, format, delimiter, quote) for file in files]


def _shards(path: Path, format: str | None) -> list[Path]:
    """The tables in a folder, sorted by name, or the file itself; hidden files are no tables."""
    if not path.is_dir():
        return [path]
    visible = [file for file in sorted(path.iterdir()) if not file.name.startswith((".", "_"))]
    tables = [file for file in visible if format or plain_suffix(file) in FORMATS]
    kinds = {FORMATS.get(plain_suffix(file)) for file in tables}
    if not tables or (len(kinds) > 1 and not format):
        problem = "files of several formats" if tables else "no tables"
        raise InputError(f"{path} is a folder with {problem}; pass files, such as '{path}/*.csv'")
    return tables


def _open_file(path: Path, format: str | None, delimiter: str | None, quote: str) -> RowSource:
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass its files, for example '{path}/*.csv'")
    kind = format or FORMATS.get(plain_suffix(path))
    if kind is None or kind not in TABLE_FORMATS:
        problem = f"unknown format '{format}'" if format else "unknown suffix"
        raise InputError(f"{path}: {problem}; set `format=` to one of {', '.join(TABLE_FORMATS)}")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; expected a table with one row per edge or node")
    if kind == "parquet":
        if path.suffix.lower() in COMPRESSIONS:
            raise InputError(f"{path}: unpack it; Parquet files are compressed internally")
        return ParquetSource(path)
    if kind == "jsonl":
        return JsonLinesSource(path)
    return DelimitedSource(path, delimiter or ("," if kind == "csv" else "\t"), quote)


def _edge_batches(
    sources: Sequence[RowSource], columns: Columns, convert: Convert, errors: RowErrors
) -> Iterator[pa.RecordBatch]:
    """The converted rows of all sources, in their order; several are read at a time."""
    rows = 0
    own_errors = [RowErrors(errors.mode, errors.keep) for _ in sources]
    streams = [
        partial(_with_source, source, columns.names, convert, own)
        for source, own in zip(sources, own_errors, strict=True)
    ]
    with closing(read_in_parallel(streams, threads=num_readers(len(sources)))) as read:
        for source, batch in read:
            if rows == 0:
                _check_text_column(source, batch, columns)
            rows += batch.num_rows
            yield batch
    for own in own_errors:
        errors.extend(own)
    if not rows:
        reason = "expected one row per edge"
        if errors.count:
            reason = f"all {errors.count:,} rows were skipped, the first: {errors.examples[0]}"
        raise InputError(f"{sources[0].origin} has no edges; {reason}")


def _time_format(sources: Sequence[RowSource], name: str) -> TimeFormat:
    """The format of the numbers in the time column of a table."""

    def columns() -> Iterator[pa.Array]:
        for source in sources:
            for batch in source.readable_batches([name]):
                kind = batch.schema.types[0]
                if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
                    batch, _ = to_text(batch, {"time": name}, list_role="label")
                yield batch.column(0)

    return choose_format(columns())


def _place(sources: Sequence[RowSource], columns: Columns, convert: Convert, row: int) -> str:
    """The file and line of a usable row; empty if it is too far from the beginning."""
    if row >= MAX_PLACE:
        return ""
    for source in sources:
        for raw, numbers in source.numbered_batches(columns.names, RowErrors("skip")):
            problems = convert(raw)[1]
            usable = [number for at, number in enumerate(numbers) if at not in problems]
            if row < len(usable):
                return f"{source.origin}, {source.unit} {usable[row]}"
            row -= len(usable)
    return ""


def _with_source(
    source: RowSource, names: list[str], convert: Convert, errors: RowErrors
) -> Iterator[tuple[RowSource, pa.RecordBatch]]:
    return ((source, batch) for batch in _converted(source, names, convert, errors))


def _converted(
    source: RowSource, names: list[str], convert: Convert, errors: RowErrors
) -> Iterator[pa.RecordBatch]:
    """The converted rows of a source; reads line by line from the first invalid row on.

    Reading line by line finds the line of the invalid row. If there is none, as in a file with
    mixed line ends, it provides the remaining rows.
    """
    errors.start_file()
    done = 0
    if errors.mode == "stop":
        try:
            for raw in source.batches(names):
                batch, problems = convert(raw)
                if problems:
                    break
                yield batch
                done += batch.num_rows
            else:
                return
        except FastReadError:
            pass  # reading line by line fails with a better message, or succeeds
    for raw, numbers in source.numbered_batches(names, errors):
        batch, problems = convert(raw)
        for row, message in sorted(problems.items()):
            place = f"{source.origin}, {source.unit} {numbers[row]}"
            errors.report(f"{place}: {message}", numbers[row])
        is_valid = np.ones(batch.num_rows, bool)
        is_valid[list(problems)] = False
        valid = batch.filter(pa.array(is_valid))
        repeated = min(done, valid.num_rows)
        done -= repeated
        if valid.num_rows > repeated:
            yield valid.slice(repeated)


def _check_text_column(source: RowSource, batch: pa.RecordBatch, columns: Columns) -> None:
    """Raise an InputError if the texts are only numbers, at least ten."""
    texts, name = batch.column("text"), columns.roles["text"]
    filled = texts.filter(pc.invert(is_blank(texts)))
    if len(filled) < 10 or not pc.all(is_number(filled)).as_py():
        return
    used = columns.roles.values()
    others = [n for n, type_ in source.types().items() if is_text(type_) and n not in used]
    remedy = f"available: {', '.join(others)}" if others else "there is no other text column"
    raise InputError(
        f"{source.origin}: the text column '{name}' holds only numbers (such as "
        f"'{excerpt(filled[0].as_py())}'); set `text=` to the column with the words; {remedy}"
    )
