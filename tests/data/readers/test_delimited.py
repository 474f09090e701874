import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.readers.tables import read_edges
from tests.data.readers.table_files import HEADER, QUIET, error_of, rows, rows_or_none, save

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


def test_an_invalid_row_after_several_batches_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("edgeformers.data.readers.sources.BATCH_ROWS", 50)
    lines = b'a,b,"text\nof two lines"\n' * 240
    path = save(tmp_path, HEADER + lines + b"a,b\n")
    assert error_of(path).startswith("edges.csv, line 482: 2 fields")
    table = read_edges(path, on_error="skip")
    assert (table.to_arrow().num_rows, table.errors.count) == (240, 1)


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


def test_many_unclosed_quotes_take_bounded_time(tmp_path):
    path = save(tmp_path, HEADER + b'a","\n' * 500)
    message = error_of(path, on_error="skip")
    assert "never closed" in message
