"""Which raw public format a path holds, told from its first records, and the reader for it."""

import ast
import csv
import json
import re
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from edgeformers.data.readers.authors import looks_like_authors_folder
from edgeformers.data.readers.files import open_binary
from edgeformers.data.table import EdgeTable

HEAD_BYTES = 1 << 20  # uncompressed bytes looked at
FIRST_RECORDS = 20

XML_ROOT = re.compile(rb"\s*(?:<\?xml[^>]*>)?\s*<(posts|comments)\b")
BIGQUERY_KEYS = frozenset(("user_id", "post_id", "text", "creation_date"))
#: Keys that must all be among those of the first records; the first format that fits is it.
RECORD_KEYS: tuple[tuple[str, frozenset[str]], ...] = (
    ("amazon-reviews", frozenset(("reviewerID", "asin", "overall"))),
    ("amazon-reviews", frozenset(("user_id", "parent_asin", "rating"))),
    ("goodreads-reviews", frozenset(("user_id", "book_id", "review_text"))),
    ("bigquery-comments", BIGQUERY_KEYS),
    ("amazon-metadata", frozenset(("asin", "category"))),
    ("amazon-metadata", frozenset(("asin", "categories"))),
    ("amazon-metadata", frozenset(("parent_asin", "categories"))),
)


def detect_raw_format(path: Path) -> str | None:
    """The name of the raw format of a file or folder, or None; odd bytes are never an error."""
    try:
        return _detect_folder(path) if path.is_dir() else _detect_file(path)
    except (OSError, EOFError, ValueError, csv.Error, zlib.error, pa.ArrowInvalid):
        return None


def _detect_folder(folder: Path) -> str | None:
    bare = (folder / "HEAD").is_file() and all((folder / d).is_dir() for d in ("objects", "refs"))
    if bare or (folder / ".git").exists():
        return "git"
    kind = looks_like_authors_folder(folder)
    return f"authors-{kind}" if kind else None


def _detect_file(file: Path) -> str | None:
    with open_binary(file) as stream:
        head = stream.read(HEAD_BYTES).removeprefix(b"\xef\xbb\xbf")
    if head.startswith(b"From "):
        return "mbox"
    if root := XML_ROOT.match(head):
        return f"stackexchange-{root[1].decode()}"
    keys = _record_keys(head)
    return next((name for name, needed in RECORD_KEYS if needed <= keys), None)


def _record_keys(head: bytes) -> set[str]:
    """The keys of the first records: of JSON objects or Python literals, or a CSV header."""
    lines = head.decode("utf-8", errors="replace").split("\n", FIRST_RECORDS)[:FIRST_RECORDS]
    if not lines:
        return set()
    if lines[0].lstrip().startswith("{"):
        return {key for line in lines for key in _keys(line)}
    return {column.strip() for column in next(csv.reader(lines[:1]), [])}


def _keys(line: str) -> set[str]:
    try:
        record = ast.literal_eval(line) if line.startswith("{'") else json.loads(line)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return set()  # the last line of the head may be cut
    return set(record) if isinstance(record, dict) else set()


def _reader(module: str, function: str) -> Callable[..., EdgeTable]:
    """A reader whose module is imported when it is first called."""

    def read(path: Any, **options: Any) -> EdgeTable:
        found = import_module(f"edgeformers.data.readers.{module}")
        return cast(EdgeTable, getattr(found, function)(path, **options))

    return read


#: Raw format -> its reader of edges, called as `reader(path, on_error="stop")`.
RAW_READERS: Mapping[str, Callable[..., EdgeTable]] = {
    "amazon-reviews": _reader("amazon", "read_amazon_reviews"),
    "goodreads-reviews": _reader("goodreads", "read_goodreads_reviews"),
    "stackexchange-posts": _reader("stackexchange", "read_stackexchange_posts"),
    "stackexchange-comments": _reader("stackexchange", "read_stackexchange_comments"),
    "bigquery-comments": _reader("stackexchange", "read_bigquery_comments"),
    "authors-edges": _reader("authors", "read_authors_edges"),
    "authors-pairs": _reader("authors", "read_authors_pairs"),
    "git": _reader("git", "read_git"),
    "mbox": _reader("mbox", "read_mbox"),
}
