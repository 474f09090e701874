from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.card.card import NamedCount
from edgeformers.report.terminal import bars, fit, format_table, sparkline, wrap


def test_small_bars_show_every_count_that_is_not_zero():
    assert sparkline([0, 1, 50, 100]) == " ▁▄█"
    assert sparkline([]) == ""


def test_columns_stand_straight_and_numbers_to_the_right():
    assert format_table([["", "edges"], ["良い", "2"], ["bad\x1b", "1,000"]]) == [
        "        edges",
        "  良い      2",
        "  bad   1,000",
    ]
    assert format_table([]) == []


def test_a_line_is_cut_by_the_columns_it_takes():
    assert fit("abcdef", 6) == "abcdef"
    assert fit("abcdef", 4) == "abc…"
    assert fit("良い良い", 6) == "良い…"


def test_words_are_wrapped_by_the_columns_they_take_and_never_lost():
    assert wrap("a bb ccc dddd", 6, "- ", "  ") == ["- a bb", "  ccc", "  dddd"]
    assert wrap("良い良い よ", 7, "", "  ") == ["良い良", "  い よ"]
    assert wrap("abcdefghij k", 5, "! ", "  ") == ["! abc", "  def", "  ghi", "  j k"]
    assert wrap(" ", 9, "- ") == []


@given(st.text("ab良 \n", max_size=60), st.integers(6, 30), st.sampled_from(["", "! "]))
def test_no_wrapped_line_is_too_wide_and_all_letters_stay(text, width, first):
    lines = wrap(text, width, first, "  ")
    assert all(fit(line, width) == line for line in lines)
    joined = "".join(line.removeprefix(first if i == 0 else "  ") for i, line in enumerate(lines))
    assert joined.replace(" ", "") == "".join(text.split())


def test_bars_are_as_long_as_their_counts_and_fill_the_room_at_most():
    long, short, none = bars([NamedCount("a", 8), NamedCount("b", 4), NamedCount("c", 0)], 30, 16)
    assert long.startswith("  a  8  50%  █")
    assert (len(long), long.count("█"), short.count("█")) == (30, 17, 8)
    assert none == "  c  0   0%"
    assert bars([], 30, 0) == []
