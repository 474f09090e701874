"""Amazon reviews and item metadata as published in 2014, 2018 and 2023."""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.files import PathOrGlob, expand_paths, numbered_lines
from edgeformers.data.readers.html import html_to_text
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.table import EdgeTable, NodeTable, OnError, RowErrors
from edgeformers.errors import InputError

FIRST_RECORDS = 20  # a single record may lack a key


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The keys of a review file; 2014 and 2018 share theirs."""

    source: str
    target: str
    text: str
    label: str
    time: str


LAYOUTS = (
    Layout(
        source="reviewerID",
        target="asin",
        text="reviewText",
        label="overall",
        time="unixReviewTime",
    ),
    Layout(
        source="user_id",
        target="parent_asin",
        text="text",
        label="rating",
        time="timestamp",
    ),
)


def read_amazon_reviews(
    paths: PathOrGlob | Iterable[PathOrGlob], *, on_error: OnError = "stop"
) -> EdgeTable:
    """Review files (JSON lines, plain or compressed): reviewer -> item, labeled "1" to "5".

    The layout, 2014 and 2018 or 2023, is told from the first records. A review may be without
    text. Items of 2023 are the products (`parent_asin`), not their colors and sizes.
    """
    files = expand_paths(paths)
    layouts = {file: find_layout(file) for file in files}
    layout = layouts[files[0]]
    if strays := [file for file, other in layouts.items() if other != layout]:
        raise InputError(
            f"{strays[0]} has the key '{layouts[strays[0]].source}' where {files[0]} has "
            f"'{layout.source}': these are releases of different years; read them apart"
        )
    table = read_edges(
        files,
        source=layout.source,
        target=layout.target,
        text=layout.text,
        label=layout.label,
        time=layout.time,
        format="jsonl",
        on_error=on_error,
    )
    return replace(table, open=lambda: map(_whole_ratings, table.open()))


def read_amazon_metadata(
    paths: PathOrGlob | Iterable[PathOrGlob], *, on_error: OnError = "stop"
) -> NodeTable:
    """Item metadata: the categories are the labels, title and description the text.

    Lines of 2014 are Python literals, read as literals only; 2018 and 2023 are JSON lines. Tags
    and entities that the published files carry over from web pages are cleaned away. An item
    may come several times, as in the files: where nodes are joined to a network the first wins.
    """
    files, errors = expand_paths(paths), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        for file in files:
            for number, line in numbered_lines(file):
                if line.strip():
                    row = _metadata_row(file, number, line, errors)
                    if row is not None:
                        yield row

    return NodeTable.from_rows(rows, origin=", ".join(map(str, files)), errors=errors)


def find_layout(file: Path) -> Layout:
    """The layout of a review file, from the keys of its first records."""
    keys = set[str]()
    for number, line in numbered_lines(file):
        try:
            record = json.loads(line) if line.strip() else {}
        except ValueError:
            record = {}  # the reading itself reports this line
        keys |= record.keys() if isinstance(record, dict) else set()
        if number >= FIRST_RECORDS:
            break
    for layout in LAYOUTS:
        if {layout.source, layout.target} <= keys:
            return layout
    raise InputError(
        f"{file}: not Amazon reviews: expected the keys reviewerID and asin (2014, 2018) or "
        f"user_id and parent_asin (2023), got {', '.join(sorted(keys)) or 'no JSON objects'}"
    )


def _whole_ratings(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Ratings written 5.0 become the label "5"."""
    at = batch.schema.get_field_index("label")
    labels = pc.replace_substring_regex(batch.column(at), r"\.0+$", "")
    return batch.set_column(at, batch.schema.field(at), labels)


def _metadata_row(file: Path, number: int, line: bytes, errors: RowErrors) -> dict[str, Any] | None:
    try:
        item = _parse_item(line)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        errors.report(f"{file}, line {number}: neither JSON nor a Python literal ({error})")
        return None
    asin = item.get("parent_asin") or item.get("asin")
    if not asin:
        errors.report(
            f"{file}, line {number}: no asin or parent_asin among the keys "
            f"{', '.join(map(str, item)) or '(none)'}; every item needs one"
        )
        return None
    labels = item.get("category") or item.get("categories") or []
    text = "\n".join(filter(None, (_words(item.get("title")), _words(item.get("description")))))
    return {"id": str(asin), "side": "target", "labels": _distinct(labels), "text": text}


def _parse_item(line: bytes) -> Mapping[str, Any]:
    """JSON of 2018 and 2023, or the Python literals of 2014, whose keys are in single quotes."""
    text = line.decode("utf-8").strip()
    item = ast.literal_eval(text) if text.startswith("{'") else json.loads(text)
    if not isinstance(item, dict):
        raise ValueError(f"got {type(item).__name__}, expected an object")
    return item


def _distinct(labels: Any) -> list[str]:
    """Categories in order, each once, out of lists within lists."""
    return list(dict.fromkeys(filter(None, map(_words, _flatten(labels)))))


def _flatten(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flatten(part)
    elif isinstance(value, str):
        yield value


def _words(value: Any) -> str:
    """One or several strings as plain text; a string that is a broken tag says nothing."""
    parts = (part.strip() for part in _flatten(value))
    return "\n".join(filter(None, (html_to_text(part) for part in parts if not _broken_tag(part))))


def _broken_tag(text: str) -> bool:
    """`<span class="a-size-medium"`, a tag that was never closed, as 2018 has for titles."""
    return text.startswith("<") and ">" not in text
