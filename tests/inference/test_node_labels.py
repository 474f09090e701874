"""Labels of nodes from a table and from the network, worked by hand on five reviews."""

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.inference.node_labels import (
    LabeledNodes,
    classify_labeled_nodes,
    network_node_labels,
    read_node_labels,
)


@pytest.fixture
def names(reviews):
    """ann 0, bob 1, cat 2 are sources; alien 3, brazil 4, ann 5 are targets."""
    return reviews.node_index


@pytest.fixture
def write(tmp_path):
    def write(*lines):
        path = tmp_path / "nodes.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def test_a_label_each_gives_classes_in_the_order_of_nodes(names, write):
    path = write("node,label", "brazil,drama", "bob,person", "alien,horror", "cat,", "zoe,person")
    found = read_node_labels(names, path)
    assert found.nodes.tolist() == [1, 3, 4]
    assert found.names == ["drama", "horror", "person"]
    assert found.labels.tolist() == [2, 1, 0]
    assert (len(found), found.strangers) == (3, 1)


def test_several_labels_give_a_table_of_truths(names, write):
    path = write("film,kinds", "alien,horror; space", "brazil,space")
    found = read_node_labels(names, path, id="film", labels="kinds", label_separator=";")
    assert found.names == ["horror", "space"]
    assert found.labels.tolist() == [[True, True], [False, True]]


def test_several_rows_of_a_node_give_it_several_labels(names, write):
    found = read_node_labels(names, write("node,label", "alien,b", "brazil,b", "alien,a"))
    assert found.labels.tolist() == [[True, True], [False, True]]


def test_an_id_of_both_sides_is_looked_for_on_the_side_named(names, write):
    path = write("node,label", "ann,x", "bob,y")
    with pytest.raises(InputError, match="--node-side"):
        read_node_labels(names, path)
    assert read_node_labels(names, path, side="source").nodes.tolist() == [0, 1]
    found = read_node_labels(names, path, side="target")
    assert (found.nodes.tolist(), found.strangers) == ([5], 1)


def test_labels_of_other_nodes_alone_are_answered(names, write):
    with pytest.raises(InputError, match="zoe"):
        read_node_labels(names, write("node,label", "zoe,x"))
    with pytest.raises(InputError, match="no labels"):
        read_node_labels(names, write("node,label", "ann,"))


def test_a_network_gives_the_labels_it_was_prepared_with(make_network, make_nodes, reviews):
    rows = [
        {"id": "alien", "side": "target", "labels": ["horror", "space"]},
        {"id": "brazil", "side": "target", "labels": ["drama"]},
        {"id": "bob", "side": "source", "labels": ["person"]},
    ]
    graph = make_network(nodes=[make_nodes(rows)], out="labeled")
    found = network_node_labels(graph, side="target")
    assert found.nodes.tolist() == [3, 4]
    assert found.names == ["drama", "horror", "space"]
    assert found.labels.tolist() == [[False, True, True], [True, False, False]]
    assert network_node_labels(graph).nodes.tolist() == [1, 3, 4]
    with pytest.raises(InputError, match="--labels"):
        network_node_labels(reviews)
    graph = make_network(nodes=[make_nodes(rows[:2])], out="targets")
    with pytest.raises(InputError, match="source"):
        network_node_labels(graph, side="source")


@pytest.fixture(scope="module")
def predictor(simulated):
    settings = {"train.epochs": 1, "data.source_neighbors": [2], "data.target_neighbors": [2]}
    made = LinkPredictor("scratch:2x32", recipe="fast", settings=settings, show=False)
    return made.fit(simulated)


def test_only_labeled_nodes_are_read_and_a_seed_repeats_the_answer(predictor, monkeypatch):
    graph = predictor.fitted_.network.graph
    vectors = np.zeros((graph.num_nodes, 4), np.float32)
    labeled = network_node_labels(graph, side="target")
    vectors[labeled.nodes, labeled.labels % 4] = 9.0  # an answer that is in the vectors
    asked = []

    def embed(nodes):
        asked.append(nodes)
        return vectors[nodes]

    monkeypatch.setattr(predictor, "embed_nodes", embed)
    parity = LabeledNodes(nodes=labeled.nodes, labels=labeled.labels % 2, names=["even", "odd"])
    first = classify_labeled_nodes(predictor, parity, repetitions=2)
    assert first.summary["macro_f1"].mean == 1.0
    assert classify_labeled_nodes(predictor, parity, repetitions=2).runs == first.runs
    assert np.array_equal(asked[0], labeled.nodes)


def test_what_cannot_be_learned_is_answered(predictor):
    nodes = np.arange(5)
    same = LabeledNodes(nodes=nodes, labels=np.zeros(5, int), names=["x"])
    with pytest.raises(InputError, match="'x'"):
        classify_labeled_nodes(predictor, same)
    two = LabeledNodes(nodes=nodes, labels=nodes % 2, names=["x", "y"])
    with pytest.raises(InputError, match="repetitions"):
        classify_labeled_nodes(predictor, two, repetitions=0)
