"""Goodreads reviews, as published by genre in JSON Lines files."""

from collections.abc import Iterable

from edgeformers.data.readers.files import PathOrGlob, expand_paths
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.table import EdgeTable, OnError


def read_goodreads_reviews(
    paths: PathOrGlob | Iterable[PathOrGlob], *, on_error: OnError = "stop"
) -> EdgeTable:
    """Review files (plain or compressed): reader -> book, labeled "0" (no stars) to "5".

    The time is `date_added` in UTC, or null if it is empty.
    """
    return read_edges(
        expand_paths(paths),
        source="user_id",
        target="book_id",
        text="review_text",
        label="rating",
        time="date_added",
        format="jsonl",
        on_error=on_error,
    )
