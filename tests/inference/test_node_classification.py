"""Logistic regression on frozen vectors: what it finds, what a seed fixes, and sentences."""

import math

import numpy as np
import pytest
import torch

from edgeformers.errors import ConfigError, InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.evaluation import metrics
from edgeformers.inference.node_classification import (
    LabeledNodes,
    ProbeConfig,
    _draw_parts,
    classify_labeled_nodes,
    classify_nodes,
    fit_probe,
    network_node_labels,
    read_node_labels,
)

QUICK = ProbeConfig(learning_rate=0.2, max_epochs=15, batch_size=128)


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)


def test_classes_that_lie_apart_are_found(vectors):
    labels = vectors[:, :3].argmax(1)
    report = classify_nodes(vectors, labels, seeds=(0, 1), config=QUICK)
    assert report.summary["macro_f1"].mean > 0.9
    assert report.summary["macro_f1"].runs == len(report.runs) == 2
    assert report.summary["micro_f1"].mean == np.mean([run["micro_f1"] for run in report.runs])


def test_several_labels_are_found(vectors):
    labels = vectors[:, :3] > 0.2
    report = classify_nodes(vectors, labels, seeds=(0,), config=QUICK)
    assert report.summary["micro_f1"].mean > 0.9
    assert report.summary["precision"].mean > 0.9
    assert math.isnan(report.summary["precision"].deviation)
    assert report.runs[0].keys() == {"macro_f1", "micro_f1", "precision"}


def test_labels_by_chance_are_not_found(vectors):
    labels = np.random.default_rng(1).integers(0, 2, 300)
    report = classify_nodes(vectors, labels, seeds=(0, 1, 2), config=QUICK)
    assert 0.3 < report.summary["micro_f1"].mean < 0.7


def test_a_seed_repeats_a_run_and_another_does_not(vectors):
    labels = (vectors[:, 0] + np.random.default_rng(2).normal(size=300) > 0).astype(int)
    first = classify_nodes(vectors, labels, seeds=(1, 2), config=QUICK).runs
    torch.manual_seed(99)  # the state of torch's own generator has no say
    assert classify_nodes(vectors, labels, seeds=(1, 2), config=QUICK).runs == first
    assert first[0] != first[1]


def test_unknown_nodes_belong_to_no_part(vectors):
    known = np.arange(300) % 3 > 0
    parts = _draw_parts(known, (0.7, 0.1, 0.2), seed=4)
    assert np.bincount(parts + 1).tolist() == [100, 140, 20, 40]
    assert (parts[~known] == -1).all()


def test_the_labels_of_test_nodes_do_not_reach_the_regression(vectors):
    labels = (vectors[:, 0] > 0).astype(np.int64)
    parts = _draw_parts(np.ones(300, bool), (0.7, 0.1, 0.2), seed=0)
    flipped = np.where(parts == 2, 1 - labels, labels)
    inputs = torch.from_numpy(vectors)
    first = fit_probe(inputs, labels, parts, config=QUICK, seed=0).state_dict()
    second = fit_probe(inputs, flipped, parts, config=QUICK, seed=0).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_standardizing_rescues_features_of_unequal_size(vectors):
    labels = (vectors[:, 0] > 0).astype(int)
    small = vectors * np.array([1e-3, 1, 1, 1, 1], np.float32) + 5
    config = {"learning_rate": 0.2, "max_epochs": 15, "batch_size": 128}
    plain = classify_nodes(small, labels, seeds=(0,), config=ProbeConfig(**config))
    scaled = classify_nodes(
        small, labels, seeds=(0,), config=ProbeConfig(**config, standardize=True)
    )
    assert scaled.summary["macro_f1"].mean > 0.9 > plain.summary["macro_f1"].mean


def test_fitting_stops_when_validation_gets_no_better(vectors):
    labels = np.random.default_rng(3).integers(0, 2, 300)
    parts = _draw_parts(np.ones(300, bool), (0.7, 0.1, 0.2), seed=0)
    inputs = torch.from_numpy(vectors)
    target = torch.from_numpy(labels)

    def validation_loss(**settings):
        config = ProbeConfig(learning_rate=0.5, batch_size=64, **settings)
        probe = fit_probe(inputs, labels, parts, config=config, seed=0)
        return float(probe.loss(inputs[parts == 1], target[parts == 1]).detach())

    patient = validation_loss(patience=12, max_epochs=12)
    assert patient <= validation_loss(patience=1, max_epochs=12)
    assert patient <= validation_loss(patience=1, max_epochs=1)


def test_given_parts_fix_the_split(vectors):
    labels = (vectors[:, 0] > 0).astype(int)
    parts = np.arange(300) % 3
    report = classify_nodes(vectors, labels, seeds=(0,), config=QUICK, parts=parts)
    probe = fit_probe(torch.from_numpy(vectors), labels, parts, config=QUICK, seed=0)
    guess = probe.predict(torch.from_numpy(vectors[parts == 2])).value
    assert report.runs[0]["macro_f1"] == metrics.macro_f1(labels[parts == 2], guess)


def test_what_cannot_be_fitted_gets_a_sentence(vectors):
    with pytest.raises(InputError, match="300 embeddings"):
        classify_nodes(vectors, [0, 1])
    with pytest.raises(InputError, match="validation"):
        classify_nodes(vectors[:3], [0, 1, 1], config=QUICK)
    with pytest.raises(ConfigError, match="patience"):
        ProbeConfig(patience=0)
    with pytest.raises(ConfigError, match="fractions"):
        ProbeConfig(fractions=(0.8, 0.2, 0.0))


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
    with pytest.raises(InputError, match="`side="):
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
    with pytest.raises(InputError, match="`labels="):
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
