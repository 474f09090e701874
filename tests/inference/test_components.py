"""Every component of a link score: its products, fold-in of new nodes, and later edges."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from edgeformers.inference.audience import AudienceComponent
from edgeformers.inference.components import (
    ActivityComponent,
    ALSComponent,
    EASEComponent,
    LightGCNComponent,
    ReciprocityComponent,
)
from edgeformers.inference.edge_history import EdgeHistory, NewEdges
from edgeformers.inference.saved_components import COMPONENTS, restore_component
from edgeformers.inference.temporal_components import (
    DAY,
    DecayingComponent,
    RecentHistoryComponent,
)
from edgeformers.inference.topics import TopicsComponent
from edgeformers.inference.trained_components import PopularityComponent
from edgeformers.models.link_head import LinkHead

N, R = 6, 2
KEYS = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [4.0, 1.0], [1.0, 1.0]])
QUERIES = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])


def make(kind):
    """A component of two sources (0, 1) and four targets (2 to 5)."""
    query, key = QUERIES.clone(), KEYS.clone()
    if kind is ALSComponent:
        return ALSComponent(query, key, key.double().T @ key.double() + 3 * torch.eye(R), 0.5)
    if kind is EASEComponent:
        return EASEComponent(query, key, key.flip(1), penalty=2.0)
    if kind is RecentHistoryComponent:
        links = (torch.tensor([0, 2, 4, 4, 4, 4, 4]), torch.tensor([2, 3, 4, 5]))
        days = DAY * torch.tensor([10, 12, 9, 12])
        return RecentHistoryComponent(query, key, key.flip(1), 2.0, *links, days, memory=2.0)
    if kind is AudienceComponent:
        return AudienceComponent(query, key, key.flip(1))
    if kind is TopicsComponent:  # which knows no words: only links count here
        return TopicsComponent(query, key, key.flip(1), torch.zeros(16, R), torch.zeros(R))
    if issubclass(kind, DecayingComponent):
        links = np.array([2, 2, 4, 3, 5]), DAY * np.array([1, 3, 9, 12, 12])
        return kind.fit(*links, N, memory=2.0)
    if kind is ReciprocityComponent:
        return ReciprocityComponent(torch.tensor([0, 0, 2, 2, 2, 2, 2]), torch.tensor([0, 2]))
    return kind(query, key)


@pytest.fixture(params=COMPONENTS.values(), ids=COMPONENTS)
def component(request):
    return make(request.param)


def history_of(bipartite=True, directed=True):
    """The history of a network with the edges 0 -> 2, 0 -> 2, 0 -> 3, 1 -> 4 and 1 -> 5."""
    graph = SimpleNamespace(
        src=np.array([0, 0, 0, 1, 1]),
        dst=np.array([2, 2, 3, 4, 5]),
        num_nodes=N,
        is_positive=np.ones(5, bool),
        is_bipartite=bipartite,
        is_undirected=not bipartite and not directed,
        split=lambda name: np.zeros(5, np.uint8),
    )
    return EdgeHistory(graph, "link", np.zeros(N, np.int64))


def edges(source, target, texts=None):
    return NewEdges(
        source=np.array(source, np.int64),
        target=np.array(target, np.int64),
        texts=texts or ["good"] * len(source),
    )


def new_source(*targets):
    return edges([-1] * len(targets), targets)


def new_target(*sources):
    return edges(sources, [-1] * len(sources))


def test_restored_components_fold_in_alike(component):
    restored = restore_component(component.name, component.tensors())
    assert type(restored) is type(component)
    for new, side in ((new_source(2, 3, 3, -1), "source"), (new_target(0, 1, 1), "target")):
        torch.testing.assert_close(restored.fold_in(new, side), component.fold_in(new, side))


def test_a_new_node_without_known_neighbors_has_zeros(component):
    if not isinstance(component, DecayingComponent):  # the same for all sources
        assert not component.fold_in(new_source(-1), "source").any()
    assert not component.fold_in(new_target(-1), "target").any()


def test_the_parts_of_a_history_sum_to_the_folded_in_query(component):
    parts = component.history_parts(np.array([2, 3]), np.array([1, 2]))
    if parts is not None:
        folded = component.fold_in(new_source(2, 3, 3), "source")
        assert len(parts) == 2
        torch.testing.assert_close(parts.sum(0), folded)


def test_mean_components_average_what_a_node_is_linked_to():
    for kind in (LightGCNComponent, ActivityComponent):
        component = make(kind)
        folded = component.fold_in(new_source(2, 3, 3), "source")
        torch.testing.assert_close(folded, KEYS[[2, 3]].mean(0))
        folded = component.fold_in(new_target(0, 1, 1), "target")
        torch.testing.assert_close(folded, QUERIES[[0, 1]].mean(0))


@pytest.mark.parametrize("side", ["source", "target"])
def test_als_solves_the_weighted_least_squares_problem(side):
    component = make(ALSComponent)
    others = KEYS if side == "source" else QUERIES
    new = new_source(2, 3, 3) if side == "source" else new_target(0, 1, 1)
    linked = [2, 3] if side == "source" else [0, 1]
    y, counts = others[linked].double(), torch.tensor([1.0, 2.0], dtype=torch.float64)
    confidence = torch.ones(N, dtype=torch.float64)
    confidence[linked] += 0.5 * counts
    target = torch.zeros(N, dtype=torch.float64)
    target[linked] = 1.0
    left = (others.double() * confidence[:, None]).T @ others.double() + 3 * torch.eye(R)
    right = (others.double() * (confidence * target)[:, None]).sum(0)
    expected = torch.linalg.solve(left, right)
    torch.testing.assert_close(component.fold_in(new, side), expected.float(), atol=1e-5, rtol=1e-4)
    assert len(y) == 2


def test_ease_sums_items_and_regresses_new_ones():
    component = make(EASEComponent)
    folded = component.fold_in(new_source(2, 3, 3), "source")
    torch.testing.assert_close(folded, component.left[[2, 3]].sum(0))
    key = component.fold_in(new_target(1), "target").double()
    x = torch.tensor([0.0, 1.0], dtype=torch.float64)
    q, left = QUERIES[:2].double(), component.left.double()
    slope = (
        q.T @ (q @ key - x) + 2.0 * left.T @ left @ key
    )  # of the ridge regression at its minimum
    torch.testing.assert_close(slope, torch.zeros(R, dtype=torch.float64), atol=1e-5, rtol=0)


def test_a_rare_target_of_few_sources_scores_highest_for_these():
    component = make(EASEComponent)
    key = component.fold_in(new_target(1), "target")
    scores = QUERIES[:2] @ key
    assert scores[1] > scores[0]


def test_history_counts_edges_and_recognizes_new_links():
    history = history_of()
    assert sorted(history.targets_of(0).tolist()) == [2, 2, 3]
    arrivals = history.add(edges([0, 0, 0, 1, -1], [2, 4, 4, -1, 3]))
    assert arrivals.is_new.tolist() == [False, True, False]  # edges of unknown nodes are no links
    assert sorted(history.targets_of(0).tolist()) == [2, 2, 2, 3, 4, 4]
    assert history.popularity.tolist() == [0, 0, 3, 1, 3, 1]


def test_an_undirected_edge_is_a_link_of_both_ends():
    history = history_of(bipartite=False, directed=False)
    arrivals = history.add(edges([0], [5]))
    assert sorted(zip(arrivals.source, arrivals.target, strict=True)) == [(0, 5), (5, 0)]
    assert arrivals.is_new.all()


def test_mean_components_let_new_links_enter_the_mean():
    component = make(LightGCNComponent)
    component.update(history_of().add(edges([0, 0, 0], [4, 4, 2])))
    expected = (2 * QUERIES[0] + KEYS[4]) / 3  # two links before, one is new
    torch.testing.assert_close(component.vectors(np.array([0]), "source")[0], expected)
    torch.testing.assert_close(component.query[1], QUERIES[1])


@pytest.mark.parametrize("seed", range(5))
def test_mean_components_take_in_batches_of_edges_as_they_take_in_single_ones(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    source, target = rng.integers(-1, 2, 60), rng.integers(1, N, 60)
    alone, together = make(LightGCNComponent), make(LightGCNComponent)
    history, links = history_of(), {(0, 2), (0, 3), (1, 4), (1, 5)}
    for v, u in zip(source.tolist(), target.tolist(), strict=True):
        arrivals = history.add(edges([v], [u]))
        assert arrivals.is_new.tolist() == ([(v, u) not in links] if v >= 0 else [])
        links |= {(v, u)} if v >= 0 else set()
        alone.update(arrivals)
    monkeypatch.setattr(EdgeHistory, "targets_of", None)  # a source's edges are not read again
    history = history_of()
    for part in np.split(np.arange(60), [7, 30]):
        together.update(history.add(edges(source[part], target[part])))
    torch.testing.assert_close(together.query, alone.query)
    assert history.num_links.tolist()[:2] == [sum(v == node for v, _ in links) for node in (0, 1)]


def test_an_update_changes_no_tensor_that_other_objects_may_use(component):
    before = {name: (tensor, tensor.clone()) for name, tensor in component.tensors().items()}
    component.update(history_of(bipartite=False).add(edges([0, 3, 0], [4, 0, 2])))
    assert all(torch.equal(tensor, copy) for tensor, copy in before.values())


def test_als_and_ease_answer_as_if_they_had_folded_in_all_links():
    for kind in (ALSComponent, EASEComponent):
        component = make(kind)
        component.query[0] = component.fold_in(new_source(2, 2, 3), "source")
        component.update(history_of().add(edges([0, 0], [5, 2])))
        expected = component.fold_in(new_source(2, 2, 3, 5, 2), "source")
        torch.testing.assert_close(component.vectors(np.array([0]), "source")[0], expected)


def test_reciprocity_adds_pairs():
    component = make(ReciprocityComponent)
    everyone = np.arange(N)
    assert _pairs(component.bonus(everyone, everyone)) == [(1, 0), (1, 2)]
    component.update(history_of(bipartite=False).add(edges([3, 0], [0, 1])))
    assert _pairs(component.bonus(everyone, everyone)) == [(0, 3), (1, 0), (1, 2)]


def test_unknown_nodes_have_no_reciprocity():
    component = make(ReciprocityComponent)
    assert _pairs(component.bonus(np.array([1, -1]), np.array([2, -1, 0]))) == [(0, 0), (0, 2)]


def test_popularity_rises_with_new_edges():
    head = LinkHead(popularity_bias=True, num_nodes=N)
    component = PopularityComponent(head)
    component.update(history_of().add(edges([0, 1, 1], [2, 2, 4])))
    rise = component.vectors(np.arange(N), "target")[:, 0]
    expected = torch.zeros(N)
    expected[2], expected[4] = np.log(5 / 3), np.log(3 / 2)  # 2 edges before and 4 now; 1 and 2
    torch.testing.assert_close(rise, expected)


def _pairs(table):
    return list(zip(table.queries.tolist(), table.candidates.tolist(), strict=True))
