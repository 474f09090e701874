from edgeformers.data.card import NamedCount
from edgeformers.report.terminal import bars, fit, sparkline, table


def test_small_bars_show_every_count_that_is_not_zero():
    assert sparkline([0, 1, 50, 100]) == " ▁▄█"
    assert sparkline([]) == ""


def test_columns_stand_straight_and_numbers_to_the_right():
    assert table([["", "edges"], ["良い", "2"], ["bad\x1b", "1,000"]]) == [
        "        edges",
        "  良い      2",
        "  bad   1,000",
    ]
    assert table([]) == []


def test_a_line_is_cut_by_the_columns_it_takes():
    assert fit("abcdef", 6) == "abcdef"
    assert fit("abcdef", 4) == "abc…"
    assert fit("良い良い", 6) == "良い…"


def test_bars_are_as_long_as_their_counts_and_fill_the_room_at_most():
    long, short, none = bars([NamedCount("a", 8), NamedCount("b", 4), NamedCount("c", 0)], 30, 16)
    assert long.startswith("  a  8  50%  █")
    assert (len(long), long.count("█"), short.count("█")) == (30, 17, 8)
    assert none == "  c  0   0%"
    assert bars([], 30, 0) == []
