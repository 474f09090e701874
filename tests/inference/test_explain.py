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
from edgeformers.inference.explain import DECIDERS, Recommendation, is_unfavorable
from edgeformers.inference.load import load_fitted
from edgeformers.inference.saved_components import GROUPS, Ensemble

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
        assert sum(reason.weight for reason in one.because) == pytest.approx(one.score, abs=1e-4)
        assert sum(one.components.values()) == pytest.approx(one.score, abs=1e-4)
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


@pytest.mark.parametrize("seed", range(5))
def test_reasons_sum_to_the_score_whatever_the_weights(rated, replies, seed):
    draw = torch.Generator().manual_seed(seed)
    new = [("i1", "fine"), ("i2", ""), ("new", "poor")]
    names = [[f"u{seed}", f"u{seed + 9}"], replies.nodes.ids_of(np.arange(seed, seed + 2))]
    for fitted, sources in zip((fitted_on(rated), replace(replies)), names, strict=True):
        weights = fitted.scorer.weights
        weights.copy_(
            torch.randn(weights.shape, generator=draw) * (torch.rand(weights.shape) > 0.3)
        )
        candidates = fitted.nodes.ids_of(fitted.scorer.candidates[:3])
        for _ in range(2):
            for source in sources:
                assert_adds_up(fitted.recommend(source, 4, explain=2, exclude_seen=False))
            assert_adds_up(fitted.recommend(edges=new, explain=2))
            known = [(node, "known") for node in candidates]
            assert_adds_up(fitted.recommend(edges=known, explain=1))
            fitted.update([(source, node, "later") for source in sources for node in candidates])


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
            if first.kind != "history":  # nothing favorable raises the score
                continue
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


def test_low_and_middling_ratings_are_neither_named_nor_quoted(fitted):
    labels = set()
    for user in range(USERS):
        for one in fitted.recommend(f"u{user}", 99, explain=99):
            texts = [reason for reason in [*one.because, *one.quotes] if reason.text]
            labels |= {reason.label for reason in texts}
            assert all(reason.text.endswith(reason.label) for reason in texts)
            assert all(quote.node != f"u{user}" for quote in one.quotes)
    assert labels == {"4", "5"}


def test_a_text_that_says_nothing_is_not_quoted(tmp_path):
    long = table().assign(text=lambda rows: rows["text"] + " after a long evening with it")
    long.loc[::3, "text"] = "ok"
    graph = prepare(long, tmp_path / "n", label="label", tokenizer="train:300", progress=False)
    fitted = fitted_on(graph)
    quotes = [
        quote.text
        for user in range(USERS)
        for one in fitted.recommend(f"u{user}", 99, explain=99)
        for quote in one.quotes
    ]
    assert quotes
    assert "ok" not in quotes


@pytest.mark.parametrize(
    ("labels", "positive", "negative"),
    [
        (["1", "2", "3", "4", "5"], (), ["1", "2", "3"]),
        (["0", "1"], (), ["0"]),
        (["7"], (), []),
        (["1", "2", "3", "4", "5"], ("1", "2"), ["3", "4", "5"]),
        (["good", "bad"], (), []),
        (["good", "bad"], ("good",), ["bad"]),
    ],
)
def test_edges_are_unfavorable_by_positive_labels_or_ratings_up_to_the_middle(
    tmp_path, labels, positive, negative
):
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
    found = is_unfavorable(graph, np.arange(graph.num_edges))
    names = [graph.label_names[code] for code in graph.labels]
    assert found.tolist() == [name in negative for name in names]


def test_a_model_that_does_not_tell_texts_apart_explains_the_rest(rated):
    fitted = fitted_on(rated, **{"model.name": "mean-sage"})
    found = fitted.recommend("u3", 3, explain=2)
    assert_adds_up(found)
    for one in found:
        assert {"history", "text"} <= {reason.kind for reason in one.because}
        assert not one.quotes


def test_what_decided_is_what_adds_most_beyond_the_average_candidate(rated):
    fitted = fitted_on(rated, **{"links.popularity_bias": True, "links.collaborative": True})
    parts = {
        "text": ["text"],
        "popularity": ["popularity"],
        "collaborative": ["node_vectors", "als"],
    }
    everyone = fitted.recommend("u3", 99, exclude_seen=False)
    for one in fitted.recommend("u3", 3, explain=1, exclude_seen=False):
        for part, names in parts.items():
            values = [sum(each.components[name] for name in names) for each in everyone]
            own = sum(one.components[name] for name in names)
            assert one.above_average[part] == pytest.approx(own - np.mean(values), abs=1e-4)
        assert one.above_average[one.decided_by] == max(one.above_average.values())
        assert DECIDERS[one.decided_by] in one.decision


@pytest.mark.parametrize(
    ("above", "sentence"),
    [
        ({"text": 3.0, "popularity": 1.0}, "decided by the texts (75%, popularity 25%)"),
        (
            {"text": -1.0, "collaborative": 2.0},
            "decided by people with a similar history (100%, not the texts)",
        ),
        ({"text": -1.0}, ""),
    ],
)
def test_a_sentence_says_what_decided(above, sentence):
    assert Recommendation(node="a", score=1.0, above_average=above).decision == sentence


def test_reasons_are_specific_to_the_target(tmp_path):
    """Who camps and bakes gets camping gear because of camping, and a pan because of baking."""
    rows = []
    for user in range(24):
        topic = ("camping", "baking")[user % 2]
        for item in range(5):
            rows.append((f"u{user}", f"{topic}-{item}", f"{topic} {item}"))
    rows += [("both", "camping-0", "a tent"), ("both", "baking-0", "a whisk")]
    frame = pd.DataFrame(rows, columns=["source", "target", "text"])
    graph = prepare(frame, tmp_path / "network", tokenizer="train:300", progress=False)
    fitted = fitted_on(graph)
    key = torch.zeros(graph.num_nodes, 4)
    names = graph.node_names(np.arange(graph.num_nodes))
    key[[name.startswith("camping") for name in names], 0] = 1.0
    key[[name.startswith("baking") for name in names], 1] = 1.0
    key[names.index("camping-0"), 2] = key[graph.num_sources :, 2].fill_(1.0)[0]  # same for all
    als = ALSComponent(torch.zeros_like(key), key, torch.eye(4).double(), 1.0)
    fitted = replace(fitted, ensemble=replace(fitted.ensemble, components=[als]))
    fitted.scorer.weights[:, 0] = 0.0
    edges = [("camping-0", "a tent"), ("baking-0", "a whisk")]
    for one in fitted.recommend(edges=edges, explain=1):
        topic = one.node.partition("-")[0]
        assert one.because[0].node == f"{topic}-0"
