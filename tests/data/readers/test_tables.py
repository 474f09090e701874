import csv
import gzip
import io
import json
import re
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from edgeformers.data.readers.tables import read_edges, read_nodes
from edgeformers.errors import InputError

HEADER = b"source,target,text\n"
ODD_IDS = ["007", " a", "a ", "NA", "null", "nan", "None", "1e5", 'say "hi"', "new\nline", "é😀"]
QUIET = settings(
    derandomize=True,
    deadline=None,
    max_examples=15,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def zstd(content):
    return pa.compress(content, codec="zstd", asbytes=True)


def rows(table):
    return [tuple(row.values()) for row in table.to_arrow().to_pylist()]


def rows_or_none(table):
    """The rows, or None if the table is rejected with a one-line message that names it."""
    try:
        return rows(table)
    except InputError as error:
        message = str(error)
    assert message.count(table.origin) >= 1
    assert "\n" not in message
    return None


def save(folder, content, name="edges.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def error_of(path, **columns):
    """The error message for a file, without its folder."""
    with pytest.raises(InputError) as raised:
        read_edges(path, **columns).to_arrow()
    message = str(raised.value)
    assert "\n" not in message
    return message.replace(f"{path.parent}/", "")


def as_csv(table, delimiter=",", line_end="\r\n", quoting=csv.QUOTE_MINIMAL):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
    writer.writerow(["source", "target", "text"])
    writer.writerows(table)
    return out.getvalue().encode()


def as_jsonl(table, ascii_only=False):
    records = (dict(zip(("source", "target", "text"), row, strict=True)) for row in table)
    return "".join(json.dumps(r, ensure_ascii=ascii_only) + "\n" for r in records).encode()


def as_parquet(table):
    out = io.BytesIO()
    columns = zip(*table, strict=True)
    arrays = [pa.array(column, pa.string()) for column in columns]
    pq.write_table(pa.table(arrays, names=["source", "target", "text"]), out)
    return out.getvalue()


WRITERS = {
    "a.csv": as_csv,
    "b.csv.gz": lambda table: gzip.compress(as_csv(table, line_end="\n", quoting=csv.QUOTE_ALL)),
    "c.csv.zst": lambda table: zstd(as_csv(table)),
    "d.tsv": lambda table: as_csv(table, delimiter="\t"),
    "e.jsonl": as_jsonl,
    "f.json.gz": lambda table: gzip.compress(as_jsonl(table, ascii_only=True)),
    "g.ndjson.zst": lambda table: zstd(as_jsonl(table)),
    "h.parquet": as_parquet,
}

# --- tables are read exactly as written -------------------------------------------------------

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
tricky = st.text(st.sampled_from(list("ab \t\r\n\",;'\\|#0\x00é\u2028\ufeff")), max_size=8)
ids = (text | tricky | st.sampled_from(ODD_IDS)).filter(lambda value: value.strip())
tables = st.lists(st.tuples(ids, ids, text | tricky), min_size=1, max_size=9)


@pytest.mark.parametrize("name", WRITERS)
@QUIET
@given(table=tables)
@example(table=[(one, other, "") for one in ODD_IDS for other in ODD_IDS])
def test_any_table_is_read_exactly(tmp_path, name, table):
    path = save(tmp_path, WRITERS[name](table), name)
    assert rows(read_edges(path)) == table
    skipping = read_edges(path, on_error="skip")
    assert rows(skipping) == table
    assert skipping.errors.count == 0


@QUIET
@given(table=tables)
def test_any_frame_is_read_exactly(table):
    columns = dict(
        zip(("source", "target", "text"), map(list, zip(*table, strict=True)), strict=True)
    )
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pl.LazyFrame(columns)):
        assert rows(read_edges(frame)) == table
    arrow = pa.table(columns)
    assert rows(read_edges(arrow)) == rows(read_edges(arrow.to_batches()[0])) == table


FIELDS = ["a", " b", "", " ", '"a"', ' "a"', '"a" ', '"a,b"', '"a\nb"', '"a\r\nb"', '"a""b"', '""']
FIELDS += ["é", 'a"b', '"a"b', '"', '"a\rb"', "\t", "\\", "'", "#", "\x00", '"a\n\nb"', "NULL"]
fields = st.sampled_from(FIELDS)
csv_rows = st.lists(st.lists(fields, min_size=2, max_size=4), min_size=1, max_size=4)


@settings(QUIET, max_examples=40)
@given(table=csv_rows, line_end=st.sampled_from(["\n", "\r\n"]), closed=st.booleans())
def test_duckdb_and_the_line_parser_agree_on_any_csv(tmp_path, table, line_end, closed):
    written = line_end.join(["source,target,text", *(",".join(row) for row in table)])
    path = save(tmp_path, written + line_end * closed)
    skipping = read_edges(path, on_error="skip")
    by_duckdb, by_line = rows_or_none(read_edges(path)), rows_or_none(skipping)
    assert by_duckdb == (by_line if skipping.errors.count == 0 else None)


plain = st.text(st.characters(exclude_categories=["C"]), max_size=8)
json_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    text,
    st.lists(st.integers() | plain, max_size=3),
    st.dictionaries(plain, st.integers() | plain, max_size=2),
)


@QUIET
@given(values=st.lists(json_values, min_size=1, max_size=8))
def test_duckdb_and_the_line_parser_agree_on_any_json_value(tmp_path, values):
    records = [{"source": "a", "target": "b", "text": "t", "odd": value} for value in values]
    path = save(tmp_path, "".join(json.dumps(r) + "\n" for r in records), "a.jsonl")
    by_duckdb, by_line = (read_edges(path, keep=["odd"], on_error=how) for how in ("stop", "skip"))
    assert rows(by_duckdb) == rows(by_line)
    assert by_line.errors.count == 0


INTACT = [("a", "b", 'he said, "no"\n'), (" x", "007", ""), ("é", "c d", "NA")] * 3
edits = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.sampled_from(["set", "insert", "delete", "cut"]),
        st.integers(0, 255) | st.sampled_from([0, 10, 13, 32, 34, 44, 91, 92, 123, 125]),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("name", WRITERS)
@settings(QUIET, max_examples=12)
@given(edits=edits)
def test_damaged_bytes_give_rows_or_an_error_that_names_the_file(tmp_path, name, edits):
    content = bytearray(WRITERS[name](INTACT))
    for where, how, byte in edits:
        at = int(where * len(content))
        if how == "cut":
            del content[at:]
        else:
            content[at : at + (how != "insert")] = b"" if how == "delete" else bytes([byte])
    path = save(tmp_path, bytes(content), name)
    for on_error in ("stop", "skip"):
        try:
            table = read_edges(path, on_error=on_error)
        except InputError as error:
            message = str(error)
        else:
            valid, message = rows_or_none(table) or [], str(path)
            assert all(isinstance(value, str) for row in valid for value in row)
        assert str(path) in message


# --- unusual files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        HEADER + b"a,b,c\nd,e,f",
        HEADER + b"\n\na,b,c\n\n\nd,e,f\n\n",
        b"\xef\xbb\xbf" + HEADER + b"a,b,c\r\nd,e,f\n",  # line ends of both kinds
        b"\n\n" + HEADER + b"a,b,c\nd,e,f\n",
        b"source,target,text\ra,b,c\rd,e,f\r",
        b'source,target,text\na, "b" ,c\nd,"e",f\n',  # blanks around quotes
        HEADER + b"a,b,c\r\nd,e,f\n",
        HEADER + b"a,b,c,,\nd,e,f,\n",  # delimiters that spreadsheets add
        b",source,target,text\n0,a,b,c\n1,d,e,f\n",  # the index that pandas adds
        b"source,target,text,Text,,\na,b,c,1,,\nd,e,f,2,,\n",
    ],
)
def test_unusual_files_are_read(tmp_path, content):
    path = save(tmp_path, content)
    expected = [("a", "b", "c"), ("d", "e", "f")]
    assert rows(read_edges(path)) == rows(read_edges(path, on_error="skip")) == expected


def test_a_carriage_return_is_an_ordinary_character_if_no_line_ends_with_one(tmp_path):
    path = save(tmp_path, HEADER + b"a,b,x\ry\n")
    assert rows(read_edges(path)) == rows(read_edges(path, on_error="skip")) == [("a", "b", "x\ry")]


@pytest.mark.parametrize("name", ["a[1].csv", "source=x,text=y.csv", "it's {a}.csv", "a*.csv"])
def test_any_file_name_works(tmp_path, name):
    (tmp_path / "source=z").mkdir()
    path = save(tmp_path / "source=z", HEADER + b"a,b,c\n", name)
    assert rows(read_edges(path)) == [("a", "b", "c")]


def test_a_glob_is_read_in_order_of_names(tmp_path):
    for i in range(12):
        save(tmp_path, HEADER + f"s{i:02},t,x\n".encode(), f"part-{i:02}.csv")
    edges = rows(read_edges(str(tmp_path / "part-*.csv")))
    assert [row[0] for row in edges] == [f"s{i:02}" for i in range(12)]


def test_files_longer_than_a_batch_keep_their_order(tmp_path):
    count = 70_000
    lines = "".join(f's{i},t{i % 7},"text {i}\nof two lines"\n' for i in range(count))
    path = save(tmp_path, HEADER + lines.encode())
    table = read_edges(path).to_arrow()
    assert table.column("source").to_pylist() == [f"s{i}" for i in range(count)]


def test_an_invalid_row_after_several_batches_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("edgeformers.data.readers.sources.BATCH_ROWS", 50)
    lines = b'a,b,"text\nof two lines"\n' * 240
    path = save(tmp_path, HEADER + lines + b"a,b\n")
    assert error_of(path).startswith("edges.csv, line 482: 2 fields")
    table = read_edges(path, on_error="skip")
    assert (table.to_arrow().num_rows, table.errors.count) == (240, 1)


@pytest.mark.parametrize("name", ["a.csv", "e.jsonl"])
def test_a_text_too_long_for_duckdb_is_read(tmp_path, name):
    table = [("a", "b", "c"), ("d", "e", "x" * (5 << 20)), ("f", "g", "h")]
    assert rows(read_edges(save(tmp_path, WRITERS[name](table), name))) == table


@pytest.mark.parametrize(
    ("delimiter", "content"),
    [
        (";", "source;target;text\na;b;c,d\n"),
        ("||", "source||target||text\na||b||c,d\n"),
        (" ", 'source target text\na b "c,d"\n'),
    ],
)
def test_other_delimiters_are_read(tmp_path, delimiter, content):
    assert rows(read_edges(save(tmp_path, content), delimiter=delimiter)) == [("a", "b", "c,d")]


def test_quotes_can_be_ordinary_characters(tmp_path):
    path = save(tmp_path, HEADER + b'a,"b,"c"\n')
    assert rows(read_edges(path, quote="")) == [("a", '"b', '"c"')]


@pytest.mark.parametrize("options", [{"delimiter": "\n"}, {"quote": "ab"}, {"delimiter": '"'}])
def test_an_invalid_delimiter_or_quote_is_rejected(tmp_path, options):
    assert f"the {next(iter(options))}" in error_of(save(tmp_path, HEADER + b"a,b,c\n"), **options)


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


def test_lists_in_json_are_several_labels(tmp_path):
    record = {"source": "a", "target": "b", "text": "c", "tags": ["x", "y"]}
    path = save(tmp_path, json.dumps(record) + "\n", "a.jsonl")
    for on_error in ("stop", "skip"):
        table = read_edges(path, label="tags", on_error=on_error)
        assert rows(table)[0][3].split(table.label_separator) == ["x", "y"]


def test_integer_ids_stored_as_floats_are_read_as_integers():
    numbers = [1.0, 12345678901.0, 0.5, np.nan, 2.0**52 + 1]
    frame = pa.table({"source": numbers, "target": ["t"] * 5, "text": ["x"] * 5})
    table = read_edges(frame, on_error="skip")
    assert [row[0] for row in rows(table)] == ["1", "12345678901", "0.5", "4503599627370497"]
    assert "row 4: column 'source'" in table.errors.examples[0]


# --- files that cannot be used ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "edges.csv is empty"),
        (b"\n\r\n", "edges.csv is empty"),
        (HEADER, "edges.csv has no edges"),
        (b"source,target,txt\na,b,c\n", "column 'text' .* 'txt'.* `text=`"),
        (b" source,target,text\na,b,c\n", "column 'source' .*' source' has spaces"),
        (b"source;target;text\na;b;c\n", "column 'source' .*`delimiter=';'`"),
        (b"source,target,text,text\na,b,c,d\n", "line 1: column 'text' .*twice"),
        (b"\xff,target,text\n", "line 1: .*UTF-8"),
        (HEADER + b"a,b,c\n,b,c\n", "line 3: column 'source' is empty"),
        (HEADER + b"a,b,c\na,  ,c\n", "line 3: column 'target' is empty"),
        (HEADER + b'a,b,"1\n2\n3"\n\na,b\n', "line 6: 2 fields"),
        (HEADER + b"a,b,c,d\n", "line 2: 4 fields"),
        (b"\xef\xbb\xbf" + HEADER + b'a,b,"x\r\ny"\r\n\r\nz\r\n', "line 5: 1 field"),
        (HEADER + b"a,b,c\nx,y,caf\xe9\n", "line 3: .*UTF-8"),
        (HEADER + b'a,b,c\na,b,"x"y\n', "line 3: 'y' follows a closing quote"),
        (HEADER + b'a,b,c\na,b,"x\nd,e,f\n', "line 3: a quote .* never closed"),
        ("source,target,text\na,b,c\n".encode("utf-16-le"), "UTF-16"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_reported(tmp_path, content, message):
    assert re.search(message, error_of(save(tmp_path, content)))


EDGE = b'{"source": "a", "target": "b", "text": "c"}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"source": "a"\n', "line 1: .*JSON .*character 15"),
        (b'[\n{"source": "a"}\n]\n', "edges.jsonl is a JSON array"),
        (b'[{"source": "a"}]', "edges.jsonl is a JSON array"),
        (b"\n\n", "no records"),
        (EDGE + b"\n5\n", r"line 3: .*\(got 5\)"),
        (EDGE + b"null\n", r"line 2: .*\(got null\)"),
        (b'{"source": "a", "target": "b"}\n', "column 'text'"),
        (EDGE.replace(b"c", b"\\ud800"), "line 1: .*surrogate"),
        (EDGE + b"\n" + EDGE.replace(b"c", b"\xff"), "line 3: .*UTF-8"),
        (EDGE.replace(b"}", b', "text": "d"}'), "'text' occurs twice"),
        (b'{"source": ' + b"[" * 9999 + b"]" * 9999 + b"}", "line 1: .*nested"),
    ],
)
def test_what_is_wrong_with_a_json_file_is_reported(tmp_path, content, message):
    assert re.search(message, error_of(save(tmp_path, content, "edges.jsonl")))


DAMAGED = bytearray(as_parquet([("a", "b", "c" * 500)] * 50))
DAMAGED[20:60] = b"\xff" * 40


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.xlsx", b"x", "suffix; .*`format=`"),
        ("edges.parquet", b"something else", "edges.parquet .*not a Parquet file"),
        ("edges.parquet", bytes(DAMAGED), "edges.parquet is damaged"),
        ("edges.parquet", as_parquet(INTACT).replace(b"text", b"te\xff\xfe"), "is damaged"),
        ("edges.parquet.gz", gzip.compress(b"x"), "unpack"),
        ("edges.csv", gzip.compress(b"x"), "compressed with gzip"),
        ("edges.csv.gz", gzip.compress(HEADER * 99)[:-9], "damaged after line"),
        ("edges.jsonl.zst", zstd(b'{"a": 1}\n' * 99)[:-3], "damaged after line"),
    ],
)
def test_a_file_of_another_kind_is_reported(tmp_path, name, content, message):
    assert re.search(message, error_of(save(tmp_path, content, name)))


def test_only_files_and_frames_are_read(tmp_path):
    assert f"{tmp_path.name} is a folder" in error_of(tmp_path)
    assert "no such file" in error_of(tmp_path / "missing.csv")
    for data in (5, [{"source": "a"}]):
        with pytest.raises(InputError, match=f"got {type(data).__name__}"):
            read_edges(data)


def test_what_is_wrong_with_a_frame_is_reported():
    edge = {"source": ["a"], "target": ["b"], "text": ["c"]}
    names = ["source", "target", "text", "text"]
    with pytest.raises(InputError, match="unique name"):
        read_edges(pd.DataFrame([["a", "b", "c", "d"]], columns=names))
    with pytest.raises(InputError, match="two columns 'text'"):
        read_edges(pa.table([["a"]] * 4, names=names))
    with pytest.raises(InputError, match="single type"):
        read_edges(pd.DataFrame({**edge, "odd": [object()]}))
    with pytest.raises(InputError, match=r"column 'text' \(text\) holds struct"):
        read_edges(pa.table({**edge, "text": [{"a": 1}]}))


def test_bytes_in_a_frame_that_are_not_utf8_are_named_with_their_row():
    edges = {"source": ["a", "a"], "target": ["b", "b"], "text": [b"fine", b"\xff"]}
    with pytest.raises(InputError, match=r"row 2: column 'text' .*UTF-8"):
        read_edges(pa.table(edges)).to_arrow()
    table = read_edges(pa.table(edges), on_error="skip")
    assert rows(table) == [("a", "b", "fine")]
    assert table.errors.count == 1


def test_a_text_column_of_numbers_is_rejected(tmp_path):
    content = "source,target,text,review\n" + "a,b,4.5,good\n" * 10
    assert re.search(r"'text' .*'4\.5'.*: review", error_of(save(tmp_path, content)))


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


# --- rows that are skipped --------------------------------------------------------------------


def test_skipped_rows_are_counted_and_listed(tmp_path):
    content = HEADER + b'a,b,c\n,b,c\nx,y\na,b,"open\nd,e,f\ng,h,\xff\ni,j,k\n'
    path = save(tmp_path, content)
    table = read_edges(path, on_error="skip")
    assert rows(table) == [("a", "b", "c"), ("d", "e", "f"), ("i", "j", "k")]
    assert table.errors.count == 4
    lines = [re.search(r"line (\d+)", message)[1] for message in table.errors.examples]
    assert lines == ["3", "4", "5", "7"]


def test_skipped_rows_are_listed_by_file(tmp_path):
    for name in ("a.csv", "b.csv"):
        save(tmp_path, HEADER + b"a,b,c\n,b,c\nx,y\n", name)
    table = read_edges(str(tmp_path / "*.csv"), on_error="skip")
    table.to_arrow()
    places = [re.search(r"(.\.csv), line (\d)", text).groups() for text in table.errors.examples]
    assert places == [("a.csv", "3"), ("a.csv", "4"), ("b.csv", "3"), ("b.csv", "4")]


def test_invalid_first_lines_of_json_are_skipped(tmp_path):
    good = '{"source": "a", "target": "b", "text": "c"}\n'
    path = save(tmp_path, "{broken\n" + good, "a.jsonl")
    table = read_edges(path, on_error="skip")
    assert rows(table) == [("a", "b", "c")]
    assert table.errors.count == 1


def test_if_every_row_is_skipped_the_first_reason_is_reported(tmp_path):
    message = error_of(save(tmp_path, HEADER + b",b,c\n,,\n"), on_error="skip")
    assert re.search("no edges; .*2 .*line 2: column 'source'", message)


def test_many_unclosed_quotes_take_bounded_time(tmp_path):
    path = save(tmp_path, HEADER + b'a","\n' * 500)
    message = error_of(path, on_error="skip")
    assert "never closed" in message


# --- times ------------------------------------------------------------------------------------


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


# --- nodes ------------------------------------------------------------------------------------


def test_nodes_are_read_with_labels_and_texts(tmp_path):
    path = save(tmp_path, "id,genres,about\n007,a|b,spy\n x,,\n", "nodes.csv")
    table = read_nodes(path, labels="genres", label_separator="|", text="about", side="target")
    assert table.to_arrow().to_pylist() == [
        {"id": "007", "side": "target", "labels": ["a", "b"], "text": "spy"},
        {"id": " x", "side": "target", "labels": [], "text": None},
    ]


def test_blank_lines_of_a_table_with_one_column_are_skipped(tmp_path):
    table = read_nodes(save(tmp_path, "id\na\n\nb\n", "nodes.csv"))
    assert table.to_arrow().column("id").to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "line 3: column 'id' is empty"),
        ({"labels": "genres"}, r"column 'genres' \(labels\); .*'genre'.*`labels=` of read_nodes"),
        ({"id": "node"}, r"column 'node' \(id\)"),
        ({"keep": ["x"]}, r"column 'x' \(keep\)"),
        ({"side": "left"}, "side"),
    ],
)
def test_what_is_wrong_with_a_node_table_is_reported(tmp_path, columns, message):
    path = save(tmp_path, "id,genre\na,x\n ,y\n", "nodes.csv")
    with pytest.raises(InputError, match=message):
        read_nodes(path, **columns).to_arrow()
