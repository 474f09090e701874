import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.card.card import DataCard, NamedCount
from edgeformers.data.card.describe import describe
from edgeformers.errors import FormatError
from tests.data.fake_graph import FakeGraph, FakeTokens, findings_about, six_edges


@pytest.fixture
def graph():
    return six_edges()


def test_counts_nodes_edges_and_pairs(graph):
    counts = describe(graph).counts
    assert (counts.nodes, counts.sources, counts.targets, counts.edges) == (6, 3, 3, 6)
    assert (counts.pairs, counts.repeated_pairs, counts.repeating_edges) == (4, 2, 2)
    assert (counts.identical_edges, counts.self_loops, counts.isolated) == (1, 0, 1)


def test_degrees_are_summarized_for_each_side(graph):
    sources, targets = describe(graph).sides
    assert (sources.name, sources.nodes, sources.unused, sources.single) == ("sources", 3, 1, 0)
    assert (sources.degree.minimum, sources.degree.median, sources.degree.maximum) == (0, 2, 4)
    assert sources.degree.histogram.borders == [1, 2, 3, 4, 6]
    assert sources.degree.histogram.counts == [0, 1, 0, 1]
    assert sources.hubs == [NamedCount("n0", 4), NamedCount("n1", 2)]
    assert (targets.unused, targets.single, targets.degree.mean) == (0, 1, 2)
    assert targets.hubs[0] == NamedCount("n3", 3)


def test_networks_of_one_node_type_are_counted_by_direction():
    ends, words = [(0, 1), (1, 0), (2, 2)], ["a", "a", "b"]
    directed = FakeGraph(ends, words, 3, 3, is_bipartite=False)
    card = describe(directed)
    assert [side.name for side in card.sides] == ["outgoing", "incoming"]
    assert (card.counts.pairs, card.counts.identical_edges, card.counts.self_loops) == (3, 0, 1)
    card = describe(replace(directed, is_directed=False))
    assert [side.name for side in card.sides] == ["nodes"]
    assert (card.counts.pairs, card.counts.identical_edges) == (2, 1)
    assert [hub.count for hub in card.sides[0].hubs] == [2, 2, 1]  # a self-loop is one edge


def test_texts_are_measured_and_repeats_counted(graph):
    texts = describe(graph).texts
    assert (texts.empty, texts.distinct, texts.shared) == (1, 3, 3)
    assert texts.most_repeated == [NamedCount("good", 3)]
    assert (texts.characters.minimum, texts.characters.mean, texts.characters.maximum) == (0, 4, 9)
    assert texts.characters.median == 4
    assert texts.cut == {"64": 1 / 6, "128": 0, "256": 0}
    assert 64 in texts.tokens.histogram.borders
    assert sum(texts.tokens.histogram.counts) == 6


def test_a_network_without_tokens_has_no_token_lengths(graph):
    texts = describe(replace(graph, tokens=None)).texts
    assert (texts.tokens, texts.tokenizer, texts.cut) == (None, None, {})


def test_class_labels_are_balanced(graph):
    labels = describe(graph).labels
    assert labels.balance == [NamedCount("up", 3), NamedCount("down", 2)]
    assert (labels.labeled, labels.unlabeled) == (5, 1)


def test_each_of_several_labels_of_an_edge_is_counted(graph):
    table = np.array([[1, 1], [1, 0], [0, 0], [0, 0], [0, 1], [0, 1]], dtype=bool)
    labels = describe(replace(graph, label_kind="multi", labels=table)).labels
    assert labels.balance == [NamedCount("up", 2), NamedCount("down", 3)]
    assert (labels.labeled, labels.unlabeled) == (4, 2)


def test_numeric_labels_have_a_distribution(graph):
    values = np.array([1, 2, 3, np.nan, 2, 2], dtype=np.float32)
    numbers = replace(graph, label_kind="number", label_names=[], labels=values)
    labels = describe(numbers).labels
    assert (labels.unlabeled, labels.numbers.mean, labels.numbers.maximum) == (1, 2, 3)
    assert labels.numbers.histogram.counts == [1, 3, 1]


def test_weights_types_and_node_labels(graph):
    weights = np.array([1, 2, np.nan, -1, 2, 2], dtype=np.float32)
    labels = np.array([0, 0, 0, 0, 2, 3, 3]), np.array([0, 1, 1], dtype=np.int32)
    types = np.array([0, 0, 1, 0, 0, 0], dtype=np.int16)
    more = replace(
        graph,
        weights=weights,
        node_labels=labels,
        node_label_names=["drama", "crime"],
        edge_types=types,
        edge_type_names=["a", "b"],
    )
    card = describe(more)
    assert (card.weights.missing, card.weights.negative, card.weights.values.count) == (1, 1, 5)
    assert card.edge_types == [NamedCount("a", 5), NamedCount("b", 1)]
    assert card.node_labels.labeled == 2
    assert card.node_labels.balance == [NamedCount("drama", 1), NamedCount("crime", 2)]
    assert "2" in findings_about(card, "weights")[0].sentence


numbers = st.floats(width=32, allow_nan=True, allow_infinity=True)
edges = st.tuples(
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["", "a", "b", "<b>", "\x1b[31m", "ö\n"]),
    st.integers(-(2**63), 2**63 - 1),
    numbers,
    st.sampled_from([0, 1, 2, 255]),
    st.integers(-1, 2),
)


@st.composite
def graphs(draw):
    """Any small network: any sides, labels of any kind, any times, weights and splits."""
    rows = draw(st.lists(edges, max_size=12))
    bipartite, directed = draw(st.booleans()), draw(st.booleans())
    src, dst, words, times, weights, codes, labels = (
        (list(c) for c in zip(*rows, strict=True)) if rows else [[]] * 7
    )
    ends = [(s, d + 4 * bipartite) for s, d in zip(src, dst, strict=True)]
    kind = draw(st.sampled_from([None, "class", "multi", "number"]))
    values = {
        None: None,
        "class": np.array(labels, dtype=np.int16),
        "multi": np.array([[n == 0, n >= 1, n == 2] for n in labels], dtype=bool).reshape(-1, 3),
        "number": np.array(weights, dtype=np.float32),
    }
    return FakeGraph(
        ends,
        words,
        4,
        4,
        is_bipartite=bipartite,
        is_directed=directed,
        label_kind=kind,
        label_names=["x", "y", "z"] if kind in ("class", "multi") else [],
        labels=values[kind],
        times=draw(st.sampled_from([None, np.array(times, dtype=np.int64)])),
        weights=draw(st.sampled_from([None, np.array(weights, dtype=np.float32)])),
        splits={"s": np.array(codes, dtype=np.uint8)},
        tokens=draw(
            st.sampled_from([None, FakeTokens(np.array([len(w) for w in words], np.int32))])
        ),
    )


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_the_card_of_any_small_network_agrees_with_counting_by_hand(graph):
    card = describe(graph)
    assert DataCard.from_json(card.to_json()) == card
    json.loads(card.to_json(), parse_constant=pytest.fail)
    ordered = graph.is_bipartite or graph.is_directed
    pairs = [tuple(ends) if ordered else tuple(sorted(ends)) for ends in graph.ends]
    whole = list(zip(pairs, graph.words, strict=True))
    assert card.counts.pairs == len(set(pairs))
    assert card.counts.repeated_pairs == sum(n > 1 for n in Counter(pairs).values())
    assert card.counts.identical_edges == len(whole) - len(set(whole))
    codes = graph.splits["s"]
    train = {i for i, code in enumerate(codes) if code == 0}
    test = [i for i, code in enumerate(codes) if code == 2]
    part = card.splits[0].part("test")
    texts = {graph.words[i] for i in train} - {""}
    assert part.same_text.edges == sum(graph.words[i] in texts for i in test)
    assert part.same_pair.edges == sum(pairs[i] in {pairs[j] for j in train} for i in test)
    assert part.same_edge.edges == sum(whole[i] in {whole[j] for j in train} for i in test)
    known = {node for i in train for node in graph.ends[i]}
    assert part.cold_edges == sum(not known.issuperset(graph.ends[i]) for i in test)
    assert sum(part.cold.values()) == len({n for i in test for n in graph.ends[i]} - known)


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


def test_a_card_survives_json():
    card = describe(six_edges())
    assert DataCard.from_json(card.to_json()) == card


def test_a_card_with_the_field_names_of_earlier_versions_is_read():
    card = describe(six_edges())
    text = card.to_json().replace("labeled", "labelled").replace('"spec"', '"made"')
    assert "labelled" in text
    assert DataCard.from_json(text).splits == card.splits


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 7}', '{"version": 2}'])
def test_a_file_that_is_not_a_card_is_refused_with_a_remedy(text):
    with pytest.raises(FormatError, match=r"data card: .*edgeformers describe"):
        DataCard.from_json(text)
