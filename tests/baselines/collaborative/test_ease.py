"""EASE against one ridge regression per item."""

import numpy as np
import pytest

from edgeformers.baselines.collaborative import ease as module
from edgeformers.baselines.collaborative.ease import EASE
from edgeformers.errors import InputError


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


def test_too_many_items_are_refused(checkerboard, monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 11)
    with pytest.raises(InputError, match="use ALS"):
        EASE().fit(checkerboard, "given")


def test_lambdas_must_be_positive():
    with pytest.raises(InputError, match="lambda"):
        EASE(lambdas=[1.0, -1.0])
