"""Edges that arrive after training, with nodes that the network does not have."""

from dataclasses import replace

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.inference.components import NewEdges
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
