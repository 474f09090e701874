"""Components that know when edges came: values by hand, new units, removals, no leaks."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import TEST, SplitConfig
from edgeformers.estimators import LinkPredictor, load
from edgeformers.evaluation.rolling import RollingLinks, can_roll
from edgeformers.inference import rolling_validation
from edgeformers.inference.audience import AudienceComponent, singular_vectors
from edgeformers.inference.edge_history import Departures
from edgeformers.inference.ensemble import fit_ensemble
from edgeformers.inference.rolling import RollingPredictor
from edgeformers.inference.saved_components import restore_component
from edgeformers.inference.temporal_components import (
    DAY,
    FlatPopularityComponent,
    NoveltyComponent,
    RecentHistoryComponent,
    RecentPopularityComponent,
)
from tests.evaluation.test_rolling import draw_rows
from tests.inference.test_components import N, edges, history_of, make

SETTINGS = {
    "train.epochs": 1,
    "data.source_neighbors": [3],
    "data.target_neighbors": [3],
    "links.ensemble": True,
}


def timed(source, target, days):
    return replace(edges(source, target), times=DAY * np.array(days))


def values(component, nodes):
    """Scores of targets, the same for every source."""
    query = component.vectors(np.array([0]), "source")
    return (query @ component.vectors(np.array(nodes), "target").T)[0].numpy()


def test_recent_popularity_is_the_root_of_decayed_counts():
    component = make(RecentPopularityComponent)  # links to 2, 2, 4, 3, 5 on days 1, 3, 9, 12, 12
    ages = [[11, 9], [0], [3], [0]]
    sums = np.array([sum(np.exp(-age / 2) for age in own) for own in ages])
    share, nodes = sums / sums.max(), [2, 3, 4, 5]
    np.testing.assert_allclose(values(component, nodes), np.sqrt(share), rtol=1e-5)
    flat = make(FlatPopularityComponent)
    np.testing.assert_allclose(values(flat, nodes), share**0.15, rtol=1e-5)


def test_novelty_decays_from_the_first_edge_on():
    component = make(NoveltyComponent)
    component.update(history_of().add(timed([0], [2], [20])))
    expected = np.exp(-np.array([19, 8, 11, 8]) / 2)  # as of day 20
    np.testing.assert_allclose(values(component, [2, 3, 4, 5]), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", [RecentPopularityComponent, NoveltyComponent])
def test_later_edges_give_what_fitting_with_them_gives(kind):
    links, later = (np.array([2, 4, 3]), DAY * np.array([1, 9, 12])), ([3, 7, 2], [20, 400, 401])
    grown, history = kind.fit(*links, N, memory=2.0), history_of()
    for target, day in zip(*later, strict=True):
        grown.update(history.add(timed([0], [target], [day])))
    together = (
        np.concatenate([links[0], later[0]]),
        np.concatenate([links[1], DAY * np.array(later[1])]),
    )
    fitted = kind.fit(*together, 8, memory=2.0)
    nodes = [2, 3, 4, 5, 7]
    np.testing.assert_allclose(values(grown, nodes), values(fitted, nodes), atol=1e-6)
    assert grown.generation == 1  # 200 memories later, keys have a new unit
    assert values(copy(grown), [7])[0] == 0.0  # a copy is as fitted


@pytest.mark.parametrize("kind", [RecentPopularityComponent, NoveltyComponent])
def test_times_before_1970_are_like_any_others(kind):
    targets, days, nodes = np.array([2, 4, 3]), np.array([1, 9, 12]), [2, 3, 4]
    late = kind.fit(targets, DAY * days, N, memory=2.0)
    early = kind.fit(targets, DAY * (days - 9_000), N, memory=2.0)
    np.testing.assert_allclose(values(early, nodes), values(late, nodes), rtol=1e-5)


def test_a_recent_history_before_1970_is_like_any_other():
    late = make(RecentHistoryComponent)
    early = RecentHistoryComponent(**late.tensors() | {"times": late.times - DAY * 9_000})
    pair = (one.vectors(np.array([0]), "source") for one in (early, late))
    torch.testing.assert_close(*pair)


def test_an_edge_without_a_time_is_as_late_as_the_latest():
    given, not_given = make(RecentPopularityComponent), make(RecentPopularityComponent)
    given.update(history_of().add(timed([0], [4], [12])))
    not_given.update(history_of().add(edges([0], [4])))
    np.testing.assert_array_equal(values(given, [2, 3, 4]), values(not_given, [2, 3, 4]))


def test_the_links_of_a_recent_history_fade():
    component = make(RecentHistoryComponent)  # 0: 2 on day 10, 3 on day 12; memory 2 days
    left = component.left
    expected = left[2] * np.exp(-1) + left[3]
    torch.testing.assert_close(component.vectors(np.array([0]), "source")[0], expected)
    component.update(history_of().add(timed([0, 7], [5, 4], [14, 15])))
    expected = left[2] * np.exp(-2) + left[3] * np.exp(-1) + left[5]
    torch.testing.assert_close(component.vectors(np.array([0]), "source")[0], expected)
    torch.testing.assert_close(component.vectors(np.array([7]), "source")[0], left[4])
    parts = component.history_parts(np.array([2, 3, 5]), np.ones(3, int), 0)
    torch.testing.assert_close(parts.sum(0), expected)
    without = component.query_without(
        expected, np.array([2, 3, 5]), np.ones(3, int), np.array([1, 0, 1]), 0
    )
    torch.testing.assert_close(without, left[2] * np.exp(-2) + left[5])


def test_an_edge_that_is_told_late_moves_no_link_back_in_time():
    component, untouched = make(RecentHistoryComponent), make(RecentHistoryComponent)
    component.update(history_of().add(timed([0], [2], [5])))  # linked on day 10 already
    pair = (one.vectors(np.array([0]), "source") for one in (component, untouched))
    torch.testing.assert_close(*pair)


@pytest.mark.parametrize("kind", [RecentPopularityComponent, NoveltyComponent])
def test_memories_are_mixed(kind):
    links = np.array([2, 4, 3]), DAY * np.array([1, 9, 12])
    mixed = kind.fit(*links, N, memory=[2.0, 30.0])
    mixed = kind(**mixed.tensors() | {"mix": torch.tensor([3.0, -1.0])})
    single = [kind.fit(*links, N, memory=memory) for memory in (2.0, 30.0)]
    for later in ([], [([0], [7], [500])]):
        for component in (mixed, *single):
            for edge in later:
                component.update(history_of().add(timed(*edge)))
        expected = 3 * values(single[0], [2, 3, 4, 7]) - values(single[1], [2, 3, 4, 7])
        np.testing.assert_allclose(values(mixed, [2, 3, 4, 7]), expected, atol=1e-6)


@pytest.mark.parametrize("kind", [RecentPopularityComponent, NoveltyComponent])
def test_a_component_saved_with_one_memory_is_restored(kind):
    component = make(kind)
    old = {"levels": component.levels[:, 0], "memory": torch.tensor(2.0).double()}
    restored = restore_component(kind.name, {**old, "latest": component.latest})
    restored.check(N)
    np.testing.assert_array_equal(values(restored, [2, 3, 4]), values(component, [2, 3, 4]))


def audience():
    """Of the links 0 -> 2, 0 -> 3, 1 -> 4 and 1 -> 5, with vectors of targets by hand."""
    item = torch.tensor([[0, 0], [0, 0], [1, 0], [0, 1], [1, 1], [-1, 1]]).float()
    query, key = torch.zeros(N, 2), torch.zeros(N, 2)
    query[0], query[1] = item[2] + item[3], item[4] + item[5]
    key[2:4], key[4:6] = query[0] / 2**0.5, query[1] / 2
    return AudienceComponent(query, key, item)


def cosine(component, source, target):
    vectors = [
        component.vectors(np.array([node]), side)[0]
        for node, side in ((source, "source"), (target, "target"))
    ]
    return float(vectors[0] @ vectors[1])


def test_a_new_target_is_for_those_who_resemble_its_sources():
    component, history = audience(), history_of()
    assert cosine(component, 0, 3) == pytest.approx(1.0)
    assert cosine(component, 1, 2) == pytest.approx(0.5**0.5)
    component.update(history.add(timed([0], [6], [20])))
    assert cosine(component, 0, 6) == pytest.approx(1.0)
    assert cosine(component, 1, 6) == pytest.approx(0.5**0.5)
    component.update(history.add(timed([7], [6], [21])))  # a new source is like those of its target
    assert cosine(component, 7, 2) == pytest.approx(1.0)
    folded = component.fold_in(edges([0], [-1]), "target")
    torch.testing.assert_close(folded, component.vectors(np.array([6]), "target")[0])


def test_an_edge_changes_the_audience_of_its_target_only():
    component = audience()
    before = {side: component.vectors(np.arange(N), side) for side in ("source", "target")}
    component.update(history_of().add(timed([1], [2], [20])))
    for side, node in (("source", 1), ("target", 2)):
        changed = (component.vectors(np.arange(N), side) != before[side]).any(1)
        assert np.flatnonzero(changed).tolist() == [node]


def departures(node, neighbors, lost, history, sources=None):
    return Departures(
        node=node,
        edges=np.empty(0, np.int64),
        link_targets=np.empty(0, np.int64),
        link_edges=np.empty(0, np.int64),
        neighbors=np.array(neighbors),
        sources=sources or {},
        lost=lost,
        new_nodes={"source": np.empty(0, np.int64), "target": np.empty(0, np.int64)},
        history=history,
    )


def test_a_removed_node_leaves_the_audiences_of_others():
    component, history = audience(), history_of()
    before = {side: component.vectors(np.arange(N), side) for side in ("source", "target")}
    component.update(history.add(timed([0, 1, 7, 7], [6, 6, 6, 2], [20, 21, 22, 23])))
    component.remove(departures(7, [2, 6], {6: 1, 2: 1}, history))
    torch.testing.assert_close(component.vectors(np.arange(N), "target"), before["target"])
    assert not component.vectors(np.array([7]), "source").any()
    component.remove(departures(6, [0, 1], {6: 2}, history))
    torch.testing.assert_close(component.vectors(np.arange(N), "source"), before["source"])
    assert not component.vectors(np.array([6]), "target").any()
    links = np.array([2, 3]), np.array([1, 1]), np.array([0, 0])
    component.remove(departures(0, [2, 3], {2: 1, 3: 1}, history, {0: links}))
    assert (
        component.vectors(np.array([2, 3]), "target").abs().max() < 1e-3
    )  # it was their only source


def test_fitted_audiences_tell_groups_apart():
    sources, targets = np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([4, 5, 4, 5, 6, 7, 6, 7])
    item = singular_vectors(sources, targets, 8, rank=2)
    component = AudienceComponent.fit(sources, targets, item)
    component.check(8)
    assert cosine(component, 0, 5) > 0.99
    assert cosine(component, 0, 6) < 0.01


@pytest.fixture
def make_timed(make_network):
    def make(rows, **more):
        splits = [SplitConfig(name="link", how="chronological", fractions=(0.5, 0.2, 0.3))]
        config = PrepareConfig(tokenizer="train:200", progress=False, splits=splits)
        return make_network(rows, config=config, **more)

    return make


def fit(graph):
    predictor = LinkPredictor("scratch:2x32", recipe="fast", settings=SETTINGS, show=False)
    return predictor.fit(graph).fitted_


def rows(edges=240):
    drawn = draw_rows("bipartite", edges=edges, nodes=14, days=40)
    return [{**row, "text": f"words of kind {at % 7}"} for at, row in enumerate(drawn)]


def test_weights_are_chosen_as_of_each_moment_and_saved(make_timed, tmp_path):
    fitted = fit(make_timed(rows()))
    weights = fitted.ensemble.rolling_weights
    assert weights is not None
    assert weights.any()
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model").fitted_
    torch.testing.assert_close(loaded.ensemble.rolling_weights, weights)
    graph = fitted.network.graph
    sources = np.arange(graph.num_sources)
    np.testing.assert_allclose(
        loaded.scorer.scores(sources), fitted.scorer.scores(sources), rtol=1e-4, atol=1e-5
    )
    names = graph.node_names(np.array([int(graph.src[0]), int(graph.dst[1])]))
    shares = loaded.explain(*names)
    np.testing.assert_allclose(sum(shares.values()), loaded.score([tuple(names)])[0], rtol=1e-4)


def test_nothing_later_than_a_query_is_read(make_timed):
    """Texts, ends and labels of later edges change neither weights nor earlier scores."""
    original = rows()
    graph = make_timed(original)
    fitted = fit(graph)
    changed, draw = [dict(row) for row in original], np.random.default_rng(1)
    middle = np.median(graph.times[graph.split("link") == TEST])
    later = np.flatnonzero(graph.times >= middle)
    for column in ("text", "target"):  # in another order, so that tokenizers are the same
        for at, other_at in zip(later, draw.permutation(later), strict=True):
            changed[at][column] = original[other_at][column]
    other = fit(make_timed(changed, out="changed"))
    torch.testing.assert_close(other.ensemble.rolling_weights, fitted.ensemble.rolling_weights)
    tables = []
    for model in (fitted, other):
        own, scores = RollingPredictor(model), []
        for block in RollingLinks(model.network.graph, "link").blocks(own.observe):
            if block.time < middle:
                scores.append(own.scores_at(block.sources, block.time)[:, :3])
        tables.append(np.concatenate(scores))
    assert len(tables[0]) > 5
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-4, atol=1e-5)


def test_few_links_are_kept_where_tables_are_large(make_timed, monkeypatch):
    fitted = fit(make_timed(rows()))
    alone = replace(fitted, ensemble=None)
    every = len(rolling_validation.RollingValidation(alone, []))
    monkeypatch.setattr(rolling_validation, "TABLE_BYTES", 4 * 14 * 12)
    assert 0 < len(rolling_validation.RollingValidation(alone, [])) < every


def test_a_random_split_has_no_weights_for_later_edges(make_network):
    config = PrepareConfig(tokenizer="train:200", progress=False)
    graph = make_network(rows(), config=config)
    assert not can_roll(graph, "link")
    settings = {**SETTINGS, "data.split": "link"}
    predictor = LinkPredictor("scratch:2x32", recipe="fast", settings=settings, show=False)
    ensemble = fit_ensemble(predictor.make_objective(graph).fitted)
    assert ensemble is None or ensemble.rolling_weights is None


def test_updates_with_times_change_recommendations_as_rolling_does(make_timed):
    fitted = fit(make_timed(rows()))
    graph = fitted.network.graph
    links = RollingLinks(graph, "link")
    known = np.flatnonzero(fitted.network.loader.source_sampler.adjacency.degrees() > 0)
    later = np.concatenate([links.earlier, links.arriving])
    later = later[np.isin(graph.src[later], known) & np.isin(graph.dst[later], known)]
    rolling = RollingPredictor(fitted, growth=1.0)
    rolling.observe(later)
    targets, source = known[known >= graph.num_sources], int(graph.src[later[-1]])
    scores = rolling.scores_at(np.array([source]), 0)[0, targets - graph.num_sources]
    names = graph.node_names(np.arange(graph.num_nodes))
    ends = zip(graph.src[later], graph.dst[later], graph.texts(later), strict=True)
    new = [(names[s], names[t], text) for s, t, text in ends]
    dated = replace(fitted, attached=fitted.network)
    fitted.update(new, times=graph.times[later])
    dated.update(new, times=graph.times[later].view("M8[us]").tolist())  # datetimes
    pairs = [(names[source], names[target]) for target in targets]
    by_id = fitted.score(pairs)
    np.testing.assert_allclose(scores, by_id, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(dated.score(pairs), by_id)


def test_a_history_is_divided_by_a_power_of_its_weights():
    component = make(RecentHistoryComponent)
    component = RecentHistoryComponent(**component.tensors() | {"power": torch.tensor(0.5)})
    component.check(N)
    left, total = component.left, 1 + np.exp(-1)
    query = component.vectors(np.array([0]), "source")[0]
    torch.testing.assert_close(query, (left[2] * np.exp(-1) + left[3]) / total**0.5)
    links = np.array([2, 3]), np.array([1, 1])
    torch.testing.assert_close(component.history_parts(*links, 0).sum(0), query)
    folded = component.fold_in(edges([-1, -1], links[0].tolist()), "source")
    torch.testing.assert_close(component.history_parts(*links).sum(0), folded)
    without = component.query_without(query, *links, np.array([0, 1]), 0)
    torch.testing.assert_close(without, left[3])
    assert not component.query_without(query, *links, np.zeros(2, int), 0).any()


def test_a_saved_history_without_a_power_adds_up_its_links():
    tensors = make(RecentHistoryComponent).tensors()
    del tensors["power"]
    restored = restore_component("recent_history", tensors)
    expected = restored.left[2] * np.exp(-1) + restored.left[3]
    torch.testing.assert_close(restored.vectors(np.array([0]), "source")[0], expected)
