import numpy as np
import pytest

from edgeformers.baselines.text.node_ids import NodeIds


def make_rows(count=160):
    """Two kind sources and two harsh ones; words say nothing."""
    part = ["train", "train", "val", "test"]
    return [
        {
            "source": f"u{n % 4}",
            "target": f"i{n % 3}",
            "text": f"word{n % 7}",
            "label": "up" if n % 4 < 2 else "down",
            "split": part[n // 4 % 4],
        }
        for n in range(count)
    ]


def test_node_ids_predict_the_class_without_the_text(make_parts):
    graph = make_parts(make_rows())
    other = make_parts([{**row, "text": "same"} for row in make_rows()], out="other")
    model, twin = (NodeIds().fit(one, "given") for one in (graph, other))
    edges = np.arange(graph.num_edges)
    assert (model.predict(edges) == np.asarray(graph.labels)).all()
    np.testing.assert_array_equal(model.predict_proba(edges), twin.predict_proba(edges))
    assert set(model.setting) == {"C", "solver"}


def test_an_edge_of_two_new_nodes_gets_the_class_frequencies(make_parts):
    rows = [row for row in make_rows() if row["source"] != "u3"]
    new = {"source": "new", "target": "new", "text": "", "label": "up", "split": "test"}
    graph = make_parts([*rows, new, {**new, "source": "newer"}])
    last = [graph.num_edges - 2, graph.num_edges - 1]
    up = graph.label_names.index("up")
    strict = NodeIds(grid=[1e-6]).fit(graph, "given").predict_proba(last)
    np.testing.assert_allclose(strict[:, up], 2 / 3, atol=1e-3)  # two of the three sources
    free = NodeIds().fit(graph, "given").predict_proba(last)
    np.testing.assert_array_equal(free[0], free[1])
    assert free[0].sum() == pytest.approx(1)
