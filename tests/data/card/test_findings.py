from dataclasses import replace

import numpy as np
import pytest

from edgeformers.data.card.describe import describe
from edgeformers.data.splits import SplitConfig
from tests.data.fake_graph import FakeGraph, found, six_edges


@pytest.fixture
def graph():
    return six_edges()


def test_warnings_come_before_notes(graph):
    severities = [finding.severity for finding in describe(graph).findings]
    assert severities == sorted(severities, reverse=True)
    assert set(severities) == {"note", "warning"}


def test_findings_say_what_the_numbers_mean(graph):
    card = describe(replace(graph, skipped={"count": 2, "examples": ["row 7: no target"]}))
    assert "17% of the edges (1) have no text" in found(card, "empty texts")[0].sentence
    assert "17% of the texts are longer than 64 tokens" in found(card, "long texts")[0].sentence
    assert "60% of the labeled edges are 'up'" in found(card, "label balance")[0].sentence
    assert (
        "33% of the targets (1) have one edge only"
        in found(card, "single edges, targets")[0].sentence
    )
    assert "25% of the rows (2) could not be read" in found(card, "skipped rows")[0].sentence
    cold = found(card, "cold nodes")[0].sentence
    assert "33% of the test edges (1)" in cold
    assert "1 of 2 sources and 1 of 3 targets" in cold
    assert found(card, "isolated nodes")
    assert found(card, "identical edges")
    assert all(finding.advice for finding in card.findings)


def test_a_network_without_edges_has_a_card():
    card = describe(FakeGraph([], [], 0, 0, splits={"s": np.zeros(0, np.uint8)}))
    assert card.counts.edges == 0
    assert card.findings[0].sentence == "The network has no edge."


def test_repeated_pairs_advise_a_split_that_exists(graph):
    [finding] = found(describe(graph), "repeated pairs")
    assert "2 pairs of nodes have several edges" in finding.sentence
    assert "--split link=per-source+new-pairs" in finding.advice
    assert SplitConfig.parse("link=per-source+new-pairs").new_pairs


def test_people_who_are_two_nodes_each_are_told_of(graph):
    ends = [(i, 20 + (i + 1) % 20) for i in range(20)]
    people = FakeGraph(ends, ["hello"] * 20, 20, 20, shared_names=18)
    [finding] = found(describe(people), "two kinds of nodes")
    assert "90% of the sources (18) are called as a target is" in finding.sentence
    assert "--one-node-type" in finding.advice
    assert not found(describe(replace(people, shared_names=3)), "two kinds of nodes")
    assert not found(describe(replace(graph, shared_names=2)), "two kinds of nodes")  # few at all
