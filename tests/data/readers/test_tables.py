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
    """The rows, or None where the table is refused with one sentence that names it."""
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


def refusal(path, **columns):
    """The sentence a file is refused with, its folder left out."""
    with pytest.raises(InputError) as refused:
        read_edges(path, **columns).to_arrow()
    message = str(refused.value)
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

# --- what is written comes back ---------------------------------------------------------------

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
tricky = st.text(st.sampled_from(list("ab \t\r\n\",;'\\|#0\x00é\u2028\ufeff")), max_size=8)
ids = (text | tricky | st.sampled_from(ODD_IDS)).filter(lambda value: value.strip())
tables = st.lists(st.tuples(ids, ids, text | tricky), min_size=1, max_size=9)


@pytest.mark.parametrize("name", WRITERS)
@QUIET
@given(table=tables)
@example(table=[(one, other, "") for one in ODD_IDS for other in ODD_IDS])
def test_any_table_comes_back_exactly(tmp_path, name, table):
    path = save(tmp_path, WRITERS[name](table), name)
    assert rows(read_edges(path)) == table
    skipping = read_edges(path, on_error="skip")
    assert rows(skipping) == table
    assert skipping.errors.count == 0


@QUIET
@given(table=tables)
def test_any_frame_comes_back_exactly(table):
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


@settings(QUIET, max_examples=60)
@given(table=csv_rows, line_end=st.sampled_from(["\n", "\r\n"]), closed=st.booleans())
def test_the_fast_and_the_careful_reading_agree_on_any_csv(tmp_path, table, line_end, closed):
    written = line_end.join(["source,target,text", *(",".join(row) for row in table)])
    path = save(tmp_path, written + line_end * closed)
    skipping = read_edges(path, on_error="skip")
    fast, careful = rows_or_none(read_edges(path)), rows_or_none(skipping)
    assert fast == (careful if skipping.errors.count == 0 else None)


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
def test_the_fast_and_the_careful_reading_agree_on_any_json_value(tmp_path, values):
    records = [{"source": "a", "target": "b", "text": "t", "odd": value} for value in values]
    path = save(tmp_path, "".join(json.dumps(r) + "\n" for r in records), "a.jsonl")
    fast, careful = (read_edges(path, keep=["odd"], on_error=how) for how in ("stop", "skip"))
    assert rows(fast) == rows(careful)
    assert careful.errors.count == 0


whole = [("a", "b", 'he said, "no"\n'), (" x", "007", ""), ("é", "c d", "NA")] * 3
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
def test_damaged_bytes_give_rows_or_a_sentence(tmp_path, name, edits):
    content = bytearray(WRITERS[name](whole))
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
            found, message = rows_or_none(table) or [], str(path)
            assert all(isinstance(value, str) for row in found for value in row)
        assert str(path) in message


# --- files of many kinds ----------------------------------------------------------------------


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


def test_a_carriage_return_is_a_character_where_lines_end_without(tmp_path):
    path = save(tmp_path, HEADER + b"a,b,x\ry\n")
    assert rows(read_edges(path)) == rows(read_edges(path, on_error="skip")) == [("a", "b", "x\ry")]


@pytest.mark.parametrize("name", ["a[1].csv", "source=x,text=y.csv", "it's {a}.csv", "a*.csv"])
def test_no_name_of_a_file_is_too_odd(tmp_path, name):
    (tmp_path / "source=z").mkdir()
    path = save(tmp_path / "source=z", HEADER + b"a,b,c\n", name)
    assert rows(read_edges(path)) == [("a", "b", "c")]


def test_many_files_are_read_in_the_order_of_their_names(tmp_path):
    for i in range(12):
        save(tmp_path, HEADER + f"s{i:02},t,x\n".encode(), f"part-{i:02}.csv")
    found = rows(read_edges(str(tmp_path / "part-*.csv")))
    assert [row[0] for row in found] == [f"s{i:02}" for i in range(12)]


def test_files_longer_than_a_batch_keep_their_order(tmp_path):
    count = 70_000
    lines = "".join(f's{i},t{i % 7},"text {i}\nof two lines"\n' for i in range(count))
    path = save(tmp_path, HEADER + lines.encode())
    table = read_edges(path).to_arrow()
    assert table.column("source").to_pylist() == [f"s{i}" for i in range(count)]


def test_a_row_behind_several_batches_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("edgeformers.data.readers.sources.BATCH_ROWS", 50)
    lines = b'a,b,"text\nof two lines"\n' * 240
    path = save(tmp_path, HEADER + lines + b"a,b\n")
    assert refusal(path).startswith("edges.csv, line 482: 2 fields where the header has 3")
    table = read_edges(path, on_error="skip")
    assert (table.to_arrow().num_rows, table.errors.count) == (240, 1)


@pytest.mark.parametrize("name", ["a.csv", "e.jsonl"])
def test_a_text_longer_than_the_fast_reading_takes_is_read(tmp_path, name):
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
def test_delimiters_can_be_named(tmp_path, delimiter, content):
    assert rows(read_edges(save(tmp_path, content), delimiter=delimiter)) == [("a", "b", "c,d")]


def test_quotes_can_be_ordinary_characters(tmp_path):
    path = save(tmp_path, HEADER + b'a,"b,"c"\n')
    assert rows(read_edges(path, quote="")) == [("a", '"b', '"c"')]


@pytest.mark.parametrize("options", [{"delimiter": "\n"}, {"quote": "ab"}, {"delimiter": '"'}])
def test_signs_that_cannot_be_are_refused(tmp_path, options):
    assert "cannot be the" in refusal(save(tmp_path, HEADER + b"a,b,c\n"), **options)


def test_extra_columns_are_kept_with_their_types():
    frame = pa.table(
        {"source": ["a"], "target": ["b"], "text": ["c"], "n": [5], "x": [{"y": 1}], "l": [["q"]]}
    )
    kept = read_edges(frame, keep=["n", "x", "l"]).to_arrow()
    assert kept.column_names == ["source", "target", "text", "n", "x", "l"]
    assert kept.schema.field("n").type == pa.int64()
    assert kept.to_pylist()[0]["x"] == {"y": 1}


def test_lists_are_several_labels():
    for frame in (
        pl.DataFrame({"source": ["a"], "target": ["b"], "text": ["c"], "tags": [["x|y", "z"]]}),
        pa.table({"source": ["a"], "target": ["b"], "text": ["c"], "tags": [["x|y", None, "z"]]}),
    ):
        table = read_edges(frame, label="tags")
        assert table.label_kind == "multi"
        assert rows(table)[0][3].split(table.label_separator) == ["x|y", "z"]


def test_lists_in_json_lines_are_several_labels(tmp_path):
    record = {"source": "a", "target": "b", "text": "c", "tags": ["x", "y"]}
    path = save(tmp_path, json.dumps(record) + "\n", "a.jsonl")
    for on_error in ("stop", "skip"):
        table = read_edges(path, label="tags", on_error=on_error)
        assert rows(table)[0][3].split(table.label_separator) == ["x", "y"]


def test_numbers_that_became_floats_are_the_ids_they_were():
    numbers = [1.0, 12345678901.0, 0.5, np.nan, 2.0**52 + 1]
    frame = pa.table({"source": numbers, "target": ["t"] * 5, "text": ["x"] * 5})
    table = read_edges(frame, on_error="skip")
    assert [row[0] for row in rows(table)] == ["1", "12345678901", "0.5", "4503599627370497"]
    assert table.errors.examples == [
        "the data frame, row 4: column 'source' is empty; every edge needs both ends"
    ]


# --- files that cannot be used ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "edges.csv is empty; a table with one row per edge is expected"),
        (b"\n\r\n", "edges.csv is empty; a first line with column names is expected"),
        (HEADER, "edges.csv has no edges; one row per edge is expected"),
        (
            b"source,target,txt\na,b,c\n",
            "there is no column 'text' (text); did you mean 'txt'? (name it with --text)",
        ),
        (b"source;target;text\na;b;c\n", "no column 'source' (source); give --delimiter ';'"),
        (b"source,target,text,text\na,b,c,d\n", "line 1: column 'text' stands twice"),
        (b"\xff,target,text\n", "line 1: the bytes are not UTF-8; convert the file to UTF-8"),
        (HEADER + b"a,b,c\n,b,c\n", "line 3: column 'source' is empty; every edge needs both ends"),
        (HEADER + b"a,b,c\na,  ,c\n", "line 3: column 'target' is empty"),
        (HEADER + b'a,b,"1\n2\n3"\n\na,b\n', "line 6: 2 fields where the header has 3"),
        (HEADER + b"a,b,c,d\n", "line 2: 4 fields where the header has 3; quote fields that hold"),
        (b"\xef\xbb\xbf" + HEADER + b'a,b,"x\r\ny"\r\n\r\nz\r\n', "line 5: 1 field where"),
        (HEADER + b"a,b,c\nx,y,caf\xe9\n", "line 3: the bytes are not UTF-8; convert"),
        (HEADER + b'a,b,c\na,b,"x"y\n', "line 3: 'y' follows a closing quote; double the quotes"),
        (HEADER + b'a,b,c\na,b,"x\nd,e,f\n', 'line 3: a quote (") is opened here and never closed'),
    ],
)
def test_a_csv_that_cannot_be_used_gets_a_sentence(tmp_path, content, words):
    assert words in refusal(save(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            '{"source": "a"\n',
            "line 1: broken JSON (Expecting ',' delimiter at character 15); write",
        ),
        ('[\n{"source": "a"}\n]\n', "edges.jsonl is a JSON array; write one whole {"),
        ('[{"source": "a"}]', "edges.jsonl is a JSON array; write one whole {"),
        ("\n\n", "has no records; write one whole {"),
        ('{"source": "a", "target": "b", "text": "c"}\n\n5\n', "line 3: 5 where a JSON object is"),
        ('{"source": "a", "target": "b", "text": "c"}\nnull\n', "line 2: null where a JSON object"),
        ('{"source": "a", "target": "b"}\n', "there is no column 'text' (text)"),
        ('{"source": "a", "target": "b", "text": "\\ud800"}\n', "line 1: an escape such as"),
        ('{"source": "a", "target": "b", "text": "c", "text": "d"}\n', "key 'text' stands twice"),
        ('{"source": ' + "[" * 9999 + "]" * 9999 + "}", "line 1: the JSON is nested too deeply"),
    ],
)
def test_json_that_cannot_be_used_gets_a_sentence(tmp_path, content, words):
    assert words in refusal(save(tmp_path, content, "edges.jsonl"))


def test_broken_utf8_in_json_is_named_with_its_line(tmp_path):
    good = b'{"source": "a", "target": "b", "text": "c"}\n'
    path = save(tmp_path, good + b"\n" + good.replace(b"c", b"\xff"), "edges.jsonl")
    assert "line 3: the bytes are not UTF-8; convert the file to UTF-8" in refusal(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("edges.xlsx", b"x", "the suffix tells no format; give --format csv, tsv, jsonl, parquet"),
        ("edges.parquet", b"nothing of the kind", "edges.parquet is not a Parquet file ("),
        ("edges.parquet.gz", gzip.compress(b"x"), "unpack it; a Parquet file is compressed within"),
        ("edges.csv", gzip.compress(b"x"), "compressed with gzip, which its name does not tell"),
        ("edges.csv.gz", gzip.compress(HEADER * 99)[:-9], "breaks off after line"),
        ("edges.jsonl.zst", zstd(b'{"a": 1}\n' * 99)[:-3], "breaks off after line"),
    ],
)
def test_a_file_that_is_not_what_it_seems_gets_a_sentence(tmp_path, name, content, words):
    assert words in refusal(save(tmp_path, content, name))


def test_a_damaged_parquet_file_gets_a_sentence(tmp_path):
    content = bytearray(as_parquet([("a", "b", "c" * 500)] * 50))
    content[20:60] = b"\xff" * 40
    message = refusal(save(tmp_path, bytes(content), "edges.parquet"))
    assert re.search(r"edges.parquet.* Parquet file .*; fetch it again", message)


def test_paths_that_are_no_files_get_a_sentence(tmp_path):
    name = tmp_path.name
    assert f"{name} is a folder; name its files, for instance '{name}/*.csv'" in refusal(tmp_path)
    assert "no such file" in refusal(tmp_path / "missing.csv")
    with pytest.raises(InputError, match=r"read from files or from pandas.*\(got int\)"):
        read_edges(5)
    with pytest.raises(InputError, match=r"\(got list\)"):
        read_edges([{"source": "a"}])


def test_frames_that_cannot_be_used_get_a_sentence():
    base = {"source": ["a"], "target": ["b"], "text": ["c"]}
    twice = pd.DataFrame([["a", "b", "c", "d"]], columns=["source", "target", "text", "text"])
    with pytest.raises(InputError, match=r"the data frame cannot be read .*a name of its own"):
        read_edges(twice)
    with pytest.raises(InputError, match="there are two columns 'text'; rename one of them"):
        read_edges(pa.table([["a"]] * 4, names=["source", "target", "text", "text"]))
    with pytest.raises(InputError, match="give every column one type"):
        read_edges(pd.DataFrame({**base, "source": [1, "x"][:1], "odd": [object()]}))
    with pytest.raises(InputError, match=r"column 'text' \(text\) holds struct<.*texts or numbers"):
        read_edges(pa.table({**base, "text": [{"a": 1}]}))


def test_bytes_that_are_not_utf8_in_a_frame_are_named_with_their_row():
    base = {"source": ["a", "a"], "target": ["b", "b"], "text": [b"fine", b"\xff"]}
    with pytest.raises(InputError, match="row 2: column 'text': the bytes are not UTF-8"):
        read_edges(pa.table(base)).to_arrow()
    table = read_edges(pa.table(base), on_error="skip")
    assert rows(table) == [("a", "b", "fine")]
    assert table.errors.count == 1


def test_a_text_column_of_numbers_is_refused(tmp_path):
    content = "source,target,text,review\n" + "a,b,4.5,good\n" * 10
    assert (
        "the text column 'text' holds only numbers (such as '4.5'); name the column with the "
        "words; available: review"
    ) in refusal(save(tmp_path, content))


@pytest.mark.parametrize(
    ("columns", "value", "words"),
    [
        (
            {"label": "x", "classes": ["1", "2"]},
            "3",
            "column 'x': '3' is not a class; available: 1, 2",
        ),
        ({"label": "x", "label_kind": "number"}, "five", "column 'x': 'five' is not a number"),
        ({"weight": "x"}, "1e999", "column 'x': '1e999' is not a number; write it such as 0.5"),
        ({"time": "x"}, "yesterday", "column 'x': 'yesterday' is not a time; write it as 2023-05"),
        ({"split": "x"}, "holdout", "column 'x': 'holdout' is not a split; available: train, "),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_line(tmp_path, columns, value, words):
    path = save(tmp_path, f"source,target,text,x\na,b,c,\na,b,c,{value}\n")
    assert refusal(path, **columns).startswith("edges.csv, line 3: ")
    assert words in refusal(path, **columns)


def test_a_kept_column_and_a_split_that_are_not_there_get_their_option(tmp_path):
    path = save(tmp_path, HEADER + b"a,b,c\n")
    assert "no column 'txt' (keep); did you mean 'text'? (name it with --keep)" in refusal(
        path, keep=["txt"]
    )
    assert "(name it with --split-column)" in refusal(path, split="fold")


def test_files_must_agree_on_the_type_of_a_kept_column(tmp_path):
    base = {"source": ["a"], "target": ["b"], "text": ["c"]}
    pq.write_table(pa.table({**base, "n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({**base, "n": ["1"]}), tmp_path / "b.parquet")
    with pytest.raises(
        InputError, match=r"column 'n' holds string where .* holds int64; write both"
    ):
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


def test_skipped_rows_are_listed_file_by_file(tmp_path):
    for name in ("a.csv", "b.csv"):
        save(tmp_path, HEADER + b"a,b,c\n,b,c\nx,y\n", name)
    table = read_edges(str(tmp_path / "*.csv"), on_error="skip")
    table.to_arrow()
    places = [re.search(r"(.\.csv), line (\d)", one).groups() for one in table.errors.examples]
    assert places == [("a.csv", "3"), ("a.csv", "4"), ("b.csv", "3"), ("b.csv", "4")]


def test_broken_lines_at_the_head_of_json_are_skipped(tmp_path):
    good = '{"source": "a", "target": "b", "text": "c"}\n'
    path = save(tmp_path, "{broken\n" + good, "a.jsonl")
    table = read_edges(path, on_error="skip")
    assert rows(table) == [("a", "b", "c")]
    assert table.errors.count == 1


def test_when_every_row_is_skipped_the_first_reason_is_told(tmp_path):
    message = refusal(save(tmp_path, HEADER + b",b,c\n,,\n"), on_error="skip")
    assert "has no edges; every row was skipped (2), the first: " in message


def test_many_quotes_that_are_never_closed_take_bounded_time(tmp_path):
    path = save(tmp_path, HEADER + b'a","\n' * 500)
    message = refusal(path, on_error="skip")
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
def test_nonsense_is_not_a_time(tmp_path, written):
    path = save(tmp_path, f"source,target,text,when\na,b,c,{written}\n")
    assert "line 2: column 'when': '" in refusal(path, time="when")


@pytest.mark.parametrize(
    "times",
    [
        pa.array([datetime(2020, 1, 2, 3)], pa.timestamp("ns")),
        pa.array([datetime(2020, 1, 2, 3)], pa.timestamp("us", "UTC")),
        pa.array([datetime(2020, 1, 2, 2)], pa.timestamp("s", "Europe/Berlin")).cast("int64"),
        pa.array([1577934000.0]),
    ],
)
def test_times_of_frames_keep_their_moment(times):
    frame = pa.table({"source": ["a"], "target": ["b"], "text": ["c"], "when": times})
    found = rows(read_edges(frame, time="when"))[0][3]
    assert found in (datetime(2020, 1, 2, 3), datetime(2020, 1, 2, 2))


# --- nodes ------------------------------------------------------------------------------------


def test_nodes_are_read_with_labels_and_texts(tmp_path):
    path = save(tmp_path, "id,genres,about\n007,a|b,spy\n x,,\n", "nodes.csv")
    table = read_nodes(path, labels="genres", label_separator="|", text="about", side="target")
    assert table.to_arrow().to_pylist() == [
        {"id": "007", "side": "target", "labels": ["a", "b"], "text": "spy"},
        {"id": " x", "side": "target", "labels": [], "text": None},
    ]


def test_a_table_of_ids_alone_passes_over_blank_lines(tmp_path):
    table = read_nodes(save(tmp_path, "id\na\n\nb\n", "nodes.csv"))
    assert table.to_arrow().column("id").to_pylist() == ["a", "b"]


def test_nodes_that_cannot_be_used_get_a_sentence(tmp_path):
    path = save(tmp_path, "id,genre\na,x\n ,y\n", "nodes.csv")
    with pytest.raises(InputError, match="line 3: column 'id' is empty; every node needs an id"):
        read_nodes(path).to_arrow()
    with pytest.raises(
        InputError,
        match=r"no column 'genres' \(labels\); did you mean 'genre'\? \(name it with --node-labels",
    ):
        read_nodes(path, labels="genres")
    films = pa.table({"film": ["jaws"], "about": ["a shark"]})
    with pytest.raises(
        InputError,
        match=r"no column 'id' \(id\); available: film, about \(name it with --node-id\)",
    ):
        read_nodes(films)
    with pytest.raises(InputError, match=r"no column 'x' \(keep\); available: id, genre$"):
        read_nodes(path, keep=["x"])
    with pytest.raises(InputError, match="side must be 'source' or 'target'"):
        read_nodes(path, side="left")
