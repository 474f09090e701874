"""EASE against one ridge regression per item."""

import numpy as np
import pytest

from edgeformers.baselines.collaborative import ease as module
from edgeformers.baselines.collaborative.ease import EASE
from edgeformers.errors import InputError
from edgeformers.evaluation.network_links import candidate_nodes


def test_each_item_is_regressed_on_the_others(checkerboard):
    model = EASE(lambdas=[3.0]).fit(checkerboard, "given")
    links = model.links.train
    table = np.zeros((12, 12))
    table[links.queries, links.candidates] = 1
    weights = np.zeros((12, 12))
    for item in range(12):
        others = np.delete(np.arange(12), item)
        x = table[:, others]
        weights[others, item] = np.linalg.solve(x.T @ x + 3.0 * np.eye(11), x.T @ table[:, item])
    scores = model.scores(np.arange(12), np.arange(12, 24))
    np.testing.assert_allclose(scores, table @ weights, atol=1e-5)


def test_all_eigenvalues_give_the_exact_scores_of_unlinked_items(simulated, monkeypatch):
    exact = EASE(lambdas=[30.0]).fit(simulated, "link")
    queries, candidates = np.arange(simulated.num_sources), candidate_nodes(simulated)
    monkeypatch.setattr(module, "EXACT_ITEMS", 1)
    monkeypatch.setattr(module, "RANK", len(candidates))
    ours = EASE(lambdas=[30.0], device="cpu").fit(simulated, "link")
    is_linked = np.zeros((len(queries), len(candidates)), bool)
    is_linked[exact.links.train.queries, exact.links.train.candidates] = True
    first, second = (model.scores(queries, candidates)[~is_linked] for model in (exact, ours))
    np.testing.assert_allclose(second, first, atol=1e-4)


def test_few_eigenvalues_rank_nearly_as_well(simulated, monkeypatch):
    exact = EASE(lambdas=[30.0]).fit(simulated, "link")
    monkeypatch.setattr(module, "EXACT_ITEMS", 1)
    monkeypatch.setattr(module, "RANK", 16)
    ours = EASE(lambdas=[30.0], device="cpu").fit(simulated, "link")
    assert ours.fitted.left.shape == (simulated.num_targets, 16)
    assert ours.trials[0].score > 0.9 * exact.trials[0].score


def test_lambdas_must_be_positive():
    with pytest.raises(InputError, match="lambda"):
        EASE(lambdas=[1.0, -1.0])
