from dataclasses import replace

import numpy as np
import pytest

from edgeformers.baselines.text.boosting import (
    PRIOR_EDGES,
    BoostingConfig,
    FrozenBoosting,
    NodeStatistics,
    TextComponents,
)
from edgeformers.baselines.text.edge_classifiers import labeled_edges
from edgeformers.baselines.text.frozen_vectors import text_vectors
from edgeformers.data.splits import TEST, TRAIN
from edgeformers.evaluation.metrics import micro_f1
from tests.baselines.tiny import write_backbone

SMALL = [BoostingConfig(trees=20, leaves=4), BoostingConfig(trees=40, leaves=4)]


@pytest.fixture
def ratings(make_parts):
    """Eight sources, kind or harsh, of 30 edges each, with words that say nothing."""
    random = np.random.default_rng(0)
    rows = [
        {
            "source": f"u{n % 8}",
            "target": f"i{random.integers(5)}",
            "text": ("a film", "a book", "some film or book")[random.integers(3)],
            "label": "up" if random.random() < (0.9 if n % 8 < 4 else 0.1) else "down",
            "split": ["train", "train", "train", "val", "test"][n // 8 % 5],
        }
        for n in range(240)
    ]
    rows.append({"source": "new", "target": "newer", "text": "a film", "split": "test"})
    return make_parts([{"label": None, **row} for row in rows])


@pytest.fixture
def backbone(ratings, tmp_path):
    return write_backbone(tmp_path / "backbone", ratings)


def make_statistics(graph, backbone, labels=None, **more):
    parts = labeled_edges(graph, "given")
    if labels is not None:
        parts = replace(parts, train_labels=labels)
    texts = TextComponents(text_vectors(graph, backbone), parts.train, 4)
    return NodeStatistics(graph, "given", parts, texts, **more)


def test_no_training_edge_has_its_own_label_among_its_features(ratings, backbone):
    parts = labeled_edges(ratings, "given")
    before = make_statistics(ratings, backbone).of(parts.train)
    for place in range(0, len(parts.train), 7):
        changed = parts.train_labels.copy()
        changed[place] = 1 - changed[place]
        after = make_statistics(ratings, backbone, changed).of(parts.train)
        np.testing.assert_array_equal(after[place], before[place])
        assert (after != before).any()


def test_the_labels_of_a_fold_do_not_affect_its_features(ratings, backbone):
    parts = labeled_edges(ratings, "given")
    statistics = make_statistics(ratings, backbone)
    fold = statistics.fold[parts.train] == 3
    changed = np.where(fold, 1 - parts.train_labels, parts.train_labels)
    after = make_statistics(ratings, backbone, changed).of(parts.train)
    before = statistics.of(parts.train)
    np.testing.assert_array_equal(after[fold], before[fold])
    assert (after[~fold] != before[~fold]).any()


def test_node_statistics_by_hand(ratings, backbone):
    statistics = make_statistics(ratings, backbone)
    labels, split = np.asarray(ratings.labels), np.asarray(ratings.split("given"))
    texts = statistics.texts.of(np.arange(ratings.num_edges))
    table = statistics.of(np.arange(ratings.num_edges))
    classes = len(ratings.label_names)
    for edge in (0, 9, 30, 38, 77):
        training = (split == TRAIN) & (labels >= 0) & (np.arange(len(split)) != edge)
        seen = training & ((split[edge] != TRAIN) | (statistics.fold != statistics.fold[edge]))
        shares = np.bincount(labels[seen], minlength=classes) / seen.sum()
        for at, ends in ((0, ratings.src), (classes + 2, ratings.dst)):
            same = seen & (ends == ends[edge])
            counts = np.bincount(labels[same], minlength=classes)
            expected = (counts + PRIOR_EDGES * shares) / (same.sum() + PRIOR_EDGES)
            np.testing.assert_allclose(table[edge, at : at + classes], expected, rtol=1e-5)
            others = training & (ends == ends[edge])
            assert table[edge, at + classes] == pytest.approx(np.log1p(others.sum()))
            mean = texts[others].mean(0)
            like = texts[edge] @ mean / np.linalg.norm(texts[edge]) / np.linalg.norm(mean)
            assert table[edge, at + classes + 1] == pytest.approx(like, abs=1e-4)


def test_an_edge_of_two_new_nodes_has_the_overall_class_frequencies(ratings, backbone):
    labels = np.asarray(ratings.labels)
    training = labels[(ratings.split("given") == TRAIN) & (labels >= 0)]
    row = make_statistics(ratings, backbone).of(np.array([ratings.num_edges - 1]))[0]
    shares = np.bincount(training, minlength=2) / len(training)
    np.testing.assert_allclose(row, [*shares, 0, 0] * 2, rtol=1e-6)


def test_labels_of_other_edges_predict_the_class(ratings, backbone):
    model = FrozenBoosting(backbone, grid=SMALL).fit(ratings, "given")
    labels = np.asarray(ratings.labels)
    test = np.flatnonzero((ratings.split("given") == TEST) & (labels >= 0))
    assert micro_f1(labels[test], model.predict(test)) > 0.8
    assert model.setting["trees"] in (20, 40)
    assert len(model.trials) == 2


def test_edges_of_a_node_and_fold_have_the_same_features_whatever_their_labels(ratings, backbone):
    parts = labeled_edges(ratings, "given")
    statistics = make_statistics(ratings, backbone)
    shares = statistics.of(parts.train)[:, :2]
    source, fold = ratings.src[parts.train], statistics.fold[parts.train]
    told_apart = 0
    for node, part in {*zip(source.tolist(), fold.tolist(), strict=True)}:
        alike = (source == node) & (fold == part)
        assert len(np.unique(shares[alike], axis=0)) == 1
        told_apart += len(np.unique(parts.train_labels[alike])) == 2
    assert told_apart > 5


def test_components_are_principal_components_of_the_training_texts(ratings, backbone):
    from sklearn.decomposition import PCA

    vectors = text_vectors(ratings, backbone)
    train = labeled_edges(ratings, "given").train
    ours = TextComponents(vectors, train, 2).of(np.arange(9))
    theirs = PCA(2).fit(vectors[train].astype(np.float64)).transform(vectors[:9].astype(np.float64))
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-5)
