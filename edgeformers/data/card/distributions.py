"""Many numbers in short: quantiles, bins, periods, what is distinct and what is largest."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.card.card import Distribution, Histogram, TimeSummary

Array = NDArray[Any]

CHUNK = 1 << 20  # values looked at together where a whole column would be large
QUANTILES = (1, 5, 25, 50, 75, 95, 99)
PERIODS = {  # name -> numpy unit, finest first; the finest with at most MAX_PERIODS bars is taken
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
DAY = 86_400_000_000  # microseconds


def count_distinct(values: Array) -> tuple[Array, Array]:
    """The distinct values and how often each occurs."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    return ordered[starts], np.diff(starts, append=len(ordered))


def largest(counts: Array, number: int, at_least: int = 1) -> Array:
    """Where the largest counts stand, largest first, then in order."""
    places = np.flatnonzero(counts >= at_least)
    if len(places) > number:
        smallest = np.partition(counts[places], len(places) - number)[len(places) - number]
        places = places[counts[places] >= smallest]
    return places[np.argsort(-counts[places], kind="stable")][:number]


def distribution(values: Array, borders: Array | None = None) -> Distribution | None:
    """Any finite numbers; without `borders` the bins follow the values."""
    if not len(values):
        return None
    cuts = np.quantile(values, np.array(QUANTILES) / 100, method="inverted_cdf")
    return Distribution(
        count=len(values),
        minimum=float(values.min()),
        mean=float(values.mean(dtype=np.float64)),
        maximum=float(values.max()),
        quantiles={str(q): float(cut) for q, cut in zip(QUANTILES, cuts, strict=True)},
        histogram=_histogram(values, _number_borders(values) if borders is None else borders),
    )


def _histogram(values: Array, borders: Array) -> Histogram:
    """What lies below the first border is not counted; what lies above the last is, there."""
    bins = len(borders) - 1
    place = np.searchsorted(borders[:-1], values, side="right")  # 0: below the first border
    counts = np.bincount(place, minlength=bins + 1)[1:]
    is_open = bool(values.max() >= borders[-1])
    return Histogram(borders.astype(float).tolist(), counts.tolist(), is_open)


def degree_borders(highest: int) -> Array:
    """1, 2, 3, 4, 6, 8, 12, 16, ...: two bins to each doubling."""
    steps = [1]
    while steps[-1] <= highest:
        odd, last = len(steps) % 2 == 0, steps[-1]
        steps.append(2 if last == 1 else last * 3 // 2 if odd else last * 4 // 3)
    return np.array([*steps, steps[-1] + 1] if len(steps) == 1 else steps)


def _length_borders(lengths: Array, widths: Iterator[int], at_least: int) -> Array:
    """At most 40 equal bins up to the length that 99 of 100 texts keep within, or further."""
    reach = max(int(np.quantile(lengths, 0.99, method="inverted_cdf")), at_least) + 1
    width = next(w for w in widths if reach <= 40 * w)
    return np.arange(0, reach + width, width)


def doubling_widths() -> Iterator[int]:
    """Bin widths for tokens: 64, 128 and 256 are always borders."""
    return (2**n for n in range(64))


def round_widths() -> Iterator[int]:
    """Bin widths for characters: 1, 2, 5, 10, 20, 50, ..."""
    return (step * 10**n for n in range(18) for step in (1, 2, 5))


def _number_borders(values: Array) -> Array:
    """A bin for each whole number where there are few, else 30 equal bins."""
    low, high = float(values.min()), float(values.max())
    if max(abs(low), abs(high)) < 1e9 and high - low <= 60 and not np.any(values % 1):
        return np.arange(low, high + 2)
    borders = np.linspace(low, high, 31) if low < high else np.array([low, high])
    borders[-1] = np.nextafter(high, np.inf)  # the largest number lies below the last border
    return borders


def length_distribution(
    lengths: Array, widths: Iterator[int], at_least: int
) -> Distribution | None:
    """Lengths in bins of the first of `widths` that needs few; the axis reaches `at_least`."""
    if not len(lengths):
        return None
    return distribution(lengths, _length_borders(lengths, widths, at_least))


def count_times(times: Array | None) -> TimeSummary | None:
    """How many edges each period has, from times in microseconds since 1970."""
    if times is None:
        return None
    first_year, after_last = np.array(["0001", "10000"], "datetime64[us]").astype(np.int64)
    known = np.asarray(times)[(times >= first_year) & (times < after_last)]  # NO_TIME lies before
    missing = len(times) - len(known)
    if not len(known):
        return TimeSummary("", "", missing, 0, "year", [], [])
    is_daily = not np.any(known % DAY)
    ends = np.array([known.min(), known.max()])
    first, last = _moments(ends, "D" if is_daily else "s")
    near = _without_far(known)
    period, unit, low, high = _choose_period(near, "day" if is_daily else "second")
    counts = np.zeros(high - low + 1, dtype=np.int64)
    for start in range(0, len(near), CHUNK):
        places = _in_unit(near[start : start + CHUNK], unit) - low
        counts += np.bincount(places, minlength=len(counts))
    step = next(u for u in ("s", "m", "h", "D", "M", "Y") if unit.endswith(u))
    starts = np.arange(low, high + 1).astype(f"datetime64[{unit}]").astype(f"datetime64[{step}]")
    names = np.datetime_as_string(starts).tolist()
    far = len(known) - len(near)
    return TimeSummary(first, last, missing, far, period, names, counts.tolist())


def _in_unit(microseconds: Array, unit: str) -> Array:
    moments = microseconds.astype("datetime64[us]").astype(f"datetime64[{unit}]")
    return moments.astype(np.int64)


def _moments(microseconds: Array, unit: str) -> list[str]:
    moments = microseconds.astype("datetime64[us]").astype(f"datetime64[{unit}]")
    return [str(moment) for moment in np.datetime_as_string(moments)]


def _without_far(times: Array) -> Array:
    """All times, or those of the middle 99.8% where the ends stretch the span more than twofold."""
    low, high = np.quantile(times, (0.001, 0.999), method="inverted_cdf").tolist()
    if int(times.max()) - int(times.min()) <= 2 * (high - low):
        return times
    near: Array = times[(times >= low) & (times <= high)]
    return near


def _choose_period(times: Array, finest: str) -> tuple[str, str, int, int]:
    """The finest period with few enough bars: its name, its unit, the first and last number."""
    ends = np.array([times.min(), times.max()])
    for period, unit in list(PERIODS.items())[list(PERIODS).index(finest) :]:
        first, last = _in_unit(ends, unit).tolist()
        if last - first < MAX_PERIODS:
            return period, unit, first, last
    raise AssertionError("ten millennia hold the years 1 to 9999")
