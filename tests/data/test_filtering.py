"""Filtering: exact repeats and nodes with few edges are dropped; networkx is the reference."""

from dataclasses import replace

import networkx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.filtering import filter_edges, k_core
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.splits import SplitConfig
from edgeformers.data.table import EdgeTable, NodeTable
from edgeformers.errors import InputError
from tests.data.folders import contents

PLAIN = PrepareConfig(tokenizer=None, progress=False)
#: A square with one diagonal, from which a path of two edges leads away.
SQUARE = ["ab", "bc", "cd", "da", "ac", "de", "ef"]


def make_table(pairs, texts=None, *, bipartite=False, **columns):
    texts = texts or [f"text {i}" for i in range(len(pairs))]
    rows = [
        {"source": source, "target": target, "text": text, **{k: v[i] for k, v in columns.items()}}
        for i, ((source, target), text) in enumerate(zip(pairs, texts, strict=True))
    ]
    return EdgeTable.from_rows(
        lambda: rows,
        fields=[],
        extra=dict.fromkeys(columns, pa.string()),
        origin="rows",
        bipartite=bipartite,
    )


def remaining(table, **settings):
    """(Source and target of every remaining edge, the notes)."""
    filtered, notes = filter_edges(table, **settings)
    rows = filtered.to_arrow().to_pylist()
    return [row["source"] + row["target"] for row in rows], notes


def test_a_path_is_removed_node_by_node():
    edges, notes = remaining(make_table(SQUARE), min_degree=2)
    assert edges == ["ab", "bc", "cd", "da", "ac"]
    assert notes == [
        "nodes with fewer than 2 edges were dropped: 2 of 7 edges and 2 of 6 nodes; "
        "5 edges and 4 nodes remain"
    ]


def test_nothing_is_dropped_by_default():
    table = make_table(SQUARE)
    assert filter_edges(table) == (table, [])


def test_parallel_edges_count_separately_and_a_loop_once():
    assert remaining(make_table(["ab", "ab", "bc", "cc"]), min_degree=2)[0] == [
        "ab",
        "ab",
        "bc",
        "cc",
    ]
    assert remaining(make_table(["ab", "ab", "cc"]), min_degree=2)[0] == ["ab", "ab"]


def test_sides_of_a_bipartite_network_are_counted_separately():
    pairs = ["ax", "ay", "bx", "by", "xa"]  # the source x is not the target x
    edges, notes = remaining(make_table(pairs, bipartite=True), min_degree=2)
    assert edges == ["ax", "ay", "bx", "by"]
    assert "1 of 5 edges and 2 of 6 nodes" in notes[0]


simple_graphs = st.integers(2, 12).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1]),
        min_size=1,
        max_size=40,
        unique=True,
    )
)


@given(simple_graphs, st.integers(1, 5))
def test_the_k_core_equals_that_of_networkx(pairs, k):
    src, dst = np.array(pairs).T
    kept = np.flatnonzero(k_core(src, dst, k))
    expected = networkx.k_core(networkx.Graph(pairs), k)
    assert {pairs[i] for i in kept} == {tuple(sorted(edge)) for edge in expected.edges}


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30), st.integers(1, 6))
def test_the_k_core_of_a_multigraph_is_the_largest_one(pairs, k):
    src, dst = np.array(pairs, int).reshape(-1, 2).T
    keep = k_core(src, dst, k)
    for node in np.union1d(src[keep], dst[keep]):
        assert ((src == node) | (dst == node))[keep].sum() >= k
    slow = np.ones(len(pairs), bool)  # remove one node at a time
    while True:
        ends = [{a, b} for (a, b), stays in zip(pairs, slow, strict=True) if stays]
        poor = [n for n in range(7) if 0 < sum(n in edge for edge in ends) < k]
        if not poor:
            break
        slow &= (src != poor[0]) & (dst != poor[0])
    assert keep.tolist() == slow.tolist()


def test_the_first_of_repeated_edges_is_kept():
    pairs = ["ab", "ab", "ba", "ab", "ab", "ab", "cb"]
    texts = ["x", "y", "x", "x", None, "", "x"]
    number = [str(i) for i in range(len(pairs))]
    filtered, notes = filter_edges(make_table(pairs, texts, number=number), drop_repeats=True)
    assert filtered.to_arrow()["number"].to_pylist() == ["0", "1", "2", "4", "6"]
    assert notes == [
        "repeated edges were dropped: 2 of 7 edges and 0 of 3 nodes; 5 edges and 3 nodes remain"
    ]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), st.text(max_size=2))))
def test_without_repeats_edges_are_unique(edges):
    table = make_table([edge[:2] for edge in edges], [edge[2] for edge in edges])
    rows = filter_edges(table, drop_repeats=True)[0].to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == list(dict.fromkeys(edges))


def test_repeats_are_dropped_before_degrees_are_counted():
    table = make_table([*SQUARE, "ef"], [*"1234567", "7"])
    edges, notes = remaining(table, drop_repeats=True, min_degree=2)
    assert edges == SQUARE[:5]
    assert [note.split(";")[0].split(": ")[1] for note in notes] == [
        "1 of 8 edges and 0 of 6 nodes",
        "2 of 7 edges and 2 of 6 nodes",
    ]


def test_the_batches_of_the_table_do_not_matter():
    table = make_table(SQUARE)
    cut = replace(
        table, open=lambda: (batch.slice(i, 1) for batch in table.open() for i in range(7))
    )
    assert remaining(cut, min_degree=2) == remaining(table, min_degree=2)


def test_a_filtered_network_has_notes_splits_and_columns(tmp_path):
    part = ["train", "val", "test", "train", "train", "test", "train"]
    config = replace(
        PLAIN,
        min_degree=2,
        drop_repeats=True,
        notes=["first"],
        splits=[SplitConfig(name="edge", how="column", column="part")],
    )
    table = make_table(SQUARE, part=part)
    graph = write_network(table, tmp_path / "net", config=config)
    assert graph.node_names(graph.src) == list("abcda")
    assert graph.split("edge").tolist() == [0, 1, 2, 0, 0]
    assert graph.texts([4]) == ["text 4"]
    assert [note.split(":")[0] for note in graph.notes] == [
        "first",
        "repeated edges were dropped",
        "nodes with fewer than 2 edges were dropped",
    ]
    write_network(table, tmp_path / "again", config=config)
    assert contents(tmp_path / "net") == contents(tmp_path / "again")


def test_dropped_nodes_of_a_node_table_stay_dropped(tmp_path):
    nodes = NodeTable.from_rows(lambda: [{"id": "a"}, {"id": "f"}], origin="nodes.csv")
    config = replace(PLAIN, min_degree=2)
    graph = write_network(make_table(SQUARE), tmp_path / "net", nodes=[nodes], config=config)
    assert graph.num_nodes == 4
    with pytest.raises(InputError, match="keep_isolated="):
        write_network(
            make_table(SQUARE), tmp_path / "kept", config=replace(config, keep_isolated=True)
        )


@pytest.mark.parametrize(
    ("table", "settings", "words"),
    [
        (make_table(SQUARE), {"min_degree": 3}, "none of its 7 edges"),
        (make_table(SQUARE), {"min_degree": 0}, "min_degree="),
        (make_table([("a", "b"), (None, "b")]), {"drop_repeats": True}, "edge 2: the source"),
        (make_table([]), {"min_degree": 3, "drop_repeats": True}, "rows has no edges"),
    ],
)
def test_invalid_filters_are_errors(tmp_path, table, settings, words):
    with pytest.raises(InputError, match=words):
        write_network(table, tmp_path / "net", config=replace(PLAIN, **settings))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_refused_before_edges_are_read(tmp_path):
    write_network(make_table(SQUARE), tmp_path / "net", config=PLAIN)

    def unread():
        raise AssertionError("the edges were read")

    table = replace(make_table(SQUARE), open=unread)
    with pytest.raises(InputError, match="exists"):
        write_network(table, tmp_path / "net", config=replace(PLAIN, min_degree=2))
    assert EdgeTextGraph.open(tmp_path / "net").num_edges == 7


def test_remaining_edges_keep_their_place():
    pairs = ["ab", "xy", "ba", "ab"]
    table = replace(make_table(pairs), place=lambda row: f"row {row}")
    filtered, _ = filter_edges(table, min_degree=2)
    assert filtered.place is not None
    assert [filtered.place(row) for row in range(3)] == ["row 0", "row 2", "row 3"]
