"""Stores of new edges are merged with a table: edges are added, removed nodes left out."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from edgeformers.data.edge_store import EdgeStore, StoredEdge
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.prepare import prepare
from edgeformers.data.simulate import simulate
from edgeformers.data.splits import SplitConfig
from edgeformers.errors import FormatError, InputError
from tests.data.folders import contents

PLAIN = PrepareConfig(tokenizer=None, progress=False)
FRAME = pd.DataFrame({
    "source": ["ann", "bob", "ann", "x"],
    "target": ["x", "x", "y", "ann"],
    "text": ["1", "2", "3", "4"],
    "stars": [5, 4, 5, 1],
    "when": [10, 20, 30, 40],
    "fold": ["train", "val", "test", "train"],
})  # fmt: skip


def edge(source, target, text="new", **more):
    return StoredEdge(source=source, target=target, text=text, **more)


@pytest.fixture
def store(tmp_path):
    with EdgeStore(tmp_path / "edges.sqlite") as store:
        yield store


@pytest.fixture
def merged(store, tmp_path):
    """The network of the frame and the store."""

    def merge(frame=FRAME, **options):
        folder = tmp_path / "net"
        return prepare(frame, folder, config=PLAIN, overwrite=True, add=store.path, **options)

    return merge


def rows(graph):
    names = graph.node_names
    texts = graph.texts(np.arange(graph.num_edges))
    return [*zip(names(graph.src), names(graph.dst), texts, strict=True)]


INPUT = [("ann", "x", "1"), ("bob", "x", "2"), ("ann", "y", "3"), ("x", "ann", "4")]


def test_stored_edges_follow_the_input(store, merged):
    store.append([edge("new", "x"), edge("ann", "z", "")])
    graph = merged()
    assert rows(graph) == [*INPUT, ("new", "x", "new"), ("ann", "z", "")]
    assert (graph.num_sources, graph.num_targets) == (4, 4)
    (record,) = graph.meta.stores
    assert (record["id"], record["sequence"]) == (store.id, 2)
    assert (record["added"], record["removed"]) == (2, 0)
    assert any("2 edges were added from edges.sqlite" in note for note in graph.notes)


def test_a_removal_leaves_out_one_side_of_the_input(store, merged):
    store.append([edge("ann", "z"), edge("bob", "z")])
    store.remove("ann", "source")
    store.append([edge("ann", "x", "afterwards")])
    graph = merged()
    expected = [INPUT[1], INPUT[3], ("bob", "z", "new"), ("ann", "x", "afterwards")]
    assert rows(graph) == expected
    (record,) = graph.meta.stores
    assert (record["sequence"], record["added"], record["removed"]) == (4, 2, 2)
    assert any("2 edges of nodes whose edges were removed" in note for note in graph.notes)


def test_with_one_node_type_a_removal_is_about_both_ends(store, merged):
    store.append([edge("bob", "ann"), edge("bob", "bob")])
    store.remove("ann")
    assert rows(merged(bipartite=False)) == [INPUT[1], ("bob", "bob", "new")]


def test_labels_times_and_parts_are_merged(store, merged):
    store.append([edge("a", "x", label="2", time=7_000_000), edge("b", "x")])
    columns = {"label": "stars", "time": "when", "split": "fold"}
    graph = merged(**columns, splits=[SplitConfig(name="own", how="column")])
    assert [graph.label_names[code] if code >= 0 else None for code in graph.labels] == [
        "5", "4", "5", "1", "2", None,
    ]  # fmt: skip
    assert graph.times[:5].tolist() == [10_000_000, 20_000_000, 30_000_000, 40_000_000, 7_000_000]
    assert abs(graph.times[5] / 1e6 - time.time()) < 60
    assert graph.split("own").tolist() == [0, 1, 2, 0, 0, 0]


def test_columns_that_the_network_does_not_have_are_ignored(store, merged):
    store.append([edge("a", "x", label="2", time=7)])
    graph = merged()
    assert graph.labels is None
    assert graph.times is None


@pytest.mark.parametrize(
    ("options", "word"),
    [({"classes": [1, 4, 5]}, "one of 1, 4, 5"), ({"label_kind": "number"}, "not a number")],
)
def test_a_label_that_the_network_may_not_have_is_an_error(store, merged, options, word):
    store.append([edge("a", "x", label="5"), edge("b", "y", label="great")])
    with pytest.raises(InputError, match=rf"edges.sqlite, edge 2.*'b'.*'great'.*{word}"):
        merged(label="stars", **options)
    graph = merged(label="stars", on_error="skip", **options)
    assert graph.skipped["count"] == 1
    assert rows(graph)[4:] == [("a", "x", "new")]


def test_several_stores_are_merged_but_none_twice(store, merged, tmp_path):
    store.append([edge("a", "x")])
    with EdgeStore(tmp_path / "other.sqlite") as other:
        other.append([edge("b", "y")])
        other.remove("bob", "source")
    folder = tmp_path / "both"
    graph = prepare(FRAME, folder, config=PLAIN, add=[store.path, tmp_path / "other.sqlite"])
    assert rows(graph) == [INPUT[0], *INPUT[2:], ("a", "x", "new"), ("b", "y", "new")]
    with pytest.raises(InputError, match="given twice"):
        prepare(FRAME, tmp_path / "twice", config=PLAIN, add=[store.path, str(store.path)])


def test_filters_apply_to_the_merged_edges(store, merged):
    store.append([edge("ann", "x", "1"), edge("bob", "y"), edge("new", "x")])
    graph = merged(drop_repeats=True, min_degree=2)
    assert rows(graph) == [*INPUT[:3], ("bob", "y", "new")]


@pytest.mark.parametrize("content", [None, "source,target,text\n" * 9])
def test_a_missing_or_foreign_store_is_an_error_and_leaves_nothing(content, tmp_path):
    path = tmp_path / "given.sqlite"
    if content:
        path.write_text(content)
    with pytest.raises((InputError, FormatError), match=r"given\.sqlite"):
        prepare(FRAME, tmp_path / "net", config=PLAIN, add=path)
    assert not (tmp_path / "net").exists()


def test_a_dataset_of_the_paper_takes_no_store(store, tmp_path):
    with pytest.raises(InputError, match="as it was published"):
        prepare(["amazon-apps", "raw.json"], tmp_path / "net", tokenizer=None, add=store.path)


def test_the_simulated_network_takes_a_store(store, tmp_path):
    store.append([edge("new", "i0", label="5")])
    graph = prepare("simulated", tmp_path / "net", config=PLAIN, num_edges=200, add=store.path)
    assert graph.num_edges == 201


def test_changes_while_preparing_wait_for_the_next_time(store, tmp_path):
    store.append([edge(f"n{i}", "x") for i in range(50)])
    simulation = simulate(num_edges=300, seed=0)

    def stream():
        yield from simulation.stream(100)
        store.append([edge(f"later {time.monotonic_ns()}", "x")])
        store.remove("n7")

    table = replace(simulation.table, open=stream)
    config = replace(PLAIN, add=[store.path], min_degree=1, drop_repeats=True)
    graph = write_network(table, tmp_path / "net", config=config)
    names = graph.node_names(range(graph.num_sources))
    assert "n7" in names
    assert not any(name.startswith("later") for name in names)
    assert graph.meta.stores[0]["sequence"] == 50


def test_many_stored_edges_are_read_in_blocks(store, tmp_path):
    store.append([edge(f"n{i}", f"t{i % 7}") for i in range(70_000)])
    table = simulate(num_edges=100, seed=0).table
    graph = write_network(table, tmp_path / "net", config=replace(PLAIN, add=[store.path]))
    assert graph.num_edges == 70_100
    assert graph.node_names([graph.src[-1]]) == ["n69999"]


SCRIPT = """
    import sys
    from edgeformers.data.network import PrepareConfig, write_network
    from edgeformers.data.simulate import simulate
    out, store = sys.argv[1:]
    config = PrepareConfig(tokenizer=None, progress=False, add=[store])
    table = simulate(num_edges=30_000, seed=0).table
    print("start", flush=True)
    write_network(table, out, config=config)
"""


@pytest.mark.slow
def test_a_killed_run_leaves_no_partial_network_and_can_be_repeated(store, tmp_path):
    store.append([edge(f"n{i}", "x") for i in range(20_000)])
    store.remove("u1", "source")
    out, complete = tmp_path / "out", tmp_path / "complete"
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    for wait in (0.05, 0.2, 0.4):
        arguments = [*command, str(out), str(store.path)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(wait)
            os.kill(process.pid, signal.SIGKILL)
        if out.exists():
            break
    for folder in {out, complete} - ({out} if out.exists() else set()):
        subprocess.run([*command, str(folder), str(store.path)], check=True, capture_output=True)
    assert contents(out) == contents(complete)
    EdgeTextGraph.open(out, verify=True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["complete", "out"]
