"""Collaborative models beside a trained one: what they are, what they weigh, and what is kept."""

import gc

import numpy as np
import pytest
import torch

from edgeformers.errors import InputError
from edgeformers.estimators import LinkPredictor, load
from edgeformers.estimators.beside import (
    ALS_GRID,
    Part,
    collaborative_parts,
    fit_beside,
    weigh,
)
from edgeformers.models.baselines.base import ValidationRanking
from edgeformers.models.baselines.ease import EASE, LAMBDAS
from edgeformers.tasks.link_prediction import Beside, LinkTask
from edgeformers.train.link_objective import candidate_nodes

SETTINGS = {
    "train.epochs": 1,
    "train.batch_size": 64,
    "model.node_width": 8,
    "data.source_neighbors": [2],
    "data.target_neighbors": [2],
    "links.uniform_negatives": 0,
    "links.logq": 0.0,
}


def make(**settings):
    return LinkPredictor(
        "scratch:2x32", settings={**SETTINGS, **settings}, show=False, device="cpu"
    )


@pytest.fixture(scope="module")
def fitted(simulated):
    return make().fit(simulated)


def random_part(rows, width=3, seed=0):
    drawn = np.random.default_rng(seed).standard_normal((2, rows, width)).astype(np.float32)
    return Part(drawn[0], drawn[1])


def test_the_score_is_the_trained_one_counted_as_found_and_the_products_beside_it():
    task = LinkTask(temperature=0.5, popularity_bias=True, num_nodes=6)
    with torch.no_grad():
        task.bias.copy_(torch.arange(6.0))
    nodes, h = torch.tensor([0, 4, -1]), torch.randn(3, 5)
    plain = task.factors("query", h, nodes) @ task.factors("key", h, nodes).T
    tables = [torch.randn(6, 2) for _ in range(3)]
    task.set_beside(Beside(*tables, own=0.3))
    both = task.factors("query", h, nodes) @ task.factors("key", h, nodes).T
    added = torch.zeros(3, 3)
    added[:2, :2] = tables[0][nodes[:2]] @ tables[1][nodes[:2]].T  # a new node has no vector
    torch.testing.assert_close(both, 0.3 * plain + added)
    assert torch.equal(task.beside.new_query(torch.tensor([1, -1, 2])), tables[2][[1, 2]].sum(0))


def test_what_a_new_source_is_linked_to_twice_counts_once():
    tables = [torch.randn(6, 2) for _ in range(3)]
    beside = Beside(*tables)
    torch.testing.assert_close(beside.new_query(torch.tensor([1, 4, 1])), tables[2][[1, 4]].sum(0))


def test_a_network_too_large_for_any_of_them_leaves_the_model_alone(simulated, monkeypatch):
    monkeypatch.setattr("edgeformers.estimators.beside.EASE_TARGETS", 1)
    monkeypatch.setattr("edgeformers.estimators.beside.ALS_LINKS", 1)
    made = make().fit(simulated)
    assert made.head.beside is None
    target = made.names.of(candidate_nodes(simulated)[:1])[0]
    assert len(made.recommend(edges=[(target, "a fine tent")], k=3)) == 3


def test_of_all_settings_only_the_best_and_the_last_are_held(simulated, fitted, monkeypatch):
    held = []

    def worth(part, others, ranking):
        held.append(sum(type(one) is Part for one in gc.get_objects()))
        return 0.0

    monkeypatch.setattr("edgeformers.estimators.beside._worth", worth)
    fit_beside(fitted.objective, simulated, "link", seed=0)
    assert len(held) == len(LAMBDAS) + len(ALS_GRID)
    assert max(held) <= 7  # the model's own twice, those chosen, the best, the last twice


def test_tables_of_different_shapes_are_refused():
    with pytest.raises(InputError, match=r"got \[6, 2\], \[6, 3\] and \[6, 2\]"):
        Beside(torch.zeros(6, 2), torch.zeros(6, 3), torch.zeros(6, 2))


def test_ease_as_a_product_of_vectors_scores_as_ease_does(simulated):
    part = next(next(collaborative_parts(simulated, "link", seed=0)))
    ease = EASE(LAMBDAS[:1]).fit(simulated, "link")
    sources = np.unique(ease.links.rows)
    theirs = ease.scores(sources, candidate_nodes(simulated))
    ours = part.scores(sources, candidate_nodes(simulated))
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.98
    linked = ease.links.columns[ease.links.rows == sources[0]] + ease.links.first_column
    np.testing.assert_allclose(part.left[linked].sum(0), part.query[sources[0]], atol=1e-5)


def test_of_a_right_and_a_random_score_the_right_one_is_kept(simulated):
    ranking = ValidationRanking(simulated, "link")
    right = np.zeros((simulated.num_nodes, simulated.num_nodes), np.float32)
    right[ranking.rows, ranking.columns + simulated.num_sources] = 1.0
    known = Part(right, np.eye(simulated.num_nodes, dtype=np.float32))
    noise = random_part(simulated.num_nodes).scaled(0.1)
    weights = weigh([noise, known], ranking)
    assert weights[1] > 0
    assert ranking.mrr(known.scaled(weights[1]).scores) > ranking.mrr(noise.scores)


def test_it_never_ranks_validation_worse_than_its_parts_alone(simulated, fitted):
    ranking = ValidationRanking(simulated, "link")
    scorer = fitted.objective.scorer(np.arange(simulated.num_sources), candidate_nodes(simulated))
    together = ranking.mrr(lambda q, c: scorer.scores(q, c - simulated.num_sources))
    ease, als = collaborative_parts(simulated, "link", seed=0)
    alone = [min(ranking.mrr(part.scores) for part in family) for family in (ease, als)]
    plain = make(**{"links.beside": False}).fit(simulated)
    bare = plain.objective.scorer(np.arange(simulated.num_sources), candidate_nodes(simulated))
    alone.append(ranking.mrr(lambda q, c: bare.scores(q, c - simulated.num_sources)))
    assert together >= max(alone) - 1e-6


def test_it_is_saved_loaded_and_used_for_sources_never_met(simulated, fitted, tmp_path):
    loaded = load(fitted.save(tmp_path / "model"), network=simulated)
    names = fitted.names.of(np.arange(3))
    for name in names:
        same = zip(fitted.recommend(name, 3), loaded.recommend(name, 3), strict=True)
        assert all(a.node == b.node and a.score == pytest.approx(b.score) for a, b in same)
    assert loaded.evaluate("val")["full/mrr"] == pytest.approx(fitted.evaluate("val")["full/mrr"])
    target = fitted.names.of(candidate_nodes(simulated)[:1])[0]
    found = fitted.recommend(edges=[(target, "a fine tent")], k=3)
    assert len(found) == 3
    assert target not in [one.node for one in found]
