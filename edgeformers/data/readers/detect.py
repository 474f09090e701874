"""Recognizes raw public formats by their content and maps each to its reader."""

import ast
import csv
import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from edgeformers.data.readers.authors import looks_like_authors_folder
from edgeformers.data.readers.files import read_head
from edgeformers.data.table import EdgeTable

HEAD_BYTES = 1 << 20  # uncompressed
FIRST_RECORDS = 20  # a single record may lack a key

XML_ROOT = re.compile(rb"\s*(?:<\?xml[^>]*>)?\s*<(posts|comments)\b")
#: Formats and keys that their first records must have; the first match counts.
RECORD_KEYS: tuple[tuple[str, set[str]], ...] = (
    ("amazon-reviews", {"reviewerID", "asin", "overall"}),
    ("amazon-reviews", {"user_id", "parent_asin", "rating"}),
    ("goodreads-reviews", {"user_id", "book_id", "review_text"}),
    ("bigquery-comments", {"user_id", "post_id", "text", "creation_date"}),
    ("amazon-metadata", {"asin", "category"}),
    ("amazon-metadata", {"asin", "categories"}),
    ("amazon-metadata", {"parent_asin", "categories"}),
)
#: Raw format -> (module, function) of its reader of edges.
READERS = {
    "amazon-reviews": ("amazon", "read_amazon_reviews"),
    "goodreads-reviews": ("goodreads", "read_goodreads_reviews"),
    "stackexchange-posts": ("stackexchange", "read_stackexchange_posts"),
    "stackexchange-comments": ("stackexchange", "read_stackexchange_comments"),
    "bigquery-comments": ("stackexchange", "read_bigquery_comments"),
    "authors-edges": ("authors", "read_authors_edges"),
    "authors-pairs": ("authors", "read_authors_pairs"),
    "git": ("git", "read_git"),
    "mbox": ("mbox", "read_mbox"),
}


def detect_raw_format(path: Path) -> str | None:
    """The raw format of a file or folder, or None; never raises for unreadable content."""
    try:
        return _detect_folder(path) if path.is_dir() else _detect_file(path)
    except (OSError, ValueError, csv.Error):
        return None


def first_keys(head: bytes) -> set[str]:
    """The keys of the first records: of JSON objects or Python literals, or a CSV header."""
    lines = head.decode("utf-8", errors="replace").split("\n", FIRST_RECORDS)[:FIRST_RECORDS]
    if lines[0].lstrip().startswith("{"):
        return {key for line in lines for key in _keys(line)}
    return {column.strip() for column in next(csv.reader(lines[:1]), [])}


def _detect_folder(folder: Path) -> str | None:
    bare = (folder / "HEAD").is_file() and all((folder / d).is_dir() for d in ("objects", "refs"))
    if bare or (folder / ".git").exists():
        return "git"
    kind = looks_like_authors_folder(folder)
    return f"authors-{kind}" if kind else None


def _detect_file(file: Path) -> str | None:
    head = read_head(file, HEAD_BYTES)
    if head.startswith(b"From "):
        return "mbox"
    if root := XML_ROOT.match(head):
        return f"stackexchange-{root[1].decode()}"
    keys = first_keys(head)
    return next((name for name, needed in RECORD_KEYS if needed <= keys), None)


def _keys(line: str) -> set[str]:
    try:
        record = ast.literal_eval(line) if line.startswith("{'") else json.loads(line)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return set()  # the last line may be cut off
    return set(record) if isinstance(record, dict) else set()


def _reader(module: str, function: str) -> Callable[..., EdgeTable]:
    """A reader whose module is imported when it is first called."""

    def read(path: Any, **options: Any) -> EdgeTable:
        reader = getattr(import_module(f"edgeformers.data.readers.{module}"), function)
        return cast(EdgeTable, reader(path, **options))

    return read


#: Raw format -> its reader of edges, called as `reader(path, on_error="stop")`.
RAW_READERS: Mapping[str, Callable[..., EdgeTable]] = {
    name: _reader(module, function) for name, (module, function) in READERS.items()
}
