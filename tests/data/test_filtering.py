"""Thinning: repeats and nodes with few edges go, as a hand and networkx would have it."""

from dataclasses import replace

import networkx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.filtering import core_edges, thin
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


def left(table, **how):
    """(The source and target of every edge left, the notes)."""
    made, notes = thin(table, **how)
    rows = made.to_arrow().to_pylist()
    return [row["source"] + row["target"] for row in rows], notes


def test_a_path_is_peeled_off_node_by_node():
    edges, notes = left(make_table(SQUARE), min_degree=2)
    assert edges == ["ab", "bc", "cd", "da", "ac"]
    assert notes == [
        "nodes with fewer than 2 edges were dropped: 2 of 7 edges and 2 of 6 nodes; "
        "5 edges and 4 nodes are left"
    ]


def test_nothing_is_dropped_unless_asked_for():
    table = make_table(SQUARE)
    assert thin(table) == (table, [])


def test_every_edge_of_a_pair_counts_and_a_loop_once():
    assert left(make_table(["ab", "ab", "bc", "cc"]), min_degree=2)[0] == ["ab", "ab", "bc", "cc"]
    assert left(make_table(["ab", "ab", "cc"]), min_degree=2)[0] == ["ab", "ab"]


def test_both_sides_of_a_bipartite_network_are_counted_apart():
    pairs = ["ax", "ay", "bx", "by", "xa"]  # the source x is not the target x
    edges, notes = left(make_table(pairs, bipartite=True), min_degree=2)
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
def test_the_core_is_that_of_networkx(pairs, k):
    src, dst = np.array(pairs).T
    kept = np.flatnonzero(core_edges(src, dst, k))
    expected = networkx.k_core(networkx.Graph(pairs), k)
    assert {pairs[i] for i in kept} == {tuple(sorted(edge)) for edge in expected.edges}


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30), st.integers(1, 6))
def test_every_node_left_has_enough_edges_and_no_larger_core_is_there(pairs, k):
    src, dst = np.array(pairs, int).reshape(-1, 2).T
    keep = core_edges(src, dst, k)
    for node in np.union1d(src[keep], dst[keep]):
        assert ((src == node) | (dst == node))[keep].sum() >= k
    alone = np.ones(len(pairs), bool)  # peel one node at a time, the slow way
    while True:
        ends = [{a, b} for (a, b), is_left in zip(pairs, alone, strict=True) if is_left]
        poor = [n for n in range(7) if 0 < sum(n in edge for edge in ends) < k]
        if not poor:
            break
        alone &= (src != poor[0]) & (dst != poor[0])
    assert keep.tolist() == alone.tolist()


def test_the_first_of_repeats_is_kept_and_a_missing_text_is_an_empty_one():
    pairs = ["ab", "ab", "ba", "ab", "ab", "ab", "cb"]
    texts = ["x", "y", "x", "x", None, "", "x"]
    number = [str(i) for i in range(len(pairs))]
    made, notes = thin(make_table(pairs, texts, number=number), drop_repeats=True)
    assert made.to_arrow()["number"].to_pylist() == ["0", "1", "2", "4", "6"]
    assert notes == [
        "repeated edges were dropped: 2 of 7 edges and 0 of 3 nodes; 5 edges and 3 nodes are left"
    ]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), st.text(max_size=2))))
def test_what_is_left_of_repeats_is_the_set_of_edges(edges):
    table = make_table([edge[:2] for edge in edges], [edge[2] for edge in edges])
    rows = thin(table, drop_repeats=True)[0].to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == list(dict.fromkeys(edges))


def test_repeats_are_dropped_before_edges_are_counted():
    table = make_table([*SQUARE, "ef"], [*"1234567", "7"])
    edges, notes = left(table, drop_repeats=True, min_degree=2)
    assert edges == SQUARE[:5]
    assert [note.split(";")[0].split(": ")[1] for note in notes] == [
        "1 of 8 edges and 0 of 6 nodes",
        "2 of 7 edges and 2 of 6 nodes",
    ]


def test_many_batches_are_thinned_as_one():
    table = make_table(SQUARE)
    cut = replace(
        table, open=lambda: (batch.slice(i, 1) for batch in table.open() for i in range(7))
    )
    assert left(cut, min_degree=2) == left(table, min_degree=2)


def test_a_thinned_network_says_so_and_keeps_splits_and_columns(tmp_path):
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


def test_nodes_of_a_table_that_were_dropped_do_not_come_back(tmp_path):
    nodes = NodeTable.from_rows(lambda: [{"id": "a"}, {"id": "f"}], origin="nodes.csv")
    config = replace(PLAIN, min_degree=2)
    graph = write_network(make_table(SQUARE), tmp_path / "net", nodes=[nodes], config=config)
    assert graph.num_nodes == 4
    with pytest.raises(InputError, match="--keep-isolated keeps nodes without edges and --min-d"):
        write_network(
            make_table(SQUARE), tmp_path / "kept", config=replace(config, keep_isolated=True)
        )


@pytest.mark.parametrize(
    ("table", "settings", "words"),
    [
        (
            make_table(SQUARE),
            {"min_degree": 3},
            "rows: none of its 7 edges is left when every node must have 3 edges; choose a "
            "smaller --min-degree",
        ),
        (make_table(SQUARE), {"min_degree": 0}, r"--min-degree must be at least 1 \(got 0\)"),
        (
            make_table([("a", "b"), (None, "b")]),
            {"drop_repeats": True},
            "rows, edge 2: the source is missing; every edge needs both ends",
        ),
        (make_table([]), {"min_degree": 3, "drop_repeats": True}, "rows has no edges; a network"),
    ],
)
def test_what_cannot_be_thinned_is_refused_with_a_sentence(tmp_path, table, settings, words):
    with pytest.raises(InputError, match=words):
        write_network(table, tmp_path / "net", config=replace(PLAIN, **settings))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_refused_before_the_edges_are_read(tmp_path):
    write_network(make_table(SQUARE), tmp_path / "net", config=PLAIN)

    def unread():
        raise AssertionError("the edges were read")

    table = replace(make_table(SQUARE), open=unread)
    with pytest.raises(InputError, match="exists"):
        write_network(table, tmp_path / "net", config=replace(PLAIN, min_degree=2))
    assert EdgeTextGraph.open(tmp_path / "net").num_edges == 7
