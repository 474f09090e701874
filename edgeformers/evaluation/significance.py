"""Confidence intervals, summaries over seeds, and paired comparisons of two models.

The bootstrap is written here rather than taken from scipy.stats, which is slow to import and does
not resample whole groups.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.f1 import f1_of_confusion
from edgeformers.data.types import Floats, Ids
from edgeformers.errors import InputError
from edgeformers.evaluation import metrics
from edgeformers.evaluation.links import BLOCK, index_blocks

MAX_CLUSTERS = 4096  # of a two-level bootstrap; more are merged at random, at the same variance


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value and its bootstrap interval; with fewer than two examples the bounds are NaN."""

    value: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True, kw_only=True)
class SeedSummary:
    """Mean and sample standard deviation over runs; with a single run the latter is NaN."""

    mean: float
    deviation: float
    runs: int

    def __str__(self) -> str:
        spread = "one run" if self.runs == 1 else f"± {self.deviation:.4f}, {self.runs} runs"
        return f"{self.mean:.4f} ({spread})"


@dataclass(frozen=True, kw_only=True)
class PairedComparison:
    """Whether model a beats model b on the same examples.

    `difference` is mean(a) - mean(b) with its bootstrap interval; `p_value` is from a sign-flip
    permutation test of the differences, `sign_p_value` from the exact sign test on wins and losses.
    Both tests are two-sided.
    """

    difference: Interval
    p_value: float
    sign_p_value: float
    wins: int
    losses: int
    ties: int


def is_significant(gains: ArrayLike, groups: ArrayLike | None = None) -> bool:
    """Whether the mean gain is more than two standard errors above 0.

    With `groups` [n], the examples of a group count as one observation.
    """
    sums, sizes = _group_sums(gains, groups)
    if len(sums) < 2:
        return False
    mean, count = sums.sum() / sizes.sum(), len(sums)
    variance = np.square(sums - mean * sizes).sum() * count / (count - 1)
    return bool(mean > 2 * math.sqrt(variance) / sizes.sum())


def bootstrap_interval(
    values: ArrayLike,
    seed: int,
    level: float = 0.95,
    *,
    resamples: int = 2000,
    groups: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Interval:
    """The percentile bootstrap interval of a mean over examples, which may have `weights` [n].

    Examples that belong together, such as the test pairs of one query, are not independent. With
    `groups` [n], whole groups are resampled, so that the interval is not too narrow.
    """
    array = np.asarray(values, np.float64)
    weight = np.ones(len(array)) if weights is None else np.asarray(weights, np.float64)
    (sums, _), (sizes, _) = _group_sums(array * weight, groups), _group_sums(weight, groups)
    rng = np.random.default_rng(seed)
    blocks = _resampled_rows(len(sums), resamples, rng)
    means = [sums[drawn].sum(1) / sizes[drawn].sum(1) for drawn in blocks]
    value = metrics.mean(array) if weights is None else float(np.average(array, weights=weight))
    return _interval(value, np.hstack([[], *means]), level, len(sums))


def bootstrap_statistic(
    statistic: Callable[[Ids], float],
    num_examples: int,
    seed: int,
    level: float = 0.95,
    *,
    resamples: int = 1000,
) -> Interval:
    """The bootstrap interval of any function of example indices, called once per resample."""
    rng = np.random.default_rng(seed)
    blocks = _resampled_rows(num_examples, resamples, rng)
    resampled = np.array([statistic(rows) for block in blocks for rows in block])
    return _interval(statistic(np.arange(num_examples)), resampled, level, num_examples)


def bootstrap_f1(
    labels: ArrayLike,
    predicted: ArrayLike,
    seed: int,
    level: float = 0.95,
    *,
    average: Literal["macro", "micro"] = "macro",
    resamples: int = 2000,
) -> Interval:
    """The bootstrap interval of Macro- or Micro-F1.

    With one class per example, confusion matrices are resampled instead of examples: the same
    distribution, much faster.
    """
    truth, guess = np.asarray(labels), np.asarray(predicted)
    f1 = metrics.macro_f1 if average == "macro" else metrics.micro_f1
    if truth.ndim == 2:
        return bootstrap_statistic(
            lambda rows: f1(truth[rows], guess[rows]), len(truth), seed, level, resamples=resamples
        )
    counts, count = metrics.confusion(truth, guess), len(truth)
    if count < 2:
        return _interval(f1(truth, guess), np.empty(0), level, count)
    rng = np.random.default_rng(seed)
    tables = rng.multinomial(count, counts.ravel() / count, size=resamples)
    tables = tables.reshape(resamples, *counts.shape)
    if average == "macro":
        resampled = np.nanmean(f1_of_confusion(tables), axis=1)
    else:
        resampled = np.trace(tables, axis1=1, axis2=2) / count
    return _interval(f1(truth, guess), resampled, level, count)


def f1_intervals(labels: ArrayLike, predicted: ArrayLike, seed: int) -> dict[str, list[float]]:
    """95 % intervals of Macro- and Micro-F1, as in results.json."""
    averages: tuple[Literal["macro", "micro"], ...] = ("macro", "micro")
    intervals = {name: bootstrap_f1(labels, predicted, seed, average=name) for name in averages}
    return {f"{name}_f1_interval": [found.low, found.high] for name, found in intervals.items()}


def summarize_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, SeedSummary]:
    """Mean and sample standard deviation of every metric over runs with different seeds."""
    names = list(runs[0]) if runs else []
    for run in runs:
        if missing := set(names) ^ set(run):
            raise InputError(f"metric '{min(missing)}' is missing from some of {len(runs)} runs")
    table = {name: np.array([run[name] for run in runs], np.float64) for name in names}
    return {
        name: SeedSummary(
            mean=float(values.mean()),
            deviation=float(values.std(ddof=1)) if len(values) > 1 else float("nan"),
            runs=len(values),
        )
        for name, values in table.items()
    }


def compare_paired(
    a: ArrayLike,
    b: ArrayLike,
    seed: int,
    level: float = 0.95,
    *,
    resamples: int = 5000,
    groups: ArrayLike | None = None,
) -> PairedComparison:
    """Compare two models by their scores on the same examples [n].

    With `groups` [n], the examples of a group are resampled, flipped and counted as one.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape:
        raise InputError(
            f"paired scores must have the same length (got {len(first)} and {len(second)})"
        )
    gain = first - second
    sums, _ = _group_sums(gain, groups)
    wins, losses = int((sums > 0).sum()), int((sums < 0).sum())
    return PairedComparison(
        difference=bootstrap_interval(gain, seed, level, resamples=resamples, groups=groups),
        p_value=_sign_flip_p(sums, np.random.default_rng([seed, 1]), resamples),
        sign_p_value=_sign_test_p(wins, losses),
        wins=wins,
        losses=losses,
        ties=len(sums) - wins - losses,
    )


def draw_clusters(clusters: ArrayLike, seed: int, *, resamples: int = 2000) -> tuple[Ids, Floats]:
    """Draw clusters of examples with replacement, such as all edges of one source.

    Returns the cluster of each example [n], and how often each is drawn [resamples, G].
    """
    _, cluster = np.unique(np.asarray(clusters), return_inverse=True)
    count = int(cluster.max()) + 1 if len(cluster) else 0
    rng = np.random.default_rng([seed, 2])
    if count > MAX_CLUSTERS:
        cluster, count = rng.permutation(count)[cluster] % MAX_CLUSTERS, MAX_CLUSTERS
    drawn = rng.integers(0, max(count, 1), (resamples, count))
    drawn += np.arange(resamples)[:, None] * count
    counts = np.bincount(drawn.ravel(), minlength=resamples * count).reshape(resamples, count)
    return cluster.astype(np.int64), counts.astype(np.float64)


def two_level_difference(
    first: Sequence[Floats],
    second: Sequence[Floats],
    value: float,
    seed: int,
    level: float = 0.95,
) -> tuple[Interval, float]:
    """The interval and p-value of a difference whose variance is over examples and over seeds.

    Each array [resamples, runs] has the scores of one model's runs on the same resampled examples;
    `first` and `second` are averaged over models. Then runs are drawn with replacement too. With
    few runs this underestimates their spread: it is scaled by k / (k - 1), and the interval by
    Student's t with the degrees of freedom of Welch and Satterthwaite. With one run, only examples
    vary.
    """
    from scipy.special import ndtri, stdtrit

    rng = np.random.default_rng([seed, 3])

    def mean(models: Sequence[Floats], draw: Callable[[Floats], Floats]) -> Floats:
        return np.asarray(np.mean([draw(scores) for scores in models], axis=0))

    examples, resampled = (
        mean(first, draw) - mean(second, draw)
        for draw in (lambda scores: scores.mean(axis=1), lambda scores: _draw_runs(scores, rng))
    )
    variances = [
        (float(scores.mean(axis=0).var(ddof=1)) / runs / len(models) ** 2, runs - 1)
        for models in (first, second)
        for scores in models
        if (runs := scores.shape[1]) > 1
    ]
    total = float(examples.var()) + sum(variance for variance, _ in variances)
    freedom = sum(variance**2 / runs for variance, runs in variances)
    if freedom:
        upper = (1 + level) / 2
        widening = float(stdtrit(total**2 / freedom, upper) / ndtri(upper))
        resampled = resampled.mean() + widening * (resampled - resampled.mean())
    opposite = min((resampled <= 0).sum(), (resampled >= 0).sum())
    p_value = min(1.0, 2 * (1 + float(opposite)) / (1 + len(resampled)))
    return _interval(value, resampled, level, len(resampled)), p_value


def welch_test(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike], level: float = 0.95
) -> tuple[Interval, float]:
    """The difference of two means over models, each with one score per run, by Welch's t-test.

    Returns its interval and two-sided p-value. A model with a single run counts as exact.
    """
    from scipy.special import stdtr, stdtrit

    value, total, terms = 0.0, 0.0, 0.0
    for models, sign in ((first, 1.0), (second, -1.0)):
        for scores in (np.asarray(model, np.float64) for model in models):
            value += sign * float(scores.mean()) / len(models)
            if len(scores) > 1:
                variance = float(scores.var(ddof=1)) / len(scores) / len(models) ** 2
                total, terms = total + variance, terms + variance**2 / (len(scores) - 1)
    if not terms:
        return Interval(value=value, low=math.nan, high=math.nan, level=level), math.nan
    freedom, error = total**2 / terms, math.sqrt(total)
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    interval = Interval(value=value, low=value - half, high=value + half, level=level)
    return interval, 2 * float(stdtr(freedom, -abs(value) / error))


@dataclass(frozen=True, kw_only=True)
class PolynomialFit:
    """The leading coefficient of a least-squares polynomial with its interval, and R²."""

    coefficient: Interval
    r_squared: float


def fit_polynomial(
    x: ArrayLike, y: ArrayLike, degree: int = 1, level: float = 0.95
) -> PolynomialFit:
    """Ordinary least squares of y on x; without spare points the interval is NaN."""
    from scipy.special import stdtrit

    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(np.unique(xs)) <= degree:
        raise InputError(f"a fit of degree {degree} needs {degree + 1} different values of x")
    design = np.vander(xs, degree + 1)
    solution = np.linalg.lstsq(design, ys, rcond=None)[0]
    errors, spread = ys - design @ solution, ys - ys.mean()
    total, freedom = float(spread @ spread), len(ys) - degree - 1
    half = math.nan
    if freedom:
        variance = float(errors @ errors) / freedom * float(np.linalg.inv(design.T @ design)[0, 0])
        half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(variance)
    value = float(solution[0])
    return PolynomialFit(
        coefficient=Interval(value=value, low=value - half, high=value + half, level=level),
        r_squared=1 - float(errors @ errors) / total if total else 1.0,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values of several tests of which any one may succeed."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def holm_levels(p_values: Sequence[float], alpha: float = 0.05) -> list[float]:
    """Levels of intervals that exclude 0 where Holm's adjusted p-value is below `alpha`."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    levels, tests = [0.0] * len(p_values), len(p_values)
    for rank, i in enumerate(order):
        levels[i] = 1 - alpha / tests
        if tests == len(p_values) - rank and tests * p_values[i] < alpha:
            tests -= 1
    return levels


def _draw_runs(scores: Floats, rng: np.random.Generator) -> Floats:
    """The mean over runs drawn with replacement, of scores [resamples, runs]."""
    mean, runs = scores.mean(axis=1), scores.shape[1]
    if runs == 1:
        return np.asarray(mean)
    drawn = rng.integers(0, runs, scores.shape)
    deviation = np.take_along_axis(scores, drawn, axis=1).mean(axis=1) - mean
    return np.asarray(mean + math.sqrt(runs / (runs - 1)) * deviation)


def _sign_flip_p(differences: Floats, rng: np.random.Generator, resamples: int) -> float:
    """How often random signs give a sum at least as extreme; at least 1 / (resamples + 1)."""
    nonzero = differences[differences != 0]
    total = abs(nonzero.sum()) * (1 - 1e-12)  # tolerates another order of summation
    extreme = 1
    for part in index_blocks(resamples, max(1, BLOCK // 4 // max(len(nonzero), 1))):
        size = len(part) * len(nonzero)
        bits = np.unpackbits(np.frombuffer(rng.bytes((size + 7) // 8), np.uint8))[:size]
        flipped = (2.0 * bits.reshape(len(part), -1) - 1) @ nonzero if size else np.zeros(len(part))
        extreme += int((np.abs(flipped) >= total).sum())
    return extreme / (resamples + 1)


def _sign_test_p(wins: int, losses: int) -> float:
    """The two-sided probability of a split at least this uneven of a fair coin."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(wins, losses), wins + losses, 0.5)))


def _group_sums(values: ArrayLike, groups: ArrayLike | None) -> tuple[Floats, Floats]:
    """The sum and number of values of each group; without groups every value is its own."""
    array = np.asarray(values, np.float64)
    if groups is None:
        return array, np.ones(len(array))
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(group, weights=array).astype(np.float64)
    return sums, np.bincount(group).astype(np.float64)


def _resampled_rows(count: int, resamples: int, rng: np.random.Generator) -> Iterator[Ids]:
    """Blocks [r, count] of indices drawn with replacement, `resamples` rows in total."""
    if count < 2:
        return
    for part in index_blocks(resamples, max(1, BLOCK // 4 // count)):
        yield rng.integers(0, count, (len(part), count))


def _interval(value: float, resampled: Floats, level: float, count: int) -> Interval:
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, such as 0.95 (got {level})")
    tail = (1 - level) / 2
    bounds = np.quantile(resampled, [tail, 1 - tail]) if count > 1 else [math.nan, math.nan]
    return Interval(value=value, low=float(bounds[0]), high=float(bounds[1]), level=level)
