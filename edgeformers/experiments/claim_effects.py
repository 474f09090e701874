"""The comparisons that a claim makes: their size, interval, number of seeds, and support."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from edgeformers.evaluation import fit_polynomial, welch_test
from edgeformers.experiments.model_rows import varies_with_seed
from edgeformers.experiments.record import Comparison, Record
from edgeformers.experiments.tables import Means, TableSpec, row_means
from edgeformers.report.formatting import metric_name

MIN_R_SQUARED = 0.98  # of a linear function
RowPair: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]  # rows averaged on either side


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One comparison; `sign` says whether it supports the claim (1), refutes it (-1) or neither."""

    what: str
    value: float
    support: float  # how far the value is on the claim's side
    sign: int
    low: float = math.nan
    high: float = math.nan
    p_value: float = 0.0
    seeds: int = 1
    covers_seeds: bool = True  # whether the interval is also about other seeds
    style: Literal["difference", "percent", "times", "slope"] = "difference"
    side: int = 0  # of a claim with several

    @property
    def is_tested(self) -> bool:
        return math.isfinite(self.low)

    @property
    def shown(self) -> str:
        """The value as it is shown."""
        return self._show(self.value, "" if self.style == "times" else "+")

    @property
    def interval(self) -> str:
        """The interval as it is shown."""
        if not self.is_tested:
            return "–"
        return f"{self._show(self.low)} to {self._show(self.high)}"

    def _show(self, value: float, sign: str = "") -> str:
        if self.style == "percent":
            return f"{100 * value:{sign}.2f}"
        if self.style == "slope":
            return f"{value:{sign}.3g}"
        return f"{value:{sign}.2f}×" if self.style == "times" else f"{value:{sign}.4f}"


def row_effects(
    record: Record, spec: TableSpec, metric: str, pairs: Sequence[RowPair]
) -> Iterator[Effect]:
    """Differences between rows by a metric, tested on examples if the record has such tests.

    Records keep the test of the weakest pair only; then the others are left out.
    """
    means = row_means(record, spec)
    tests = {(t.table, t.metric, t.best, t.second): t for t in record.claim_tests}
    tested = [((a, b), tests.get((spec.name, metric, "+".join(a), "+".join(b)))) for a, b in pairs]
    is_tested = any(test is not None for _, test in tested)
    for pair, test in tested:
        if test is not None or not is_tested:
            yield _row_effect(record, spec, metric, pair, test, means)


def ratio_effects(
    record: Record,
    spec: TableSpec,
    better: Sequence[str],
    worse: Sequence[str],
    bounds: tuple[float, float],
) -> Iterator[Effect]:
    """Ratios of times, which should be within bounds for every number of neighbors."""
    means, (lowest, highest) = row_means(record, spec), bounds
    tests = {(t.metric, t.best, t.second): t for t in record.claim_tests if t.table == spec.name}
    for metric in spec.metrics:
        measured = [
            [row for row in rows if metric in means.get(row, {})] for rows in (better, worse)
        ]
        for a, b in ((a, b) for a in measured[0] for b in measured[1]):
            ratio = means[a][metric].value / means[b][metric].value
            test = tests.get((metric, a, b))
            low, high = (1 + test.low, 1 + test.high) if test else (ratio, ratio)
            is_inside, is_outside = lowest <= low <= high <= highest, high < lowest or low > highest
            yield Effect(
                what=_describe(((a,), (b,)), metric, record.titles).replace(" over ", " to "),
                value=ratio,
                support=min(ratio - lowest if lowest else math.inf, highest - ratio),
                sign=1 if is_inside else -1 if is_outside else 0,
                low=low if test else math.nan,
                high=high if test else math.nan,
                covers_seeds=False,
                style="times",
            )


def linear_effects(record: Record, spec: TableSpec, row: str) -> Iterator[Effect]:
    """Whether the times of a row are a rising linear function of the number of neighbors."""
    cells = row_means(record, spec).get(row, {})
    if len(cells) < 3:
        return
    fit = fit_polynomial([float(n) for n in cells], [cell.value for cell in cells.values()])
    slope = fit.coefficient
    is_linear = slope.value > 0 and fit.r_squared >= MIN_R_SQUARED
    yield Effect(
        what=f"ms per neighbor, R² = {fit.r_squared:.4f}",
        value=slope.value,
        support=slope.value,
        sign=1 if is_linear else -1,
        low=slope.low,
        high=slope.high,
        covers_seeds=False,
        style="slope",
    )


def trend_effects(
    record: Record, spec: TableSpec, metrics: Sequence[str], *, is_concave: bool
) -> Iterator[Effect]:
    """The slope of a score over the logarithm of a setting, or the curvature over the setting.

    Both are least-squares fits to all runs, so their intervals are over seeds.
    """
    settings = {row.name: float(row.title) for row in record.rows if row.title.isdigit()}
    for metric in metrics:
        points = [
            (settings[entry.row], entry.metrics[spec.part][metric], entry.row)
            for entry in record.entries
            if entry.row in settings and metric in entry.metrics.get(spec.part, {})
        ]
        degree = 2 if is_concave else 1
        if len({x for x, _, _ in points}) < degree + 2:
            continue
        xs, ys, rows = zip(*points, strict=True)
        fit = fit_polynomial(xs if is_concave else np.log2(xs), ys, degree).coefficient
        what = "curvature" if is_concave else "gain per doubling"
        is_tested = math.isfinite(fit.low)
        sign = (fit.low > 0) - (fit.high < 0) if is_tested else 0
        yield Effect(
            what=f"{what} of {metric_name(metric.rpartition('/')[2])}",
            value=fit.value,
            support=-fit.value if is_concave else fit.value,
            sign=-sign if is_concave else sign,
            low=fit.low,
            high=fit.high,
            seeds=min(rows.count(row) for row in set(rows)),
            style="slope",
        )


def measured_effects(record: Record, name: str) -> Iterator[Effect]:
    """A difference measured on trained models."""
    for measured in record.measurements:
        if measured.name == name:
            low, high = (math.nan if end is None else end for end in (measured.low, measured.high))
            yield Effect(
                what=measured.what or name,
                value=measured.value,
                support=measured.value,
                sign=(low > 0) - (high < 0),
                low=low,
                high=high,
                seeds=measured.seeds,
                covers_seeds=measured.seeds > 1,
                style="slope",
            )


def _row_effect(
    record: Record,
    spec: TableSpec,
    metric: str,
    pair: RowPair,
    test: Comparison | None,
    means: Means,
) -> Effect:
    values = [float(np.mean([means[row][metric].value for row in rows])) for rows in pair]
    difference = values[0] - values[1]
    scores = [[_seed_scores(record, spec, row, metric) for row in rows] for rows in pair]
    runs = [
        len(one)
        for side, rows in zip(scores, pair, strict=True)
        for one, row in zip(side, rows, strict=True)
        if varies_with_seed(row)
    ]
    low = high = math.nan
    p_value, covers_seeds, seeds = 0.0 if difference > 0 else 1.0, True, min(runs, default=1)
    if test is not None:
        low, high, p_value = test.low, test.high, test.p_value
        covers_seeds = test.seeds > 1
    elif runs and min(runs) > 1:
        interval, p_value = welch_test(scores[0], scores[1])
        low, high = interval.low, interval.high
    sign = 1 if difference > 0 else -1
    if math.isfinite(low):
        sign = (low > 0 and difference > 0) - (high < 0 and difference < 0)
    return Effect(
        what=_describe(pair, metric, record.titles),
        value=difference,
        support=difference,
        sign=sign,
        low=low,
        high=high,
        p_value=p_value,
        seeds=seeds,
        covers_seeds=covers_seeds,
        style="percent" if spec.percent else "difference",
    )


def _seed_scores(record: Record, spec: TableSpec, row: str, metric: str) -> list[float]:
    """The score of each seed; a seed may have several entries."""
    by_seed: dict[int, list[float]] = {}
    for entry in record.entries:
        if entry.row == row and metric in entry.metrics.get(spec.part, {}):
            by_seed.setdefault(entry.seed, []).append(entry.metrics[spec.part][metric])
    return [float(np.mean(scores)) for scores in by_seed.values()]


def _describe(pair: RowPair, metric: str, titles: Mapping[str, str]) -> str:
    above, below = (
        re.sub("^- ", "the model without the ", titles[rows[0]])
        if len(rows) == 1
        else f"the mean of {len(rows)} models"
        for rows in pair
    )
    metric = metric.rpartition("/")[2]
    where = f"with {metric} neighbors" if metric.isdigit() else f"in {metric_name(metric)}"
    return f"{above} over {below} {where}"
