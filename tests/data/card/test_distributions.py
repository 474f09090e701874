import numpy as np
import pytest

from edgeformers.data.card.describe import describe
from edgeformers.data.card.distributions import (
    count_times,
    degree_borders,
    distribution,
    largest,
)
from tests.data.fake_graph import FakeGraph, findings_about, microseconds, six_edges


def test_the_largest_counts_are_found_in_order():
    assert largest(np.array([2, 0, 7, 2, 7]), 3).tolist() == [2, 4, 0]
    assert largest(np.array([2, 0, 7, 2, 7]), 3, at_least=5).tolist() == [2, 4]


def test_degrees_have_two_bins_per_doubling():
    assert degree_borders(20).tolist() == [1, 2, 3, 4, 6, 8, 12, 16, 24]
    assert degree_borders(0).tolist() == [1, 2]


def test_quantiles_are_observed_values():
    numbers = distribution(np.array([1.0, 2.0, 4.0, 100.0]))
    assert (numbers.median, numbers.quantiles["95"], numbers.mean) == (2.0, 100.0, 26.75)
    assert sum(numbers.histogram.counts) == 4
    assert distribution(np.zeros(0)) is None


def test_a_long_text_is_counted_in_the_open_last_bin():
    words = ["x"] * 199 + ["x" * 900]
    lengths = describe(FakeGraph([(0, 1)] * 200, words, 1, 1)).texts.characters
    assert lengths.histogram.is_open
    assert lengths.histogram.counts[-1] >= 1
    assert sum(lengths.histogram.counts) == 200


def test_times_are_counted_by_a_suitable_period():
    times = describe(six_edges()).times
    assert (times.first, times.last) == ("2018-01-05", "2020-06-01")
    assert (times.period, times.missing, times.far) == ("month", 1, 0)
    assert times.starts[:2] == ["2018-01", "2018-02"]
    assert times.counts[:2] == [2, 1]
    assert len(times.counts) == 30
    assert sum(times.counts) == 5


def times_of(*moments):
    return count_times(microseconds(*moments))


def test_the_time_of_day_is_shown_unless_all_times_are_midnights():
    times = times_of("2020-01-01", "2020-01-01T12:30", "2020-01-02")
    assert (times.first, times.last) == ("2020-01-01T00:00:00", "2020-01-02T00:00:00")
    assert times.period == "hour"
    assert (times_of("2020-01-01", None).first, times_of(None).first) == ("2020-01-01", "")


def test_dates_are_counted_by_day():
    times = times_of("2020-01-01", "2020-01-01", "2020-01-03")
    assert (times.period, times.counts) == ("day", [2, 0, 1])


def spread(count, first="2018-01-01", days=700):
    """That many times, evenly spread over some days."""
    moments = (
        np.datetime64(first, "us") + np.arange(count) * np.timedelta64(days * 86_400, "s") // count
    )
    return [str(moment) for moment in moments]


@pytest.mark.parametrize(
    ("placeholder", "copies", "others"),
    [("0001-01-01", 1, 1200), ("1900-01-01", 1, 20_400), ("0001-01-01", 5, 1200)],
)
def test_exactly_the_times_far_from_all_others_are_counted(placeholder, copies, others):
    times = times_of(*[placeholder] * copies, *spread(others))
    assert (times.far, sum(times.counts)) == (copies, others)
    assert times.starts[0][:4] == "2018"
    assert times_of(*spread(others)).far == 0


def test_no_time_of_a_growing_network_is_far_from_all_others():
    days = np.random.default_rng(0).exponential(700, 10_000).astype("timedelta64[D]")
    moments = np.datetime64("2020-01-01", "us") - days
    assert times_of(*map(str, moments)).far == 0
    assert times_of(*["2020-01-01"] * 99, "2019-08-01").far == 0


def test_a_placeholder_time_does_not_stretch_the_plot():
    days = [f"2020-01-{1 + n % 28:02}" for n in range(2000)]
    ends = [(0, 1)] * 2001
    graph = FakeGraph(ends, ["x"] * 2001, 1, 1, times=microseconds("1800-01-01", *days))
    card = describe(graph)
    assert (card.times.first[:4], card.times.starts[0], card.times.far) == ("1800", "2020-01-01", 1)
    assert "1800-01-01" in findings_about(card, "times far off")[0].sentence
