from dataclasses import replace

import numpy as np
import pytest

from edgeformers.data.card.card import NamedCount
from edgeformers.data.card.describe import describe
from tests.data.fake_graph import FakeGraph, six_edges


@pytest.fixture
def graph():
    return six_edges()


def test_a_split_has_sizes_cold_nodes_and_labels(graph):
    (split,) = describe(graph).splits
    assert [(p.name, p.edges) for p in split.parts] == [("train", 2), ("val", 1), ("test", 3)]
    test = split.part("test")
    assert (test.nodes, test.cold) == ({"sources": 2, "targets": 3}, {"sources": 1, "targets": 1})
    assert (test.cold_edges, test.share) == (1, 0.5)
    assert test.labels.balance == [NamedCount("up", 2), NamedCount("down", 1)]
    assert split.part("val").cold == {"sources": 1, "targets": 0}


def test_edges_outside_a_split_are_a_separate_part(graph):
    codes = np.array([0, 2, 0, 1, 2, 255], dtype=np.uint8)
    (split,) = describe(replace(graph, splits={"s": codes})).splits
    assert split.part("none").edges == 1
    assert split.part("none").same_text is None


def test_leaks_between_training_and_test_are_counted(graph):
    card = describe(graph)
    test, val = card.splits[0].part("test"), card.splits[0].part("val")
    assert (test.same_text.edges, test.same_text.share) == (2, 2 / 3)
    assert test.same_text.example == "good"
    assert (test.same_pair.edges, test.same_edge.edges) == (2, 1)
    assert test.same_edge.example == "n0 → n3: good"
    assert val.same_text.edges == 0


def test_an_empty_text_is_not_a_leak():
    graph = FakeGraph([(0, 2), (1, 2)], ["", ""], 2, 1, splits={"s": np.array([0, 2], np.uint8)})
    card = describe(graph)
    assert card.splits[0].part("test").same_text.edges == 0
    assert card.texts.shared == 0
