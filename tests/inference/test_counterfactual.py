"""Scores without an edge: the same as before the edge arrived, or in a network without it."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch

from edgeformers.data.prepare import prepare
from edgeformers.errors import InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.inference.components import (
    ActivityComponent,
    ALSComponent,
    EASEComponent,
    LightGCNComponent,
    ReciprocityComponent,
)
from edgeformers.inference.saved_components import GROUPS, Ensemble, degree_group

USERS, ITEMS = 12, 9
KINDS = ("bipartite", "undirected", "directed")
EVERYTHING = {"links.popularity_bias": True, "links.collaborative": True}
NAMES = ("lightgcn", "als", "ease", "activity_profiles", "reciprocity")


def table(kind):
    """Every node has edges, and no two pairs of a network with one node type are the same."""
    draw, rows = np.random.default_rng(0), []
    for user in range(USERS):
        pool = [i for i in range(USERS) if i > user] if kind == "undirected" else range(ITEMS)
        for item in draw.permutation([i for i in pool if kind == "bipartite" or i != user])[:5]:
            text = f"user {user} writes to {item} about {draw.choice(['tents', 'bread', 'music'])}"
            names = ("u", "i") if kind == "bipartite" else ("n", "n")
            rows.append((f"{names[0]}{user}", f"{names[1]}{item}", text))
    return pd.DataFrame(rows, columns=["source", "target", "text"])


def network(frame, kind, folder, tokenizer="train:300"):
    types = {} if kind == "bipartite" else {"bipartite": False, "directed": kind == "directed"}
    frame = frame.assign(part=["train"] * (len(frame) - 1) + ["val"])
    more = {"split": "part", "tokenizer": tokenizer, "progress": False}
    return prepare(frame, folder, **types, **more)


@pytest.fixture(scope="module", params=KINDS)
def graph(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "network"
    return network(table(request.param), request.param, folder)


def kind_of(graph):
    return KINDS[0] if graph.is_bipartite else KINDS[1 + graph.is_directed]


def component(name, graph, fitted):
    """A component of random vectors; the factors of ALS solve for the links of each source."""
    draw = torch.Generator().manual_seed(len(name))
    query, key, left = (torch.randn(graph.num_nodes, 4, generator=draw) for _ in range(3))
    if name == "reciprocity":
        pairs = sorted({(int(d), int(s)) for s, d in zip(graph.src, graph.dst, strict=True)})
        offsets = np.searchsorted([d for d, _ in pairs], np.arange(graph.num_nodes + 1))
        return ReciprocityComponent(torch.from_numpy(offsets), torch.tensor([s for _, s in pairs]))
    if name == "als":
        als = ALSComponent(query, key, key.double().T @ key.double() + torch.eye(4), 1.0)
        for source in range(graph.num_sources):
            linked = fitted._history.targets_of(source)
            if len(linked):
                parts = als.history_parts(*np.unique(linked, return_counts=True))
                als.query[source] = parts.sum(0)
        return als
    if name == "ease":
        return EASEComponent(query, key, left)
    return {"lightgcn": LightGCNComponent, "activity_profiles": ActivityComponent}[name](query, key)


def fitted_on(graph, names, settings, seed=0):
    """An untrained model with an ensemble of random weights."""
    usual = {"model.node_width": 8, "data.source_neighbors": [4], "data.target_neighbors": [3]}
    settings = {**usual, **settings, "train.seed": seed}
    estimator = LinkPredictor("scratch:2x32", settings=settings, show=False, device="cpu")
    fitted = estimator.make_objective(graph).fitted
    fitted.model.eval()
    draw = torch.Generator().manual_seed(seed)
    for parameter in [*fitted.model.parameters(), *fitted.head.parameters()]:
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw)  # texts differ more
    components = [component(name, graph, fitted) for name in names]
    return replace(
        fitted,
        ensemble=Ensemble(
            components=components,
            weights=0.1 + torch.rand(GROUPS, 1 + len(names), generator=draw),
            group=torch.from_numpy(degree_group(fitted._history.degrees)),
        ),
    )


def usable(graph, names):
    """Reciprocity is for directed networks with one node type."""
    return [name for name in names if name != "reciprocity" or kind_of(graph) == "directed"]


def pair(graph):
    """A source, a target that it is linked to, and one that it has no edge with.

    Without the first two's edge, nodes are numbered in the same order.
    """
    source = int(graph.node_index.numbers(["u5" if graph.is_bipartite else "n5"], "source")[0])
    ends = np.stack([graph.src, graph.dst])
    around = np.unique(ends[:, (ends == source).any(0)])
    linked = int(graph.dst[graph.src == source][-1])
    first = graph.num_sources if graph.is_bipartite else 0
    other = np.setdiff1d(np.arange(first, graph.num_nodes), [*around, source])[0]
    return graph.node_names([source, linked, int(other)])


def all_scores(recommendations, source=None):
    """The components of all scores, except for that of the source itself."""
    return {one.node: one.components for one in recommendations if one.node != source}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for node, components in expected.items():
        assert found[node] == pytest.approx(components, abs=1e-4), node


def everything(fitted, node=None, **asked):
    return all_scores(fitted.recommend(node, k=99, exclude_seen=False, **asked), node)


COMBINATIONS = [
    (names, settings)
    for count in range(len(NAMES) + 1)
    for names in combinations(NAMES, count)
    for settings in ({}, EVERYTHING, {**EVERYTHING, "links.normalize": True})
    if count in (0, 1, len(NAMES)) or settings == EVERYTHING
]


@pytest.mark.parametrize(("names", "settings"), COMBINATIONS, ids=str)
def test_removing_an_edge_undoes_its_arrival(graph, names, settings):
    names = usable(graph, names)
    fitted = fitted_on(graph, names, settings)
    source, _, other = pair(graph)
    before = everything(fitted, node=source)
    fitted.update([(source, other, "a later text")])
    after = everything(fitted, node=source)
    found = fitted.what_if(source, 99, without=[other], exclude_seen=False)
    assert_same(all_scores(found.before, source), after)
    assert_same(all_scores(found.after, source), before)
    assert any(abs(after[node]["text"] - before[node]["text"]) > 0.01 for node in after)
    for one in fitted.recommend(source, 99, exclude_seen=False, explain=99):
        for reason in one.because if one.node != source else ():
            if reason.kind == "history" and reason.node == other:
                expected = one.score - sum(before[one.node].values())
                assert reason.effect == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("settings", [{}, EVERYTHING, {"links.normalize": True}], ids=str)
def test_texts_are_read_as_in_a_network_without_the_edge(graph, settings, tmp_path):
    all_edges = {"data.source_neighbors": [20], "data.target_neighbors": [20]}
    fitted = fitted_on(graph, ["ease"], {**all_edges, **settings})
    source, linked, _ = pair(graph)
    frame = table(kind_of(graph))
    ends = {source, linked}
    rest = frame[[{s, t} != ends for s, t in zip(frame.source, frame.target, strict=True)]]
    without = network(rest, kind_of(graph), tmp_path / "without", tokenizer=None)
    expected = everything(fitted.attach(without), node=source)
    what_if = fitted.what_if(source, 99, without=[linked], exclude_seen=False)
    found = all_scores(what_if.after, source)
    assert {node: parts["text"] for node, parts in found.items()} == pytest.approx(
        {node: parts["text"] for node, parts in expected.items()}, abs=1e-4
    )


def test_new_sources_lose_edges_as_if_they_never_had_them(graph):
    fitted = fitted_on(graph, usable(graph, NAMES), EVERYTHING)
    names = graph.node_names(np.arange(graph.num_nodes - 5, graph.num_nodes))
    edges = [(name, f"I like {name}") for name in names] + [("unknown", "what is this")]
    found = fitted.recommend(edges=edges, k=99, exclude_seen=False, explain=99)
    named = 0
    for one in found:
        for reason in one.because:
            if reason.kind == "history":
                left = [edge for edge in edges if edge[0] != (reason.node or "unknown")]
                rest = sum(everything(fitted, edges=left)[one.node].values())
                assert reason.effect == pytest.approx(one.score - rest, abs=1e-4)
                named += 1
    assert named
    what_if = fitted.what_if(edges=edges, without=[names[0]], k=3)
    assert what_if.after == fitted.recommend(edges=[e for e in edges if e[0] != names[0]], k=3)


def test_nodes_that_arrived_lose_edges_too(graph):
    fitted = fitted_on(graph, usable(graph, NAMES), EVERYTHING)
    source, linked, other = pair(graph)
    fitted.update([("new", linked, "an edge"), (source, "thing", "an edge")])
    before = everything(fitted, node="new"), everything(fitted, node=source)["thing"]
    fitted.update([("new", other, "a later edge"), ("new", "thing", "a later edge")])
    found = fitted.what_if("new", 99, without=[other, "thing"], exclude_seen=False).after
    assert_same(all_scores(found, "new"), before[0])
    (one,) = (
        one
        for one in fitted.recommend(source, 99, exclude_seen=False, explain=99)
        if one.node == "thing"
    )
    for quote in one.quotes:
        if quote.node == "new":
            expected = one.score - sum(before[1].values())
            assert quote.effect == pytest.approx(expected, abs=1e-4)


def test_a_quoted_text_has_the_effect_of_its_edge(graph):
    fitted = fitted_on(graph, usable(graph, NAMES), EVERYTHING)
    source, _, target = pair(graph)
    (other,) = graph.node_names([1])
    before = everything(fitted, node=source)
    fitted.update([(other, target, "a later text")])
    (one,) = (
        one
        for one in fitted.recommend(source, 99, exclude_seen=False, explain=99)
        if one.node == target
    )
    effects = [quote.effect for quote in one.quotes if quote.text == "a later text"]
    text_weight = one.components["text"] - before[target]["text"]
    assert effects == pytest.approx([one.score - sum(before[target].values())], abs=1e-4) or (
        not effects and text_weight <= 0
    )


def test_ranking_again_recommends_what_is_no_longer_linked(graph):
    fitted = fitted_on(graph, usable(graph, NAMES), EVERYTHING)
    source, linked, other = pair(graph)
    found = fitted.what_if(source, 99, without=[linked])
    before, after = ([one.node for one in part] for part in (found.before, found.after))
    assert linked not in before
    assert sorted(after) == sorted([*before, linked])
    scores = [one.score for one in found.after]
    assert scores == sorted(scores, reverse=True)
    short = fitted.what_if(source, 3, without=[linked])
    assert short.after == found.after[:3]
    with pytest.raises(InputError, match=f"no edge with '{other}'"):
        fitted.what_if(source, without=[other])
