"""Summary statistics of arrays: quantiles, histograms, counts per period, most frequent values."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.card.card import Distribution, Histogram, NamedCount, TimeSummary
from edgeformers.data.times import DAY

Array = NDArray[Any]

CHUNK = 1 << 20  # values converted at once, to bound the memory of temporary arrays
QUANTILES = (1, 5, 25, 50, 75, 95, 99)
TOKEN_WIDTHS = [2**n for n in range(64)]  # bin widths with borders at 64, 128 and 256
CHARACTER_WIDTHS = [step * 10**n for n in range(18) for step in (1, 2, 5)]
LENGTH_BINS = 40
PERIODS = {  # name -> numpy unit, finest first
    "second": "s",
    "minute": "m",
    "hour": "h",
    "day": "D",
    "week": "7D",
    "month": "M",
    "quarter": "3M",
    "year": "Y",
    "decade": "10Y",
    "century": "100Y",
    "millennium": "1000Y",
}
MAX_PERIODS = 80
YEAR = 365 * DAY


def largest(counts: Array, number: int, at_least: int = 1) -> Array:
    """The indices of the largest counts in descending order; ties keep their order."""
    places = np.flatnonzero(counts >= at_least)
    if len(places) > number:
        smallest = np.partition(counts[places], len(places) - number)[len(places) - number]
        places = places[counts[places] >= smallest]
    return places[np.argsort(-counts[places], kind="stable")][:number]


def distribution(values: Array, borders: Array | None = None) -> Distribution | None:
    """Statistics of finite numbers, or None if there are none; default bins fit the values."""
    if not len(values):
        return None
    quantiles = np.quantile(values, np.array(QUANTILES) / 100, method="inverted_cdf")
    return Distribution(
        count=len(values),
        minimum=float(values.min()),
        mean=float(values.mean(dtype=np.float64)),
        maximum=float(values.max()),
        quantiles={str(q): float(value) for q, value in zip(QUANTILES, quantiles, strict=True)},
        histogram=_histogram(values, _number_borders(values) if borders is None else borders),
    )


def length_distribution(lengths: Array, widths: Iterable[int], reach: int) -> Distribution | None:
    """Statistics of text lengths in at most 40 bins up to the 99% quantile, or to `reach`."""
    if not len(lengths):
        return None
    end = max(int(np.quantile(lengths, 0.99, method="inverted_cdf")), reach) + 1
    width = next(width for width in widths if end <= LENGTH_BINS * width)
    return distribution(lengths, np.arange(0, end + width, width))


def degree_borders(highest: int) -> Array:
    """1, 2, 3, 4, 6, 8, 12, 16, ...: two bins per doubling."""
    steps = [1, 2]
    while steps[-1] <= highest:
        last = steps[-1]
        steps.append(last * 3 // 2 if len(steps) % 2 == 0 else last * 4 // 3)
    return np.array(steps)


def _number_borders(values: Array) -> Array:
    """One bin per integer if there are few, otherwise 30 equal bins."""
    low, high = float(values.min()), float(values.max())
    if max(abs(low), abs(high)) < 1e9 and high - low <= 60 and not np.any(values % 1):
        return np.arange(low, high + 2)
    borders = np.linspace(low, high, 31) if low < high else np.array([low, high])
    borders[-1] = np.nextafter(high, np.inf)  # include the largest value
    return borders


def _histogram(values: Array, borders: Array) -> Histogram:
    """Values below the first border are not counted; those above the last are in the last bin."""
    bins = len(borders) - 1
    place = np.searchsorted(borders[:-1], values, side="right")  # 0: below the first border
    counts = np.bincount(place, minlength=bins + 1)[1:]
    is_open = bool(values.max() >= borders[-1])
    return Histogram(borders.astype(float).tolist(), counts.tolist(), is_open)


def count_times(times: Array | None) -> TimeSummary | None:
    """The number of edges per period, from times in microseconds since 1970."""
    if times is None:
        return None
    first_year, after_last = np.array(["0001", "10000"], "datetime64[us]").astype(np.int64)
    known = np.asarray(times)[(times >= first_year) & (times < after_last)]  # NO_TIME is before
    missing = len(times) - len(known)
    if not len(known):
        return TimeSummary("", "", missing, 0, "year", [], [])
    is_daily = not np.any(known % DAY)
    ends = _to_unit(np.array([known.min(), known.max()]), "D" if is_daily else "s")
    first, last = np.datetime_as_string(ends).tolist()
    near = _without_outliers(known)
    period, unit, low, high = _choose_period(near, "day" if is_daily else "second")
    counts = np.zeros(high - low + 1, dtype=np.int64)
    for start in range(0, len(near), CHUNK):
        places = _to_unit(near[start : start + CHUNK], unit).astype(np.int64) - low
        counts += np.bincount(places, minlength=len(counts))
    step = next(u for u in ("s", "m", "h", "D", "M", "Y") if unit.endswith(u))
    starts = np.arange(low, high + 1).astype(f"datetime64[{unit}]").astype(f"datetime64[{step}]")
    names = np.datetime_as_string(starts).tolist()
    year_1971, now = np.array(["1971", "now"], "datetime64[us]").astype(np.int64)
    return TimeSummary(
        first,
        last,
        missing,
        len(known) - len(near),
        period,
        names,
        counts.tolist(),
        future=_count_between(times, now + DAY, after_last),  # somewhere it is tomorrow already
        early=_count_between(times, first_year, year_1971),
    )


def _count_between(times: Array, start: int, end: int) -> NamedCount | None:
    """The number of edges from one time to before another, by the first of them; None if none."""
    chosen = (times >= start) & (times < end)
    first = int(np.argmax(chosen))
    if not chosen[first]:
        return None
    day = np.datetime_as_string(_to_unit(times[first : first + 1], "D"))[0]
    return NamedCount(f"edge {first:,} ({day})", int(np.count_nonzero(chosen)))


def _to_unit(microseconds: Array, unit: str) -> Array:
    return microseconds.astype("datetime64[us]").astype(f"datetime64[{unit}]")


def _without_outliers(times: Array) -> Array:
    """The times that are near the middle 90%: within a year, or three times their range.

    In a network that grows exponentially, about 1 in 100,000 edges is farther away.
    """
    low, high = np.quantile(times, (0.05, 0.95), method="inverted_cdf").tolist()
    reach = max(3 * (high - low), YEAR)
    if low - reach <= times.min() and times.max() <= high + reach:
        return times
    near: Array = times[(times >= low - reach) & (times <= high + reach)]
    return near


def _choose_period(times: Array, finest: str) -> tuple[str, str, int, int]:
    """The finest period with at most MAX_PERIODS bars: name, unit, first and last number."""
    ends = np.array([times.min(), times.max()])
    for period, unit in list(PERIODS.items())[list(PERIODS).index(finest) :]:
        first, last = _to_unit(ends, unit).astype(np.int64).tolist()
        if last - first < MAX_PERIODS:
            return period, unit, first, last
    raise AssertionError("the years 1 to 9999 are ten millennia")
