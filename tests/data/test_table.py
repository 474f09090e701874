"""Tables as streams of batches, their errors and their schemas."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.table import (
    EdgeTable,
    NodeTable,
    RowErrors,
    edge_schema,
    rebatch,
    rows_to_batches,
    split_labels,
)
from edgeformers.errors import InputError

SCHEMA = pa.schema([("text", pa.string())])


def batch(texts):
    return pa.RecordBatch.from_pydict({"text": texts}, schema=SCHEMA)


@given(st.lists(st.lists(st.text(max_size=4), max_size=9), max_size=6), st.integers(1, 7))
def test_rebatching_keeps_every_row_in_order(lists, rows):
    out = list(rebatch(map(batch, lists), rows))
    flat = [text for texts in lists for text in texts]
    assert [text for piece in out for text in piece.column(0).to_pylist()] == flat
    assert [piece.num_rows for piece in out] == [
        len(flat[i : i + rows]) for i in range(0, len(flat), rows)
    ]


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 7))
def test_rebatching_limits_the_size_in_bytes(lengths, rows):
    texts = ["x" * length for length in lengths]
    out = list(rebatch([batch(texts)], rows, max_bytes=200))
    assert [text for piece in out for text in piece.column(0).to_pylist()] == texts
    assert all(piece.num_rows <= rows for piece in out)
    assert all(piece.num_rows == 1 or piece.nbytes <= 200 for piece in out)


def test_missing_keys_are_null():
    rows = [{"text": "a"}, {}, {"text": None}]
    out = list(rows_to_batches(rows, SCHEMA, size=2))
    assert [piece.column(0).to_pylist() for piece in out] == [["a", None], [None]]


def test_lone_surrogates_are_escaped():
    schema = pa.schema([("id", pa.string()), ("labels", pa.list_(pa.string()))])
    rows = [{"id": "\ud83d", "labels": ["\ude00", "ok"]}, {"id": "\ud83e", "labels": None}]
    (out,) = rows_to_batches(rows, schema)
    assert out.column("id").to_pylist() == ["\\ud83d", "\\ud83e"]
    assert out.column("labels").to_pylist() == [["\\ude00", "ok"], None]


def test_reading_a_table_again_restarts_its_errors():
    errors = RowErrors("skip", keep=2)

    def rows():
        for i in range(5):
            errors.report(f"row {i} is odd")
            yield {"source": str(i), "target": "t", "text": ""}

    table = EdgeTable.from_rows(rows, fields=(), origin="rows", bipartite=True, errors=errors)
    first, second = table.to_arrow(), table.to_pandas()
    assert first.num_rows == len(second) == 5
    assert (errors.count, errors.examples) == (5, ["row 0 is odd", "row 1 is odd"])


def test_errors_stop_reading_by_default():
    with pytest.raises(InputError, match="row 7 is odd"):
        RowErrors().report("row 7 is odd")
    with pytest.raises(InputError, match="'ignore'"):
        RowErrors("ignore")


def test_a_schema_has_its_columns_in_canonical_order():
    assert edge_schema(["weight", "label"], {"x": pa.int8()}).names == [
        *("source", "target", "text", "label", "weight", "x")
    ]
    with pytest.raises(InputError, match="'label'"):
        edge_schema([], {"label": pa.string()})
    with pytest.raises(ValueError, match="color"):
        edge_schema(["color"])


def test_a_node_table_has_four_columns_and_extra_ones():
    rows = [{"id": "a", "labels": ["x", "y"], "year": 1985}]
    table = NodeTable.from_rows(lambda: rows, origin="rows", extra={"year": pa.int32()})
    assert table.to_arrow().to_pylist() == [
        {"id": "a", "side": None, "labels": ["x", "y"], "text": None, "year": 1985}
    ]


@pytest.mark.parametrize(
    ("value", "separator", "labels"),
    [
        ("a|b", "|", ["a", "b"]),
        (" a | |b|a", "|", ["a", "b"]),
        ("a|b", None, ["a|b"]),
        ("", "|", []),
        (None, None, []),
    ],
)
def test_labels_of_a_field_are_split_and_unique(value, separator, labels):
    assert split_labels(value, separator) == labels
