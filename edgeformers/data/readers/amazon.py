"""Amazon reviews and item metadata, as published in 2014, 2018 and 2023."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.files import (
    HEAD_BYTES,
    PathOrGlob,
    expand_paths,
    first_keys,
    parse_lines,
    parse_object,
    read_head,
)
from edgeformers.data.readers.html import html_to_text
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.table import EdgeTable, NodeTable, OnError, RowErrors
from edgeformers.errors import InputError

ROLES = ("source", "target", "text", "label", "time")
#: The keys of review files for each role: of 2014 and 2018, and of 2023.
LAYOUTS = (
    ("reviewerID", "asin", "reviewText", "overall", "unixReviewTime"),
    ("user_id", "parent_asin", "text", "rating", "timestamp"),
)


def read_amazon_reviews(
    paths: PathOrGlob | Iterable[PathOrGlob], *, on_error: OnError = "stop"
) -> EdgeTable:
    """Review files (JSON Lines, plain or compressed): reviewer -> item, labeled "1" to "5".

    The first records show whether the files are those of 2014 and 2018 or of 2023. A review may
    have no text. The items of 2023 are products (`parent_asin`), not their colors and sizes.
    """
    files = expand_paths(paths)
    layout = find_layout(files[0])
    for file in files:
        if (other := find_layout(file)) != layout:
            raise InputError(
                f"{file} has the key '{other[0]}', but {files[0]} has '{layout[0]}': "
                "they are from different releases; read them separately"
            )
    columns: dict[str, Any] = dict(zip(ROLES, layout, strict=True))
    table = read_edges(files, **columns, format="jsonl", on_error=on_error)
    return replace(table, open=lambda: map(_integral_ratings, table.open()))


def read_amazon_metadata(
    paths: PathOrGlob | Iterable[PathOrGlob],
    *,
    classes: Collection[str] = (),
    on_error: OnError = "stop",
) -> NodeTable:
    """Item metadata: the categories are the labels, title and description the text.

    With `classes`, the labels of an item are the first of these classes in each of its category
    paths ("Apps for Android" > "Games" > "Sports" is Games), and it has no text.
    Lines of 2014 are Python literals (nothing is executed); those of 2018 and 2023 are JSON. HTML
    tags and entities are removed. An item may occur several times, as in the files; when nodes
    are joined to a network, the first one counts.
    """
    files, errors = expand_paths(paths), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        for file in files:
            for _, row in parse_lines(file, partial(_metadata_row, classes), errors):
                yield row

    return NodeTable.from_rows(rows, origin=", ".join(map(str, files)), errors=errors)


def find_layout(file: Path) -> tuple[str, ...]:
    """The layout of a review file, from the keys of its first records."""
    keys = first_keys(read_head(file, HEAD_BYTES))
    for layout in LAYOUTS:
        if {*layout[:2]} <= keys:
            return layout
    if {"asin", "parent_asin"} & keys:
        raise metadata_error(file)
    raise InputError(
        f"{file}: not Amazon reviews: expected the keys reviewerID and asin (2014, 2018) or "
        f"user_id and parent_asin (2023), got {', '.join(sorted(keys)) or 'no JSON objects'}"
    )


def metadata_error(file: Path) -> InputError:
    """The error if a file of item metadata is among the reviews."""
    several = file.with_name("meta_*") if file.name.startswith("meta_") else file
    return InputError(
        f"{file} is Amazon item metadata, which describes nodes; pass the files of reviews only, "
        f"and the metadata as `nodes='{several}'`"
    )


def _integral_ratings(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace ratings such as "5.0" by "5"."""
    index = batch.schema.get_field_index("label")
    labels = pc.replace_substring_regex(batch.column(index), r"\.0+$", "")
    return batch.set_column(index, batch.schema.field(index), labels)


def _metadata_row(classes: Collection[str], line: str) -> dict[str, Any]:
    item = parse_object(line)
    asin = item.get("parent_asin") or item.get("asin")
    if not asin:
        raise ValueError(
            f"no asin or parent_asin among the keys {', '.join(map(str, item)) or '(none)'}"
        )
    categories = item.get("category") or item.get("categories")
    if classes:
        found = (_first_class(path, classes) for path in _paths(categories))
        own = list(dict.fromkeys(filter(None, found)))
        return {"id": str(asin), "side": "target", "labels": own, "text": None}
    labels = map(_plain_text, _strings(categories))
    text = "\n".join(filter(None, (_plain_text(item.get(key)) for key in ("title", "description"))))
    labels_once = list(dict.fromkeys(filter(None, labels)))
    return {"id": str(asin), "side": "target", "labels": labels_once, "text": text}


def _paths(categories: Any) -> list[Any]:
    """The category paths of an item: one list in 2018 and 2023, several in 2014."""
    is_nested = isinstance(categories, list) and any(isinstance(c, list) for c in categories)
    return categories if is_nested else [categories]


def _first_class(path: Any, classes: Collection[str]) -> str | None:
    return next((name for name in map(_plain_text, _strings(path)) if name in classes), None)


def _strings(value: Any) -> Iterator[str]:
    """The strings in nested lists."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, str):
        yield value.strip()


def _plain_text(value: Any) -> str:
    """One or several strings without HTML; an unclosed tag, as in titles of 2018, is dropped."""
    parts = (text for text in _strings(value) if not text.startswith("<") or ">" in text)
    return "\n".join(filter(None, map(html_to_text, parts)))
