"""Preferences for new targets: values by hand, later edges, removals."""

import numpy as np
import pytest
import torch

from edgeformers.data.times import DAY
from edgeformers.inference.novelty_preference import PRIOR_LINKS, NoveltyPreferenceComponent
from edgeformers.inference.temporal_components import NoveltyComponent
from tests.inference.test_components import N, edges, history_of
from tests.inference.test_temporal_components import departures, timed

SOURCES, TARGETS = np.array([0, 1, 0, 1, 1]), np.array([2, 2, 3, 3, 4])
DAYS = np.array([0, 2, 10, 20, 20])  # 1 -> 2 after 2 days, 1 -> 3 after 10; the others are first
MEMORY = 4.0


def fit(sources=SOURCES, targets=TARGETS, days=DAYS, size=N, memory=MEMORY):
    novelty = NoveltyComponent.fit(targets, DAY * days, size, memory)
    return NoveltyPreferenceComponent.of(novelty, sources, targets, DAY * days)


def preference(component, *nodes):
    """The queries of sources, which decay with time, relative to that of a mean of 1."""
    return component.vectors(np.array(nodes), "source") / component._query()


def scores(component):
    nodes = np.arange(9)
    return component.vectors(nodes, "source") @ component.vectors(nodes, "target").T


def test_a_preference_is_the_mean_novelty_of_links_relative_to_all():
    component = fit()
    own = np.exp(-np.array([2, 10]) / MEMORY)
    assert component.mean.item() == pytest.approx(own.mean())
    assert component.counts.tolist() == [0, 2, 0, 0, 0, 0]  # first edges do not count
    assert not preference(component, 0, 1, 9).any()  # source 1 has all links that count
    component.update(history_of().add(timed([0, 0], [2, 4], [24, 21])))
    novelty = np.exp(-np.array([24, 1]) / MEMORY)
    expected = (novelty.sum() - 2 * own.mean()) / (2 + PRIOR_LINKS)
    assert preference(component, 0).item() == pytest.approx(expected, rel=1e-5)


def test_later_edges_give_what_fitting_with_them_gives():
    later = [0, 7, 7, 1], [4, 4, 8, 8], [22, 23, 24, 30]
    grown, history = fit(), history_of()
    for edge in zip(*later, strict=True):
        grown.update(history.add(timed(*([end] for end in edge))))
    together = [np.append(a, b) for a, b in zip((SOURCES, TARGETS, DAYS), later, strict=True)]
    fitted = fit(*together, size=9)
    fitted = NoveltyPreferenceComponent(**fitted.tensors() | {"mean": grown.mean})
    torch.testing.assert_close(scores(grown), scores(fitted))
    folded = grown.fold_in(timed([-1, -1], [4, 8], [23, 24]), "source")
    torch.testing.assert_close(folded, grown.vectors(np.array([7]), "source")[0])


def test_the_order_of_edges_of_one_moment_does_not_matter():
    one, other = fit(), fit()
    one.update(history_of().add(timed([0, 1, 0], [8, 8, 2], [40, 40, 40])))
    other.update(history_of().add(timed([0, 1, 0], [2, 8, 8], [40, 40, 40])))
    torch.testing.assert_close(preference(one, 0, 1), preference(other, 0, 1))


def test_memories_are_separated_and_mixed():
    component = fit(memory=[2.0, 30.0]).mixed(torch.tensor([3.0, -1.0]))
    component.check(N)
    together = component.vectors(np.array([0, 1]), "source")
    single = [one.vectors(np.array([0, 1]), "source") for one in component.each()]
    torch.testing.assert_close(together, torch.cat(single, 1))


def test_removed_edges_count_no_more():
    component, history = fit(), history_of()
    component.update(history.add(timed([1, 7], [5, 3], [30, 31])))
    component.update(history.add(timed([1], [5], [31])))
    links = np.array([2, 3, 4, 5]), np.array([1, 1, 1, 2]), np.array([1, 1, 1, 0])
    before = component.vectors(np.array([1]), "source")[0]
    without = component.query_without(before, *links, 1)
    component.remove(departures(5, [1], {5: 2}, history, {1: links}))
    torch.testing.assert_close(component.vectors(np.array([1]), "source")[0], without)
    assert 0 < without.item() / before.item() < 1
    component.remove(departures(7, [3], {3: 1}, history))
    assert not preference(component, 7).any()
    assert not component.query_without(before, *links[:2], np.zeros(4, int), 1).any()


def test_a_source_without_links_has_no_preference():
    assert not fit().fold_in(edges([-1], [-1]), "source").any()


def test_shapes_are_checked():
    tensors = fit().tensors()
    with pytest.raises(ValueError, match="sums"):
        NoveltyPreferenceComponent(**tensors | {"sums": tensors["sums"][:2]}).check(N)
