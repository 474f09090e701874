"""ALS against the normal equations and against `implicit`."""

from dataclasses import replace

import numpy as np
import pytest

from edgeformers.baselines.collaborative.als import ALS, ALSConfig
from edgeformers.errors import ConfigError

CONFIG = ALSConfig(factors=3, alpha=2.0, regularization=0.7, iterations=60)
QUERIES, CANDIDATES = np.arange(12), np.arange(12, 24)


@pytest.fixture
def fitted(checkerboard):
    return ALS([CONFIG]).fit(checkerboard, "given")


@pytest.mark.parametrize("factors", [3, 8], ids=["fewer factors than links", "more factors"])
def test_both_sides_are_the_least_squares_solution(checkerboard, factors):
    fitted = ALS([replace(CONFIG, factors=factors)]).fit(checkerboard, "given")
    queries, candidates = (table.astype(np.float64) for table in fitted.factors())
    links = fitted.links.train
    table = np.zeros((12, 12))
    table[links.queries, links.candidates] = links.counts

    def solve(row, fixed):
        confidence = np.diag(1 + CONFIG.alpha * row)
        left = fixed.T @ confidence @ fixed + CONFIG.regularization * np.eye(factors)
        return np.linalg.solve(left, fixed.T @ confidence @ (row > 0))

    np.testing.assert_allclose([solve(row, queries) for row in table.T], candidates, atol=1e-5)
    np.testing.assert_allclose([solve(row, candidates) for row in table], queries, atol=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_implicit_computes_the_same_factors(fitted):
    sparse, als = pytest.importorskip("scipy.sparse"), pytest.importorskip("implicit.cpu.als")
    links = fitted.links.train
    confidence = (1 + CONFIG.alpha * links.counts).astype(np.float32)
    matrix = sparse.csr_matrix((confidence, links.candidates, links.indptr), shape=(12, 12))
    oracle = als.AlternatingLeastSquares(
        factors=CONFIG.factors, regularization=CONFIG.regularization, alpha=1.0, num_threads=1
    )
    oracle.user_factors, oracle.item_factors = fitted.factors()
    items = oracle.recalculate_item(QUERIES, matrix.T.tocsr())
    np.testing.assert_allclose(items, fitted.fitted.candidates, atol=1e-5)
    users = oracle.recalculate_user(QUERIES, matrix)
    np.testing.assert_allclose(users, fitted.fitted.queries, atol=1e-3)


def test_repeated_edges_raise_the_confidence(make_parts):
    rows = [{"source": "a", "target": t, "text": "", "split": "train"} for t in "xxxy"]
    config = ALSConfig(factors=1, alpha=1.0, regularization=1.0)
    x, y = ALS([config]).fit(make_parts(rows), "given").scores([0], [1, 2])[0]
    assert x > y > 0


def test_small_blocks_give_the_same_scores(checkerboard, fitted, monkeypatch):
    monkeypatch.setattr("edgeformers.baselines.collaborative.als.BLOCK_NUMBERS", 1)
    blocked = ALS([CONFIG]).fit(checkerboard, "given")
    expected = fitted.scores(QUERIES, CANDIDATES)
    np.testing.assert_allclose(blocked.scores(QUERIES, CANDIDATES), expected, atol=1e-4)


def test_node_vectors_give_the_scores(fitted):
    products = fitted.node_vectors(QUERIES) @ fitted.node_vectors(CANDIDATES).T
    np.testing.assert_allclose(products, fitted.scores(QUERIES, CANDIDATES), atol=1e-5)


def test_another_seed_starts_elsewhere(checkerboard):
    config = ALSConfig(factors=4, iterations=1)
    first, second = (
        ALS([config], seed=seed).fit(checkerboard, "given").scores(QUERIES, CANDIDATES)
        for seed in (0, 1)
    )
    assert np.abs(first - second).max() > 1e-4


def test_settings_must_be_positive():
    with pytest.raises(ConfigError, match="factors"):
        ALSConfig(factors=0)
