"""Nodes that were held out: folded into a fitted baseline from their profiles, and not learned."""

import numpy as np
import pytest

from edgeformers.baselines.base import ValidationRanking, training_links
from edgeformers.baselines.collaborative.als import ALS, ALSConfig
from edgeformers.baselines.collaborative.bpr import BPR
from edgeformers.baselines.collaborative.ease import EASE
from edgeformers.baselines.collaborative.pairwise import PairwiseConfig
from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.text.similarity import mean_text_vectors

TASTE = {"u0": "abc", "u1": "abd", "u2": "bcd", "u3": "xyz", "u4": "xyw", "u5": "yzw"}
PROFILES = [("new", "a"), ("new", "b"), ("u0", "fresh"), ("u1", "fresh")]


def board(make_parts, profile):
    """Six users of two tastes; `new` and `fresh` are held out, their profiles in a part."""
    rows = [(user, item, "train") for user, items in TASTE.items() for item in items]
    rows += [(*pair, profile) for pair in PROFILES]
    rows += [("new", "c", "val"), ("u2", "fresh", "val"), ("new", "d", "test")]
    return make_parts([
        {"source": s, "target": t, "text": "", "split": part} for s, t, part in rows
    ], out=profile)  # fmt: skip


@pytest.fixture
def cold(make_parts):
    return board(make_parts, "profile")


@pytest.fixture
def without(make_parts):
    return board(make_parts, "none")


def makers():
    als = ALSConfig(factors=3, alpha=2.0, regularization=0.5)
    return {
        "popularity": Popularity,
        "ease": lambda: EASE([2.0]),
        "als": lambda: ALS([als]),
        "bpr": lambda: BPR([PairwiseConfig(width=4, epochs=20)]),
    }


def numbers(graph, sources, targets):
    return (
        [graph.node_number(name, "source") for name in sources],
        [graph.node_number(name, "target") for name in targets],
    )


@pytest.mark.parametrize("name", ["popularity", "ease", "als"])
def test_nothing_is_learned_from_profiles(name, cold, without):
    asked = numbers(cold, TASTE, "abcdxyzw")
    found = [makers()[name]().fit(g, "given").scores(*asked) for g in (cold, without)]
    np.testing.assert_array_equal(*found)


def test_known_links_include_training_and_profiles(cold):
    links = training_links(cold, "given")
    (new,), (fresh,) = numbers(cold, ["new"], ["fresh"])
    assert links.cold_queries.tolist() == [new]
    assert links.cold_candidates.tolist() == [fresh - links.first_candidate]
    assert links.known.num_links == links.train.num_links + len(PROFILES)
    assert links.popularity[links.cold_candidates] == 2


def test_ease_scores_a_cold_query_from_its_profile_and_regresses_a_cold_item(cold):
    model = EASE([2.0]).fit(cold, "given")
    (new, *users), (fresh, *items) = numbers(cold, ["new", *TASTE], ["fresh", *"abcdxyzw"])
    table = np.array([[item in liked for item in "abcdxyzw"] for liked in TASTE.values()], float)
    gram = table.T @ table + 2.0 * np.eye(8)
    inverse = np.linalg.inv(gram)
    weights = np.eye(8) - inverse / np.diag(inverse)
    profile = np.array([item in "ab" for item in "abcdxyzw"], float)
    np.testing.assert_allclose(model.scores([new], items)[0], profile @ weights, atol=1e-6)
    likes_fresh = np.array([1.0, 1.0, 0, 0, 0, 0])  # u0 and u1
    column = np.linalg.solve(gram, table.T @ likes_fresh)
    found = model.scores([new, *users], [fresh])[:, 0]
    np.testing.assert_allclose(found, np.vstack([profile, table]) @ column, atol=1e-6)


def test_als_solves_for_the_factors_of_cold_nodes(cold):
    config = ALSConfig(factors=3, alpha=2.0, regularization=0.5)
    model = ALS([config]).fit(cold, "given")
    (new, *users), (fresh, *items) = numbers(cold, ["new", *TASTE], ["fresh", *"abcdxyzw"])
    rows, columns = model.node_vectors(users), model.node_vectors(items)

    def solve(links, fixed):
        confidence = np.diag(1 + config.alpha * links)
        left = fixed.T @ confidence @ fixed + config.regularization * np.eye(config.factors)
        return np.linalg.solve(left, fixed.T @ confidence @ links)

    profile = np.array([item in "ab" for item in "abcdxyzw"], float)
    np.testing.assert_allclose(model.node_vectors([new])[0], solve(profile, columns), rtol=1e-4)
    likers = np.array([1.0, 1.0, 0, 0, 0, 0])
    np.testing.assert_allclose(model.node_vectors([fresh])[0], solve(likers, rows), rtol=1e-4)
    np.testing.assert_allclose(model.fitted.gram, columns.T @ columns + 0.5 * np.eye(3), rtol=1e-5)


def test_a_cold_node_of_bpr_is_the_mean_of_its_links(cold):
    model = makers()["bpr"]().fit(cold, "given")
    (new, u0, u1), (fresh, a, b) = numbers(cold, ["new", "u0", "u1"], ["fresh", "a", "b"])
    vectors = model.node_vectors
    np.testing.assert_allclose(vectors([new])[0], vectors([a, b]).mean(0), rtol=1e-5)
    np.testing.assert_allclose(vectors([fresh])[0], vectors([u0, u1]).mean(0), rtol=1e-5)


@pytest.mark.parametrize("name", ["ease", "als"])
def test_a_cold_query_is_recommended_what_similar_queries_link_to(name, cold):
    (new,), items = numbers(cold, ["new"], "cdxyzw")
    scores = makers()[name]().fit(cold, "given").scores([new], items)[0]
    assert scores[:2].min() > scores[2:].max()


def test_a_query_without_a_profile_gets_popular_candidates(without):
    (new,), items = numbers(without, ["new"], "abcdxyzw")
    for make in makers().values():
        scores = make().fit(without, "given").scores([new], items)[0]
        assert scores.tolist() == [2, 3, 2, 2, 2, 3, 2, 2]


def test_validation_ranking_excludes_profile_links(cold):
    ranking = ValidationRanking(cold, "given")
    (new,), items = numbers(cold, ["new"], "ab")
    _, column = ranking.known.of(np.array([new]))
    assert set(np.array(items) - cold.num_sources) <= set(column.tolist())


def test_profile_texts_count_only_for_cold_nodes(cold):
    vectors = np.eye(cold.num_edges, dtype=np.float16)
    profiles = mean_text_vectors(cold, "given", vectors, centered=False)
    (new,), (fresh, a) = numbers(cold, ["new"], ["fresh", "a"])

    def read(node):
        return np.flatnonzero(profiles[node]).tolist()

    mine, first = np.flatnonzero(cold.split("given") == 3).tolist(), 3 * len(TASTE)
    assert mine == [first, first + 1, first + 2, first + 3]
    assert (read(new), read(fresh)) == (mine[:2], mine[2:])
    assert read(a) == [0, 3]  # of u0 and u1, not of new
