"""Edges that arrive after training, with nodes that the network does not have."""

from dataclasses import replace

import numpy as np
import pytest

from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.sampler import EgoSampler
from edgeformers.errors import InputError
from edgeformers.inference.edge_history import NewEdges
from tests.inference.test_link_scorer import old_link_run

TEXTS = ["much better than before", "try to reboot", "", "a good film", None, "broken again"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Fitted predictors by kind of network; `replace` gives one with its own edges."""
    runs = {
        "bipartite": old_link_run(tmp_path_factory.mktemp("b"), "link-run", "reviews"),
        "directed": old_link_run(tmp_path_factory.mktemp("d"), "reply-run", "replies"),
        "undirected": old_link_run(tmp_path_factory.mktemp("u"), "reply-run", "replies"),
    }
    runs["undirected"].network.graph.is_directed = False
    return runs


@pytest.fixture(params=["bipartite", "directed", "undirected"])
def fitted(request, runs):
    return replace(runs[request.param], attached=runs[request.param].network)


def known(fitted, side, count):
    """The ids of some nodes on a side."""
    first = 0 if side == "source" else fitted.scorer.candidates[0]
    return fitted.nodes.ids_of(np.arange(first, first + count))


def new_edges(fitted):
    """Edges between known and new nodes of all combinations; "new" is on both sides."""
    (s1, s2), (t1, t2, t3) = known(fitted, "source", 2), known(fitted, "target", 5)[2:]
    ends = [("new", t1), (s1, "thing"), ("new", t2), (s2, t3), ("new", "thing"), (s2, "thing")]
    ends += [(s1, "new"), ("later", "new"), ("new", t1), (s1, t2)]
    return [(source, target, TEXTS[at % len(TEXTS)]) for at, (source, target) in enumerate(ends)]


def test_a_new_source_gets_recommendations_from_its_edges(fitted):
    t1, t2 = known(fitted, "target", 4)[2:]
    fitted.update([("new", t1, "a good film"), ("new", t2, "try to reboot")])
    edges = [(t2, "try to reboot"), (t1, "a good film")]
    count = len(fitted.scorer.candidates)
    described = {r.node: r.score for r in fitted.recommend(edges=edges, k=count)}
    for answer in fitted.recommend("new", k=count):
        assert answer.node not in (t1, t2, "new")
        if fitted.network.graph.is_bipartite:
            assert answer.score == pytest.approx(described[answer.node], rel=1e-3, abs=1e-4)
        assert sum(answer.components.values()) == pytest.approx(answer.score, rel=1e-3, abs=1e-4)
    seen = {r.node for r in fitted.recommend("new", k=count, exclude_seen=False)}
    assert {t1, t2} <= seen


def test_a_new_target_is_recommended_with_its_folded_in_key(fitted):
    source, other = known(fitted, "source", 2)
    fitted.recommend(other, 1)  # computes the keys of all candidates
    fitted.update([(source, "thing", "a good film")])
    answers = fitted.recommend(other, len(fitted.scorer.candidates), exclude_seen=False)
    (thing,) = [answer for answer in answers if answer.node == "thing"]
    assert fitted.score([(other, "thing")])[0] == pytest.approx(thing.score, rel=1e-4, abs=1e-5)
    assert fitted.explain(other, "thing") == pytest.approx(thing.components, abs=1e-4)
    if fitted.network.graph.is_bipartite:
        (number,) = fitted.nodes.numbers([source], "source")
        edges = NewEdges(source=np.array([number]), target=np.array([-1]), texts=["a good film"])
        key = fitted.scorer.fold_in_target(edges)
        query = fitted.scorer.queries(fitted.nodes.numbers([other], "source"))
        assert query.vectors[0] @ key == pytest.approx(thing.score, rel=1e-3, abs=1e-4)
    assert "thing" not in {answer.node for answer in fitted.recommend(source, 100)}


def test_one_call_equals_edge_by_edge(fitted):
    other, edges = replace(fitted), new_edges(fitted)
    one = known(fitted, "source", 1)[0]
    other.recommend(one, 1)  # its keys are renewed with each edge
    fitted.update(edges)
    for edge in edges:
        other.update([edge])
    assert fitted.scorer.candidates.tolist() == other.scorer.candidates.tolist()
    assert fitted.live_nodes.later() == other.live_nodes.later()
    sources = {source for source, *_ in edges}
    for node in sources:
        expected = {r.node: r for r in fitted.recommend(node, 1000)}
        answers = other.recommend(node, 1000)
        assert {answer.node for answer in answers} == expected.keys()
        for answer in answers:
            parts = expected[answer.node].components
            assert answer.components == pytest.approx(parts, rel=1e-3, abs=1e-4)


def test_a_second_edge_folds_a_new_node_in_again(fitted):
    (t1, t2), (source, other) = known(fitted, "target", 4)[2:], known(fitted, "source", 2)
    fitted.update([("new", t1, "a good film"), (source, "thing", "broken")])
    before = fitted.recommend("new", 3, exclude_seen=False), fitted.score([(source, "thing")])
    fitted.update([("new", t2, "try to reboot"), (other, "thing", "a good film")])
    assert fitted.recommend("new", 3, exclude_seen=False) != before[0]
    assert fitted.score([(source, "thing")]) != before[1]


TIMES = [np.datetime64("2030-01-01", "D") + day for day in range(10)]


@pytest.mark.parametrize(
    "times", [TIMES[:9], [*TIMES[:9], None], [str(time) for time in TIMES], [*range(9), -(2**63)]]
)
def test_unusable_times_change_nothing(fitted, times):
    other, edges = replace(fitted), new_edges(fitted)
    with pytest.raises(InputError, match="times"):
        fitted.update(edges, times=times)
    assert len(fitted.live_nodes) == len(fitted.nodes)
    for one in (fitted, other):
        one.update(edges, times=TIMES)
    assert fitted.recommend("new", 100) == other.recommend("new", 100)


@pytest.mark.parametrize("edge", [("s", "t"), ("s", "t", 5), ("s", "t", float("nan")), None])
def test_unusable_edges_change_nothing(fitted, edge):
    with pytest.raises(InputError, match="edge 11"):
        fitted.update([*new_edges(fitted), edge])
    assert len(fitted.live_nodes) == len(fitted.nodes)
    fitted.update(new_edges(fitted))


def test_new_nodes_are_explained_and_embedded(fitted):
    fitted.update(new_edges(fitted))
    for node in ("new", "later", known(fitted, "source", 1)[0]):
        for answer in fitted.recommend(node, 200, explain=3):
            total = sum(reason.weight for reason in answer.because)
            assert total == pytest.approx(answer.score, rel=1e-3, abs=1e-3)
    assert fitted.embed_nodes(["new", "later"]).shape == (2, fitted.width)
    assert not np.allclose(*fitted.embed_nodes(["new", "later"]))
    with pytest.raises(InputError, match="'newer'"):
        fitted.recommend("newer")


def test_an_id_is_a_source_and_a_target_of_its_own(runs):
    fitted = replace(runs["bipartite"])
    (t1,), (s1,) = known(fitted, "target", 1), known(fitted, "source", 1)
    fitted.update([("both", t1, "a good film")])
    with pytest.raises(InputError, match="target 'both'"):
        fitted.score([(s1, "both")])
    fitted.update([(s1, "both", "try to reboot")])
    assert len(fitted.live_nodes) == len(fitted.nodes) + 2
    assert np.isfinite(fitted.score([(s1, "both"), ("both", "both")])).all()


def test_new_nodes_are_not_saved(fitted, tmp_path):
    tensors = {name: tensor.clone() for name, tensor in fitted.head_tensors().items()}
    fitted.update(new_edges(fitted))
    assert len(fitted.nodes) == fitted.network.graph.num_nodes
    for name, tensor in fitted.head_tensors().items():
        assert (tensor == tensors[name]).all()


SECRET = "a secret that nobody may read"


def live_texts(fitted, name):
    """Everything that answers say to a node, to new nodes and to every third other one."""
    nodes = [*fitted.nodes.ids_of(np.arange(0, len(fitted.nodes), 3)), name, "new", "later"]
    answers = []
    for node in nodes:
        if fitted.live_nodes.numbers([node], "source")[0] >= 0:
            answers += fitted.recommend(node, 50, explain=5, exclude_seen=False)
    reasons = [reason for one in answers for reason in [*one.because, *one.quotes]]
    return {reason.text for reason in reasons}


def without(fitted, edges):
    """The text vectors of all nodes if edges of the network were never read."""
    graph, loader = fitted.network.graph, fitted.network.loader
    keep = fitted.network.graph.split(fitted.network.split) == 0
    keep[edges] = False
    adjacency = build_adjacency(graph.src, graph.dst, graph.num_nodes, keep=keep)
    samplers = {
        f"{side}_sampler": EgoSampler(adjacency, getattr(loader, f"{side}_sampler").sizes)
        for side in ("source", "target")
    }
    return replace(fitted, attached=replace(fitted.network, loader=replace(loader, **samplers)))


@pytest.mark.parametrize("side", ["source", "target"])
def test_removed_texts_are_neither_read_nor_shown(fitted, side):
    graph, loader = fitted.network.graph, fitted.network.loader
    first = 0 if side == "source" else int(fitted.scorer.candidates[0])
    node = first + int(np.argmax(graph.adjacency.degrees()[first:][:5]))
    (name,) = fitted.nodes.ids_of([node])
    edges = graph.adjacency.edges_of(node).astype(np.int64)
    texts = {text for text in graph.texts(edges) if text}
    others = np.setdiff1d(np.arange(graph.num_edges), edges)
    texts -= {*graph.texts(others)}
    assert texts & live_texts(fitted, name)  # they were shown before
    assert fitted.remove_edges(name, side) == len(edges)
    assert not texts & live_texts(fitted, name)
    expected, nodes = without(fitted, edges), np.arange(graph.num_nodes)
    small = loader.source_sampler.adjacency.degrees() <= sum(loader.source_sampler.sizes)
    assert small.any()
    read = fitted.embed_nodes(nodes)
    np.testing.assert_allclose(read[small], expected.embed_nodes(nodes)[small], atol=1e-5)
    assert fitted.remove_edges(name, side) == 0


def test_a_removal_undoes_an_update(fitted):
    never, edges = replace(fitted), new_edges(fitted)
    source = known(fitted, "source", 1)[0]
    fitted.recommend(source, 1)
    kept = [edge for edge in edges if "new" not in edge[:2]]
    never.update(kept)
    fitted.update([(*edge[:2], SECRET) if "new" in edge[:2] else edge for edge in edges])
    assert fitted.remove_edges("new") == len(edges) - len(kept)
    with pytest.raises(InputError, match="'new'"):
        fitted.recommend("new")
    with pytest.raises(InputError, match="'later'"):  # had an edge with it only
        fitted.recommend("later")
    for node in known(fitted, "source", 5):
        expected = {r.node: r.components for r in never.recommend(node, 1000)}
        answers = fitted.recommend(node, 1000, explain=3)
        assert {answer.node for answer in answers} == expected.keys()
        for answer in answers:
            assert answer.components == pytest.approx(expected[answer.node], rel=1e-3, abs=1e-3)
    assert SECRET not in live_texts(fitted, "new")
    for side in ("source", "target"):
        similar = fitted.similar(known(fitted, side, 1)[0], 1000, side=side)
        assert not {"new", "later"} & {each.node for each in similar}
    np.testing.assert_array_equal(
        fitted.scorer.group[: len(fitted.nodes)], never.scorer.group[: len(fitted.nodes)]
    )


def test_a_removed_node_may_return(fitted):
    t1, t2 = known(fitted, "target", 4)[2:]
    (s1,) = known(fitted, "source", 1)
    fitted.update([("new", t1, SECRET), (s1, "thing", SECRET)])
    fitted.remove_edges("new", "source")
    fitted.remove_edges("thing", "target")
    assert fitted.remove_edges("nobody") == 0
    fitted.update([("new", t2, "try to reboot"), (s1, "thing", "a good film")])
    seen = {a.node for a in fitted.recommend("new", 1000, exclude_seen=True)}
    assert t1 in seen
    assert t2 not in seen
    assert "thing" in seen
    assert SECRET not in live_texts(fitted, "new")


def test_removed_links_are_not_seen_any_more(fitted):
    graph = fitted.network.graph
    number = int(graph.src[0])
    (name,) = fitted.nodes.ids_of([number])
    linked = {*fitted.nodes.ids_of(graph.dst[graph.src == number])} - {name}
    assert not linked & {answer.node for answer in fitted.recommend(name, 1000)}
    fitted.remove_edges(name, "source")
    assert linked <= {answer.node for answer in fitted.recommend(name, 1000)}
    (target, *_) = linked
    fitted.update([(name, target, "again")])
    assert target not in {answer.node for answer in fitted.recommend(name, 1000)}


def test_a_target_without_edges_is_not_recommended_until_it_has_one(fitted):
    (target,) = known(fitted, "target", 6)[5:]
    (source,) = known(fitted, "source", 1)

    def is_recommended():
        return target in {a.node for a in fitted.recommend(source, 1000, exclude_seen=False)}

    assert is_recommended()
    fitted.remove_edges(target)
    assert not is_recommended()
    fitted.update([(source, target, "a good film")])
    assert is_recommended()
