from datetime import date, datetime, timedelta, timezone

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.interop import table_from_networkx, table_to_networkx
from edgeformers.errors import InputError
from tests.data.interop.tables import EDGES, LABELS, NODES, TEXTS, make_table, rows

NETWORKX_NAMES = {name: name for name in ["label", "time", "edge_type", "weight"]}


@settings(max_examples=40, deadline=None)
@given(EDGES, st.booleans(), st.booleans())
def test_a_table_survives_networkx_row_for_row(edges, bipartite, directed):
    table = make_table(edges, bipartite=bipartite, directed=directed)
    graph = table_to_networkx(table)
    back = table_from_networkx(graph, **NETWORKX_NAMES)
    assert back.directed == directed
    assert back.bipartite == (bipartite and bool(edges))
    if directed or bipartite:
        assert rows(back) == rows(table)
    else:
        assert list(map(ends_as_set, rows(back))) == list(map(ends_as_set, rows(table)))


def ends_as_set(row):
    return {**row, "source": {row["source"], row["target"]}, "target": None}


GRAPHS = st.sampled_from([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])


@settings(max_examples=40, deadline=None)
@given(
    GRAPHS,
    st.permutations(range(6)),
    st.lists(st.tuples(NODES, NODES, TEXTS, LABELS), min_size=1, max_size=10),
)
def test_a_graph_survives_a_table_edge_for_edge(kind, nodes, edges):
    graph = kind()
    graph.add_nodes_from(nodes)
    for u, v, text, label in edges:
        graph.add_edge(u, v, text=text, label=label)
    back = table_to_networkx(table_from_networkx(graph, label="label"))
    assert back.is_directed() == graph.is_directed()
    expected = [(str(u), str(v), attributes) for u, v, attributes in graph.edges(data=True)]
    assert list(back.edges(data=True)) == expected


def test_sides_are_read_from_the_attribute_bipartite():
    graph = nx.Graph()
    graph.add_nodes_from([1, 2], bipartite=1)
    graph.add_nodes_from(["a", "b"], bipartite=0)
    graph.add_edge(1, "a", text="x")
    graph.add_edge("b", 2, text="y")
    table = table_from_networkx(graph)
    assert table.bipartite
    assert not table.directed
    assert rows(table) == [
        {"source": "a", "target": "1", "text": "x"},
        {"source": "b", "target": "2", "text": "y"},
    ]
    assert not table_from_networkx(graph, bipartite=False).bipartite


def test_equal_ids_on_the_two_sides_are_two_nodes():
    graph = table_to_networkx(make_table([("7", "7", "x")], bipartite=True, fields=[]))
    assert list(graph.nodes(data=True)) == [
        (("source", "7"), {"bipartite": 0}),
        (("target", "7"), {"bipartite": 1}),
    ]
    assert list(graph.edges(keys=True, data=True)) == [
        (("source", "7"), ("target", "7"), 0, {"text": "x"})
    ]


def test_edges_of_a_subgraph_keep_the_order_of_their_rows():
    edges = [("b", "c", "0"), ("a", "b", "1"), ("b", "a", "2"), ("a", "b", "3")]
    graph = table_to_networkx(make_table(edges, fields=[]))
    graph.remove_edge("b", "c", key=0)
    assert [row["text"] for row in rows(table_from_networkx(graph))] == ["1", "2", "3"]


def test_other_attribute_names_are_read():
    graph = nx.DiGraph()
    graph.add_edge(1, 2, body="x", stars=5, at=0, kind="film", w=np.float32(0.5))
    graph.add_edge(2, 1, body=float("nan"), w=float("nan"))
    table = table_from_networkx(
        graph, text="body", label="stars", time="at", edge_type="kind", weight="w"
    )
    assert [tuple(row.values()) for row in rows(table)] == [
        ("1", "2", "x", "5", datetime(1970, 1, 1), "film", 0.5),
        ("2", "1", None, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (datetime(2024, 1, 1, 12), datetime(2024, 1, 1, 12)),
        (datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))), datetime(2024, 1, 1, 10)),
        (date(2024, 1, 1), datetime(2024, 1, 1)),
        ("2024-01-01T12:00:00Z", datetime(2024, 1, 1, 12)),
        (np.datetime64("2024-01-01T12:00", "ns"), datetime(2024, 1, 1, 12)),
        (np.datetime64("NaT"), None),
        (np.int64(1_704_110_400), datetime(2024, 1, 1, 12)),
        (0.5, datetime(1970, 1, 1, 0, 0, 0, 500_000)),
    ],
)
def test_times_are_read_in_all_common_types(value, time):
    graph = nx.Graph([(1, 2, {"text": "", "t": value})])
    assert rows(table_from_networkx(graph, time="t"))[0]["time"] == time


@pytest.mark.parametrize(
    ("attributes", "arguments", "message"),
    [
        ({"txet": ""}, {}, "'text'.*'txet'"),
        ({"text": "", "stars": 1}, {"label": "star"}, "'star'.*'stars'"),
        ({}, {}, "attribute 'text'"),
        ({"text": 5}, {}, "edge 1 -> 2: the text is 5"),
        ({"text": "", "w": "much"}, {"weight": "w"}, "edge 1 -> 2: the weight is 'much'"),
        ({"text": "", "t": "noon"}, {"time": "t"}, "the time is 'noon'"),
        ({"text": "", "t": 1e15}, {"time": "t"}, "the time is 1000000000000000.0"),
        ({"text": ""}, {"bipartite": True}, r"node 1: .*'bipartite'.*\(got None\)"),
    ],
)
def test_what_is_wrong_with_an_edge_is_reported(attributes, arguments, message):
    graph = nx.Graph([(1, 2, attributes)])
    with pytest.raises(InputError, match=message):
        table_from_networkx(graph, **arguments).to_arrow()


def test_empty_and_repeated_ids_are_reported():
    with pytest.raises(InputError, match="id '1'"):
        table_from_networkx(nx.Graph([(1, "1", {"text": ""})]))
    with pytest.raises(InputError, match="empty id"):
        table_from_networkx(nx.Graph([(1, "", {"text": ""})]))


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        ((0, 0), "edge 1 -> 2 .*bipartite=0"),
        ((1, 0), "edge 1 -> 2 .*bipartite=1"),
        ((0, 2), r"node 2: .*'bipartite'.*\(got 2\)"),
    ],
)
def test_an_edge_between_wrong_sides_is_reported(sides, message):
    graph = nx.DiGraph()
    graph.add_node(1, bipartite=sides[0])
    graph.add_node(2, bipartite=sides[1])
    graph.add_edge(1, 2, text="")
    with pytest.raises(InputError, match=message):
        table_from_networkx(graph).to_arrow()
