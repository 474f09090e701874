from dataclasses import replace

import numpy as np
import pytest

from edgeformers.data.card.describe import describe
from tests.data.fake_graph import FakeGraph, findings_about, six_edges


@pytest.fixture
def graph():
    return six_edges()


def test_warnings_come_before_notes(graph):
    severities = [finding.severity for finding in describe(graph).findings]
    assert severities == sorted(severities, reverse=True)
    assert set(severities) == {"note", "warning"}


@pytest.mark.parametrize(
    ("about", "words", "remedy"),
    [
        ("empty texts", "17% of the edges (1)", "input"),
        ("long texts", "17% of the texts", "--set data.max_tokens=128"),
        ("unlabeled edges", "17% of the edges (1)", "neighbors"),
        ("label balance", "60% of the labeled edges are 'up'", "macro-F1"),
        ("rare labels", "'down' the fewest (2)", "--set edges.class_balance=1"),
        ("single edges, targets", "33% of the targets (1)", "--min-degree"),
        ("isolated nodes", "17% of the nodes (1)", "--keep-isolated"),
        ("identical edges", "17% of the edges (1)", "--drop-repeats"),
        ("shared texts", "50% of the edges (3)", "most repeated texts"),
        ("skipped rows", "25% of the rows (2)", "prepare again"),
        ("missing times", "17% of the edges (1)", "random split"),
        ("cold nodes", "1 of 2 sources and 1 of 3 targets", "--split"),
        ("weights", "33% of the edges (2)", "at least 0"),
        ("self-loops", "17% of the edges (1)", "link prediction"),
        ("hubs, sources", "'n0' alone has 67% of the edges (4)", "without this node"),
    ],
)
def test_a_finding_has_its_numbers_and_names_its_remedy(graph, about, words, remedy):
    graph = replace(
        graph,
        skipped={"count": 2, "examples": ["row 7: no target"]},
        weights=np.array([1, 2, np.nan, -1, 2, 2], dtype=np.float32),
    )
    if about == "self-loops":
        graph = replace(graph, ends=[(0, 0), *graph.ends[1:]], is_bipartite=False, num_sources=6)
    if about.startswith("hubs"):
        nodes = {0: 0, 1: 1, 3: 20, 4: 21, 5: 22}
        ends = [(nodes[a], nodes[b]) for a, b in graph.ends]
        graph = replace(graph, ends=ends, num_sources=20)
    [finding] = findings_about(describe(graph), about)
    assert words in finding.sentence
    assert remedy in finding.advice
    assert "{" not in finding.sentence + finding.advice


def test_a_network_without_edges_has_a_card():
    card = describe(FakeGraph([], [], 0, 0, splits={"s": np.zeros(0, np.uint8)}))
    assert card.counts.edges == 0
    assert "no edges" in card.findings[0].sentence


def test_ids_on_both_sides_suggest_one_node_type(graph):
    ends = [(i, 20 + (i + 1) % 20) for i in range(20)]
    people = FakeGraph(ends, ["hello"] * 20, 20, 20, shared_names=18)
    [finding] = findings_about(describe(people), "two kinds of nodes")
    assert finding.severity == "warning"
    assert "90% of the sources (18)" in finding.sentence
    assert "--one-node-type" in finding.advice
    assert not findings_about(describe(replace(people, shared_names=3)), "two kinds of nodes")
    assert not findings_about(
        describe(replace(graph, shared_names=2)), "two kinds of nodes"
    )  # too few
