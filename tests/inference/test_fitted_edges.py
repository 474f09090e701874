"""A linear model of words and nodes beside a trained one: fitted, weighed, saved, asked."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import edgeformers
from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier
from edgeformers.inference import linear_model as fitting
from edgeformers.inference.linear_model import (
    INVERSE_PENALTY,
    SHARES,
    fit_linear_model,
    logistic_regression,
)
from edgeformers.models.edge_head import EdgeHead
from edgeformers.models.linear_edge_model import LinearEdgeModel
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.packed import PackedText
from tests.estimators.conftest import tiny
from tests.estimators.test_edge_estimator import edges_of

FEW = {"train.epochs": 1}  # a model that has hardly learned


@pytest.fixture(scope="module")
def helped(simulated):
    """A classifier that has hardly learned, so that words and nodes count beside it."""
    made = tiny(EdgeClassifier, **FEW).fit(simulated)
    assert made.fitted_.head.ensemble is not None
    return made


def test_the_regression_is_that_of_scikit_learn():
    generator = np.random.default_rng(0)
    dense = generator.random((60, 9)) * (generator.random((60, 9)) < 0.4)
    labels = generator.integers(0, 3, 60)
    features = sparse.csr_array(dense)
    weights, bias = logistic_regression(features, labels, np.ones(3))
    reference = LogisticRegression(C=INVERSE_PENALTY, max_iter=1000, tol=1e-8).fit(dense, labels)
    np.testing.assert_allclose(weights.T, reference.coef_, atol=0.02)
    free = bias - bias.mean()  # biases may all be moved alike
    np.testing.assert_allclose(free, reference.intercept_ - reference.intercept_.mean(), atol=0.02)


def test_classes_count_as_their_weights_say():
    features, labels = sparse.csr_array(np.ones((4, 1))), np.array([0, 0, 0, 1])
    _, plain = logistic_regression(features, labels, np.ones(2))
    _, balanced = logistic_regression(features, labels, np.array([1.0, 3.0]))
    assert plain[0] - plain[1] > 0.5
    assert abs(balanced[0] - balanced[1]) < 1e-3


def test_words_and_nodes_are_added_up_and_a_new_node_says_nothing():
    bag = BagOfWords.from_counts([0, 2, 2, 2], 4, width=2)
    torch.nn.init.normal_(bag.bias)
    source, target = torch.randn(3, 2), torch.randn(3, 2)
    model = LinearEdgeModel(bag, source, target)
    text = PackedText.from_lists([[1, 2], [3], [0]])
    src, dst = torch.tensor([0, -1, 2]), torch.tensor([1, 1, -1])
    unknown = torch.zeros(2)
    of_nodes = torch.stack([source[0] + target[1], unknown + target[1], source[2] + unknown])
    torch.testing.assert_close(model(text, src, dst), bag.encode(text) + of_nodes)
    with pytest.raises(InputError, match="must both be"):
        LinearEdgeModel(bag, source[:, :1], target[:, :1])


def test_the_share_says_how_far_each_decides():
    model = LinearEdgeModel(
        BagOfWords.from_counts([2], 2, width=2), *torch.zeros(2, 1, 2), share=0.2
    )
    mixed = model.mix(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    torch.testing.assert_close(mixed, torch.tensor([[0.8, 0.2]]))


def test_it_decides_better_on_validation_than_the_trained_model_alone(helped):
    ensemble, best = (
        helped.fitted_.head.ensemble,
        helped.evaluate("val", intervals=False)["macro_f1"],
    )
    shift = helped.fitted_.head.class_shift.clone()
    try:
        helped.fitted_.head.class_shift.zero_()
        scores = {}
        for share in SHARES:
            ensemble.share.fill_(share)
            scores[share] = helped.evaluate("val", intervals=False)["macro_f1"]
    finally:
        helped.fitted_.head.class_shift.copy_(shift)
        ensemble.share.fill_(max(SHARES, key=lambda share: scores[share]))
    assert scores[0.0] < max(scores.values()) <= best


def test_nothing_is_set_beside_a_model_that_it_would_not_help(simulated, monkeypatch):
    monkeypatch.setattr(fitting, "logistic_regression", _useless)
    made = tiny(EdgeClassifier, **{"train.epochs": 4}).fit(simulated)
    assert made.fitted_.head.ensemble is None


def test_ordered_classes_are_helped_by_the_metric_that_is_selected_by(simulated):
    settings = {**FEW, "edges.kind": "ordered", "train.select_metric": "mae"}
    made = tiny(EdgeClassifier, **settings).fit(simulated)
    both = made.evaluate("val", intervals=False)["mae"]
    made.fitted_.head.ensemble.share.fill_(0.0)
    assert both < made.evaluate("val", intervals=False)["mae"]


@pytest.mark.parametrize("limit", ["MAX_EDGES", "MAX_WEIGHTS"])
def test_a_large_network_is_left_to_the_model(helped, monkeypatch, limit):
    monkeypatch.setattr(fitting, limit, 10)
    assert fit_linear_model(helped.fitted_, torch.empty(0), "macro_f1") is None
    assert helped.fitted_.head.ensemble is not None


def test_without_the_setting_nothing_is_set_beside(simulated):
    made = tiny(EdgeClassifier, **FEW, **{"edges.ensemble": False}).fit(simulated)
    assert made.fitted_.head.ensemble is None


def test_edges_by_number_in_words_and_of_a_loaded_model_are_told_alike(helped, simulated, tmp_path):
    numbers = np.arange(30)
    rows, probs = edges_of(simulated, numbers), helped.predict_proba(numbers)
    np.testing.assert_allclose(helped.predict_proba(rows), probs, atol=1e-6)
    loaded = edgeformers.load(helped.save(tmp_path / "model"))
    np.testing.assert_allclose(loaded.predict_proba(rows), probs, atol=1e-6)
    assert float(loaded.fitted_.head.ensemble.share) == pytest.approx(
        float(helped.fitted_.head.ensemble.share)
    )
    assert helped.predict([]) == []


def test_words_beyond_those_the_model_reads_count(helped):
    text = " ".join(["the"] * helped.config.data.max_tokens)
    short, long = ([("nobody", "nothing", words)] for words in (text, f"{text} broken awful"))
    assert np.abs(helped.predict_proba(short) - helped.predict_proba(long)).max() > 1e-4


def test_a_model_that_adds_little_is_said_so(simulated, monkeypatch, capsys):
    monkeypatch.setattr(fitting, "SHARES", (0.8,))
    made = EdgeClassifier("scratch:2x32", settings=FEW, device="cpu")
    made.fit(simulated)
    said = capsys.readouterr().err
    assert "80%" in said


def test_a_head_is_not_asked_without_what_stands_beside_it():
    head = EdgeHead(4, 2)
    head.ensemble = LinearEdgeModel(BagOfWords.from_counts([2], 2, width=2), *torch.zeros(2, 1, 2))
    with pytest.raises(InputError, match="linear model"):
        head.predict(torch.randn(3, 4))


def _useless(features, labels, class_weights):
    """Weights that know one class only."""
    classes = len(class_weights)
    return np.zeros((features.shape[1], classes)), 1e3 * (np.arange(classes) == 0)


def test_inputs_are_compared_by_hiding_nodes_or_texts(helped, simulated):
    fitted = helped.fitted_
    source, target = simulated.node_names([3, simulated.num_sources + 2])
    edges = [(source, target, "a fine tent"), (source, "unknown", "never again")]
    found = fitted.compare_inputs(edges)
    shown = {
        "both": edges,
        "text": [("-", "-", text) for *_, text in edges],
        "nodes": [(source, target, "") for source, target, _ in edges],
    }
    for kind, same in shown.items():
        np.testing.assert_allclose(found[kind].probs, fitted.predict_proba(same), atol=1e-6)
    assert len({tuple(each.probs[0].tolist()) for each in found.values()}) == 3
