"""Metrics as pure functions of numpy arrays: classification, multi-label, regression, ranking.

Classes are integers [n]; multi-label targets are boolean tables [n, C]. F1 and precision take
either. Without any examples a metric is NaN. Written here rather than taken from scikit-learn,
which is slow to import, and which has no ranks with ties and no empty classes.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.f1 import f1
from edgeformers.data.types import Floats, Ints, Mask
from edgeformers.errors import InputError

SMALLER_IS_BETTER = ("mae", "rmse")


def confusion(labels: ArrayLike, predicted: ArrayLike, num_classes: int | None = None) -> Ints:
    """Counts [C, C] of each true class (row) and predicted class (column)."""
    truth, guess = _same_shape(labels, predicted)
    if truth.ndim != 1:
        raise InputError(f"a confusion matrix needs one class per example (got {truth.ndim} axes)")
    smallest = min(truth.min(initial=0), guess.min(initial=0))
    largest = int(max(truth.max(initial=-1), guess.max(initial=-1)))
    classes = largest + 1 if num_classes is None else num_classes
    if largest >= classes or smallest < 0:
        raise InputError(
            f"classes must be 0 to {classes - 1} (got {smallest} to {largest}); "
            "leave out examples without a known class"
        )
    cells = truth.astype(np.int64) * classes + guess.astype(np.int64)
    return np.bincount(cells, minlength=classes**2).reshape(classes, classes)


def per_class_f1(labels: ArrayLike, predicted: ArrayLike, num_classes: int | None = None) -> Floats:
    """F1 of every class [C]: 2 TP / (2 TP + FP + FN); NaN for a class that never occurs."""
    hit, false, missed = _label_counts(labels, predicted, num_classes)
    return f1(hit, 2 * hit + false + missed)


def macro_f1(labels: ArrayLike, predicted: ArrayLike, num_classes: int | None = None) -> float:
    """The mean F1 of the classes that occur in the labels or in the predictions."""
    return _mean_of_known(per_class_f1(labels, predicted, num_classes))


def micro_f1(labels: ArrayLike, predicted: ArrayLike) -> float:
    """F1 over all decisions; with one class per example it equals accuracy."""
    hit, false, missed = (counts.sum() for counts in _label_counts(labels, predicted))
    return float(f1(hit, 2 * hit + false + missed))


def accuracy(labels: ArrayLike, predicted: ArrayLike) -> float:
    """The share of examples whose class, or whole set of labels, is correct."""
    truth, guess = _same_shape(labels, predicted)
    is_correct = truth == guess
    return mean(is_correct.all(axis=1) if is_correct.ndim == 2 else is_correct)


def precision(
    labels: ArrayLike, predicted: ArrayLike, average: Literal["micro", "samples"] = "micro"
) -> float:
    """The share of predicted labels that are correct: PREC of the paper's Table 4.

    The paper does not define PREC. `micro` pools the decisions of all examples and classes, and is
    what this library reports as PREC; `samples` averages the precision of each example. Without
    any prediction the precision is 0.
    """
    if average == "samples":
        truth, guess = _tables(labels, predicted)
        return mean(np.nan_to_num(_divide((truth & guess).sum(1), guess.sum(1))))
    if average != "micro":
        raise InputError(f"average must be 'micro' or 'samples' (got '{average}')")
    if not np.asarray(labels).size:
        return float("nan")
    hit, false, _ = (counts.sum() for counts in _label_counts(labels, predicted))
    return float(np.nan_to_num(_divide(hit, hit + false)))


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """The area under the precision-recall curve; for tables the mean over labels that occur.

    Examples with equal scores are counted together, so that their order does not matter.
    """
    truth, score = _same_shape(labels, scores)
    if truth.ndim == 2:
        columns = zip(truth.T, score.T, strict=True)
        return _mean_of_known(np.array([average_precision(t, s) for t, s in columns]))
    hits_above, count_above = _counts_by_threshold(truth.astype(bool), score)
    if not truth.any():
        return float("nan")
    recall = hits_above / hits_above[-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * hits_above / count_above))


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """The probability that a positive scores above a negative; ties count one half."""
    truth, score = _same_shape(labels, scores)
    hits_above, count_above = _counts_by_threshold(truth.astype(bool), score)
    if not 0 < np.count_nonzero(truth) < len(truth):
        return float("nan")
    true, false = np.append(0, hits_above), np.append(0, count_above - hits_above)
    area = np.sum(np.diff(false) * (true[1:] + true[:-1])) / 2
    return float(area / (true[-1] * false[-1]))


def mae(targets: ArrayLike, predicted: ArrayLike) -> float:
    """The mean absolute error."""
    truth, guess = _numbers(targets, predicted)
    return mean(np.abs(truth - guess))


def rmse(targets: ArrayLike, predicted: ArrayLike) -> float:
    """The root mean squared error."""
    truth, guess = _numbers(targets, predicted)
    return float(np.sqrt(mean((truth - guess) ** 2)))


def r2(targets: ArrayLike, predicted: ArrayLike) -> float:
    """The coefficient of determination; NaN if the targets do not vary."""
    truth, guess = _numbers(targets, predicted)
    return float(1 - _divide(np.sum((truth - guess) ** 2), np.sum((truth - mean(truth)) ** 2)))


def rank_of(scores: ArrayLike, positive: ArrayLike) -> Floats:
    """The rank of column `positive[i]` in row i of scores [n, m]; 1 is best.

    With ties it is the expected rank, so that equal scores for all give (m + 1) / 2. NaN never
    wins: a positive with NaN ranks last, and another candidate with NaN ranks above it.
    """
    return expected_rank(*count_ahead(scores, positive))


def count_ahead(scores: Any, positive: ArrayLike) -> tuple[Ints, Ints]:
    """How many others score above column `positive[i]` in row i, and how many the same.

    A tensor [n, m] is compared on its device.
    """
    table = scores if hasattr(scores, "is_cuda") else np.asarray(scores)
    own = table[np.arange(len(table)), np.asarray(positive, np.int64)][:, None]
    counts = ((own == own).sum(1), (table <= own).sum(1), (table < own).sum(1))
    is_number, not_above, below = (
        np.asarray(count.cpu() if hasattr(count, "cpu") else count, np.int64) for count in counts
    )
    not_above = not_above - is_number
    return table.shape[1] - 1 - not_above, not_above - below


def expected_rank(ahead: ArrayLike, equal: ArrayLike) -> Floats:
    """The expected rank of an item with `ahead` others above it and `equal` others tied with it."""
    return 1.0 + np.asarray(ahead, np.float64) + np.asarray(equal, np.float64) / 2


def reciprocal_ranks(ranks: ArrayLike) -> Floats:
    """1 / rank of each example."""
    return 1.0 / np.asarray(ranks, np.float64)


def discounted_gains(ranks: ArrayLike) -> Floats:
    """NDCG of each example with one relevant item: 1 / log2(1 + rank)."""
    return 1.0 / np.log2(1.0 + np.asarray(ranks, np.float64))


def hits(ranks: ArrayLike, k: int) -> Floats:
    """1 if the rank is at most k, else 0."""
    return (np.asarray(ranks, np.float64) <= k).astype(np.float64)


def mrr(ranks: ArrayLike) -> float:
    """The mean reciprocal rank."""
    return mean(reciprocal_ranks(ranks))


def ndcg(ranks: ArrayLike) -> float:
    """The mean NDCG of the full ranking, with one relevant item per query."""
    return mean(discounted_gains(ranks))


def hit_at(ranks: ArrayLike, k: int) -> float:
    """Hit@k: the share of queries whose item ranks within the first k."""
    return mean(hits(ranks, k))


def mean(values: ArrayLike) -> float:
    """The mean; NaN without values."""
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


def _counts_by_threshold(truth: Mask, score: NDArray[Any]) -> tuple[Ints, Ints]:
    """For each distinct score, from the highest: positives and examples with at least that."""
    if np.isnan(score).any():
        raise InputError("scores must not be NaN; the model has diverged")
    order = np.argsort(-score, kind="stable")
    last_of_score = np.flatnonzero(np.diff(score[order], append=np.inf) != 0)
    return np.cumsum(truth[order], dtype=np.int64)[last_of_score], last_of_score + 1


def _tables(labels: ArrayLike, predicted: ArrayLike) -> tuple[Mask, Mask]:
    truth, guess = _same_shape(labels, predicted)
    if truth.ndim != 2:
        raise InputError(f"multi-label targets must be a table [n, C] (got {truth.ndim} axes)")
    return truth.astype(bool), guess.astype(bool)


def _numbers(targets: ArrayLike, predicted: ArrayLike) -> tuple[Floats, Floats]:
    truth, guess = _same_shape(targets, predicted)
    return truth.astype(np.float64), guess.astype(np.float64)


def _same_shape(labels: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    truth, guess = np.asarray(labels), np.asarray(predicted)
    if truth.shape != guess.shape:
        raise InputError(
            "labels and predictions must have the same shape "
            f"(got {list(truth.shape)} and {list(guess.shape)})"
        )
    return truth, guess


def _divide(numerator: ArrayLike, denominator: ArrayLike) -> Floats:
    """The quotient; NaN where the denominator is 0."""
    divisor = np.asarray(denominator, np.float64)
    quotient = np.full(divisor.shape, np.nan)
    np.divide(np.asarray(numerator, np.float64), divisor, out=quotient, where=divisor != 0)
    return quotient


def _mean_of_known(values: Floats) -> float:
    return mean(values[~np.isnan(values)])
