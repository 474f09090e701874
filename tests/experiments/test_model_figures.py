import math
import sys

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.model_figures import project_2d


def test_without_scikit_learn_vectors_are_projected_by_pca(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    random = np.random.default_rng(0)
    plane = random.normal(size=(30, 2)) * [5.0, 2.0]
    turn = np.linalg.qr(random.normal(size=(6, 6)))[0][:2]
    found = project_2d(plane @ turn, seed=0)
    ours, theirs = (np.linalg.norm(x[:, None] - x, axis=2) for x in (found, plane))
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert found.var(0)[0] > found.var(0)[1]


def test_tsne_separates_clusters_and_is_deterministic():
    random = np.random.default_rng(0)
    group = np.arange(40) % 2
    vectors = random.normal(size=(40, 5)) + 20.0 * group[:, None]
    found = project_2d(vectors, seed=3)
    centers = np.stack([found[group == g].mean(0) for g in (0, 1)])
    nearest = np.linalg.norm(found[:, None] - centers, axis=2).argmin(1)
    np.testing.assert_array_equal(nearest, group)
    np.testing.assert_array_equal(found, project_2d(vectors, seed=3))


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (3, 1), (5, 5)])
def test_few_vectors_can_be_projected(shape):
    found = project_2d(np.arange(np.prod(shape), dtype=float).reshape(shape))
    assert found.shape == (shape[0], 2)
    assert np.isfinite(found).all()


def test_vectors_must_be_finite():
    with pytest.raises(InputError, match="finite"):
        project_2d([[0.0, math.nan], [1.0, 2.0]])
