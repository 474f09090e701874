"""Bare numbers of a time column are read in one format, chosen for the whole column."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgeformers.data.readers.tables import read_edges
from edgeformers.data.table import BATCH_ROWS
from edgeformers.errors import InputError
from tests.data.readers.table_files import error_of, save

EPOCH = datetime(1970, 1, 1)


def write(folder, times, name="edges.csv"):
    lines = [f"a,b,c,{time}" for time in times]
    return save(folder, "\n".join(["source,target,text,when", *lines]) + "\n", name)


def times_of(data, **options):
    return read_edges(data, time="when", **options).to_arrow().column("time").to_pylist()


def frame(times):
    count = len(times)
    return {"source": ["a"] * count, "target": ["b"] * count, "text": ["c"] * count, "when": times}


def seconds(numbers, unit=1.0):
    return [EPOCH + timedelta(seconds=number * unit) for number in numbers]


def test_steps_keep_their_order(tmp_path):
    steps = range(0, 2400, 2)
    assert times_of(write(tmp_path, steps)) == seconds(steps)


def test_seconds_since_a_start_keep_their_order(tmp_path):
    numbers = [0, 1000, 2013, 19_007_947, 20_130_705, 25_000_000]
    assert times_of(write(tmp_path, numbers)) == seconds(numbers)


@pytest.mark.parametrize("numbers", [[1.5e9, 1e11 + 5e9], [5, 1.5e12], [2013, 1.5e12]])
def test_all_numbers_have_the_unit_of_the_largest(tmp_path, numbers):
    written = [int(number) for number in numbers]
    assert times_of(write(tmp_path, written)) == seconds(written, 0.001)


def test_numbers_that_are_all_years_are_years(tmp_path):
    years = [datetime(2010, 1, 1), datetime(1850, 1, 1)]
    for written in ([2010, 1850], ["2010.0", "1850.0"]):
        assert times_of(write(tmp_path, written)) == years
    assert times_of(pd.DataFrame(frame([2010.0, np.nan, 1850.0]))) == [years[0], None, years[1]]
    assert times_of(write(tmp_path, ["2010.5", 2011])) == seconds([2010.5, 2011])


def test_numbers_that_are_all_dates_are_dates(tmp_path):
    expected = [datetime(2013, 7, 5), None, datetime(1999, 12, 31)]
    assert times_of(write(tmp_path, [20130705, "", 19991231])) == expected
    bad = write(tmp_path, [20130705, 20130231])
    assert "line 3: column 'when': '20130231'" in error_of(bad, time="when")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "text.parquet", "frame"])
def test_a_number_after_the_first_batch_counts(tmp_path, kind):
    steps = [*range(1000, 1000 + BATCH_ROWS // 64)] * 64 + [7]
    if kind == "csv":
        data = write(tmp_path, steps)
    elif kind == "jsonl":
        row = '{{"source": "a", "target": "b", "text": "c", "when": {}}}'
        data = save(tmp_path, "\n".join(map(row.format, steps)), "edges.jsonl")
    elif kind == "frame":
        data = pa.table(frame(steps))
    else:
        data = tmp_path / f"edges.{kind}"
        column = pa.array(steps).cast(pa.string() if kind == "text.parquet" else pa.int64())
        pq.write_table(pa.table(frame(column)), data)
    assert times_of(data)[-2:] == seconds(steps[-2:])


def test_the_files_of_a_table_have_one_format(tmp_path):
    write(tmp_path, [2010, 2011], "a.csv")
    write(tmp_path, [0, 1000], "b.csv")
    assert times_of(tmp_path) == seconds([2010, 2011, 0, 1000])


def test_numbers_next_to_written_times_are_read_one_by_one(tmp_path):
    written = ["2013-07-05", 2014, 20150601, 1500000000, 1500000000000]
    moment = datetime(2017, 7, 14, 2, 40)
    expected = [datetime(2013, 7, 5), datetime(2014, 1, 1), datetime(2015, 6, 1), moment, moment]
    assert times_of(write(tmp_path, written)) == expected
    assert times_of(write(tmp_path, written[::-1])) == expected[::-1]


@pytest.mark.parametrize(
    "numbers",
    [
        [1_500_000_000, 0, 1_500_000_001, 1_500_000_002, 1_500_000_000_000],
        [1_500_000_000_000, -1, 1_500_000_000_001, 1_500_000_000_002, 1_500_000_000_000_000],
        [20130705, 0, 20130706, 20130707, 99991231],
    ],
)
def test_a_few_numbers_in_another_format_are_errors_and_change_no_others(tmp_path, numbers):
    path = write(tmp_path, numbers)
    table = read_edges(path, time="when", on_error="skip")
    expected = times_of(write(tmp_path, numbers[:1] + numbers[2:4], "usual.csv"))
    read = [time for time in table.to_arrow().column("time").to_pylist() if time.year > 1970]
    assert read == expected
    assert f"line 6: column 'when': '{numbers[-1]}'" in table.errors.examples[-1]


def test_a_number_in_another_unit_than_many_times_before_it_is_an_error(tmp_path):
    path = write(tmp_path, [1_500_000_000] * 3 * BATCH_ROWS + [1_500_000_000_000])
    assert f"line {3 * BATCH_ROWS + 2}: column 'when': '1500000000000'" in error_of(
        path, time="when"
    )


def test_malformed_rows_do_not_hide_the_unit(tmp_path):
    path = save(tmp_path, "source,target,text,when\na,b,c,5\na,b\na,b,c,1500000000000\n")
    assert times_of(path, on_error="skip") == seconds([5, 1_500_000_000_000], 0.001)


@pytest.mark.parametrize("word", ["NaT", "nan", "NULL", "None", "NA", "<NA>", " nat"])
def test_a_word_for_a_missing_time_is_an_error_that_says_to_leave_it_empty(tmp_path, word):
    path = write(tmp_path, [2013, word, 2014])
    assert "line 3: column 'when': '" in error_of(path, time="when")
    assert "empty" in error_of(path, time="when")
    table = read_edges(path, time="when", on_error="skip")
    assert [time.year for time in table.to_arrow().column("time").to_pylist()] == [2013, 2014]
    assert table.errors.count == 1


@pytest.mark.parametrize("written", ["Jul 5 2013", "07/05/2013", "noon"])
def test_an_unread_format_is_an_error_that_names_those_that_are_read(tmp_path, written):
    message = error_of(write(tmp_path, [written]), time="when")
    assert "2023-05-31T12:00:00" in message
    assert "20230531" in message


def test_durations_and_periods_are_refused():
    lengths = pd.to_timedelta([1, 2], unit="D")
    months = pd.period_range("2015-01", periods=2, freq="M")
    for times in (lengths, months):
        with pytest.raises(InputError, match="'when'"):
            read_edges(pd.DataFrame(frame(times)), time="when")
    with pytest.raises(InputError, match="to_timestamp"):
        read_edges(pd.DataFrame(frame(months)), label="when")
    starts = pd.DataFrame(frame(months.to_timestamp()))
    assert times_of(starts) == [datetime(2015, 1, 1), datetime(2015, 2, 1)]
