"""LinkScorer: a weighted sum of components that ranks, explains, folds in and updates."""

import json
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from edgeformers.errors import FormatError
from edgeformers.evaluation import LinkTable
from edgeformers.inference.components import EASEComponent, LightGCNComponent, ReciprocityComponent
from edgeformers.inference.edge_history import EdgeHistory, NewEdges
from edgeformers.inference.link_scorer import LinkScorer
from edgeformers.inference.load import load_fitted
from edgeformers.inference.saved_components import GROUPS, Ensemble, degree_group

FIXTURES = Path(__file__).parents[1] / "fixtures" / "v0_1"
N = 6
WEIGHTS = torch.tensor([[0.3, 2.0, 1.0], [0.5, 1.0, 3.0], [0.0, 4.0, 0.5]])
GROUP = torch.tensor([1, 0, 0, 0, 2, 0])


@pytest.fixture
def scorer():
    torch.manual_seed(0)
    components = [
        LightGCNComponent(torch.randn(N, 2), torch.randn(N, 2)),
        EASEComponent(torch.randn(N, 3), torch.randn(N, 3), torch.randn(N, 3)),
        ReciprocityComponent(torch.tensor([0, 2, 2, 2, 2, 3, 3]), torch.tensor([1, 4, 0])),
    ]
    return LinkScorer(components, weights=WEIGHTS, group=GROUP, candidates=np.arange(N))


def expected_scores(scorer):
    """The scores of all nodes, pair by pair."""
    first, second, _ = scorer.components
    weights = WEIGHTS[GROUP]
    scores = weights[:, :1] * (first.query @ first.key.T)
    scores += weights[:, 1:2] * (second.query @ second.key.T)
    for node, other in ((0, 1), (0, 4), (4, 0)):
        scores[node, other] += weights[node, 2]
    return scores.numpy()


def test_degree_groups_are_those_of_reports():
    assert degree_group(np.array([0, 1, 3, 4, 10, 11, 500])).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert GROUPS == 3


def test_a_score_is_the_weighted_sum_of_its_components(scorer):
    nodes, expected = np.arange(N), expected_scores(scorer)
    np.testing.assert_allclose(scorer.scores(nodes), expected, rtol=1e-5, atol=1e-6)
    some = np.array([4, 0, 2])
    ranked = scorer.among(some, some[::-1].copy())
    np.testing.assert_allclose(
        ranked.scores(np.arange(3)), expected[some][:, some[::-1]], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        ranked.pick(np.arange(3), np.array([[0], [2], [1]]))[:, 0],
        [expected[4, 2], expected[0, 4], expected[2, 0]],
        rtol=1e-5,
    )


def test_an_explanation_sums_to_the_score(scorer):
    scores = scorer.scores(np.arange(N))
    for source in range(N):
        for target in range(N):
            shares = scorer.explain(source, target)
            assert list(shares) == ["lightgcn", "ease", "reciprocity"]
            assert sum(shares.values()) == pytest.approx(scores[source, target], abs=1e-5)


def test_ranking_gives_the_best_candidates_and_skips_excluded_ones(scorer):
    scores = expected_scores(scorer)
    exclude = LinkTable.from_pairs([0, 0, 1], [1, 2, 5], 2)
    ranking = scorer.rank(np.array([0, 3]), 2, exclude=exclude)
    scores[0, [1, 2]] = scores[3, 5] = -np.inf
    assert ranking.row.tolist() == [0, 0, 1, 1]
    assert ranking.rank.tolist() == [1, 2, 1, 2]
    for row, source in enumerate((0, 3)):
        best = np.argsort(-scores[source])[:2]
        assert ranking.node[ranking.row == row].tolist() == best.tolist()
    everything = scorer.rank(np.array([0]), 99, exclude=LinkTable.from_pairs([0] * 5, range(5), 1))
    assert everything.node.tolist() == [5]
    assert (
        len(scorer.rank(np.array([0]), 3, exclude=LinkTable.from_pairs([0] * N, range(N), 1)).node)
        == 0
    )


def new_edges(source, target):
    return NewEdges(source=np.array(source), target=np.array(target), texts=["x"] * len(source))


@pytest.mark.parametrize(("links", "group"), [([1, -1, 2], 0), ([1, -1, 2, 1], 1), ([1] * 11, 2)])
def test_a_new_source_is_weighted_by_its_number_of_edges(scorer, links, group):
    query = scorer.fold_in_source(new_edges([-1] * len(links), links))
    first, second, _ = scorer.components
    known = sorted({*links} - {-1})
    expected = WEIGHTS[group, 0] * first.key[known].mean(0) @ first.key.T
    expected += WEIGHTS[group, 1] * second.left[known].sum(0) @ second.key.T
    np.testing.assert_allclose(scorer.scores(query)[0], expected, rtol=1e-4, atol=1e-5)
    shares = scorer.shares(query, np.array([3]))[0]
    assert sum(shares.values()) == pytest.approx(float(expected[3]), rel=1e-4, abs=1e-5)


def test_a_new_target_is_scored_through_its_key(scorer):
    key = scorer.fold_in_target(new_edges([0, 1], [-1, -1]))
    mean = scorer.components[0].query[[0, 1]].mean(0).numpy()
    np.testing.assert_allclose(key[:2], mean, rtol=1e-5)
    assert scorer.queries(np.array([0])).vectors.shape[1] == len(key)


def test_new_edges_change_the_group_and_the_scores_of_their_nodes(scorer, simulated):
    class History(EdgeHistory):
        def __init__(self):
            self._trained = LinkTable.from_pairs([], [], N)
            self._arrived, self.popularity = defaultdict(Counter), np.zeros(N, int)
            self.num_links, self.num_nodes = np.zeros(N, int), N
            self._sources, self._is_bipartite = defaultdict(Counter), False
            self._lost = {}
            self._is_undirected, self.degrees = False, np.array([4, 0, 0, 3, 11, 0])

    history, before = History(), scorer.scores(np.arange(N))
    scorer.update(new_edges([3], [5]), history)
    assert history.degrees.tolist() == [4, 0, 0, 4, 11, 1]
    assert scorer.group.tolist() == [1, 0, 0, 1, 2, 0]
    after = scorer.scores(np.arange(N))
    assert not np.allclose(after[3], before[3])
    np.testing.assert_allclose(after[[0, 1, 2, 4]], before[[0, 1, 2, 4]])
    assert scorer.explain(5, 3)["reciprocity"] == pytest.approx(float(WEIGHTS[0, 2]))


def test_an_ensemble_is_saved_as_named_tensors_per_component(scorer):
    weights = torch.cat([torch.ones(GROUPS, 1), WEIGHTS], 1)
    ensemble = Ensemble(components=scorer.components, weights=weights, group=GROUP)
    state = ensemble.tensors()
    assert {"ensemble.group", "ensemble.text.weights", "ensemble.ease.left"} <= state.keys()
    restored = Ensemble.from_tensors(dict(reversed(state.items())), N)  # a file keeps no order
    assert [c.name for c in restored.components] == ["lightgcn", "ease", "reciprocity"]
    assert torch.equal(restored.weights, weights)
    again = LinkScorer(
        restored.components,
        weights=restored.weights[:, 1:],
        group=restored.group,
        candidates=np.arange(N),
    )
    assert np.array_equal(again.scores(np.arange(N)), scorer.scores(np.arange(N)))
    assert Ensemble.from_tensors({"bias": torch.zeros(2)}, N) is None


@pytest.mark.parametrize("lost", ["weights", "group"])
def test_an_incomplete_ensemble_is_rejected(lost):
    state = {f"ensemble.{name}": torch.zeros(4, 2) for name in ("query", "key", "weights", "group")}
    del state[f"ensemble.{lost}"]
    with pytest.raises(FormatError, match=lost):
        Ensemble.from_tensors(state, 4)


@pytest.mark.parametrize("run", ["link-run", "reply-run"])
def test_an_ensemble_of_version_0_1_is_named_and_kept(run):
    """The scale of version 0.1 moves from the vectors into the weights; products stay."""
    old = load_file(FIXTURES / run / "model" / "head.safetensors")
    old = {name.replace("beside.", "ensemble."): value for name, value in old.items()}
    ensemble = Ensemble.from_tensors(old, len(old["ensemble.group"]))
    names = [component.name for component in ensemble.components]
    assert set(names) <= {"lightgcn", "als", "ease", "activity_profiles", "reciprocity"}
    assert ("reciprocity" in names) == (run == "reply-run")
    start = 0
    for at, component in enumerate(ensemble.components, 1):
        if component.name == "reciprocity":
            assert torch.equal(ensemble.weights[:, at], old["ensemble.returned.amount"])
            continue
        stop = start + component.query.size(1)
        assert torch.equal(component.key, old["ensemble.key"][:, start:stop])
        for group in range(GROUPS):
            torch.testing.assert_close(
                ensemble.weights[group, at] * component.query,
                old["ensemble.weights"][group, at] * old["ensemble.query"][:, start:stop],
            )
        start = stop


def old_link_run(folder, run, network):
    """A link run of version 0.1 with its network, in a folder that may be written to."""
    for name in (run, network):
        shutil.copytree(FIXTURES / name, folder / name)
    return load_fitted(folder / run, network=folder / network, device="cpu", show=False)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return old_link_run(tmp_path_factory.mktemp("old"), "reply-run", "replies")


def test_recommendations_carry_shares_that_sum_to_their_scores(loaded):
    wanted = json.loads((FIXTURES / "expected.json").read_text())["reply-run"]
    for source in wanted["recommend"]:
        for one in loaded.recommend(source, 5):
            assert sum(one.components.values()) == pytest.approx(one.score, rel=1e-4, abs=1e-5)
            assert loaded.explain(source, one.node) == pytest.approx(one.components, abs=1e-4)
            assert "text" in one.components
    edges = [tuple(edge) for edge in wanted["new_edges"]]
    for one in loaded.recommend(edges=edges, k=5):
        assert sum(one.components.values()) == pytest.approx(one.score, rel=1e-4, abs=1e-5)


def test_later_edges_are_read_and_counted(loaded):
    fitted = replace(loaded)  # with its own scorer
    wanted = json.loads((FIXTURES / "expected.json").read_text())["reply-run"]
    source, *_ = wanted["recommend"]
    number = fitted.nodes.numbers([source], "source")
    best = fitted.recommend(source, 3)[-1].node
    before = fitted.embed_nodes([source])
    fitted.update([(best, source, "thank you for your help"), ("unknown", source, None)])
    assert not np.allclose(fitted.embed_nodes([source]), before)
    assert fitted.explain(source, best)["reciprocity"] > 0
    degrees = fitted.network.loader.source_sampler.adjacency.degrees()[number]
    assert fitted.scorer.group[int(number[0])] == degree_group(degrees + 2)[0]


def test_later_edges_change_neither_other_copies_nor_what_is_saved(loaded):
    fitted, other = replace(loaded), replace(loaded)
    source, *_ = json.loads((FIXTURES / "expected.json").read_text())["reply-run"]["recommend"]
    number = fitted.nodes.numbers([source], "source")
    before = other.scorer.scores(number)
    saved = {name: tensor.clone() for name, tensor in fitted.head_tensors().items()}
    best = fitted.recommend(source, 3)[-1].node
    fitted.update([(source, best, "try to reboot"), (best, source, None)])
    assert not np.array_equal(fitted.scorer.scores(number), before)
    assert np.array_equal(other.scorer.scores(number), before)
    assert all(torch.equal(saved[name], t) for name, t in fitted.head_tensors().items())


def test_targets_of_later_edges_are_seen(loaded):
    fitted = replace(loaded)  # with its own scorer
    source, *_ = json.loads((FIXTURES / "expected.json").read_text())["reply-run"]["recommend"]
    best = fitted.recommend(source, 1)[0].node
    fitted.update([(source, best, "try to reboot")])
    assert best not in [answer.node for answer in fitted.recommend(source, 10)]
    assert best in [a.node for a in fitted.recommend(source, len(fitted.nodes), exclude_seen=False)]


@pytest.mark.parametrize(("run", "network"), [("link-run", "reviews"), ("reply-run", "replies")])
def test_later_edges_renew_only_the_keys_of_their_nodes(run, network, tmp_path, monkeypatch):
    fitted = old_link_run(tmp_path, run, network)
    scorer, text = fitted.scorer, fitted.scorer.components[0]
    (source,) = fitted.nodes.ids_of([0])
    *kept, target = fitted.nodes.ids_of(scorer.candidates)
    scorer.rank(np.array([0]), 1)  # computes all keys
    encoded, encode = [], text.encode

    def recorded(nodes, side):
        encoded.extend(nodes.tolist())
        return encode(nodes, side)

    monkeypatch.setattr(text, "encode", recorded)
    fitted.update([(source, target, "much better than before"), ("unknown", target, None)])
    numbers = fitted.live_nodes.numbers
    ends = {0, int(numbers([target], "target")[0]), int(numbers(["unknown"], "source")[0])}
    assert set(encoded) == ends & {*scorer.candidates.tolist()}
    cached = scorer.cached_keys(scorer.candidates)
    np.testing.assert_allclose(cached, scorer.keys(scorer.candidates), rtol=1e-4, atol=1e-5)
    unchanged = fitted.nodes.numbers([name for name in kept if name != source], "target")
    before = replace(fitted).scorer.keys(unchanged)
    np.testing.assert_allclose(scorer.cached_keys(unchanged), before, rtol=1e-4, atol=1e-5)
