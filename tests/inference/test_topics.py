"""Topics: what the texts of targets are about, for sources that link to such targets."""

from copy import copy

import numpy as np
import pytest
import torch

from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import TRAIN, SplitConfig
from edgeformers.inference import topics
from edgeformers.inference.edge_history import EdgeHistory
from edgeformers.inference.saved_components import restore_component
from edgeformers.inference.topics import TopicsComponent
from tests.inference.test_components import edges
from tests.inference.test_temporal_components import cosine, departures

GARDEN = ["roses and tulips in the garden", "tulips need water", "a garden of roses and water"]
MUSIC = ["a loud guitar and drums", "drums and a singer", "the singer has a loud guitar"]
GARDENER, FAN, NEW_SOURCE, ABOUT_GARDENS, ABOUT_MUSIC, NEW_TARGET = 0, 2, 20, 4, 7, 21
GARDENS = np.arange(4, 7)


@pytest.fixture
def graph(make_network):
    """Sources 0 and 1 link to targets 4 to 6 about gardens, 2 and 3 to 7 to 9 about music."""
    rows = []
    for kind, (first, texts) in enumerate(((0, GARDEN), (2, MUSIC))):
        for at in range(24):
            ends = {"source": f"s{first + at % 2}", "target": f"t{3 * kind + at // 2 % 3}"}
            rows.append({**ends, "text": texts[at % 3], "time": at})
    splits = [SplitConfig(name="link", how="chronological", fractions=(0.8, 0.1, 0.1))]
    return make_network(rows, config=PrepareConfig(tokenizer=None, progress=False, splits=splits))


@pytest.fixture
def component(graph):
    return read(graph, np.arange(graph.num_edges))


@pytest.fixture
def history(graph):
    return EdgeHistory(graph, "link", np.zeros(graph.num_nodes, np.int64))


def read(graph, chosen):
    ends = (graph.src[chosen].astype(np.int64), graph.dst[chosen].astype(np.int64))
    return TopicsComponent.read(graph, *ends, chosen)


def test_a_source_is_close_to_what_its_targets_are_about(graph, component):
    component.check(graph.num_nodes)
    assert cosine(component, GARDENER, ABOUT_GARDENS) > 0.9
    assert cosine(component, GARDENER, ABOUT_MUSIC) < 0
    assert cosine(component, FAN, ABOUT_MUSIC) > 0.9


def test_a_new_target_is_known_by_its_first_text(component, history):
    before = component.vectors(np.arange(10), "target")
    new = edges([NEW_SOURCE], [NEW_TARGET], ["roses and water"])
    component.update(history.add(new))
    assert cosine(component, GARDENER, NEW_TARGET) > 0.5 > 0 > cosine(component, FAN, NEW_TARGET)
    assert cosine(component, NEW_SOURCE, ABOUT_GARDENS) > 0.3  # known by what it links to
    torch.testing.assert_close(component.vectors(np.arange(10), "target"), before)


def test_a_target_that_is_not_in_the_network_is_folded_in_as_it_would_arrive(component, history):
    new = edges([GARDENER], [-1], ["loud drums"])
    folded = component.fold_in(new, "target")
    component.update(history.add(edges([GARDENER], [NEW_TARGET], ["loud drums"])))
    arrived = component.vectors(np.array([NEW_TARGET]), "target")[0]
    assert float(folded @ arrived) > 0.9  # the arrival has changed the source a little
    nothing = component.fold_in(edges([-1], [-1], ["qwertz"]), "target")
    assert not nothing.any()


def test_a_removed_node_takes_its_later_texts_along(component, history):
    sides = ("source", "target")
    before = {side: component.vectors(np.arange(10), side) for side in sides}
    new = edges([NEW_SOURCE, GARDENER], [ABOUT_GARDENS, NEW_TARGET], ["loud drums", "loud drums"])
    component.update(history.add(new))
    assert (component.vectors(np.array([4]), "target") != before["target"][4]).any()
    component.remove(departures(NEW_SOURCE, [ABOUT_GARDENS], {ABOUT_GARDENS: 1}, history))
    component.remove(departures(NEW_TARGET, [GARDENER], {NEW_TARGET: 1}, history))
    for side in sides:
        torch.testing.assert_close(component.vectors(np.arange(10), side), before[side])
    for node, side in ((NEW_SOURCE, "source"), (NEW_TARGET, "target")):
        assert not component.vectors(np.array([node]), side).any()


def test_removed_nodes_take_their_training_texts_along(graph, monkeypatch):
    monkeypatch.setattr(topics, "TEXTS_PER_TARGET", 3)  # others were not read
    trained = np.flatnonzero(graph.split("link") == TRAIN)
    component = read(graph, trained)
    history = EdgeHistory(graph, "link", graph.adjacency.degrees())
    for at, source in enumerate((GARDENER, GARDENER + 1)):
        assert (component.vectors(GARDENS, "target").norm(dim=1) > 0.9).all(), at
        component.remove(history.remove(source, graph.adjacency))
    assert not component.vectors(GARDENS, "target").any()
    assert (component.vectors(np.array([ABOUT_MUSIC]), "target").norm(dim=1) > 0.9).all()


def test_edges_together_are_as_edges_one_by_one(component, graph):
    ends, texts = ([GARDENER, FAN], [NEW_TARGET] * 2), ["roses and water", "loud drums"]
    other = copy(component)
    component.update(EdgeHistory(graph, "link", np.zeros(10, int)).add(edges(*ends, texts)))
    history = EdgeHistory(graph, "link", np.zeros(10, int))
    for source, target, text in zip(*ends, texts, strict=True):
        other.update(history.add(edges([source], [target], [text])))
    for side, nodes in (("source", np.arange(4)), ("target", np.array([NEW_TARGET]))):
        torch.testing.assert_close(component.vectors(nodes, side), other.vectors(nodes, side))


def test_a_saved_component_reads_texts_alike(component, history, graph):
    restored = restore_component("topics", component.tensors())
    restored.check(graph.num_nodes)
    for one in (component, restored):
        one.update(EdgeHistory(graph, "link", history.degrees).add(edges([1], [21], ["tulips"])))
    for node, side in ((1, "source"), (21, "target")):
        pair = (one.vectors(np.array([node]), side) for one in (component, restored))
        torch.testing.assert_close(*pair)


def test_texts_of_other_edges_are_not_read(graph, monkeypatch):
    asked = []
    texts = type(graph).texts
    monkeypatch.setattr(type(graph), "texts", lambda self, of: asked.extend(of) or texts(self, of))
    assert read(graph, np.arange(30)) is not None
    assert set(asked) == set(range(30))


def test_texts_without_common_words_have_no_topics(make_network):
    rows = [{"source": "a", "target": f"t{at}", "text": f"word{at}"} for at in range(5)]
    graph = make_network(rows, config=PrepareConfig(tokenizer=None, progress=False))
    assert read(graph, np.arange(5)) is None


def test_a_target_without_words_has_no_topics(make_network):
    rows = [
        {"source": f"s{at % 3}", "target": f"t{at % 4}", "text": (GARDEN + MUSIC)[at % 6]}
        for at in range(24)
    ]
    rows += [{"source": "s0", "target": "silent", "text": ""}] * 3
    graph = make_network(rows, config=PrepareConfig(tokenizer=None, progress=False))
    component = read(graph, np.arange(graph.num_edges))
    assert not component.topics[graph.num_nodes - 1].any()
    assert component.topics[graph.num_nodes - 2].any()


def test_the_newest_texts_of_a_target_are_read():
    targets = np.array([5, 3, 5, 5, 3, 4])
    np.testing.assert_array_equal(topics._newest(targets, 2), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(topics._newest(targets, 1), [3, 4, 5])
    np.testing.assert_array_equal(topics._spaced(targets, 3), [5, 5, 3])
    np.testing.assert_array_equal(topics._spaced(targets, 9), targets)


def test_few_different_texts_have_few_topics():
    """Singular values that are rounding errors are not topics."""
    draw = np.random.default_rng(1)
    different = [" ".join(f"w{word}" for word in draw.integers(0, 3000, 10)) for _ in range(20)]
    often = np.arange(1, 21) ** -1.5
    drawn = draw.choice(20, 50_000, p=often / often.sum())
    words = topics._word_topics([different[at] for at in drawn])
    assert words is not None
    assert words.size(1) <= 20
