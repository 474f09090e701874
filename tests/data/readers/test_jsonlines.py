import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.readers.tables import read_edges
from tests.data.readers.table_files import QUIET, error_of, rows, save, text

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


def test_lists_in_json_are_several_labels(tmp_path):
    record = {"source": "a", "target": "b", "text": "c", "tags": ["x", "y"]}
    path = save(tmp_path, json.dumps(record) + "\n", "a.jsonl")
    for on_error in ("stop", "skip"):
        table = read_edges(path, label="tags", on_error=on_error)
        assert rows(table)[0][3].split(table.label_separator) == ["x", "y"]


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


def test_invalid_first_lines_of_json_are_skipped(tmp_path):
    good = '{"source": "a", "target": "b", "text": "c"}\n'
    path = save(tmp_path, "{broken\n" + good, "a.jsonl")
    table = read_edges(path, on_error="skip")
    assert rows(table) == [("a", "b", "c")]
    assert table.errors.count == 1
