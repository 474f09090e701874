"""Times that callers pass."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from edgeformers.data.times import as_microseconds
from edgeformers.errors import InputError

NOON = datetime(2024, 5, 1, 12, 0, 0, 7)
MICROSECONDS = 1_714_564_800_000_007
ZONE = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    "times",
    [
        [MICROSECONDS],
        (MICROSECONDS,),
        np.array([MICROSECONDS], np.uint64),
        pd.Series([MICROSECONDS], index=["a"]),
        [NOON],
        [NOON.replace(tzinfo=UTC)],
        [NOON.replace(hour=14, tzinfo=ZONE)],
        [pd.Timestamp(NOON)],
        pd.Series([NOON]),
        pd.Series([NOON]).dt.tz_localize("UTC").dt.tz_convert(ZONE),
        np.array([NOON], "M8[us]"),
        np.array([NOON], "M8[ns]"),
        [np.datetime64(NOON)],
    ],
)
def test_a_time_is_understood_in_every_form(times):
    found = as_microseconds(times, 1)
    assert (found.dtype, found.tolist()) == (np.int64, [MICROSECONDS])


def test_units_of_numpy_and_empty_lists_are_understood():
    days = np.array(["1970-01-02", "1969-12-31"], "M8[D]")
    assert as_microseconds(days, 2).tolist() == [86_400_000_000, -86_400_000_000]
    assert as_microseconds(np.array([1, 2], np.int32), 2).tolist() == [1, 2]
    assert as_microseconds([], 0).dtype == np.int64


@pytest.mark.parametrize(
    "value",
    [
        "2024-05-01",
        1.5,
        True,
        None,
        date(2024, 5, 1),
        timedelta(days=1),
        np.timedelta64(1, "D"),
        np.datetime64("NaT"),
        pd.NaT,
        MICROSECONDS * 1000,  # nanoseconds
        2**70,
        -(2**63),
        np.uint64(2**64 - 1),
        np.datetime64("300000", "Y"),
        np.datetime64("-0001", "Y"),
        datetime.min.replace(tzinfo=ZONE),
    ],
    ids=repr,
)
def test_what_is_no_time_is_refused_with_its_edge(value):
    with pytest.raises(InputError, match=r"edge 1: .*`times`"):
        as_microseconds([value], 1)


def test_the_first_value_that_is_no_time_is_named():
    for times in ([NOON, NOON, "soon"], [1, 2, None], np.array(["2024", "2025", "NaT"], "M8[Y]")):
        with pytest.raises(InputError, match="edge 3"):
            as_microseconds(times, 3)


@pytest.mark.parametrize(
    "times", [[1], [1, 2, 3], [], 5, "ab", [[1], [2, 3]], [[1, 2]], iter([1, 2]), NOON]
)
def test_there_is_one_time_per_edge(times):
    with pytest.raises(InputError, match="2 edges"):
        as_microseconds(times, 2)
