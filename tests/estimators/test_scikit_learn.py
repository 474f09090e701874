"""Estimators follow the conventions of scikit-learn: parameters, clones, fit(X, y), searches."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError as SklearnNotFitted
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.utils.validation import check_is_fitted

from edgeformers.errors import ConfigError, InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from tests.estimators.conftest import EDGES, LINKS

WORDS = {"good": ["excellent", "fine", "lovely"], "bad": ["broken", "awful", "poor"]}


@pytest.fixture(scope="module")
def frame():
    """Edges whose class is in their words."""
    rng = np.random.default_rng(0)
    labels = rng.choice(["good", "bad"], 90)
    return pd.DataFrame(
        {
            "source": [f"u{i}" for i in rng.integers(0, 12, 90)],
            "target": [f"i{i}" for i in rng.integers(0, 9, 90)],
            "text": [f"It is {rng.choice(WORDS[label])}." for label in labels],
            "rating": labels,
        }
    )


def small(**arguments):
    settings = {**EDGES, "train.epochs": 2}  # the linear model of words learns at once
    return EdgeClassifier("scratch:2x32", settings=settings, show=False, device="cpu", **arguments)


@pytest.mark.parametrize("kind", [EdgeClassifier, LinkPredictor])
def test_a_clone_has_the_same_parameters_and_is_not_fitted(kind):
    settings = EDGES if kind is EdgeClassifier else LINKS
    original = kind("scratch:2x32", settings=settings, seed=3, show=False, device="cpu")
    copied = clone(original)
    assert copied.get_params() == original.get_params()
    assert copied.config == original.config
    assert not copied.is_fitted
    with pytest.raises(SklearnNotFitted):
        check_is_fitted(copied)


def test_parameters_and_settings_can_be_set():
    classifier = small().set_params(seed=5, **{"train.lr": 7e-4})
    assert classifier.config.train.seed == 5
    assert classifier.config.train.lr == 7e-4
    assert classifier.config.train.epochs == 2
    assert clone(classifier).config.train.lr == 7e-4
    with pytest.raises(ConfigError, match="seed"):
        classifier.set_params(seeds=1)
    with pytest.raises(ConfigError, match="lrr"):
        classifier.set_params(**{"train.lrr": 1.0})
    assert classifier.config.train.lr == 7e-4


def test_a_frame_with_labels_is_fitted_and_scored(frame):
    edges = frame.drop(columns="rating")
    classifier = small().fit(edges, frame["rating"])
    assert is_classifier(classifier)
    assert classifier.classes_.tolist() == ["bad", "good"]
    predicted = classifier.predict(edges)
    assert set(predicted) <= {"bad", "good"}
    assert classifier.predict_proba(edges).shape == (90, 2)
    accuracy = np.mean(predicted == frame["rating"].to_numpy())
    assert classifier.score(edges, frame["rating"]) == pytest.approx(accuracy)
    assert accuracy > 0.8
    parts = classifier.fitted_.network.parts
    assert [len(parts[part]) for part in ("train", "val", "test")] == [81, 9, 0]


def test_classes_keep_the_type_and_the_order_that_scikit_learn_expects(frame):
    labels = np.where(frame["rating"] == "good", 10, 9)
    classifier = small().fit(frame, labels)
    assert classifier.classes_.tolist() == [9, 10]
    assert classifier.predict(frame).dtype == labels.dtype
    texts = classifier.fit(frame, labels.astype(str))
    assert texts.classes_.tolist() == ["10", "9"]  # as numpy sorts strings
    probs = texts.predict_proba(frame)
    by_largest = texts.classes_[probs.argmax(1)]
    assert np.mean(by_largest == labels.astype(str)) > 0.8


def test_cross_validation_and_a_grid_search_on_a_frame(frame):
    edges, labels = frame.drop(columns="rating"), frame["rating"]
    scores = cross_val_score(small(), edges, labels, cv=2, scoring="f1_macro")
    assert scores.shape == (2,)
    assert scores.min() > 0.6
    grid = {"train.lr": [1e-3, 1e-9], "train.head_lr": [2e-3]}
    search = GridSearchCV(small(), grid, cv=2).fit(edges, labels)
    assert set(search.best_params_) == {"train.lr", "train.head_lr"}
    assert search.best_estimator_.score(edges, labels) > 0.6


def test_probabilities_can_be_cross_validated(frame):
    probs = cross_val_predict(small(), frame, frame["rating"], cv=2, method="predict_proba")
    assert probs.shape == (90, 2)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-5)


def test_a_classifier_of_a_network_has_its_labels_as_classes(classifier):
    assert classifier.classes_.tolist() == classifier.label_names
    assert isinstance(classifier.predict(), list)


def test_labels_that_do_not_fit_are_refused(frame, simulated):
    with pytest.raises(InputError, match="data frame"):
        small().fit(simulated, ["a"])
    with pytest.raises(InputError, match="90 rows"):
        small().fit(frame, ["good"])
    with pytest.raises(InputError, match="twice"):
        small().fit(frame, frame["rating"], label="rating")
