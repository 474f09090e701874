from datetime import datetime

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from edgeformers.data.interop import table_from_pyg, table_to_pyg
from edgeformers.data.table import EdgeTable
from edgeformers.errors import InputError
from tests.data.interop.tables import EDGES, NAMES, NODES, TEXTS, make_table, rows


def whole_seconds(row):
    time = row["time"]
    return {**row, "time": time and time.replace(microsecond=0)}


@settings(max_examples=40, deadline=None)
@given(EDGES, st.booleans())
def test_a_table_survives_pyg_row_for_row(edges, bipartite):
    table = make_table(edges, bipartite=bipartite)
    back = table_from_pyg(table_to_pyg(table))
    assert back.bipartite == bipartite
    assert rows(back) == list(map(whole_seconds, rows(table)))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(NODES, NODES, TEXTS, st.integers(-3, 3), st.floats(width=32, allow_nan=False)),
        max_size=8,
    ),
    st.permutations(["a", "b", "c", "d", "e", "7"]),
)
def test_a_pyg_graph_survives_a_table_edge_for_edge(edges, ids):
    sources, targets, texts, labels, weights = zip(*edges, strict=True) if edges else [()] * 5
    data = Data(
        edge_index=torch.tensor([sources, targets], dtype=torch.long),
        edge_text=list(texts),
        edge_label=torch.tensor(labels, dtype=torch.long),
        edge_time=torch.arange(len(edges)) * 1000,
        edge_weight=torch.tensor(weights, dtype=torch.float),
        node_id=ids,
        num_nodes=6,
    )
    back = table_to_pyg(table_from_pyg(data))
    for end in (0, 1):
        assert [back.node_id[i] for i in back.edge_index[end]] == [
            ids[i] for i in data.edge_index[end]
        ]
    assert back.edge_text == data.edge_text
    for name in ("edge_label", "edge_time", "edge_weight"):
        torch.testing.assert_close(back[name], data[name], rtol=0, atol=0)
    assert back.num_nodes == len({*sources, *targets})


def test_a_bipartite_table_becomes_two_node_types_and_a_relation_for_each_edge_type():
    edges = [("7", "7", "x", "1"), ("8", "7", None, "2"), ("7", "9", "z", "1")]
    types = [{"edge_type": kind} for kind in ("wrote", "read", "wrote")]
    rows_ = [dict(zip(NAMES, e, strict=False)) | t for e, t in zip(edges, types, strict=True)]
    data = table_to_pyg(
        EdgeTable.from_rows(
            lambda: rows_, fields=["label", "edge_type"], origin="a test", bipartite=True
        )
    )
    assert (data["source"].node_id, data["target"].node_id) == (["7", "8"], ["7", "9"])
    wrote, read = data["source", "wrote", "target"], data["source", "read", "target"]
    assert wrote.edge_index.tolist() == [[0, 0], [0, 1]]
    assert (wrote.edge_text, wrote.edge_label.tolist()) == (["x", "z"], [1, 1])
    assert read.edge_index.tolist() == [[1], [0]]
    assert (read.edge_text, read.edge_label.tolist()) == ([None], [2])


def hetero(*kinds: tuple[str, str, str]) -> HeteroData:
    data = HeteroData()
    for kind in kinds:
        data[kind].edge_index = torch.tensor([[0, 1], [1, 0]])
        data[kind].edge_text = [f"{kind[1]} 0", f"{kind[1]} 1"]
    return data


def test_relations_of_a_heterogeneous_graph_become_edge_types():
    table = table_from_pyg(hetero(("user", "wrote", "film"), ("user", "read", "film")))
    assert table.bipartite
    assert [tuple(row.values()) for row in rows(table)] == [
        ("0", "1", "wrote 0", "wrote"),
        ("1", "0", "wrote 1", "wrote"),
        ("0", "1", "read 0", "read"),
        ("1", "0", "read 1", "read"),
    ]
    assert not table_from_pyg(hetero(("user", "knows", "user"))).bipartite
    plain = table_from_pyg(hetero(("user", "to", "film")))
    assert plain.schema.names == ["source", "target", "text"]


def test_other_attribute_names_are_read_and_columns_with_nulls_are_lists():
    index = torch.tensor([[0, 1], [1, 0]])
    data = Data(edge_index=index, body=["x", None], stars=["a", None], at=[None, 3], num_nodes=2)
    table = table_from_pyg(data, text="body", label="stars", time="at")
    assert [tuple(row.values()) for row in rows(table)] == [
        ("0", "1", "x", "a", None),
        ("1", "0", None, None, datetime(1970, 1, 1, 0, 0, 3)),
    ]
    back = table_to_pyg(table)
    assert (back.edge_label, back.edge_time) == (["a", None], [None, 3])


@pytest.mark.parametrize("labels", [["1", "01"], ["1", None], [str(10**30)], ["1.0"], ["a"]])
def test_labels_that_are_not_all_integers_stay_strings(labels):
    table = make_table([("a", "b", "", label) for label in labels], fields=["label"])
    assert table_to_pyg(table).edge_label == labels


def one_edge(**attributes) -> Data:
    edge_index = torch.tensor([[0], [1]])
    return Data(**{"edge_index": edge_index, "edge_text": [""], "num_nodes": 2, **attributes})


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        (
            one_edge(),
            {"text": "edge_txt"},
            "the graph: .*'edge_txt'.*'edge_text'",
        ),
        (
            one_edge(),
            {"label": "stars"},
            "attribute 'stars'",
        ),
        (one_edge(edge_text=["", ""]), {}, "the graph: 'edge_text' has 2 values for 1 edges"),
        (one_edge(edge_text=[3]), {}, "the graph, edge 0: the text is 3"),
        (one_edge(node_id=["a"]), {}, "'node_id' has 1 ids"),
        (one_edge(node_id=["a", "a"]), {}, "id 'a'"),
        (one_edge(node_id=["a", ""]), {}, "empty id"),
        (
            one_edge(edge_time=[10**12]),
            {},
            "edge 0: the time is 1000000000000",
        ),
        (HeteroData(), {}, "no edges"),
        (
            hetero(("user", "wrote", "film"), ("film", "rev_wrote", "user")),
            {},
            r"\('film', 'rev_wrote', 'user'\) do not go from 'user' to 'film'",
        ),
        (
            hetero(("user", "wrote", "film")),
            {"text": "text"},
            "the edges 'user', 'wrote', 'film': .*'text'",
        ),
    ],
)
def test_what_is_wrong_with_a_pyg_graph_is_reported(data, arguments, message):
    with pytest.raises(InputError, match=message):
        table_from_pyg(data, **arguments).to_arrow()
