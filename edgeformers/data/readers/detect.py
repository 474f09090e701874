"""Recognizes raw public formats by their content and maps each to its reader."""

import csv
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from edgeformers.data.readers.amazon import read_amazon_reviews
from edgeformers.data.readers.authors import (
    looks_like_authors_folder,
    read_authors_edges,
    read_authors_pairs,
)
from edgeformers.data.readers.dtgb import looks_like_dtgb_folder, read_dtgb
from edgeformers.data.readers.files import HEAD_BYTES, first_keys, read_head
from edgeformers.data.readers.git import read_git
from edgeformers.data.readers.goodreads import read_goodreads_reviews
from edgeformers.data.readers.mbox import read_mbox
from edgeformers.data.readers.stackexchange import (
    read_bigquery_comments,
    read_stackexchange_comments,
    read_stackexchange_posts,
)
from edgeformers.data.table import EdgeTable

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
#: Raw format -> its reader of edges, called as `reader(path, on_error="stop")`.
RAW_READERS: Mapping[str, Callable[..., EdgeTable]] = {
    "amazon-reviews": read_amazon_reviews,
    "goodreads-reviews": read_goodreads_reviews,
    "stackexchange-posts": read_stackexchange_posts,
    "stackexchange-comments": read_stackexchange_comments,
    "bigquery-comments": read_bigquery_comments,
    "authors-edges": read_authors_edges,
    "authors-pairs": read_authors_pairs,
    "dtgb": read_dtgb,
    "git": read_git,
    "mbox": read_mbox,
}

FOLDER_FORMATS = ("authors-edges", "authors-pairs", "dtgb", "git")  # each is a single folder


def detect_raw_format(path: Path) -> str | None:
    """The raw format of a file or folder, or None; never raises for unreadable content."""
    try:
        if path.is_dir():
            if looks_like_dtgb_folder(path):
                return "dtgb"
            is_bare = all((path / name).exists() for name in ("HEAD", "objects", "refs"))
            kind = looks_like_authors_folder(path)
            is_git = is_bare or (path / ".git").exists()
            return "git" if is_git else f"authors-{kind}" if kind else None
        head = read_head(path, HEAD_BYTES)
        if head.startswith(b"From "):
            return "mbox"
        if root := XML_ROOT.match(head):
            return f"stackexchange-{root[1].decode()}"
        keys = first_keys(head)
        return next((name for name, needed in RECORD_KEYS if needed <= keys), None)
    except (OSError, ValueError, csv.Error):
        return None
