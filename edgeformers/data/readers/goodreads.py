"""Goodreads reviews as published by genre (JSON lines)."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.canonical import parse_times
from edgeformers.data.readers.files import PathOrGlob, expand_paths, numbered_lines
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.table import EdgeTable, OnError, edge_schema

SCHEMA = edge_schema(("label", "time"))
MONTHS = pa.array(
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
)
#: "Fri Jul 05 10:22:02 -0700 2013"
DATE = (
    r"^[A-Za-z]{3} (?P<month>[A-Za-z]{3}) (?P<day>\d{2}) "
    r"(?P<clock>\d{2}:\d{2}:\d{2}) (?P<hours>[-+]\d{2})(?P<minutes>\d{2}) (?P<year>\d{4})$"
)


def read_goodreads_reviews(
    paths: PathOrGlob | Iterable[PathOrGlob], *, on_error: OnError = "stop"
) -> EdgeTable:
    """Review files (plain or compressed): reader -> book, labeled "0" (no stars given) to "5".

    The time is `date_added` in UTC, or null where the file has none.
    """
    files = expand_paths(paths)
    table = read_edges(
        files,
        source="user_id",
        target="book_id",
        text="review_text",
        label="rating",
        keep=("date_added",),
        format="jsonl",
        on_error=on_error,
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.open():
            dates = batch.column("date_added")
            times = parse_dates(dates)
            unread = pc.and_(pc.is_null(times), pc.not_equal(pc.fill_null(dates, ""), ""))
            for row in pc.indices_nonzero(unread).to_pylist():
                table.errors.report(_bad_date(files, dates[row].as_py()))
            timed = batch.drop_columns("date_added").append_column(SCHEMA.field("time"), times)
            yield timed.filter(pc.invert(unread))

    return replace(table, schema=SCHEMA, open=batches)


def parse_dates(written: pa.Array) -> pa.Array:
    """Dates such as "Fri Jul 05 10:22:02 -0700 2013" -> timestamp[us] in UTC, null where unlike."""
    parts = pc.extract_regex(pc.utf8_trim_whitespace(written), DATE)
    month, day, clock, hours, minutes, year = (pc.struct_field(parts, i) for i in range(6))
    number = pc.cast(pc.add(pc.index_in(month, MONTHS), 1), pa.string())
    date = pc.binary_join_element_wise(year, pc.utf8_lpad(number, 2, "0"), day, "-")
    zone = pc.binary_join_element_wise(hours, minutes, ":")
    return parse_times(
        pc.binary_join_element_wise(date, pc.binary_join_element_wise(clock, zone, ""), " ")
    )


def _bad_date(files: list[Path], date: str) -> str:
    written = json.dumps(date, ensure_ascii=False).encode()
    places = (
        f"{file}, line {number}"
        for file in files
        for number, line in numbered_lines(file)
        if written in line
    )
    return (
        f"{next(places, ', '.join(map(str, files)))}: date_added {date!r} is not a date as in "
        "'Fri Jul 05 10:22:02 -0700 2013'; leave it empty where it is unknown"
    )
