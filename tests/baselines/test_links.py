"""Popularity, ALS and EASE, each against a reference written another way."""

import numpy as np
import pytest

from edgeformers.baselines import ALS, EASE, LINK_BASELINES, ALSConfig, Popularity
from edgeformers.baselines.base import training_links
from edgeformers.baselines.collaborative import ease as ease_module
from edgeformers.errors import ConfigError, InputError


def dense(graph):
    links = training_links(graph, "given").train
    table = np.zeros((links.num_queries, links.num_candidates))
    table[links.queries, links.candidates] = links.counts
    return table


def ends(graph):
    return np.arange(graph.num_sources), np.arange(graph.num_sources, graph.num_nodes)


def test_popularity_counts_positive_training_edges(checkerboard):
    queries, candidates = ends(checkerboard)
    scores = Popularity().fit(checkerboard, "given").scores(queries, candidates)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, np.tile(dense(checkerboard).sum(0), (len(queries), 1)))


def test_ease_solves_a_ridge_regression_of_each_item_on_the_others(checkerboard):
    queries, candidates = ends(checkerboard)
    table = dense(checkerboard)
    weights = np.zeros((table.shape[1], table.shape[1]))
    for item in range(table.shape[1]):
        others = np.delete(np.arange(table.shape[1]), item)
        x = table[:, others]
        weights[others, item] = np.linalg.solve(
            x.T @ x + 3.0 * np.eye(len(others)), x.T @ table[:, item]
        )
    scores = EASE(lambdas=[3.0]).fit(checkerboard, "given").scores(queries, candidates)
    np.testing.assert_allclose(scores, table @ weights, atol=1e-5)


def test_als_reaches_the_least_squares_solution_of_both_sides(checkerboard):
    config = ALSConfig(factors=3, alpha=2.0, regularization=0.7, iterations=60)
    model = ALS([config]).fit(checkerboard, "given")
    rows, columns = model._factors.rows, model._factors.columns
    table = dense(checkerboard)

    def solve(links, fixed):
        confidence = np.diag(1 + config.alpha * links)
        left = fixed.T @ confidence @ fixed + config.regularization * np.eye(config.factors)
        return np.linalg.solve(left, fixed.T @ confidence @ (links > 0))

    np.testing.assert_allclose([solve(column, rows) for column in table.T], columns, atol=1e-9)
    np.testing.assert_allclose([solve(row, columns) for row in table], rows, atol=1e-3)


def test_als_counts_repeated_edges_as_confidence(make_parts):
    rows = [
        {"source": "a", "target": t, "text": "", "split": "train"} for t in ("x", "x", "x", "y")
    ]
    model = ALS([ALSConfig(factors=1, alpha=1.0, regularization=1.0)]).fit(
        make_parts(rows), "given"
    )
    x, y = model.scores([0], [1, 2])[0]
    assert x > y > 0


def test_als_solved_in_small_blocks_is_the_same(checkerboard, monkeypatch):
    config = ALSConfig(factors=4, iterations=3)
    queries, candidates = ends(checkerboard)
    whole = ALS([config]).fit(checkerboard, "given").scores(queries, candidates)
    monkeypatch.setattr("edgeformers.baselines.collaborative.als.BLOCK_NUMBERS", 1)
    parts = ALS([config]).fit(checkerboard, "given").scores(queries, candidates)
    np.testing.assert_allclose(parts, whole, atol=1e-5)


def test_als_vectors_of_nodes_give_the_scores(checkerboard):
    queries, candidates = ends(checkerboard)
    model = ALS([ALSConfig(factors=4)]).fit(checkerboard, "given")
    products = model.node_vectors(queries) @ model.node_vectors(candidates).T
    np.testing.assert_allclose(products, model.scores(queries, candidates), atol=1e-5)


def test_another_seed_starts_als_elsewhere(checkerboard):
    queries, candidates = ends(checkerboard)
    config = ALSConfig(factors=4, iterations=1)
    one, other = (
        ALS([config], seed=seed).fit(checkerboard, "given").scores(queries, candidates)
        for seed in (0, 1)
    )
    assert np.abs(one - other).max() > 1e-4


@pytest.mark.parametrize("name", ["als", "ease"])
def test_the_checkerboard_is_recognised(checkerboard, name):
    queries, candidates = ends(checkerboard)
    model = LINK_BASELINES[name]().fit(checkerboard, "given")
    scores = model.scores(queries, candidates)
    names = checkerboard.node_names(candidates)
    users = checkerboard.node_names(queries)
    liked = np.array([[(int(u[1:]) - int(i[1:])) % 2 == 0 for i in names] for u in users])
    assert scores[liked].min() > scores[~liked].max()
    assert len(model.trials) > 1
    assert set(model.setting) <= {"lambda", "factors", "alpha", "regularization", "iterations"}


def test_nodes_of_the_wrong_side_are_refused(checkerboard):
    model = Popularity().fit(checkerboard, "given")
    with pytest.raises(InputError, match=r"candidates must be nodes 12 to 23 \(got 3 to 3\)"):
        model.scores([0], [3])
    with pytest.raises(InputError, match=r"queries must be nodes 0 to 11 \(got 12 to 12\)"):
        model.scores([12], [13])


def test_ease_refuses_more_items_than_it_can_invert(checkerboard, monkeypatch):
    monkeypatch.setattr(ease_module, "LARGEST", 11)
    with pytest.raises(InputError, match="12 items are more than the 11 it can take; use ALS"):
        EASE().fit(checkerboard, "given")


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(InputError, match=r"every lambda of EASE must be above 0 \(got -1.0\)"):
        EASE(lambdas=[1.0, -1.0])
    with pytest.raises(ConfigError, match=r"ALS factors must be above 0 \(got 0\)"):
        ALSConfig(factors=0)
