"""DTGB's folders: edges with the texts of their relations, entities with theirs, errors by line."""

import csv
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgeformers
from edgeformers.data.readers.detect import detect_raw_format
from edgeformers.data.readers.dtgb import read_dtgb, read_dtgb_entities
from edgeformers.errors import InputError

EDGES = [(0, 1, 0, 10, 2), (1, 2, 1, 20, 3), (0, 2, 0, 30, 2)]
HEADER = ("u", "v", "r", "t", "l")


def write(folder, edges=EDGES, header=HEADER, relations=("hello, you", "bye"), entities="abc"):
    Path(folder).mkdir(exist_ok=True)
    tables = {
        "edge_list.csv": [header, *edges],
        "entity_text.csv": [("i", "text"), *enumerate(entities)],
        "relation_text.csv": [("", "i", "text"), *((n, n, t) for n, t in enumerate(relations))],
    }
    for name, rows in tables.items():
        with (Path(folder) / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    return folder


def test_edges_have_the_text_of_their_relation(tmp_path):
    table = read_dtgb(write(tmp_path / "net")).to_arrow().to_pylist()
    assert [(row["source"], row["target"], row["text"], row["label"]) for row in table] == [
        ("0", "1", "hello, you", "2"),
        ("1", "2", "bye", "3"),
        ("0", "2", "hello, you", "2"),
    ]
    assert [row["time"].timestamp() for row in table] == sorted(
        r["time"].timestamp() for r in table
    )
    assert [row["relation"] for row in table] == ["0", "1", "0"]


@pytest.mark.parametrize(
    "header", [("u", "i", "r", "ts", "label"), ("from", "to", "kind", "when", "class")]
)
def test_other_column_names_are_understood(tmp_path, header):
    table = read_dtgb(write(tmp_path / "net", header=header)).to_arrow()
    assert table.column("label").to_pylist() == ["2", "3", "2"]


def test_an_index_column_is_ignored(tmp_path):
    rows = [(number, *edge) for number, edge in enumerate(EDGES)]
    folder = write(tmp_path / "net", rows, ("", "a", "b", "c", "d", "e"))
    assert read_dtgb(folder).to_arrow().column("source").to_pylist() == ["0", "1", "0"]


def test_a_folder_is_recognized_and_prepared_with_its_entities(tmp_path):
    folder = write(tmp_path / "raw")
    assert detect_raw_format(folder) == "dtgb"
    graph = edgeformers.prepare(
        folder, tmp_path / "net", nodes=folder, tokenizer=None, splits=["link=chronological"]
    )
    assert (graph.num_nodes, graph.num_edges, graph.is_bipartite) == (3, 3, False)
    assert graph.times is not None
    entities = read_dtgb_entities(folder).to_arrow().to_pylist()
    assert [(row["id"], row["text"]) for row in entities] == [("0", "a"), ("1", "b"), ("2", "c")]


@pytest.mark.parametrize(
    ("edge", "word"),
    [
        ((0, 1, 9, 10, 2), "relation_text"),
        ((0, 1, 0, "noon", 2), "noon"),
        (("", 1, 0, 10, 2), "source"),
        ((0, 1, 0, "1e30", 2), "1e30"),
        ((0, 1, 0, "nan", 2), "nan"),
        ((0, 1, 0, "", 2), "time"),
    ],
)
def test_a_bad_edge_is_reported_by_file_and_line(tmp_path, edge, word):
    folder = write(tmp_path / "net", [EDGES[0], edge, EDGES[1]])
    with pytest.raises(InputError, match=rf"edge_list.csv, line 3.*{word}"):
        list(read_dtgb(folder).batches())
    table = read_dtgb(folder, on_error="skip")
    assert table.to_arrow().num_rows == 2
    assert table.errors.count == 1


@pytest.mark.parametrize("scale", [1, 10**3, 10**6, 1.0])
def test_times_may_be_seconds_milliseconds_or_microseconds(tmp_path, scale):
    seconds = [1_000_000_000, 1_000_000_001, 1_600_000_000]
    rows = [(*edge[:3], s * scale, edge[4]) for edge, s in zip(EDGES, seconds, strict=True)]
    times = read_dtgb(write(tmp_path / "net", rows)).to_arrow().column("time")
    assert [time.timestamp() for time in times.cast(pa.timestamp("us", "UTC")).to_pylist()] == (
        seconds
    )


def test_steps_that_look_like_years_keep_their_order(tmp_path):
    rows = [(*edge[:3], s, edge[4]) for edge, s in zip(EDGES, (999, 1500, 20000101), strict=True)]
    times = read_dtgb(write(tmp_path / "net", rows)).to_arrow().column("time").to_pylist()
    assert times == sorted(times)


@pytest.mark.parametrize("more", [(), [("a row of", 2)]], ids=["", "malformed"])
@pytest.mark.parametrize(("limit", "microseconds"), [(10**11, 1000), (10**14, 1)])
def test_all_times_of_a_file_have_the_unit_of_the_largest(tmp_path, limit, microseconds, more):
    numbers = (limit - 10**9, limit + 10**9, 5)
    rows = [(*edge[:3], n, edge[4]) for edge, n in zip(EDGES, numbers, strict=True)]
    folder = write(tmp_path / "net", [*more, *rows])
    times = read_dtgb(folder, on_error="skip").to_arrow().column("time").to_pylist()
    assert times[2] < times[0] < times[1]
    assert times[1] - times[0] == timedelta(microseconds=2 * 10**9 * microseconds)


def test_a_missing_column_is_named(tmp_path):
    folder = write(tmp_path / "net", header=HEADER[:4], edges=[edge[:4] for edge in EDGES])
    with pytest.raises(InputError, match="edge_list"):
        list(read_dtgb(folder).batches())


@pytest.mark.parametrize("name", ["relation_text.csv", "entity_text.csv"])
def test_a_missing_file_is_named(tmp_path, name):
    folder = write(tmp_path / "raw")
    (folder / name).unlink()
    for arguments in ({}, {"format": "dtgb"}):
        with pytest.raises(InputError, match=name):
            edgeformers.prepare(folder, tmp_path / "net", tokenizer=None, **arguments)


def test_any_folder_with_an_edge_list_alone_is_a_table(tmp_path):
    (tmp_path / "edge_list.csv").write_text("source,target,text\na,b,c\n")
    assert detect_raw_format(tmp_path) is None


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@given(
    relations=st.lists(texts, min_size=1, max_size=4),
    ends=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_every_written_edge_is_read(relations, ends, data):
    edges = [
        (a, b, data.draw(st.integers(0, len(relations) - 1)), data.draw(st.integers(0, 2**31)), 1)
        for a, b in ends
    ]
    with TemporaryDirectory() as folder:
        table = read_dtgb(write(folder, edges, relations=relations)).to_arrow().to_pylist()
    assert [(r["source"], r["target"]) for r in table] == [(str(a), str(b)) for a, b in ends]
    assert [r["text"] for r in table] == [relations[edge[2]] for edge in edges]
