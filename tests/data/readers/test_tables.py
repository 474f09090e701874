import re

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgeformers.data.readers.tables import read_edges, read_nodes
from edgeformers.errors import InputError
from tests.data.readers.table_files import (
    HEADER,
    INTACT,
    ODD_IDS,
    QUIET,
    WRITERS,
    error_of,
    rows,
    rows_or_none,
    save,
    tables,
)


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


def test_a_glob_is_read_in_order_of_names(tmp_path):
    for i in range(12):
        save(tmp_path, HEADER + f"s{i:02},t,x\n".encode(), f"part-{i:02}.csv")
    edges = rows(read_edges(str(tmp_path / "part-*.csv")))
    assert [row[0] for row in edges] == [f"s{i:02}" for i in range(12)]


SHARDS = [[(f"u{i % 7}", f"i{i % 5}-{n}", f"text {n} {i}") for i in range(40)] for n in range(6)]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("readers", [1, 4])
def test_shards_read_in_parallel_are_one_table(tmp_path, name, readers, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", str(readers))
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, shard in enumerate(SHARDS):
        save(folder, WRITERS[name](shard), f"part-{number}-{name}")
    (folder / "_SUCCESS").touch()
    assert rows(read_edges(folder)) == [row for shard in SHARDS for row in shard]


def test_the_first_bad_row_of_all_shards_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    for number in range(5):
        lines = ["source,target,text", *(f"u,i,text {i}" for i in range(50))]
        if number in (2, 4):
            lines[10] = ",i,no source"
        save(tmp_path, "\n".join(lines), f"part-{number}.csv")
    assert "part-2.csv, line 11" in error_of(tmp_path)
    skipping = read_edges(tmp_path, on_error="skip")
    assert len(rows(skipping)) == 248
    assert skipping.errors.count == 2
    places = [example.partition(":")[0].rpartition("/")[2] for example in skipping.errors.examples]
    assert places == ["part-2.csv, line 11", "part-4.csv, line 11"]


def test_times_are_parsed_in_all_readers(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    for number in range(8):
        lines = [
            "source,target,text,time",
            *(f"u,i,t,20{number:02d}-01-{1 + i % 28:02d}" for i in range(99)),
        ]
        save(tmp_path, "\n".join(lines), f"part-{number}.csv")
    times = read_edges(tmp_path, time="time").to_arrow().column("time").to_pylist()
    assert [time.year for time in times] == [
        2000 + number for number in range(8) for _ in range(99)
    ]


def test_a_folder_of_several_formats_is_refused(tmp_path):
    save(tmp_path, HEADER + b"u,i,t", "a.csv")
    save(tmp_path, '{"source": "u", "target": "i", "text": "t"}', "b.jsonl")
    assert "several formats" in error_of(tmp_path)


def test_files_longer_than_a_batch_keep_their_order(tmp_path):
    count = 70_000
    lines = "".join(f's{i},t{i % 7},"text {i}\nof two lines"\n' for i in range(count))
    path = save(tmp_path, HEADER + lines.encode())
    table = read_edges(path).to_arrow()
    assert table.column("source").to_pylist() == [f"s{i}" for i in range(count)]


def test_only_files_and_frames_are_read(tmp_path):
    assert f"{tmp_path.name} is a folder" in error_of(tmp_path)
    assert "no such file" in error_of(tmp_path / "missing.csv")
    for data in (5, [{"source": "a"}]):
        with pytest.raises(InputError, match=f"got {type(data).__name__}"):
            read_edges(data)


def test_a_text_column_of_numbers_is_rejected(tmp_path):
    content = "source,target,text,review\n" + "a,b,4.5,good\n" * 10
    assert re.search(r"'text' .*'4\.5'.*: review", error_of(save(tmp_path, content)))


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


def test_if_every_row_is_skipped_the_first_reason_is_reported(tmp_path):
    message = error_of(save(tmp_path, HEADER + b",b,c\n,,\n"), on_error="skip")
    assert re.search("no edges; .*2 .*line 2: column 'source'", message)


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


def test_a_row_is_placed_by_its_file_and_line(tmp_path):
    save(tmp_path, HEADER + b'u,i,"two\nlines"\n\nu,,t\nu,i,t\n', "a.csv")
    save(tmp_path, HEADER + b"u,i,t\n", "b.csv")
    table = read_edges(tmp_path, on_error="skip")
    assert table.place is not None
    places = [table.place(row) for row in range(table.to_arrow().num_rows)]
    assert [place.rpartition("/")[2] for place in places] == [
        "a.csv, line 2",
        "a.csv, line 6",
        "b.csv, line 2",
    ]
    frame = read_edges(pa.table({"source": ["a", "b"], "target": ["c", "d"], "text": ["", ""]}))
    assert frame.place is not None
    assert frame.place(1).endswith("row 2")
