import re
from datetime import datetime

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgeformers.data.readers.tables import read_edges
from edgeformers.errors import InputError
from tests.data.readers.table_files import HEADER, error_of, rows, save


def test_extra_columns_are_kept_with_their_types():
    frame = pa.table(
        {"source": ["a"], "target": ["b"], "text": ["c"], "n": [5], "x": [{"y": 1}], "l": [["q"]]}
    )
    kept = read_edges(frame, keep=["n", "x", "l"]).to_arrow()
    assert kept.column_names == ["source", "target", "text", "n", "x", "l"]
    assert kept.schema.field("n").type == pa.int64()
    assert kept.to_pylist()[0]["x"] == {"y": 1}


def test_list_columns_are_several_labels():
    for frame in (
        pl.DataFrame({"source": ["a"], "target": ["b"], "text": ["c"], "tags": [["x|y", "z"]]}),
        pa.table({"source": ["a"], "target": ["b"], "text": ["c"], "tags": [["x|y", None, "z"]]}),
    ):
        table = read_edges(frame, label="tags")
        assert table.label_kind == "multi"
        assert rows(table)[0][3].split(table.label_separator) == ["x|y", "z"]


def test_integer_ids_stored_as_floats_are_read_as_integers():
    numbers = [1.0, 12345678901.0, 0.5, np.nan, 2.0**52 + 1]
    frame = pa.table({"source": numbers, "target": ["t"] * 5, "text": ["x"] * 5})
    table = read_edges(frame, on_error="skip")
    assert [row[0] for row in rows(table)] == ["1", "12345678901", "0.5", "4503599627370497"]
    assert "row 4: column 'source'" in table.errors.examples[0]


def test_bytes_in_a_frame_that_are_not_utf8_are_named_with_their_row():
    edges = {"source": ["a", "a"], "target": ["b", "b"], "text": [b"fine", b"\xff"]}
    with pytest.raises(InputError, match=r"row 2: column 'text' .*UTF-8"):
        read_edges(pa.table(edges)).to_arrow()
    table = read_edges(pa.table(edges), on_error="skip")
    assert rows(table) == [("a", "b", "fine")]
    assert table.errors.count == 1


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        ({"label": "x", "classes": ["1", "2"]}, "3"),
        ({"label": "x", "classes": ["1", "2"], "label_separator": "|"}, "1|3"),
        ({"label": "x", "label_kind": "number"}, "five"),
        ({"weight": "x"}, "1e999"),
        ({"time": "x"}, "yesterday"),
        ({"split": "x"}, "holdout"),
    ],
)
def test_an_invalid_value_is_named_with_its_line(tmp_path, columns, value):
    path = save(tmp_path, f"source,target,text,x\na,b,c,\na,b,c,{value}\n")
    assert error_of(path, **columns).startswith(f"edges.csv, line 3: column 'x': '{value}'")


def test_a_missing_column_is_reported_with_its_argument(tmp_path):
    path = save(tmp_path, HEADER + b"a,b,c\n")
    assert re.search("'txt' .*'text'.*`keep=`", error_of(path, keep=["txt"]))
    assert "`split=`" in error_of(path, split="fold")


def test_files_must_agree_on_the_type_of_a_kept_column(tmp_path):
    edge = {"source": ["a"], "target": ["b"], "text": ["c"]}
    pq.write_table(pa.table({**edge, "n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({**edge, "n": ["1"]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet: column 'n' holds string.* holds int64"):
        read_edges(str(tmp_path / "*.parquet"), keep=["n"])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2023-05-31", datetime(2023, 5, 31)),
        ("2023-05-31T12:00:00", datetime(2023, 5, 31, 12)),
        ("2023-05-31 12:00", datetime(2023, 5, 31, 12)),
        ("2023-05-31T12:00:00Z", datetime(2023, 5, 31, 12)),
        ("2023-05-31T12:00:00+02:00", datetime(2023, 5, 31, 10)),
        ("2023-05-31T12:00:00.123456789", datetime(2023, 5, 31, 12, 0, 0, 123456)),
        ("20230531", datetime(2023, 5, 31)),
        ("2023", datetime(2023, 1, 1)),
        ("1969-12-31T23:59:59", datetime(1969, 12, 31, 23, 59, 59)),
        ("-1", datetime(1969, 12, 31, 23, 59, 59)),
        ("1500000000", datetime(2017, 7, 14, 2, 40)),
        ("1500000000.5", datetime(2017, 7, 14, 2, 40, 0, 500000)),
        ("1.5e+09", datetime(2017, 7, 14, 2, 40)),
        ("1500000000000", datetime(2017, 7, 14, 2, 40)),
        ("1500000000000000", datetime(2017, 7, 14, 2, 40)),
        ("\t2023-05-31 ", datetime(2023, 5, 31)),
        ("", None),
    ],
)
def test_times_are_read_as_utc(tmp_path, written, read):
    path = save(tmp_path, f"source,target,text,when\na,b,c,{written}\n")
    assert rows(read_edges(path, time="when"))[0][3] == read


@pytest.mark.parametrize(
    "written",
    [
        "2023-02-30",
        "20230532",
        "infinity",
        "epoch",
        "12:30",
        "31.05.2023",
        "9" * 40,
        "290000-01-01",
    ],
)
def test_invalid_times_are_reported(tmp_path, written):
    path = save(tmp_path, f"source,target,text,when\na,b,c,{written}\n")
    assert "line 2: column 'when': '" in error_of(path, time="when")


@pytest.mark.parametrize(
    "times",
    [
        pa.array([datetime(2020, 1, 2, 3)], pa.timestamp("ns")),
        pa.array([datetime(2020, 1, 2, 3)], pa.timestamp("us", "UTC")),
        pa.array([datetime(2020, 1, 2, 2)], pa.timestamp("s", "Europe/Berlin")).cast("int64"),
        pa.array([1577934000.0]),
    ],
)
def test_times_in_frames_are_read(times):
    frame = pa.table({"source": ["a"], "target": ["b"], "text": ["c"], "when": times})
    time = rows(read_edges(frame, time="when"))[0][3]
    assert time in (datetime(2020, 1, 2, 3), datetime(2020, 1, 2, 2))
