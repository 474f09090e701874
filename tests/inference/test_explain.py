"""Explanations: they add up, they are personal, and no complaint is given as a reason."""

import json
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from edgeformers.data.prepare import prepare
from edgeformers.estimators import LinkPredictor
from edgeformers.inference.components import ALSComponent
from edgeformers.inference.explain import is_negative
from edgeformers.inference.link_scorer import GROUPS, Ensemble
from edgeformers.inference.load import load_fitted

FIXTURES = Path(__file__).parents[1] / "fixtures" / "v0_1"
USERS, ITEMS = 30, 12


def table():
    """Users rate some items from 1 to 5; the text says who rates what."""
    draw = np.random.default_rng(0)
    rows = []
    for user in range(USERS):
        for item in draw.permutation(ITEMS)[:6]:
            stars = int(draw.integers(1, 6))
            rows.append((f"u{user}", f"i{item}", f"u{user} gives i{item} a {stars}", str(stars)))
    return pd.DataFrame(rows, columns=["source", "target", "text", "label"])


def fitted_on(graph, **settings):
    """An untrained model with an ensemble of ALS."""
    settings = {"model.node_width": 8, "data.split": "edge", **settings}
    estimator = LinkPredictor("scratch:2x32", settings=settings, show=False, device="cpu")
    fitted = estimator.make_objective(graph).fitted
    fitted.model.eval()
    key = torch.rand(graph.num_nodes, 4, generator=torch.Generator().manual_seed(0))
    gram = key.double().T @ key.double() + torch.eye(4)
    als = ALSComponent(torch.zeros_like(key), key, gram, 1.0)
    for source in range(graph.num_sources):
        linked = graph.training_adjacency("edge").neighbors_of(source).astype(np.int64)
        als.query[source] = als.history_parts(*np.unique(linked, return_counts=True)).sum(0)
    group = torch.zeros(graph.num_nodes, dtype=torch.long)
    ensemble = Ensemble(components=[als], weights=torch.ones(GROUPS, 2), group=group)
    return replace(fitted, ensemble=ensemble)


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    out = tmp_path_factory.mktemp("rated") / "network"
    return prepare(table(), out, label="label", tokenizer="train:300", progress=False)


@pytest.fixture(scope="module")
def fitted(rated):
    return fitted_on(rated)


@pytest.fixture(scope="module")
def replies(tmp_path_factory):
    """A model of 0.1 with an ensemble, on a network with one node type."""
    folder = tmp_path_factory.mktemp("old")
    for name in ("reply-run", "replies"):
        shutil.copytree(FIXTURES / name, folder / name)
    return load_fitted(folder / "reply-run", network=folder / "replies", device="cpu", show=False)


def assert_adds_up(recommendations):
    assert recommendations
    for one in recommendations:
        assert sum(reason.weight for reason in one.because) == pytest.approx(one.score, abs=1e-5)
        for reason in one.because:
            if reason.kind in ("history", "other_history"):
                assert sum(reason.components.values()) == pytest.approx(reason.weight)
            elif reason.kind != "rest":
                assert one.components[reason.kind] == pytest.approx(reason.weight)


def test_reasons_sum_to_the_score(fitted, replies):
    for explain in (1, 3):
        assert_adds_up(fitted.recommend("u3", 5, explain=explain))
        assert_adds_up(fitted.recommend(edges=[("i1", "fine"), ("new", "poor")], explain=explain))
        assert_adds_up(fitted.recommend(edges=[], explain=explain))
    source, *_ = json.loads((FIXTURES / "expected.json").read_text())["reply-run"]["recommend"]
    assert_adds_up(replies.recommend(source, 5, explain=2))


def test_later_edges_are_reasons_too(rated):
    fitted = fitted_on(rated)
    (best,) = (one.node for one in fitted.recommend("u3", 1))
    fitted.update([("u3", best, "a later text")])
    found = fitted.recommend("u3", 5, explain=99)
    assert_adds_up(found)
    later = [r for one in found for r in one.because if r.node == best and r.kind == "history"]
    assert later
    assert {reason.text for reason in later} == {"a later text"}


def test_users_get_their_own_reasons(fitted):
    tops = defaultdict(set)
    for user in range(USERS):
        for one in fitted.recommend(f"u{user}", 3, explain=1):
            first = one.because[0]
            assert first.kind == "history"
            assert first.text.startswith(f"u{user} gives {first.node} ")
            tops[one.node].add((first.node, first.text))
    assert len(max(tops.values(), key=len)) > 5


def test_what_is_equal_for_all_sources_is_not_history(rated):
    fitted = fitted_on(rated, **{"links.popularity_bias": True})
    popular = {}
    for user in range(USERS):
        for one in fitted.recommend(f"u{user}", 99, exclude_seen=False, explain=1):
            (reason,) = (reason for reason in one.because if reason.kind == "popularity")
            assert popular.setdefault(one.node, reason.weight) == reason.weight
    assert len(popular) == ITEMS


def test_low_ratings_are_neither_named_nor_quoted(fitted):
    labels = set()
    for user in range(USERS):
        for one in fitted.recommend(f"u{user}", 99, explain=99):
            texts = [reason for reason in [*one.because, *one.quotes] if reason.text]
            labels |= {reason.label for reason in texts}
            assert all(reason.text.endswith(reason.label) for reason in texts)
            assert all(quote.node != f"u{user}" for quote in one.quotes)
    assert labels == {"3", "4", "5"}


@pytest.mark.parametrize(
    ("labels", "positive", "negative"),
    [
        (["1", "2", "3", "4", "5"], (), ["1", "2"]),
        (["1", "2", "3", "4", "5"], ("1", "2"), ["3", "4", "5"]),
        (["good", "bad"], (), []),
        (["good", "bad"], ("good",), ["bad"]),
    ],
)
def test_edges_are_negative_by_positive_labels_or_low_ratings(tmp_path, labels, positive, negative):
    rows = [(f"u{i % 4}", f"i{i}", "text", label) for i, label in enumerate(labels * 4)]
    frame = pd.DataFrame(rows, columns=["source", "target", "text", "label"])
    graph = prepare(
        frame,
        tmp_path / "network",
        label="label",
        positive_labels=positive,
        tokenizer=None,
        progress=False,
    )
    found = is_negative(graph, np.arange(graph.num_edges))
    names = [graph.label_names[code] for code in graph.labels]
    assert found.tolist() == [name in negative for name in names]


def test_a_model_that_does_not_tell_texts_apart_explains_the_rest(rated):
    fitted = fitted_on(rated, **{"model.name": "mean-sage"})
    found = fitted.recommend("u3", 3, explain=2)
    assert_adds_up(found)
    for one in found:
        assert {"history", "text"} <= {reason.kind for reason in one.because}
        assert not one.quotes
