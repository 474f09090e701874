import pytest

from edgeformers.data.card.card import Finding, NamedCount
from edgeformers.report import page
from tests.report.films import outline

EVIL = '<script>alert("1")</script>'


def everything(text):
    """A page whose every text is the one given."""
    rows = [[text, text], [text, "1"]]
    return page.page(
        text,
        [
            page.header(text, text, text, text, [(text, text)]),
            page.section(text, page.paragraph(text), page.paragraph(text, soft=True)),
            page.section(text, page.findings([Finding("note", text, text, text, {}, [text])])),
            page.section(text, page.block(text, page.table(rows)), page.bullets([text])),
            page.section(text, page.bar_table([NamedCount(text, 1)], 2, text)),
            page.side_by_side([page.figure(text, "<svg></svg>", text)]),
            page.figure_with_legend("<svg></svg>", [("part train", text)]),
            page.contents([("place", text)]),
            page.details(text, page.numbers([(text, text)])),
            page.figure(text, page.picture(text, text)),
            "",
        ],
        text,
    )


@pytest.mark.parametrize("text", ["films", EVIL, "a & b", "'\""])
def test_text_is_escaped_wherever_it_is_given(text):
    seen = outline(everything(text))
    assert "script" not in seen.tags
    assert "".join(seen.words).count(text) >= 20


def test_characters_that_turn_the_writing_are_left_out():
    assert page.safe("a\u202eb\x1b<") == "ab&lt;"


def test_a_table_names_its_rows_and_columns():
    html = page.table([["", "edges"], ["train", "7"]])
    assert '<th scope="col">edges</th>' in html
    assert '<th scope="row">train</th><td>7</td>' in html
    plain = page.table([["pairs", "7", "two nodes"]], head=False)
    assert "<thead>" not in plain
    assert '<td>7</td><td class="words">two nodes</td>' in plain


def test_a_figure_without_a_plot_is_left_out():
    assert page.figure("Edges", "") == ""


def test_bars_show_their_share_even_of_nothing():
    html = page.bar_table([NamedCount("a", 1), NamedCount("b", 0)], 0, "all edges")
    assert "of all edges" in html
    assert html.count('<td class="meter">') == 2
    assert "<td>50%</td>" in page.bar_table([NamedCount("a", 1)], 2, "all edges")


def test_a_part_of_another_page_keeps_the_order_of_its_headings():
    body = page.section("Data", page.block("Texts", page.paragraph("<h2>")))
    assert page.deeper(body, 2) == (
        "<section><h4>Data</h4><h5>Texts</h5><p>&lt;h2&gt;</p></section>"
    )


def test_cells_can_be_marked():
    html = page.table([["", "a", "b"], ["x", "1", "2"]], bold={(1, 2)})
    assert "<td>1</td><td><b>2</b></td>" in html


def test_without_numbers_there_are_no_tiles():
    assert "dl" not in outline(page.page("t", [page.header("k", "t", "l", "o", [])], "f")).tags
