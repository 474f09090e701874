"""Times as written: dates and times, and numbers whose format the whole column decides."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.values import NUMBER, is_blank, is_number, parse_numbers

TIME = (
    "a time; write it as 2023-05-31T12:00:00, 2023-05-31, 20230531, 2023, or a Unix time in s, ms "
    "or us"
)
MISSING = ("na", "n/a", "<na>", "nan", "nat", "none", "null")  # in lower case

#: Unit -> (size below which a number may be in it, microseconds in it).
TimeUnit = Literal["seconds", "milliseconds", "microseconds"]
TIME_UNITS: Mapping[TimeUnit, tuple[float, int]] = {
    "seconds": (1e11, 1_000_000),
    "milliseconds": (1e14, 1_000),
    "microseconds": (1e17, 1),
}
YEARS = (1000, 2999)
DATES = (19_000_101, 20_991_231)
MODERN = (315_532_800e6, 4_102_444_800e6)  # 1980 and 2100 in microseconds since 1970

#: How the numbers of a column are read; "each": each in the first of these formats that it fits.
TimeFormat = TimeUnit | Literal["years", "dates", "each"]

#: Format -> where most numbers of a column in this format are, whatever it has besides.
USUAL: Mapping[TimeFormat, tuple[float, float]] = {
    "dates": DATES,
    **{unit: (MODERN[0] / size, MODERN[1] / size) for unit, (_, size) in TIME_UNITS.items()},
}


@dataclass(frozen=True)
class TimeNumbers:
    """What decides the format of the numbers in a column of times."""

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    is_integral: bool = True
    usual: Counter[TimeFormat] = field(default_factory=Counter)  # numbers in the ranges of USUAL
    has_dates: bool = False  # there are also times that are not numbers

    @classmethod
    def of(cls, column: pa.Array) -> "TimeNumbers":
        """Those of texts or numbers; numbers that no format can read are left out."""
        has_dates = False
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            numbers = column.cast(pa.float64(), safe=False)
        else:
            numbers = parse_numbers(column)
            others = column.filter(pc.invert(pc.or_(is_number(column), is_blank(column))))
            has_dates = len(others) > 0 and parse_times(others, "each").null_count < len(others)
        values = np.asarray(numbers.drop_null())
        values = values[np.abs(values) < TIME_UNITS["microseconds"][0]]
        if not len(values):
            return cls(has_dates=has_dates)
        return cls(
            count=len(values),
            low=float(values.min()),
            high=float(values.max()),
            is_integral=not np.any(values % 1),
            usual=Counter(
                {
                    format: int(np.count_nonzero((values >= low) & (values <= high)))
                    for format, (low, high) in USUAL.items()
                }
            ),
            has_dates=has_dates,
        )

    def __or__(self, other: "TimeNumbers") -> "TimeNumbers":
        return TimeNumbers(
            self.count + other.count,
            min(self.low, other.low),
            max(self.high, other.high),
            self.is_integral and other.is_integral,
            self.usual + other.usual,
            self.has_dates or other.has_dates,
        )

    @property
    def unit(self) -> TimeUnit:
        """The unit of Unix times: that in which most are usual, else that of the largest."""
        size = max(abs(self.low), abs(self.high)) if self.count else 0.0
        largest = next(unit for unit, (limit, _) in TIME_UNITS.items() if size < limit)
        return next((unit for unit in TIME_UNITS if self._most_are(unit)), largest)

    @property
    def format(self) -> TimeFormat:
        if self.has_dates or not self.count:
            return "each"
        if self.is_integral and YEARS[0] <= self.low and self.high <= YEARS[1]:
            return "years"
        return "dates" if self._most_are("dates") else self.unit

    @property
    def is_clear(self) -> bool:
        """Whether more numbers will hardly change the format."""
        all_usual = any(self.count == self.usual[unit] > 0 for unit in TIME_UNITS)
        return self.has_dates or all_usual

    def _most_are(self, format: TimeFormat) -> bool:
        return 2 * self.usual[format] > self.count


def choose_format(columns: Iterable[pa.Array]) -> TimeFormat:
    """The format of the numbers in a column of times, which is given in pieces.

    Pieces are read until one has only times of 1980 to 2100 in one unit, or dates.
    """
    # A pass over one column before the rows are read. Of the 3.0 s of CPU time that `prepare`
    # takes for a CSV file (1 million edges, 143 MB, no tokens), it takes 0.3 s, and 0.06 s if it
    # ends early, as it does for nearly all columns.
    found = TimeNumbers()
    for column in columns:
        found |= TimeNumbers.of(column)
        if found.is_clear:
            break
    return found.format


def parse_times(column: pa.Array, format: TimeFormat) -> pa.Array:
    """Times as written, with numbers in one format -> timestamp[us] in UTC, null if unreadable."""
    query = _times_query(format)
    with _connection() as connection:
        connection.register("times", pa.table({"time": column}))
        parsed = connection.sql(query).to_arrow_table().column(0).combine_chunks()
        connection.unregister("times")
    return parsed.cast(pa.timestamp("us"))


def wrong_format(format: TimeFormat) -> str:
    """The end of the message about a number that is not in the format of its column."""
    if format in TIME_UNITS:
        return f"is not a Unix time in {format}, as most numbers are; write all in one unit"
    if format == "dates":
        return "is not a date such as 20230531, as most numbers are; correct it or leave it empty"
    return f"is not {TIME}"


#: Format -> the range of whole numbers n that are in it, and the microseconds of n.
_WHOLE_NUMBERS = {
    "years": (YEARS, "epoch_us(try_cast(try_cast(n AS INT) || '-01-01' AS TIMESTAMPTZ))"),
    "dates": (DATES, "epoch_us(try_strptime(try_cast(n AS BIGINT)::VARCHAR, '%Y%m%d'))"),
}


@cache
def _times_query(format: TimeFormat) -> str:
    """The query that reads the table `times`.

    A time is a number, ISO 8601, or a date such as "Fri Jul 05 10:22:02 -0700 2013". Times
    without a zone are UTC; years are 1 to 9999.
    """
    cases = [
        f"WHEN n = floor(n) AND n BETWEEN {first} AND {last} THEN {microseconds}"
        for name, ((first, last), microseconds) in _WHOLE_NUMBERS.items()
        if format in (name, "each")
    ] + [
        f"WHEN abs(n) < {limit:g} THEN (try_cast(t AS DECIMAL(30, 6)) * {unit})::BIGINT"
        for name, (limit, unit) in TIME_UNITS.items()
        if format in (name, "each")
    ]
    return rf"""
SELECT CASE WHEN us BETWEEN -62135596800000000 AND 253402300799999999 THEN us END FROM (
SELECT CASE
    WHEN n IS NOT NULL THEN CASE {" ".join(cases)} END
    WHEN regexp_matches(t, '^\w{{3}} \w{{3}} \d')
        THEN epoch_us(try_strptime(t, '%a %b %d %H:%M:%S %z %Y'))
    WHEN regexp_matches(t, '^[-+]?\d') THEN epoch_us(try_cast(t AS TIMESTAMPTZ))
END AS us FROM (
SELECT t, CASE WHEN regexp_full_match(t, '{NUMBER}') THEN try_cast(t AS DOUBLE) END AS n FROM (
SELECT trim(time, E' \t\r\n') AS t FROM times)))
"""


@contextmanager
def _connection() -> Iterator[Any]:
    """A connection to DuckDB that no other thread uses at the moment.

    Threads do not own connections: one that ended with the process would abort it.
    """
    import duckdb

    try:
        connection = _idle_connections.pop()
    except IndexError:
        connection = duckdb.connect(config={"threads": 1})
        connection.execute("SET TimeZone = 'UTC'")
    try:
        yield connection
    finally:
        _idle_connections.append(connection)


_idle_connections: list[Any] = []
