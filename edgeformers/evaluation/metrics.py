"""Metrics as pure functions of numpy arrays: classes, several labels, numbers, rankings.

Labels of one class are numbers [n]; several labels are a table of truths [n, C]. The functions
for F1 and precision take either. Over no examples at all a metric is nan: it was not measured.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.f1 import f1
from edgeformers.data.types import Floats
from edgeformers.errors import InputError


def confusion(
    labels: ArrayLike, predicted: ArrayLike, num_classes: int | None = None
) -> NDArray[np.int64]:
    """How often class i was taken for class j: counts [C, C], row = true, column = predicted."""
    truth, guess = _same_shape(labels, predicted)
    if truth.ndim != 1:
        raise InputError(f"a confusion table needs one class per example (got {truth.ndim} axes)")
    smallest = min(truth.min(initial=0), guess.min(initial=0))
    largest = int(max(truth.max(initial=-1), guess.max(initial=-1)))
    classes = largest + 1 if num_classes is None else num_classes
    if largest >= classes or smallest < 0:
        raise InputError(
            f"classes are numbered 0 to {classes - 1} (got {smallest} to {largest}); "
            "leave out examples whose class is unknown"
        )
    cells = truth.astype(np.int64) * classes + guess.astype(np.int64)
    return np.bincount(cells, minlength=classes**2).reshape(classes, classes)


def per_class_f1(labels: ArrayLike, predicted: ArrayLike, num_classes: int | None = None) -> Floats:
    """F1 of every class [C]: 2 TP / (2 TP + FP + FN).

    A class that is neither true nor predicted anywhere has no F1: nan. One that is true but
    never found, or found where it is not, has 0.
    """
    hit, false, missed = _label_counts(labels, predicted, num_classes)
    return f1(hit, 2 * hit + false + missed)


def macro_f1(labels: ArrayLike, predicted: ArrayLike, num_classes: int | None = None) -> float:
    """The mean F1 of the classes that occur, in the labels or in the predictions."""
    return _mean_of_known(per_class_f1(labels, predicted, num_classes))


def micro_f1(labels: ArrayLike, predicted: ArrayLike) -> float:
    """F1 of all decisions together; with one class per example it is the accuracy."""
    hit, false, missed = (part.sum() for part in _label_counts(labels, predicted))
    return float(f1(hit, 2 * hit + false + missed))


def accuracy(labels: ArrayLike, predicted: ArrayLike) -> float:
    """The share of examples whose class, or whole set of labels, is exactly right."""
    truth, guess = _same_shape(labels, predicted)
    right = truth == guess
    return mean(right.all(axis=1) if right.ndim == 2 else right)


def precision(
    labels: ArrayLike, predicted: ArrayLike, average: Literal["micro", "samples"] = "micro"
) -> float:
    """The share of predicted labels that are right; PREC of the paper's Table 4.

    The paper does not define PREC. `micro` pools the decisions of all nodes and classes and is
    what this library prints as PREC; `samples` is the mean over examples of each one's own share,
    where an example without any prediction counts 0. Who predicts nothing at all has 0.
    """
    if average == "samples":
        truth, guess = _tables(labels, predicted)
        shares = _divide((truth & guess).sum(1), guess.sum(1))
        return mean(np.nan_to_num(shares))
    if average != "micro":
        raise InputError(f"precision is averaged 'micro' or 'samples' (got '{average}')")
    if not np.asarray(labels).size:
        return float("nan")
    hit, false, _ = (part.sum() for part in _label_counts(labels, predicted))
    return float(np.nan_to_num(_divide(hit, hit + false)))


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """The area under precision over recall, in steps; for tables the mean over labels that occur.

    Examples of one score enter together, so that their order cannot matter.
    """
    truth, score = _same_shape(labels, scores)
    if truth.ndim == 2:
        columns = zip(truth.T, score.T, strict=True)
        return _mean_of_known(np.array([average_precision(t, s) for t, s in columns]))
    found, seen = _counts_by_threshold(truth.astype(bool), score)
    if not truth.any():
        return float("nan")
    recall = found / found[-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * found / seen))


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """The chance that a positive example scores above a negative one, a tie counting one half."""
    truth, score = _same_shape(labels, scores)
    found, seen = _counts_by_threshold(truth.astype(bool), score)
    if not 0 < np.count_nonzero(truth) < len(truth):
        return float("nan")
    true, false = np.append(0, found), np.append(0, seen - found)
    area = np.sum(np.diff(false) * (true[1:] + true[:-1])) / 2
    return float(area / (found[-1] * (seen[-1] - found[-1])))


def mae(targets: ArrayLike, predicted: ArrayLike) -> float:
    """The mean distance; of ordered classes, how many steps a prediction is off."""
    truth, guess = _numbers(targets, predicted)
    return mean(np.abs(truth - guess))


def rmse(targets: ArrayLike, predicted: ArrayLike) -> float:
    """The root of the mean squared distance."""
    truth, guess = _numbers(targets, predicted)
    return float(np.sqrt(mean((truth - guess) ** 2)))


def r2(targets: ArrayLike, predicted: ArrayLike) -> float:
    """The share of the targets' variance that is explained; nan where they do not vary."""
    truth, guess = _numbers(targets, predicted)
    return float(1 - _divide(np.sum((truth - guess) ** 2), np.sum((truth - mean(truth)) ** 2)))


def rank_of(scores: ArrayLike, positive: ArrayLike) -> Floats:
    """The rank of column `positive[i]` in row i of scores [n, m]; 1 is best.

    Among equal scores it is the expected rank, the middle of the places they share: a scorer
    that gives everything one score gets (m + 1) / 2, not 1. A score that is not a number never
    wins: as the positive it is last, as another candidate it stands ahead.
    """
    return expected_rank(*count_ahead(scores, positive))


def count_ahead(
    scores: ArrayLike, positive: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many others stand above column `positive[i]` in row i, and how many beside it."""
    table = np.asarray(scores)
    own = np.take_along_axis(table, np.asarray(positive, np.int64)[:, None], axis=1)
    is_number = own[:, 0] == own[:, 0]  # else it does not even equal itself
    not_above = np.count_nonzero(table <= own, axis=1) - is_number
    below = np.count_nonzero(table < own, axis=1)
    return table.shape[1] - 1 - not_above, not_above - below


def expected_rank(ahead: ArrayLike, equal: ArrayLike) -> Floats:
    """The expected rank of an item with `ahead` others above it and `equal` others beside it."""
    return 1.0 + np.asarray(ahead, np.float64) + np.asarray(equal, np.float64) / 2


def reciprocal_ranks(ranks: ArrayLike) -> Floats:
    """1 / rank of each example."""
    return 1.0 / np.asarray(ranks, np.float64)


def gains(ranks: ArrayLike) -> Floats:
    """NDCG of each example when one item is relevant: 1 / log2(1 + rank)."""
    return 1.0 / np.log2(1.0 + np.asarray(ranks, np.float64))


def hits(ranks: ArrayLike, k: int) -> Floats:
    """1 where the rank is within the first k, else 0."""
    return (np.asarray(ranks, np.float64) <= k).astype(np.float64)


def mrr(ranks: ArrayLike) -> float:
    """The mean reciprocal rank."""
    return mean(reciprocal_ranks(ranks))


def ndcg(ranks: ArrayLike) -> float:
    """The mean NDCG over the whole ranking, one relevant item per query."""
    return mean(gains(ranks))


def hit_at(ranks: ArrayLike, k: int) -> float:
    """Hit@k: the share of queries whose item is among the first k."""
    return mean(hits(ranks, k))


def mean(values: ArrayLike) -> float:
    """The mean, or nan where there is nothing to average."""
    array = np.asarray(values, np.float64)
    return float(array.mean()) if array.size else float("nan")


def _label_counts(
    labels: ArrayLike, predicted: ArrayLike, num_classes: int | None = None
) -> tuple[Floats, Floats, Floats]:
    """True positives, false positives and false negatives of each class [C]."""
    if np.asarray(labels).ndim == 2:
        truth, guess = _tables(labels, predicted)
        hit = (truth & guess).sum(0).astype(np.float64)
        return hit, guess.sum(0) - hit, truth.sum(0) - hit
    table = confusion(labels, predicted, num_classes).astype(np.float64)
    hit = np.diagonal(table)
    return hit, table.sum(0) - hit, table.sum(1) - hit


def _counts_by_threshold(
    truth: NDArray[np.bool_], score: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """At each distinct score, from the highest: positives and examples that reach it."""
    if np.isnan(score).any():
        raise InputError("scores must be numbers (got nan); the model has diverged")
    order = np.argsort(-score, kind="stable")
    is_last = np.diff(score[order], append=np.inf) != 0  # the last example of its score
    reached = np.flatnonzero(is_last)
    return np.cumsum(truth[order], dtype=np.int64)[reached], reached + 1


def _tables(labels: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[np.bool_], ...]:
    truth, guess = _same_shape(labels, predicted)
    if truth.ndim != 2:
        raise InputError(f"several labels are a table [n, C] (got {truth.ndim} axes)")
    return truth.astype(bool), guess.astype(bool)


def _numbers(targets: ArrayLike, predicted: ArrayLike) -> tuple[Floats, Floats]:
    truth, guess = _same_shape(targets, predicted)
    return truth.astype(np.float64), guess.astype(np.float64)


def _same_shape(labels: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    truth, guess = np.asarray(labels), np.asarray(predicted)
    if truth.shape != guess.shape:
        raise InputError(
            f"there must be one prediction per label (got {list(truth.shape)} labels "
            f"and {list(guess.shape)} predictions)"
        )
    return truth, guess


def _divide(above: ArrayLike, below: ArrayLike) -> Floats:
    """The quotient, and nan instead of a warning where the divisor is 0."""
    divisor = np.asarray(below, np.float64)
    quotient = np.full(divisor.shape, np.nan)
    np.divide(np.asarray(above, np.float64), divisor, out=quotient, where=divisor != 0)
    return quotient


def _mean_of_known(values: Floats) -> float:
    return mean(values[~np.isnan(values)])


SMALLER_IS_BETTER = ("mae", "rmse")
