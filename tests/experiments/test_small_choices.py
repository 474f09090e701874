from dataclasses import replace

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.experiments import node_classification
from edgeformers.experiments.drawings import LEAST_TOKENS, pick_edge
from edgeformers.experiments.efficiency import choose_centers
from edgeformers.experiments.execute import execute
from edgeformers.experiments.node_classification import classify_all, find_labels


def test_timed_nodes_have_enough_edges_and_few_repeat():
    degrees = np.array([9, 9, 5, 1, 6, 7])
    assert choose_centers(degrees, 2, 3, 5).tolist() == [2, 4, 5]
    assert choose_centers(degrees, 2, 4, 7).tolist() == [5, 5, 5, 5]
    with pytest.raises(InputError, match="no node has 10 training edges"):
        choose_centers(degrees, 0, 3, 10)


def test_the_edge_that_is_drawn_has_text_and_is_always_the_same():
    edges, lengths = np.array([3, 5, 8, 9]), np.array([4, LEAST_TOKENS, 40, 3])
    assert pick_edge(edges, lengths) in (5, 8)
    assert pick_edge(edges, lengths) == pick_edge(edges, lengths)
    assert pick_edge(edges, np.array([4, 2, 6, 3])) == 8


def test_nodes_are_classified_once_and_again_for_other_labels(tiny_plan, simulated, monkeypatch):
    plan = tiny_plan("als", experiment="node-classification")
    execute(plan, show=False)
    labels = find_labels(simulated)
    record, failed = classify_all(plan, simulated, labels, probes=3)
    assert (len(record.entries), failed) == (3, [])
    assert [entry.seconds > 0 for entry in record.entries] == [True, False, False]
    assert set(record.entries[0].metrics["test"]) == {"macro_f1", "micro_f1", "precision"}

    def ask(*args):
        raise InputError("vectors were asked for")

    monkeypatch.setattr(node_classification, "_vectors", ask)
    assert classify_all(plan, simulated, labels, probes=3) == (record, [])
    other = replace(labels, labels=np.roll(labels.labels, 1))
    for changed in ({"labels": other, "probes": 3}, {"labels": labels, "probes": 2}):
        _, (failure,) = classify_all(plan, simulated, **changed)
        assert failure.sentence == "vectors were asked for"


def test_the_networks_own_labels_are_those_of_its_targets(simulated, reviews):
    labels = find_labels(simulated)
    assert labels.nodes.min() >= simulated.num_sources
    assert len(labels.labels) == len(labels.nodes)
    with pytest.raises(
        InputError, match="prepared without labels of nodes; give a table: --labels"
    ):
        find_labels(reviews)


def test_a_baseline_without_vectors_is_a_failure_with_its_sentence(tiny_plan, simulated):
    plan = tiny_plan("popularity", experiment="node-classification")
    execute(plan, show=False)
    record, (failure,) = classify_all(plan, simulated, find_labels(simulated))
    assert record.entries == []
    assert failure.sentence == "'popularity' has no vectors of nodes to classify"
