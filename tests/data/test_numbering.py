"""Nodes are numbered in order of first appearance and joined with node tables."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data import numbering
from edgeformers.data.numbering import NodeNumbering
from edgeformers.data.table import NodeTable
from edgeformers.errors import InputError


def number(folder, pairs, tables=(), *, bipartite, isolated=False):
    """(source numbers, target numbers, rows of the table of nodes, notes, sources)."""
    numbered = NodeNumbering(bipartite=bipartite, scratch=folder)
    ends = [[], []]
    for start in range(0, len(pairs), 1000):
        columns = zip(*pairs[start : start + 1000], strict=True)
        numbers = numbered.add_edges(*(pa.array(column, pa.string()) for column in columns))
        for end, piece in zip(ends, numbers, strict=True):
            end.append(piece)
    notes = numbered.add_tables(tables, keep_isolated=isolated)
    src, dst = map(np.concatenate, ends)
    schema, batches = numbered.node_batches(tables)
    nodes = pa.Table.from_batches(batches, schema).to_pylist()
    assert len(nodes) == numbered.num_nodes
    dst = dst + numbered.first_target
    return src.tolist(), dst.tolist(), nodes, notes, numbered.num_sources


def nodes_of(*rows, **more):
    return NodeTable.from_rows(lambda: rows, origin="nodes.csv", **more)


names = st.text(max_size=3) | st.sampled_from(
    ["a", "A", "\u00e9", "e\u0301", "a ", "\x00", "NULL", "1", "01"]
)


@settings(max_examples=30)
@given(st.lists(st.tuples(names, names), min_size=1, max_size=12), st.booleans())
def test_numbers_follow_first_appearance(tmp_path_factory, pairs, bipartite):
    src, dst, nodes, _, num_sources = number(
        tmp_path_factory.mktemp("n"), pairs, bipartite=bipartite
    )
    if bipartite:
        sources = list(dict.fromkeys(source for source, _ in pairs))
        targets = list(dict.fromkeys(target for _, target in pairs))
        expected = [(name, "source") for name in sources] + [(name, "target") for name in targets]
        assert num_sources == len(sources)
        assert [expected[i][0] for i in src] == [source for source, _ in pairs]
        assert min(dst) == len(sources)
    else:
        expected = [(name, None) for name in dict.fromkeys(end for pair in pairs for end in pair)]
        assert num_sources == len(expected)
        assert [expected[i][0] for i in src] == [source for source, _ in pairs]
    assert [(node["id"], node["side"]) for node in nodes] == expected
    assert [expected[i][0] for i in dst] == [target for _, target in pairs]


def test_many_ids_are_numbered_alike(tmp_path):
    pairs = [(f"u{i * 7919 % 5003}", f"i{i * 104729 % 3001}") for i in range(50_000)]
    src, dst, nodes, _, _ = number(tmp_path, pairs, bipartite=True)
    order = list(dict.fromkeys(source for source, _ in pairs))
    assert [node["id"] for node in nodes[: len(order)]] == order
    assert [nodes[i]["id"] for i in src[::97]] == [source for source, _ in pairs[::97]]
    assert [nodes[i]["id"] for i in dst[::97]] == [target for _, target in pairs[::97]]


@settings(max_examples=30)
@given(st.lists(st.tuples(names, st.sampled_from([None, "source", "target"]))), st.booleans())
def test_buckets_do_not_change_the_join(tmp_path_factory, rows, isolated):
    pairs = [("a", "A"), ("1", "a"), ("\x00", "01")]
    table = nodes_of({"id": "a"}, *({"id": i, "side": s, "text": f"{i} {s}"} for i, s in rows))
    joined = []
    for size in (1, 3, 2**18):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numbering, "BUCKET_NODES", size)
            folder = tmp_path_factory.mktemp("n")
            joined.append(number(folder, pairs, [table], bipartite=True, isolated=isolated))
    assert joined[0] == joined[1] == joined[2]


def test_the_first_row_of_the_first_table_with_an_id_counts(tmp_path):
    first = nodes_of({"id": "a", "labels": ["x"]}, {"id": "a", "labels": ["y"], "text": "late"})
    second = nodes_of({"id": "a", "labels": ["z"], "text": "A"}, {"id": "b", "labels": ["z"]})
    *_, nodes, notes, _ = number(tmp_path, [("a", "b")], [first, second], bipartite=False)
    assert notes == []
    assert [(node["labels"], node["text"]) for node in nodes] == [(["x"], "A"), (["z"], None)]


def test_equal_ids_are_distinguished_by_side(tmp_path):
    table = nodes_of(
        {"id": "7", "side": "target", "text": "the film"},
        {"id": "7", "side": "source", "text": "the user"},
    )
    *_, nodes, _, _ = number(tmp_path, [("7", "7"), ("8", "7")], [table], bipartite=True)
    assert [(n["id"], n["side"], n["text"]) for n in nodes] == [
        ("7", "source", "the user"),
        ("8", "source", None),
        ("7", "target", "the film"),
    ]


def test_a_node_table_without_sides_applies_to_both(tmp_path):
    table = nodes_of({"id": "7", "text": "seven"})
    *_, nodes, _, _ = number(tmp_path, [("7", "7"), ("8", "7")], [table], bipartite=True)
    assert [node["text"] for node in nodes] == ["seven", None, "seven"]


@pytest.mark.parametrize("bipartite", [True, False])
@pytest.mark.parametrize("isolated", [True, False])
def test_an_id_with_and_without_side_is_one_node(tmp_path, bipartite, isolated):
    rows = [
        {"id": id, "side": side, "text": f"{id} {side}"}
        for id in ("a", "lone")
        for side in (None, "source", "target")
    ]
    *_, nodes, _, _ = number(
        tmp_path, [("a", "a")], [nodes_of(*rows)], bipartite=bipartite, isolated=isolated
    )
    keys = [(node["id"], node["side"]) for node in nodes]
    assert len(keys) == len(set(keys))
    assert nodes[0]["text"] == "a None"
    assert ("lone" in [node["id"] for node in nodes]) == isolated


def test_isolated_nodes_are_dropped_with_a_note(tmp_path):
    table = nodes_of({"id": "a"}, {"id": "x"}, {"id": "x"}, {"id": "y"})
    *_, nodes, notes, _ = number(tmp_path, [("a", "b")], [table], bipartite=False)
    assert [node["id"] for node in nodes] == ["a", "b"]
    (note,) = notes
    assert "2 of the 3 nodes in nodes.csv" in note


def test_isolated_nodes_are_numbered_last_on_their_side(tmp_path):
    table = nodes_of(
        {"id": "z", "side": "source", "text": "Z"},
        {"id": "q"},
        {"id": "c", "side": "source"},
        {"id": "a", "side": "source", "text": "A"},
    )
    src, dst, nodes, notes, num_sources = number(
        tmp_path, [("b", "t"), ("a", "t")], [table], bipartite=True, isolated=True
    )
    assert [node["id"] for node in nodes] == ["b", "a", "z", "c", "t", "q"]
    assert [node["text"] for node in nodes] == [None, "A", "Z", None, None, None]
    assert (src, dst, num_sources) == ([0, 1], [4, 4], 4)
    assert notes == ["3 nodes in nodes.csv have no edge and were kept"]


def test_a_node_table_without_known_ids_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"nodes\.csv: none of its 2 ids .*'x'"):
        number(tmp_path, [("a", "b")], [nodes_of({"id": "x"}, {"id": "y"})], bipartite=False)


def test_an_empty_node_table_is_allowed(tmp_path):
    *_, nodes, notes, _ = number(tmp_path, [("a", "b")], [nodes_of()], bipartite=False)
    assert notes == []
    assert [node["labels"] for node in nodes] == [None, None]


def test_extra_columns_keep_their_names_and_types(tmp_path):
    extra = {"Year": pa.int32(), "year": pa.string(), "row": pa.float64(), "name": pa.string()}
    extra |= {'say "hi"': pa.bool_(), "file_row_number": pa.int8(), "number": pa.date32()}
    row = {"id": "a", "Year": 1985, "year": "MCMLXXXV", "row": 1.5, "name": "A", 'say "hi"': True}
    table = nodes_of(row | {"file_row_number": 3}, extra=extra)
    *_, nodes, _, _ = number(tmp_path, [("b", "a")], [table], bipartite=False)
    assert {name: nodes[1][name] for name in row} == row
    assert nodes[1]["file_row_number"] == 3
    assert nodes[0] == dict.fromkeys(nodes[0]) | {"id": "b"}
