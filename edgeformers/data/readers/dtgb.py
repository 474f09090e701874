"""DTGB's dynamic text-attributed graphs: edge_list.csv, entity_text.csv and relation_text.csv."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgeformers.data.readers.delimited import DelimitedSource
from edgeformers.data.readers.files import parse_rows
from edgeformers.data.readers.times import TIME_UNITS, TimeNumbers
from edgeformers.data.table import EdgeTable, NodeTable, OnError, RowErrors
from edgeformers.errors import InputError

EDGES, ENTITIES, RELATIONS = "edge_list.csv", "entity_text.csv", "relation_text.csv"
#: Column names by meaning. If the header has others, columns count in this order, without an index.
EDGE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "source": ("u", "source", "src"),
    "target": ("v", "i", "target", "dst"),
    "relation": ("r", "relation"),
    "time": ("t", "ts", "time", "timestamp"),
    "label": ("l", "label"),
}
TEXT_COLUMNS: Mapping[str, tuple[str, ...]] = {"id": ("i", "id"), "text": ("text",)}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def looks_like_dtgb_folder(path: str | PathLike[str]) -> bool:
    """Whether a folder has the edges and at least one of the other two files."""
    has_edges, *has_texts = ((Path(path) / name).is_file() for name in (EDGES, ENTITIES, RELATIONS))
    return has_edges and any(has_texts)


def read_dtgb(folder: str | PathLike[str], *, on_error: OnError = "stop") -> EdgeTable:
    """A folder of DTGB as directed edges between entities of one type.

    The text of an edge is that of its relation; the relation is kept as the extra column
    `relation`. Times are read as Unix times in one unit (`TimeNumbers.unit`). Models remember in
    days, so steps such as 0 to 699 should be converted to real times, or only their order is
    right. Relation texts are held in memory.
    """
    root, errors = _folder(folder), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        texts, unit = dict(_texts(root / RELATIONS, errors)), _time_unit(root / EDGES)
        parsed = _rows(root / EDGES, EDGE_COLUMNS, lambda row: _edge(row, texts, unit), errors)
        for _, row in parsed:
            yield row

    return EdgeTable.from_rows(
        rows,
        fields=("label", "time"),
        extra={"relation": pa.string()},
        origin=str(folder),
        bipartite=False,
        errors=errors,
    )


def read_dtgb_entities(folder: str | PathLike[str], *, on_error: OnError = "stop") -> NodeTable:
    """The entities of a folder of DTGB with their texts."""
    root, errors = _folder(folder), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        for entity, text in _texts(root / ENTITIES, errors):
            yield {"id": entity, "text": text, "labels": []}

    return NodeTable.from_rows(rows, origin=str(root / ENTITIES), errors=errors)


def _folder(folder: str | PathLike[str]) -> Path:
    root = Path(folder)
    for name in (EDGES, ENTITIES, RELATIONS):
        if not (root / name).is_file():
            raise InputError(
                f"{root} has no {name}; a folder of DTGB has {EDGES}, {ENTITIES} and {RELATIONS}"
            )
    return root


def _rows(
    file: Path,
    columns: Mapping[str, tuple[str, ...]],
    parse: Callable[[dict[str, str]], Any],
    errors: RowErrors,
) -> Iterator[tuple[int, Any]]:
    """(line, parsed row) of a table, whose values are given to `parse` by meaning."""
    source = DelimitedSource(file)
    names = _find_columns(file, list(source.types()), columns)
    values = source.rows(names, errors)
    return parse_rows(values, lambda row: parse(dict(zip(columns, row, strict=True))), file, errors)


def _find_columns(
    file: Path, header: list[str], columns: Mapping[str, tuple[str, ...]]
) -> list[str]:
    """The columns of a file in the order of `columns`: by name, else by position."""
    by_name = {name.strip().lower(): name for name in header if name.strip()}
    found = [
        next((by_name[name] for name in names if name in by_name), None)
        for names in columns.values()
    ]
    known = [name for name in found if name is not None]
    if len(known) == len(columns):
        return known
    positional = [name for name in header if name.strip() and not name.startswith("Unnamed")]
    if len(positional) != len(columns):
        raise InputError(
            f"{file}: expected the columns {', '.join(names[0] for names in columns.values())} "
            f"(got {', '.join(header)})"
        )
    return positional


def _texts(file: Path, errors: RowErrors) -> Iterator[tuple[str, str]]:
    """(id, text) of every row."""
    for _, pair in _rows(file, TEXT_COLUMNS, _id_and_text, errors):
        yield pair


def _id_and_text(row: dict[str, str]) -> tuple[str, str]:
    if not row["id"].strip():
        raise ValueError("the id is empty; every text needs one")
    return _identifier(row["id"]), row["text"]


def _edge(row: dict[str, str], texts: Mapping[str, str], unit: int) -> dict[str, Any]:
    for end in ("source", "target"):
        if not row[end].strip():
            raise ValueError(f"the {end} is empty; every edge needs a source and a target")
    relation = _identifier(row["relation"])
    if relation not in texts:
        raise ValueError(f"relation '{relation}' has no text in {RELATIONS}; add a row for it")
    return {
        "source": _identifier(row["source"]),
        "target": _identifier(row["target"]),
        "text": texts[relation],
        "label": _identifier(row["label"]) or None,
        "time": _time(row["time"], unit),
        "relation": relation,
    }


def _time_unit(file: Path) -> int:
    """Microseconds in the unit of all times of a file, which the largest one implies."""
    source = DelimitedSource(file)
    names = _find_columns(file, list(source.types()), EDGE_COLUMNS)
    name = names[list(EDGE_COLUMNS).index("time")]
    found = TimeNumbers()
    for batch in source.readable_batches([name]):
        found |= TimeNumbers.of(batch.column(0))
    return TIME_UNITS[found.unit][1]


def _time(text: str, unit: int) -> datetime:
    """A Unix time in a unit of so many microseconds."""
    try:
        return EPOCH + timedelta(microseconds=float(text) * unit)
    except (ValueError, OverflowError):
        raise ValueError(
            f"the time '{text}' is not a Unix time; write it in seconds, milliseconds or "
            "microseconds since 1970"
        ) from None


def _identifier(text: str) -> str:
    """An id without spaces; pandas writes integers as 3.0 in a column with missing values."""
    text = text.strip()
    number = text.removesuffix(".0")
    return number if number.lstrip("-").isdigit() else text
