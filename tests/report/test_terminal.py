from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.card.card import Finding, NamedCount
from edgeformers.report.card_page import bar_tables
from edgeformers.report.formatting import format_table
from edgeformers.report.page import (
    Bullets,
    Cell,
    Details,
    Findings,
    IntervalCell,
    Page,
    Paragraph,
    Section,
    Table,
)
from edgeformers.report.terminal import render_text, sparkline


def make_page(*blocks):
    return Page(
        kind="k", title="films", lead=["A lead."], sections=[Section("Part", blocks)], footer="f"
    )


def test_sparklines_show_every_count_above_zero():
    assert sparkline([0, 1, 50, 100]) == " ▁▄█"
    assert sparkline([]) == ""


def test_columns_are_aligned_by_display_width():
    assert format_table([["", "edges"], ["良い", "2"], ["bad\x1b", "1,000"]]) == [
        "        edges",
        "  良い      2",
        "  bad   1,000",
    ]
    assert format_table([["a", "[b]", "1"]], left=(0, 1)) == ["  a  [b]  1"]
    assert format_table([]) == []


def bullets(text, width):
    """The lines of a list with a single item."""
    return render_text(make_page(Bullets([text])), width).partition("PART\n")[2].splitlines()


def test_bullets_have_a_hanging_indent_and_long_words_are_folded():
    assert bullets("a bb ccc dddd", 6) == ["· a bb", "  ccc", "  dddd"]
    assert bullets("add --split a-b", 14) == ["· add --split", "  a-b"]
    assert bullets("abcdefghij k", 8) == ["· abcdef", "  ghij k"]


@settings(max_examples=50, deadline=None)
@given(st.text("ab良 ", max_size=60), st.integers(7, 30))
def test_no_wrapped_line_is_too_wide_and_no_letter_is_lost(text, width):
    lines = bullets(text, width)
    assert all(len(line) + line.count("良") <= width for line in lines)
    assert "".join("".join(lines).removeprefix("·").split()) == "".join(text.split())


def test_a_page_is_its_title_lead_and_sections():
    text = render_text(
        make_page(
            Paragraph("Some words."),
            Findings([Finding("warning", "x", "It leaks.", "Stop it.", {}, ["edge", "link"])]),
            Table(
                [
                    ["", "F1", ""],
                    [Cell("E", note="both"), Cell("54.0", "± 1"), IntervalCell(0, 0, 0)],
                ]
            ),
            *bar_tables([NamedCount("a", 8), NamedCount("b", 4)], 16, "all"),
            Details("More", [Section("Inner", [Bullets(["one", "two"], brief=1)])]),
        )
    )
    assert text.splitlines() == [
        "FILMS",
        "A lead.",
        "",
        "PART",
        "  Some words.",
        "! [edge, link] It leaks. Stop it.",
        "              F1",
        "  E     54.0 ± 1",
        "  both",
        "     count  of all",
        "  a      8     50%  ██████████████████████████████",
        "  b      4     25%  ███████████████",
        "  Inner",
        "· one",
    ]


def test_sections_without_text_are_left_out():
    assert render_text(make_page()) == "FILMS\nA lead.\n"
