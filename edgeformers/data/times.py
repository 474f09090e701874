"""Times as networks store them, in microseconds since 1970, from times that callers pass."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.types import Ids
from edgeformers.errors import InputError

DAY = 86_400_000_000  # microseconds
YEARS = (1, 9999)  # of a datetime
NOT_A_TIME = np.datetime64("NaT", "us")

Times = Sequence[int] | Sequence[datetime] | NDArray[np.integer] | NDArray[np.datetime64]


def as_microseconds(times: Times, count: int) -> Ids:
    """The times of `count` edges: integers are microseconds already; without a zone, UTC is meant.

    Anything that is not a time is an InputError.
    """
    try:
        values = np.asarray(times)
    except ValueError:  # lists of different lengths
        values = np.array(None)
    if values.ndim != 1 or len(values) != count:
        got = f"{len(values):,}" if values.ndim == 1 else repr(times)
        raise InputError(f"`times` must have one time per edge (got {got} for {count:,} edges)")
    stamps = _stamps(values)
    years = stamps.astype("M8[Y]").astype(np.int64) + 1970  # that of NOT_A_TIME is far below
    wrong = np.flatnonzero((years < YEARS[0]) | (years > YEARS[1]))
    if len(wrong):
        raise InputError(
            f"edge {wrong[0] + 1:,}: '{values[wrong[0]]}' in `times` is not a time; give integers "
            "(microseconds since 1970), datetime objects or numpy datetime64, in the years "
            f"{YEARS[0]} to {YEARS[1]}"
        )
    return stamps.astype("M8[us]").astype(np.int64)


def _stamps(values: NDArray[Any]) -> NDArray[np.datetime64]:
    """The values [n] as times; NOT_A_TIME where they are none."""
    if values.dtype.kind == "M":
        return values
    if values.dtype.kind in "iu":
        stamps = values.astype(np.int64).view("M8[us]")
        stamps[values > np.iinfo(np.int64).max] = NOT_A_TIME
        return stamps
    if values.dtype.kind == "O":
        return np.array([_stamp(value) for value in values], "M8[us]")
    return np.full(len(values), NOT_A_TIME)


def _stamp(value: Any) -> np.datetime64:
    try:
        if isinstance(value, datetime):
            value = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return np.datetime64(value, "us")
        is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return np.datetime64(value, "us") if is_number else NOT_A_TIME
    except (OverflowError, TypeError, ValueError):  # too large, or NaT of pandas
        return NOT_A_TIME
