import pytest

from edgeformers.data.card.card import Histogram
from edgeformers.report import svg


def test_the_cut_is_marked_only_where_the_axis_reaches_it():
    data = Histogram([0.0, 32.0, 64.0, 96.0], [5, 2, 1], is_open=True)
    plot = svg.histogram(data, "lengths", "tokens", "texts", (64.0, "64 tokens"))
    assert ">64 tokens</text>" in plot
    assert 'x1="60.000%"' in plot  # two thirds of the 90% that marks use
    assert "64 or more tokens: 1 texts" in plot
    assert "mark" not in svg.histogram(data, "lengths", "tokens", "texts", (200.0, "200"))


def test_the_degree_plot_counts_from_above():
    plot = svg.survival(Histogram([1.0, 2.0, 3.0, 4.0], [6, 3, 1]), "degrees", "nodes")
    for tip in ("at least 1: 10 nodes (100%)", "at least 2: 4 nodes (40%)", "at least 3: 1 nodes"):
        assert tip in plot


@pytest.mark.parametrize(
    ("number", "name"), [(0, "0"), (999, "999"), (1200, "1.2k"), (5e6, "5M"), (2.5e9, "2.5G")]
)
def test_axis_numbers_are_short(number, name):
    assert svg.compact(number) == name
