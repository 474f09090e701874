"""The ensemble next to a trained link score: which components it has and how they are weighted."""

import gc

import numpy as np
import pytest
import torch

from edgeformers.baselines.base import ValidationRanking, training_links
from edgeformers.baselines.collaborative.ease import EASE, LAMBDAS
from edgeformers.baselines.collaborative.lightgcn import LightGCN
from edgeformers.baselines.collaborative.pairwise import PairwiseConfig
from edgeformers.estimators import LinkPredictor, load
from edgeformers.evaluation import is_significant
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.inference.components import FactorComponent, MeanComponent
from edgeformers.inference.edge_history import NewEdges
from edgeformers.inference.ensemble import (
    ALS_GRID,
    LIGHTGCN_GRID,
    Standardized,
    choose_group_weights,
    choose_weights,
    collaborative_components,
    fit_ensemble,
    lightgcn_component,
)
from edgeformers.inference.saved_components import GROUPS

SETTINGS = {
    "train.epochs": 1,
    "train.batch_size": 64,
    "model.node_width": 8,
    "data.source_neighbors": [2],
    "data.target_neighbors": [2],
    "links.uniform_negatives": 0,
    "links.logq": 0.0,
}
LIMITS = ("EASE_NODES", "ALS_LINKS", "LIGHTGCN_LINKS", "LIGHTGCN_LINKS_GPU")


def make(**settings):
    return LinkPredictor(
        "scratch:2x32", settings={**SETTINGS, **settings}, show=False, device="cpu"
    )


@pytest.fixture(scope="module")
def fitted(simulated):
    return make().fit(simulated)


@pytest.fixture(scope="module")
def ranking(simulated):
    return ValidationRanking(simulated, "link")


class Fixed(Standardized):
    """A score given as a matrix [N, N] or as vectors, as it is."""

    def __init__(self, query, key=None):
        key = np.eye(len(query), dtype=np.float32) if key is None else key
        self.component = MeanComponent(torch.as_tensor(query), torch.as_tensor(key))
        self.scale = 1.0


def noise(rows, scale):
    drawn = np.random.default_rng(0).standard_normal((2, rows, 3)).astype(np.float32)
    return Fixed(scale * drawn[0], drawn[1])


def link_matrix(graph, ranking, step=1, first=0):
    """1 for every validation link from `first` on, or every second."""
    matrix = np.zeros((graph.num_nodes, graph.num_nodes), np.float32)
    matrix[ranking.queries[first::step], ranking.positives[first::step] + graph.num_sources] = 1.0
    return matrix


def test_a_network_too_large_for_all_components_leaves_the_model_alone(simulated, monkeypatch):
    for limit in LIMITS:
        monkeypatch.setattr(f"edgeformers.inference.ensemble.{limit}", 1)
    monkeypatch.setattr("edgeformers.baselines.temporal.activity_profiles.MAX_NODES", 1)
    predictor = make().fit(simulated)
    assert predictor.fitted_.ensemble is None
    (target,) = simulated.node_names(candidate_nodes(simulated)[:1])
    assert len(predictor.recommend(edges=[(target, "a fine tent")], k=3)) == 3


def test_only_the_best_and_the_last_setting_are_in_memory(simulated, fitted, monkeypatch):
    in_memory = []

    def count():
        return sum(FactorComponent in type(one).__mro__ for one in gc.get_objects())

    def value(component, others, ranking):
        in_memory.append(count())
        return 0.0

    gc.collect()
    before = count()
    monkeypatch.setattr("edgeformers.inference.ensemble._value", value)
    fit_ensemble(make(**{"links.ensemble": False}).make_objective(simulated).fitted)
    assert len(in_memory) == len(LAMBDAS) + len(ALS_GRID) + len(LIGHTGCN_GRID)
    assert max(in_memory) - before <= 6  # the trained one, those chosen, the best, the last


def test_ease_of_low_rank_scores_as_ease_does(simulated):
    *_, family = collaborative_components(simulated, "link", seed=0)
    ease = EASE(LAMBDAS[:1]).fit(simulated, "link")
    sources, candidates = np.unique(ease.links.train.queries), candidate_nodes(simulated)
    ours = Standardized(next(family), simulated).scores(sources, candidates)
    theirs = ease.scores(sources, candidates)
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.98


@pytest.mark.parametrize("at", range(3), ids=["lightgcn", "als", "ease"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_new_node_has_the_vector_of_one_that_the_baseline_folded_in(simulated, at, side):
    split = "cold-source+drop-target" if side == "source" else "cold-target+drop-source"
    links = training_links(simulated, split)
    component = next(list(collaborative_components(simulated, split, seed=0))[at])
    cold = links.cold_queries if side == "source" else links.cold_candidates
    assert len(cold)
    for number in cold[:5].tolist():
        own = links.known.queries if side == "source" else links.known.candidates
        other = (
            links.known.candidates + links.first_candidate
            if side == "source"
            else links.known.queries
        )
        chosen = own == number
        nodes = np.repeat(other[chosen], links.known.counts[chosen].astype(int))
        unknown = np.full(len(nodes), -1)
        ends = (unknown, nodes) if side == "source" else (nodes, unknown)
        edges = NewEdges(source=ends[0], target=ends[1], texts=[None] * len(nodes))
        made = component.fold_in(edges, side).numpy()
        assert np.abs(made).max() > 0
        if side == "source":
            expected = component.query[number]
        elif component.name == "ease":
            continue  # the key of low rank is an approximation of another regression
        else:
            expected = component.key[links.first_candidate + number]
        tolerance = 1e-4 if side == "source" else 0.05  # profiles are not part of the gram matrix
        np.testing.assert_allclose(made, expected.numpy(), rtol=tolerance, atol=tolerance / 50)


def test_a_source_without_links_has_no_vector_of_lightgcn(simulated):
    model = LightGCN((PairwiseConfig(epochs=1),)).fit(simulated, "link")
    linked = model.links.known.degrees > 0
    component = lightgcn_component(model, simulated.num_nodes)
    assert (component.query[: len(linked)].any(1).numpy() == linked).all()


def test_lightgcn_is_for_networks_that_are_not_too_large(simulated, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    count = training_links(simulated, "link").train.num_links
    for most, families in ((count, 3), (count - 1, 2)):
        monkeypatch.setattr("edgeformers.inference.ensemble.LIGHTGCN_LINKS", most)
        assert len(list(collaborative_components(simulated, "link", seed=0))) == families


def test_components_that_help_are_kept_and_harmful_ones_are_not(simulated, ranking):
    halves = [Fixed(link_matrix(simulated, ranking, 2, first)) for first in (0, 1)]
    loud = noise(simulated.num_nodes, 10.0)
    assert choose_weights([halves[0], loud, halves[1]], ranking) == [1.0, 0.0, 1.0]


def test_of_a_right_and_a_random_score_the_right_one_is_kept(simulated, ranking):
    right, random = Fixed(link_matrix(simulated, ranking)), noise(simulated.num_nodes, 0.1)
    weights = choose_weights([random, right], ranking)
    assert weights[1] > 0
    assert ranking.mrr(right.scores) > ranking.mrr(random.scores)


def test_a_component_that_changes_nothing_is_kept(simulated, ranking):
    half = Fixed(link_matrix(simulated, ranking, 2))
    nothing = Fixed(np.zeros((simulated.num_nodes, simulated.num_nodes), np.float32))
    assert choose_weights([half, half, nothing], ranking) == [1.0, 1.0, 1.0]


def test_no_ensemble_ranks_below_its_best_collaborative_component(simulated, ranking):
    right = link_matrix(simulated, ranking)
    wrong = np.zeros_like(right)  # ranks one link lower: worse, but not significantly
    wrong[ranking.queries[0]] = 2.0
    wrong[ranking.queries[0], ranking.positives[0] + simulated.num_sources] = 0.0
    known, spoiled = Fixed(right), Fixed(wrong)
    together = ranking.reciprocal_ranks(lambda q, c: spoiled.scores(q, c) + known.scores(q, c))
    lost = ranking.reciprocal_ranks(known.scores) - together
    assert lost.mean() > 0
    assert not is_significant(lost)
    assert choose_weights([spoiled, known], ranking) == [0.0, 1.0]


def test_degree_groups_have_their_own_weights(simulated, ranking, monkeypatch):
    monkeypatch.setattr("edgeformers.inference.ensemble.FEW_LINKS", 10)
    group = np.arange(len(ranking.queries)) % 2  # as if every second source had many edges
    table = link_matrix(simulated, ranking)
    table[ranking.queries, ranking.positives + simulated.num_sources] = np.where(group, -3.0, 1.0)
    for_few, for_many = Fixed(table), Fixed(-table / 3 - 2 * (table > 0) * table)
    weights = choose_group_weights([for_few, for_many], ranking, group)
    assert weights[:2].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert weights[2].tolist() == choose_weights([for_few, for_many], ranking)  # without links


@pytest.mark.parametrize(
    ("unused", "words"),
    [([0, 1, 2], ""), ([0, 2], "0 to 3 edges or 11 edges or more"), ([], "")],
)
def test_a_message_says_where_the_trained_score_is_unused(
    simulated, monkeypatch, capsys, unused, words
):
    weights = np.ones((GROUPS, 4))
    weights[unused, 0] = 0.0
    monkeypatch.setattr("edgeformers.inference.ensemble.choose_group_weights", lambda *_: weights)
    predictor = make()
    predictor.show = True
    predictor.fit(simulated)
    message = capsys.readouterr().err
    assert words in message
    assert ("weight 0" in message) == bool(unused)


def test_texts_without_weight_are_not_reasons(simulated, fitted, tmp_path):
    loaded = load(fitted.save(tmp_path / "model"), network=simulated)
    source = simulated.node_names([0])[0]
    target = simulated.node_names(candidate_nodes(simulated)[:1])[0]
    for asked in ({"node": source}, {"edges": [(target, "a fine tent")]}):
        for weight in (1.0, 0.0):
            loaded.fitted_.scorer.weights[:, :3] = weight
            found = loaded.recommend(**asked, k=99, explain=2)
            texts = [reason.components.get("text") for one in found for reason in one.because]
            assert any(texts) == any(one.quotes for one in found) == bool(weight)


def test_a_model_that_is_best_alone_has_no_ensemble(simulated, fitted, monkeypatch):
    weights = np.tile([1.0, 0.0, 0.0, 0.0], (GROUPS, 1))
    monkeypatch.setattr("edgeformers.inference.ensemble.choose_group_weights", lambda *_: weights)
    assert fit_ensemble(make(**{"links.ensemble": False}).make_objective(simulated).fitted) is None


def test_an_ensemble_ranks_validation_at_least_as_well_as_its_components(
    simulated, fitted, ranking
):
    def reciprocal_ranks(predictor):
        everyone = (np.arange(simulated.num_sources), candidate_nodes(simulated))
        scorer = predictor.fitted_.scorer.among(*everyone)
        return ranking.reciprocal_ranks(lambda q, c: scorer.scores(q, c - simulated.num_sources))

    together = reciprocal_ranks(fitted)
    alone = [reciprocal_ranks(make(**{"links.ensemble": False}).fit(simulated))]
    for family in collaborative_components(simulated, "link", seed=0):
        ranks = (ranking.reciprocal_ranks(Standardized(one, simulated).scores) for one in family)
        alone.append(min(ranks, key=np.mean))
    assert not any(is_significant(one - together) for one in alone)
    assert together.mean() > np.mean(alone)


def test_a_loaded_ensemble_ranks_alike(simulated, fitted, tmp_path):
    loaded = load(fitted.save(tmp_path / "model"), network=simulated)
    for name in simulated.node_names(np.arange(3)):
        for ours, theirs in zip(fitted.recommend(name, 3), loaded.recommend(name, 3), strict=True):
            assert ours.node == theirs.node
            assert ours.score == pytest.approx(theirs.score, rel=1e-4)
    ours, theirs = loaded.evaluate("val"), fitted.evaluate("val")
    for metric in ("full/mrr", "paper-shifted/mrr", "paper-unseen/mrr"):
        assert ours[metric] == pytest.approx(theirs[metric])
    assert loaded.report("val").corrections == fitted.report("val").corrections
    (target,) = simulated.node_names(candidate_nodes(simulated)[:1])
    new = fitted.recommend(edges=[(target, "a fine tent")], k=3)
    assert len(new) == 3
    assert target not in [one.node for one in new]
