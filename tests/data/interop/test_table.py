import subprocess
import sys
from datetime import datetime

import pyarrow as pa
import pytest

from edgeformers.data.interop import graph_table, table_from_networkx, table_to_networkx
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.table import EdgeTable

ROWS = [
    {"source": "ann", "target": "jaws", "text": "good", "label": "fresh", "weight": 1.5},
    {"source": "bob", "target": "jaws", "text": "", "edge_type": "review", "stars": 3},
    {"source": "ann", "target": "heat", "text": "dull", "label": "rotten", "edge_type": "remark"},
    {"source": "jaws", "target": "ann", "text": "good", "time": datetime(2020, 2, 1, 12, 30)},
]
SPLITS = ["train", "test", "val", "train"]
FIELDS = ["label", "time", "split", "edge_type", "weight"]


def make_table(labels=None, **more) -> EdgeTable:
    rows = [{**row, "split": split} for row, split in zip(ROWS, SPLITS, strict=True)]
    if labels is not None:
        rows = [{**row, "label": label} for row, label in zip(rows, labels, strict=True)]
    extra = {"stars": pa.int64()}
    table = EdgeTable.from_rows(
        lambda: rows, fields=FIELDS, extra=extra, origin="films.csv", bipartite=False
    )
    return EdgeTable(**{**vars(table), **more})


@pytest.fixture
def prepare(tmp_path):
    config = PrepareConfig(tokenizer=None, progress=False)
    return lambda table: write_network(table, tmp_path / "films", config=config)


@pytest.mark.parametrize("bipartite", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_a_prepared_network_becomes_its_table_again(prepare, bipartite, directed):
    table = make_table(bipartite=bipartite, directed=directed)
    back = graph_table(prepare(table))
    assert (back.bipartite, back.directed, back.label_kind) == (bipartite, directed, "class")
    assert back.to_arrow().equals(table.to_arrow().drop_columns(["split"]))
    assert back.to_arrow().equals(back.to_arrow())  # a second reading


def test_a_table_of_several_batches_keeps_its_order(prepare):
    rows = [{"source": f"s{i % 7}", "target": str(i % 5), "text": str(i)} for i in range(70_000)]
    table = EdgeTable.from_rows(lambda: rows, fields=[], origin="made", bipartite=True)
    assert graph_table(prepare(table)).to_arrow().equals(table.to_arrow())


def test_numeric_labels_stay_as_written(prepare):
    table = make_table(["1.50", None, "-2", "7"], label_kind="number")
    back = graph_table(prepare(table))
    assert back.label_kind == "number"
    assert back.to_arrow()["label"].to_pylist() == ["1.50", None, "-2", "7"]


@pytest.mark.parametrize(
    ("written", "joined", "separator"),
    [
        (["b ; a", None, "a", "c;c"], ["a|b", None, "a", "c"], "|"),
        (["b|x;a", None, "a", ""], ["a;b|x", None, "a", None], ";"),
    ],
)
def test_several_labels_are_joined_by_a_sign_that_no_label_contains(
    prepare, written, joined, separator
):
    graph = prepare(make_table(written, label_kind="multi", label_separator=";"))
    back = graph_table(graph)
    assert (back.label_kind, back.label_separator) == ("multi", separator)
    assert back.to_arrow()["label"].to_pylist() == joined


def test_a_prepared_network_becomes_a_graph_of_networkx(prepare):
    graph = table_to_networkx(graph_table(prepare(make_table(bipartite=True))))
    assert graph.number_of_edges() == 4
    assert graph.edges[("source", "ann"), ("target", "jaws"), 0]["label"] == "fresh"
    names = {name: name for name in ("label", "time", "edge_type", "weight")}
    again = table_from_networkx(graph, **names).to_arrow()
    assert again.equals(make_table(bipartite=True).to_arrow().drop_columns(["split", "stars"]))


def test_a_prepared_network_becomes_a_data_frame(prepare):
    frame = graph_table(prepare(make_table())).to_pandas()
    assert frame["text"].tolist() == ["good", "", "dull", "good"]
    assert frame["source"].tolist() == ["ann", "bob", "ann", "jaws"]


def test_importing_needs_neither_networkx_nor_pyg():
    code = (
        "import sys, edgeformers.data.interop\n"
        "sys.exit(bool({'networkx', 'torch_geometric'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
