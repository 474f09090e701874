"""Metrics on cases worked by hand, and against scikit-learn where it has the same."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from edgeformers.errors import InputError
from edgeformers.evaluation import metrics

#: Five examples of three classes; class 2 is true once and never predicted, class 3 never occurs.
LABELS = np.array([0, 0, 1, 1, 2])
PREDICTED = np.array([0, 1, 1, 1, 0])

#: Three examples with three labels; the last never occurs.
TABLE = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0]], bool)
GUESS = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], bool)


def test_confusion_has_true_classes_in_rows():
    assert metrics.confusion(LABELS, PREDICTED).tolist() == [[1, 1, 0], [0, 2, 0], [1, 0, 0]]


def test_f1_of_each_class_by_hand():
    # class 0: TP 1, FP 1, FN 1; class 1: TP 2, FP 1, FN 0; class 2: nothing found
    f1 = metrics.per_class_f1(LABELS, PREDICTED, num_classes=4)
    np.testing.assert_allclose(f1, [0.5, 0.8, 0.0, np.nan])


def test_macro_f1_ignores_a_class_that_never_occurs_and_counts_one_never_predicted():
    assert metrics.macro_f1(LABELS, PREDICTED, num_classes=4) == pytest.approx(1.3 / 3)
    assert metrics.macro_f1(LABELS, PREDICTED) == pytest.approx(1.3 / 3)


def test_micro_f1_of_single_classes_equals_accuracy():
    assert metrics.micro_f1(LABELS, PREDICTED) == metrics.accuracy(LABELS, PREDICTED) == 0.6


def test_multi_label_metrics_by_hand():
    # label 0: TP 2; label 1: FP 1, FN 2; label 2: absent
    np.testing.assert_allclose(metrics.per_class_f1(TABLE, GUESS), [1.0, 0.0, np.nan])
    assert metrics.macro_f1(TABLE, GUESS) == 0.5
    assert metrics.micro_f1(TABLE, GUESS) == pytest.approx(4 / 7)
    assert metrics.accuracy(TABLE, GUESS) == 0.0


def test_precision_pools_decisions_or_averages_examples():
    assert metrics.precision(TABLE, GUESS) == pytest.approx(2 / 3)
    assert metrics.precision(TABLE, GUESS, "samples") == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert metrics.precision(TABLE, np.zeros_like(TABLE)) == 0.0


def test_regression_metrics_by_hand():
    assert metrics.mae([1, 5, 3], [2, 3, 3]) == 1.0
    assert metrics.rmse([1, 5, 3], [2, 3, 3]) == pytest.approx(math.sqrt(5 / 3))
    assert metrics.r2([1.0, 3.0, 5.0], [1.0, 3.0, 4.0]) == pytest.approx(1 - 1 / 8)


def test_unsigned_classes_do_not_wrap_around():
    assert metrics.mae(np.array([0, 4], np.uint8), np.array([1, 2], np.uint8)) == 1.5


def test_r2_of_constant_targets_is_nan():
    assert math.isnan(metrics.r2([2.0, 2.0], [2.0, 1.0]))


def test_ranks_count_higher_scores():
    scores = [[0.9, 0.1, 0.5], [0.9, 0.1, 0.5], [0.9, 0.1, 0.5]]
    assert metrics.rank_of(scores, [0, 1, 2]).tolist() == [1, 3, 2]


def test_tied_scores_share_the_expected_rank():
    assert metrics.rank_of([[5.0, 3.0, 3.0, 3.0, 1.0]], [2]).tolist() == [3.0]
    assert metrics.rank_of([[5.0, 3.0, 3.0, 1.0]], [1]).tolist() == [2.5]


def test_a_constant_scorer_gets_the_middle_rank_and_no_hit():
    ranks = metrics.rank_of(np.zeros((7, 100)), np.arange(7))
    assert ranks.tolist() == [50.5] * 7
    assert metrics.hit_at(ranks, 10) == 0.0


def test_a_nan_score_never_wins():
    assert metrics.rank_of([[np.nan, 1.0, 2.0]], [0]).tolist() == [3]
    assert metrics.rank_of([[np.nan, 1.0, 2.0]], [2]).tolist() == [2]
    assert metrics.rank_of([[np.nan] * 4], [1]).tolist() == [4]


def test_ranking_metrics_by_hand():
    ranks = [1, 2, 4, 10]
    assert metrics.mrr(ranks) == pytest.approx((1 + 0.5 + 0.25 + 0.1) / 4)
    gains = [1, 1 / math.log2(3), 1 / math.log2(5), 1 / math.log2(11)]
    assert metrics.ndcg(ranks) == pytest.approx(sum(gains) / 4)
    assert metrics.hit_at(ranks, 1) == 0.25
    assert metrics.hit_at(ranks, 4) == 0.75


def test_auc_counts_a_tie_as_one_half():
    # pairs (positive, negative): 3 > 1, 3 > 2, 2 > 1, 2 = 2
    assert metrics.auc([1, 1, 0, 0], [3.0, 2.0, 1.0, 2.0]) == pytest.approx(3.5 / 4)
    assert metrics.auc([1, 0, 1], [7.0, 7.0, 7.0]) == 0.5
    assert math.isnan(metrics.auc([1, 1], [0.1, 0.2]))


def test_average_precision_by_hand():
    # thresholds 3 (1 of 1), 2 (2 of 3 share it), 1
    value = metrics.average_precision([1, 1, 0, 0], [3.0, 2.0, 2.0, 1.0])
    assert value == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_average_precision_of_a_table_ignores_labels_that_never_occur():
    scores = np.array([[0.9, 0.1, 0.3], [0.8, 0.7, 0.2], [0.1, 0.4, 0.1]])
    assert metrics.average_precision(TABLE, scores) == 1.0


def test_metrics_without_examples_are_nan():
    none = np.zeros(0, np.int64)
    for metric in (metrics.macro_f1, metrics.micro_f1, metrics.accuracy, metrics.mae, metrics.auc):
        assert math.isnan(metric(none, none))
    assert math.isnan(metrics.precision(none, none))
    assert math.isnan(metrics.average_precision(none, none))
    assert math.isnan(metrics.mrr(none))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_classes_agree_with_scikit_learn(data):
    size = data.draw(st.integers(1, 30))
    labels = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    guess = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    assert metrics.macro_f1(labels, guess) == pytest.approx(
        sk.f1_score(labels, guess, average="macro")
    )
    assert metrics.micro_f1(labels, guess) == pytest.approx(
        sk.f1_score(labels, guess, average="micro")
    )
    expected = sk.f1_score(labels, guess, average=None, labels=range(4), zero_division=np.nan)
    np.testing.assert_allclose(metrics.per_class_f1(labels, guess, 4), expected)
    np.testing.assert_array_equal(
        metrics.confusion(labels, guess, 4), sk.confusion_matrix(labels, guess, labels=range(4))
    )


def test_multi_label_metrics_agree_with_scikit_learn():
    rng = np.random.default_rng(3)
    truth, guess = rng.random((40, 5)) < 0.3, rng.random((40, 5)) < 0.3
    scores = rng.integers(0, 6, (40, 5)) / 5  # many ties
    for average, ours in (("macro", metrics.macro_f1), ("micro", metrics.micro_f1)):
        assert ours(truth, guess) == pytest.approx(sk.f1_score(truth, guess, average=average))
    for average in ("micro", "samples"):
        expected = sk.precision_score(truth, guess, average=average, zero_division=0)
        assert metrics.precision(truth, guess, average) == pytest.approx(expected)
    expected = sk.average_precision_score(truth, scores, average="macro")
    assert metrics.average_precision(truth, scores) == pytest.approx(expected)
    assert metrics.auc(truth[:, 0], scores[:, 0]) == pytest.approx(
        sk.roc_auc_score(truth[:, 0], scores[:, 0])
    )


def test_regression_and_ndcg_agree_with_scikit_learn():
    rng = np.random.default_rng(4)
    target, guess = rng.normal(size=50), rng.normal(size=50)
    assert metrics.r2(target, guess) == pytest.approx(sk.r2_score(target, guess))
    assert metrics.rmse(target, guess) == pytest.approx(sk.root_mean_squared_error(target, guess))
    scores, positive = rng.normal(size=(50, 9)), rng.integers(0, 9, 50)
    ranks = metrics.rank_of(scores, positive)
    assert metrics.ndcg(ranks) == pytest.approx(sk.ndcg_score(np.eye(9)[positive], scores))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: metrics.macro_f1([0, 1, 1], [0, 1]), "same shape"),
        (lambda: metrics.confusion([-1, 1], [0, 1], num_classes=3), "-1"),
        (lambda: metrics.confusion(TABLE, GUESS), "one class"),
        (lambda: metrics.precision([0, 1], [0, 1], "samples"), "table"),
        (lambda: metrics.precision(TABLE, GUESS, "macro"), "macro"),
        (lambda: metrics.auc([0, 1], [np.nan, 1.0]), "NaN"),
    ],
)
def test_invalid_input_is_refused(call, word):
    with pytest.raises(InputError, match=word):
        call()
