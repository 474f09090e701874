import json
from datetime import datetime

import pyarrow as pa
import pytest

from edgeformers.data.readers.goodreads import read_goodreads_reviews
from edgeformers.data.readers.times import parse_times
from edgeformers.errors import InputError

REVIEW = {
    "user_id": "u1",
    "book_id": "24",
    "review_id": "r",
    "rating": 0,
    "review_text": "Never\tfinished.",
    "date_added": "Fri Jul 05 10:22:02 -0700 2013",
    "n_votes": 1,
}


def write_lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_a_review_is_an_edge_from_reader_to_book(tmp_path):
    file = write_lines(tmp_path / "g.json", REVIEW, {**REVIEW, "date_added": ""})
    table = read_goodreads_reviews(file)
    assert table.bipartite
    edge = {"source": "u1", "target": "24", "text": "Never\tfinished.", "label": "0"}
    times = [datetime(2013, 7, 5, 17, 22, 2), None]
    assert table.to_arrow().to_pylist() == [{**edge, "time": time} for time in times]


def test_dates_agree_with_the_standard_library():
    dates = [
        f"Mon {month} {day:02d} 23:05:09 {zone} 2016"
        for month in ("Jan", "Feb", "May", "Sep", "Dec")
        for day in (1, 9, 28)
        for zone in ("-0800", "+0000", "+0530", "+1345")
    ]
    for date, time in zip(dates, parse_times(pa.array(dates), "each").to_pylist(), strict=True):
        expected = datetime.strptime(date[4:], "%b %d %H:%M:%S %z %Y")
        assert time == (expected - expected.utcoffset()).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("date_added", "soon"),
        ("date_added", "Tue Feb 30 00:00:00 +0000 2016"),
        ("date_added", "Tue Foo 01 00:00:00 +0000 2016"),
        ("book_id", ""),
    ],
)
def test_an_invalid_review_is_named_with_its_line_or_skipped(tmp_path, key, value):
    file = write_lines(tmp_path / "g.json", REVIEW, {**REVIEW, key: value})
    with pytest.raises(InputError, match=rf"g\.json, line 2: .*{key}"):
        read_goodreads_reviews(file).to_arrow()
    table = read_goodreads_reviews(file, on_error="skip")
    assert table.to_arrow().num_rows == 1
    assert "line 2" in table.errors.examples[0]
