"""EdgeStore keeps every acknowledged edge once, whatever happens to its process."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from edgeformers.data.edge_store import (
    Appended,
    EdgeStore,
    KeyConflictError,
    Removal,
    StoredEdge,
    edge_times,
)
from edgeformers.data.readers.times import parse_times
from edgeformers.errors import FormatError, InputError


def edge(source="ann", target="alien", text="good", **more):
    return StoredEdge(source=source, target=target, text=text, **more)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "edges.sqlite"


@pytest.fixture
def store(path):
    with EdgeStore(path) as store:
        yield store


def ends(edges):
    return [(edge.source, edge.target) for edge in edges]


def test_edges_are_read_back_in_their_order(store, path):
    first = store.append([edge(time=7, label="5"), edge("bob", text="")])
    assert first == Appended(added=2, duplicates=0, first_sequence=1)
    store.append([edge("cat", "brazil")])
    with EdgeStore(path) as again:
        edges = again.edges_after()
        assert ends(edges) == [("ann", "alien"), ("bob", "alien"), ("cat", "brazil")]
        assert [edge.sequence for edge in edges] == [1, 2, 3]
        assert (edges[0].label, edges[0].time, edges[1].text) == ("5", 7, "")
        assert abs(edges[0].received / 1e6 - time.time()) < 60
        assert ends(again.edges_after(1, limit=1)) == [("bob", "alien")]
        assert (len(again), again.last_sequence, again.id) == (3, 3, store.id)


def test_a_duplicate_is_counted_once(store):
    store.append([edge(), edge()])
    answer = store.append([edge(), edge(time=1), edge("an", "nalien"), edge(label="2")])
    assert answer == Appended(added=2, duplicates=2, first_sequence=2)
    assert store.append([edge()]) == Appended(added=0, duplicates=1, first_sequence=None)
    assert len(store) == 3


def test_an_idempotency_key_returns_its_first_answer(store):
    first = store.append([edge()], key="k")
    store.append([edge("bob")])
    assert store.append([edge()], key="k") == first
    store.remove("ann")
    assert store.append([edge()], key="k") == first
    assert ends(store.edges_after()) == [("bob", "alien")]
    for other in (edge(text="bad"), edge(label="1"), edge(time=3)):
        with pytest.raises(KeyConflictError, match="'k'"):
            store.append([other], key="k")
    assert store.append([edge()], key="l").added == 1


def test_a_removal_deletes_what_came_before_it(store):
    store.append([edge(), edge("bob", "ann"), edge("bob", "alien")])
    assert store.remove("ann", "source") == 1
    store.append([edge("ann", "later")])
    assert ends(store.edges_after()) == [("bob", "ann"), ("bob", "alien"), ("ann", "later")]
    assert store.removals() == [Removal(node="ann", side="source", sequence=4)]
    assert [change.sequence for change in store.changes_after(2)] == [3, 4, 5]
    assert store.remove("ann") == 2
    assert store.last_sequence == 6
    assert store.append([edge("new")]).first_sequence == 7


def test_a_removal_without_effect_is_recorded_once(store):
    for _ in range(3):
        assert store.remove("only in the network", "target") == 0
    assert len(store.removals()) == 1


def test_removed_texts_are_gone_from_the_files(store, path):
    secret = "the secret " * 500
    store.append([edge(text=secret), edge("bob")])
    store.remove("ann", "source")
    for file in path.parent.iterdir():
        assert b"the secret" not in file.read_bytes()


def test_edges_of_a_node_are_those_of_a_side(store):
    store.append([edge("ann", "bob"), edge("bob", "ann"), edge("cat", "bob")])
    assert ends(store.edges_of("ann")) == [("ann", "bob"), ("bob", "ann")]
    assert ends(store.edges_of("ann", "source")) == [("ann", "bob")]
    assert ends(store.edges_of("bob", "target", after=1)) == [("cat", "bob")]
    assert ends(store.edges_of("bob", limit=1)) == [("ann", "bob")]


@pytest.mark.parametrize(
    ("bad", "word"),
    [(edge(source=""), "source"), (edge(target=""), "target"), (edge(text="\ud800"), "surrogate")],
)
def test_a_bad_edge_stores_none(store, bad, word):
    with pytest.raises(InputError, match=rf"edge 2.*{word}"):
        store.append([edge(), bad])
    assert len(store) == 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.5, 1_500_000),
        (-1, -1_000_000),
        ("1970-01-02", 86_400_000_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.25Z", 250_000),
    ],
)
def test_times_are_unix_seconds_or_iso(value, expected):
    assert edge_times([None, value]) == [None, expected]


@pytest.mark.parametrize(
    "text",
    ["1350000000", "1350000000000", "2013", "20130705", "2013/07/05", "2013-07-05T01:00:00+01:00"],
)
def test_times_in_texts_are_read_as_by_prepare(text):
    [expected] = parse_times(pa.array([text]), "each").cast(pa.int64()).to_pylist()
    assert edge_times([text]) == [expected]


@pytest.mark.parametrize(
    "value", ["yesterday", "nan", True, 1.35e12, 1e300, -1e300, float("nan"), "", "\0"]
)
def test_a_bad_time_is_an_error(value):
    with pytest.raises(InputError, match=r"edge 2.* is not a time"):
        edge_times([None, value])


@pytest.mark.parametrize("value", ["2900-01-01", 1.35e11])
def test_a_time_in_the_future_is_an_error(value):
    with pytest.raises(InputError, match=r"edge 2.* future"):
        edge_times([None, value])


def test_somewhere_it_is_tomorrow_already():
    now = time.time()
    earlier, later = edge_times([now, now + 80_000])
    assert earlier < later


def test_a_store_may_have_times_in_the_future(store, path):
    store.append([edge(time=2**55)])
    with EdgeStore.snapshot(path) as snapshot:
        assert [each.time for each in snapshot.edges_after()] == [2**55]


def test_a_snapshot_does_not_change(store, path):
    store.append([edge(), edge("bob")])
    with EdgeStore.snapshot(path) as snapshot:
        store.append([edge("cat")])
        store.remove("ann")
        assert ends(snapshot.edges_after()) == [("ann", "alien"), ("bob", "alien")]
        assert (snapshot.last_sequence, snapshot.removals()) == (2, [])
    assert ends(store.edges_after()) == [("bob", "alien"), ("cat", "alien")]


def test_threads_share_a_store(store):
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda i: store.append([edge(f"n{i % 50}")]), range(100))]
    assert sum(answer.added for answer in answers) == len(store) == 50
    assert [edge.sequence for edge in store.edges_after()] == [*range(1, 51)]


APPEND = """
import sys
from edgeformers.data.edge_store import EdgeStore, StoredEdge
path, name, count = sys.argv[1:]
with EdgeStore(path) as store:
    for i in range(int(count)):
        store.append([StoredEdge(source=f"{name}{i}", target="t", text="x" * 500)])
        print(i, flush=True)
"""


def start(path, name, count, **more):
    command = [sys.executable, "-c", APPEND, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)


def test_two_processes_create_and_write_the_same_store(path):
    writers = [start(path, name, 20) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        writer.stdout.close()
    with EdgeStore(path) as store:
        assert sorted(edge.sequence for edge in store.edges_after()) == [*range(1, 41)]


@pytest.mark.slow
def test_no_acknowledged_edge_is_lost_when_the_writer_is_killed(path):
    acknowledged = set()
    for kill in range(20):
        with start(path, f"{kill}-", 10**6) as writer:
            for _ in range(1 + 7 * kill % 30):
                acknowledged.add(f"{kill}-{writer.stdout.readline().strip()}")
            time.sleep(0.002 * (kill % 5))
            writer.send_signal(signal.SIGKILL)
            acknowledged |= {f"{kill}-{line.strip()}" for line in writer.stdout}
            writer.wait()
        with EdgeStore(path) as store:
            stored = [edge.source for edge in store.edges_after(0, 10**6)]
        assert len(stored) == len({*stored})
        assert acknowledged <= {*stored}


def foreign_database(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE edges (source, target)")
    connection.close()


def later_version(path):
    EdgeStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()


def damaged(path):
    with EdgeStore(path) as store:
        store.append(
            [edge(text="x" * 3000) for _ in range(1)] + [edge(f"n{i}") for i in range(999)]
        )
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("write", "word"),
    [
        (lambda path: path.write_text("source,target\n" * 100), "not a store of edges"),
        (foreign_database, "not a store of edges"),
        (later_version, "schema version 9"),
        (damaged, "damaged"),
    ],
)
def test_a_damaged_or_foreign_file_is_an_error(path, write, word):
    write(path)
    before = path.read_bytes()
    with pytest.raises(FormatError, match=word) as error, EdgeStore(path) as store:
        store.edges_after()
    assert str(path) in str(error.value)
    assert path.read_bytes() == before


def test_a_missing_store_is_an_error_unless_it_may_be_created(tmp_path):
    with pytest.raises(InputError, match="no such store"):
        EdgeStore(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    with pytest.raises(InputError, match="not a file"):
        EdgeStore(tmp_path)
    with EdgeStore(tmp_path / "new" / "folder" / "edges.sqlite") as store:
        assert len(store) == 0


def test_a_store_whose_creation_was_interrupted_opens(path):
    Path(path).touch()
    with EdgeStore(path) as store:
        assert store.append([edge()]).added == 1
