"""Summaries of labeled edges: exact without an edge, blind to its label, saved with the model."""

import numpy as np
import pytest
import torch

from edgeformers.data.splits import TRAIN
from edgeformers.errors import ConfigError
from edgeformers.estimators import EdgeClassifier
from edgeformers.inference.load import load_fitted
from edgeformers.training import node_summaries
from edgeformers.training.node_summaries import contributions, expect_labels, summarize_nodes

SETTINGS = {
    "model.node_prior": True,
    "model.node_width": 16,
    "train.epochs": 1,
    "train.batch_size": 32,
}


def estimator(**settings):
    given = {**SETTINGS, **settings}
    return EdgeClassifier("scratch:2x32", settings=given, device="cpu", show=False)


@pytest.fixture(scope="module")
def objective(simulated):
    return estimator().make_objective(simulated)


@pytest.fixture(scope="module")
def summaries(objective):
    return objective.summaries


def test_summaries_sum_the_training_edges_of_a_node(simulated, summaries):
    train = np.flatnonzero(simulated.split("edge") == TRAIN)
    assert np.array_equal(summaries.edges, train)
    node = int(simulated.src[train[0]])
    own = torch.from_numpy(simulated.src[train] == node)
    expected = contributions(summaries.labels[own], summaries.expected[own]).sum(0)
    assert torch.equal(summaries.source[node], expected)
    assert summaries.target[node].sum() == 0  # it is no target
    assert summaries.source[..., -1].sum() == summaries.target[..., -1].sum() == len(train)


def test_without_an_edge_nothing_of_it_is_left(simulated, objective, summaries):
    """Exactly what would be summed if the edge did not exist."""
    edges = summaries.edges[[0, 5, 100]]
    found = summaries.without(objective.loader.edges(edges))
    for row, edge in enumerate(edges):
        others = summaries.edges != edge
        for side, ends in enumerate((simulated.src, simulated.dst)):
            same = torch.from_numpy(others & (ends[summaries.edges] == ends[edge]))
            expected = contributions(summaries.labels[same], summaries.expected[same]).sum(0)
            assert torch.equal(found[row, side], expected)


def test_the_label_of_an_edge_does_not_reach_its_own_representation(
    simulated, objective, summaries, monkeypatch
):
    model = objective.model.eval()
    for parameter in model.prior.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    edge = summaries.edges[7:8]
    before = model(objective._batch(edge, 0))

    changed = np.array(simulated.labels)
    changed[edge] = (changed[edge] + 1) % 5
    monkeypatch.setattr(node_summaries, "expect_labels", lambda *a, **k: summaries.expected)
    monkeypatch.setitem(vars(simulated), "labels", changed)
    other = estimator().make_objective(simulated)
    other.model.load_state_dict(dict(model.named_parameters()), strict=False)
    other.model.prior.average.copy_(model.prior.average)
    after = other.model.eval()(other._batch(edge, 0))
    assert torch.equal(after, before)
    seen = model(objective.loader.edges(edge))  # as in evaluation, with all training edges
    assert not torch.allclose(other.model(other.loader.edges(edge)), seen)


def test_labels_outside_of_training_are_not_read(simulated, summaries, monkeypatch):
    changed = np.array(simulated.labels)
    changed[simulated.split("edge") != TRAIN] = 0
    monkeypatch.setitem(vars(simulated), "labels", changed)
    other = estimator().make_objective(simulated).summaries
    assert torch.equal(other.source, summaries.source)
    assert torch.equal(other.expected, summaries.expected)


def test_unlabeled_edges_add_nothing(simulated, summaries, monkeypatch):
    changed = np.array(simulated.labels)
    changed[summaries.edges[0]] = -1
    monkeypatch.setitem(vars(simulated), "labels", changed)
    other = estimator().make_objective(simulated).summaries
    assert summaries.edges[0] not in other.edges
    assert other.source[..., -1].sum() == summaries.source[..., -1].sum() - 1


def test_expectations_come_from_the_words_of_other_edges(simulated, objective):
    train = objective.parts["train"]
    labels = torch.from_numpy(np.asarray(simulated.labels[train]).astype(np.int64))
    tokens = objective.loader.tokens
    expected = expect_labels(tokens, train, labels, 5, max_tokens=64)
    assert torch.equal(expected, expect_labels(tokens, train, labels, 5, max_tokens=64))
    assert torch.equal((expected.double() * 1024).round() / 1024, expected.double())
    accuracy = (expected.argmax(1) == labels).float().mean()
    assert labels.bincount().max() / len(labels) < accuracy < 0.7  # words alone do not suffice

    changed = labels.clone()
    changed[3] = (changed[3] + 1) % 5
    again = expect_labels(tokens, train, changed, 5, max_tokens=64)
    assert torch.equal(again[3], expected[3])  # an edge is judged without its label
    assert not torch.equal(again, expected)


def test_summarizing_leaves_the_random_state_alone(simulated, objective):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    summarize_nodes(
        simulated, objective.loader.tokens, objective.parts["train"], 5, max_tokens=64, seed=3
    )
    assert torch.equal(before, torch.get_rng_state())


def test_a_saved_model_predicts_without_its_network(simulated, tmp_path):
    fitted = estimator().fit(simulated, run=tmp_path / "run")
    names = simulated.node_names([int(simulated.src[0]), int(simulated.dst[0])])
    edges = [(*names, "The tent is decent."), ("nobody", names[1], "The tent is great.")]
    saved = load_fitted(tmp_path / "run", device="cpu", show=False)
    assert saved.model.prior.source.any()
    assert np.array_equal(saved.predict_proba(edges), fitted.predict_proba(edges))


def test_a_warm_start_counts_the_edges_anew(simulated, tmp_path):
    first = estimator().fit(simulated)
    first.save(tmp_path / "model")
    again = EdgeClassifier(start_from=tmp_path / "model", device="cpu", show=False)
    objective = again.make_objective(simulated)
    assert torch.equal(objective.model.prior.source, first.model.prior.source)
    trained = first.model.prior.maps["source"][-1].weight
    assert trained.any()
    assert torch.equal(objective.model.prior.maps["source"][-1].weight, trained)


def test_models_and_labels_that_cannot_use_it_are_named(simulated, monkeypatch):
    with pytest.raises(ConfigError, match=r"model.node_prior .* 'bert-nodes' cannot use them"):
        estimator(**{"model.name": "bert-nodes"}).make_objective(simulated)
    monkeypatch.setattr("edgeformers.estimators.build.MAX_PRIOR_CLASSES", 4)
    with pytest.raises(ConfigError, match="has 5 classes, more than 4; set it to false"):
        estimator().make_objective(simulated)
