"""How sure a number is: intervals, spreads over seeds, and comparisons of two runs."""

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


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value and where resampling puts it; of fewer than two examples the bounds are nan."""

    value: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True, kw_only=True)
class SeedSummary:
    """Mean and sample deviation over runs; of a single run the deviation is unknown: nan."""

    mean: float
    deviation: float
    runs: int

    def __str__(self) -> str:
        shown = "one run" if self.runs == 1 else f"± {self.deviation:.4f}, {self.runs} runs"
        return f"{self.mean:.4f} ({shown})"


@dataclass(frozen=True, kw_only=True)
class PairedComparison:
    """Whether run a beats run b on the same examples.

    `difference` is mean(a) - mean(b) with its bootstrap interval; `p_value` is that of a test
    which flips the signs of differences at random, `sign_p_value` that of the exact sign test,
    which counts wins and losses alone. Both are two-sided.
    """

    difference: Interval
    p_value: float
    sign_p_value: float
    wins: int
    losses: int
    ties: int


def is_significant(gains: ArrayLike, groups: ArrayLike | None = None) -> bool:
    """Whether the mean gain of examples is more than two of its standard errors.

    With `groups` [n], examples of one group count as one observation, as in `bootstrap_interval`.
    """
    sums, sizes = _by_group(gains, groups)
    if len(sums) < 2:
        return False
    mean, count = sums.sum() / sizes.sum(), len(sums)
    apart = np.square(sums - mean * sizes).sum() * count / (count - 1)
    return bool(mean > 2 * math.sqrt(apart) / sizes.sum())


def bootstrap_interval(
    values: ArrayLike,
    seed: int,
    level: float = 0.95,
    *,
    resamples: int = 2000,
    groups: ArrayLike | None = None,
) -> Interval:
    """The percentile interval of a mean over examples.

    Examples that belong together, such as the test pairs of one query, are not independent: with
    `groups` [n], whole groups are drawn, and the interval does not come out too narrow.
    """
    sums, sizes = _by_group(values, groups)
    rng = np.random.default_rng(seed)
    blocks = _resampled_rows(len(sums), resamples, rng)
    means = [sums[drawn].sum(1) / sizes[drawn].sum(1) for drawn in blocks]
    return _interval(metrics.mean(values), np.hstack([[], *means]), level, len(sums))


def bootstrap_statistic(
    statistic: Callable[[Ids], float],
    num_examples: int,
    seed: int,
    level: float = 0.95,
    *,
    resamples: int = 1000,
) -> Interval:
    """The interval of any function of chosen examples, called once for every resample."""
    rng = np.random.default_rng(seed)
    blocks = _resampled_rows(num_examples, resamples, rng)
    drawn = np.array([statistic(rows) for block in blocks for rows in block])
    return _interval(statistic(np.arange(num_examples)), drawn, level, num_examples)


def bootstrap_f1(
    labels: ArrayLike,
    predicted: ArrayLike,
    seed: int,
    level: float = 0.95,
    *,
    average: Literal["macro", "micro"] = "macro",
    resamples: int = 2000,
) -> Interval:
    """The interval of Macro- or Micro-F1; of classes [n] by drawing confusion tables, at once."""
    truth, guess = np.asarray(labels), np.asarray(predicted)
    f1 = metrics.macro_f1 if average == "macro" else metrics.micro_f1
    if truth.ndim == 2:
        return bootstrap_statistic(
            lambda rows: f1(truth[rows], guess[rows]), len(truth), seed, level, resamples=resamples
        )
    counts = metrics.confusion(truth, guess)
    if len(truth) < 2:
        return _interval(f1(truth, guess), np.empty(0), level, len(truth))
    rng = np.random.default_rng(seed)
    tables = rng.multinomial(len(truth), counts.ravel() / len(truth), size=resamples)
    tables = tables.reshape(resamples, *counts.shape)
    right = np.trace(tables, axis1=1, axis2=2) / len(truth)
    drawn = np.nanmean(f1_of_confusion(tables), axis=1) if average == "macro" else right
    return _interval(f1(truth, guess), drawn, level, len(truth))


def summarize_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, SeedSummary]:
    """Mean and sample deviation (n - 1) of every metric over runs that differ in their seed."""
    names = list(runs[0]) if runs else []
    for run in runs:
        if odd := set(names) ^ set(run):
            raise InputError(f"metric '{min(odd)}' is not in all of the {len(runs)} runs")
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
    """Two runs' scores of the same examples [n]: who is better, by how much, and how surely.

    With `groups` [n] the examples of a group are drawn, flipped and counted as one.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape:
        raise InputError(
            f"two runs are compared on the same examples (got {len(first)} and {len(second)})"
        )
    gain = first - second
    sums, _ = _by_group(gain, groups)
    wins, losses = int((sums > 0).sum()), int((sums < 0).sum())
    return PairedComparison(
        difference=bootstrap_interval(gain, seed, level, resamples=resamples, groups=groups),
        p_value=_sign_flip_p(sums, np.random.default_rng([seed, 1]), resamples),
        sign_p_value=_sign_test_p(wins, losses),
        wins=wins,
        losses=losses,
        ties=len(sums) - wins - losses,
    )


def _sign_flip_p(differences: Floats, rng: np.random.Generator, resamples: int) -> float:
    """How often random signs give a sum at least as far from 0; never below 1 / (resamples + 1)."""
    moved = differences[differences != 0]
    total = abs(moved.sum()) * (1 - 1e-12)  # the same sum in another order is no smaller
    extreme = 1
    for part in index_blocks(resamples, max(1, BLOCK // 4 // max(len(moved), 1))):
        size = len(part) * len(moved)
        bits = np.unpackbits(np.frombuffer(rng.bytes((size + 7) // 8), np.uint8))[:size]
        flipped = (2.0 * bits.reshape(len(part), -1) - 1) @ moved if size else np.zeros(len(part))
        extreme += int((np.abs(flipped) >= total).sum())
    return extreme / (resamples + 1)


def _sign_test_p(wins: int, losses: int) -> float:
    """The chance of a split at least this uneven if both sides were equally likely."""
    n, fewer = wins + losses, min(wins, losses)
    log_factorial = np.append(0.0, np.cumsum(np.log(np.arange(1, n + 1))))
    k = np.arange(fewer + 1)
    chances = np.exp(log_factorial[n] - log_factorial[k] - log_factorial[n - k] - n * math.log(2))
    return min(1.0, 2 * float(chances.sum()))


def _by_group(values: ArrayLike, groups: ArrayLike | None) -> tuple[Floats, Floats]:
    """Sum and number of the values of each group; without groups every value is its own."""
    array = np.asarray(values, np.float64)
    if groups is None:
        return array, np.ones(len(array))
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(group, weights=array).astype(np.float64)
    return sums, np.bincount(group).astype(np.float64)


def _resampled_rows(count: int, resamples: int, rng: np.random.Generator) -> Iterator[Ids]:
    """Blocks [r, count] of examples drawn with replacement, `resamples` rows in all."""
    if count < 2:
        return
    for part in index_blocks(resamples, max(1, BLOCK // 4 // count)):
        yield rng.integers(0, count, (len(part), count))


def _interval(value: float, drawn: Floats, level: float, count: int) -> Interval:
    if not 0 < level < 1:
        raise InputError(f"the level of an interval is between 0 and 1, such as 0.95 (got {level})")
    tail = (1 - level) / 2
    bounds = np.quantile(drawn, [tail, 1 - tail]) if count > 1 else [math.nan, math.nan]
    return Interval(value=value, low=float(bounds[0]), high=float(bounds[1]), level=level)
