import json
from datetime import datetime

import pyarrow as pa
import pytest

from edgeformers.data.readers.goodreads import parse_dates, read_goodreads_reviews
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
    table = read_goodreads_reviews(write_lines(tmp_path / "g.json", REVIEW))
    assert table.bipartite
    assert table.to_arrow().to_pylist() == [
        {
            "source": "u1",
            "target": "24",
            "text": "Never\tfinished.",
            "label": "0",
            "time": datetime(2013, 7, 5, 17, 22, 2),
        }
    ]


def test_dates_agree_with_the_standard_library():
    written = [
        f"Mon {month} {day:02d} 23:05:09 {zone} 2016"
        for month in ("Jan", "Feb", "May", "Sep", "Dec")
        for day in (1, 9, 28)
        for zone in ("-0800", "+0000", "+0530", "+1345")
    ]
    parsed = parse_dates(pa.array(written)).to_pylist()
    for text, time in zip(written, parsed, strict=True):
        expected = datetime.strptime(text[4:], "%b %d %H:%M:%S %z %Y")
        assert time == (expected - expected.utcoffset()).replace(tzinfo=None)


def test_what_is_no_date_is_null():
    odd = ["", None, "soon", "Tue Feb 30 00:00:00 +0000 2016", "Tue Foo 01 00:00:00 +0000 2016"]
    assert parse_dates(pa.array(odd, pa.string())).null_count == len(odd)


def test_an_unknown_date_is_a_null_time(tmp_path):
    file = write_lines(tmp_path / "g.json", {**REVIEW, "date_added": ""}, REVIEW)
    times = read_goodreads_reviews(file).to_arrow()["time"]
    assert times.null_count == 1


def test_a_wrong_date_is_named_with_its_line_or_its_row_skipped(tmp_path):
    file = write_lines(tmp_path / "g.json", REVIEW, {**REVIEW, "date_added": "2013-07-05"})
    with pytest.raises(InputError, match=r"g\.json, line 2: date_added '2013-07-05' is not a date"):
        read_goodreads_reviews(file).to_arrow()
    table = read_goodreads_reviews(file, on_error="skip")
    assert table.to_arrow().num_rows == 1
    assert "line 2" in table.errors.examples[0]


def test_a_review_without_a_book_is_named_with_its_line(tmp_path):
    file = write_lines(tmp_path / "g.json", REVIEW, {**REVIEW, "book_id": ""})
    with pytest.raises(InputError, match=r"g\.json, line 2: .*book_id"):
        read_goodreads_reviews(file).to_arrow()
