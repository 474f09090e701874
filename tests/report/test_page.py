import re
import sys

import pytest

from edgeformers.data.card.card import Finding
from edgeformers.report.figures import LineChart
from edgeformers.report.page import (
    Bar,
    Bullets,
    Cell,
    CommandLine,
    Details,
    Findings,
    IntervalCell,
    Page,
    Paragraph,
    Plot,
    Section,
    SideBySide,
    StackedBar,
    SvgImage,
    Table,
    Tiles,
    render_html,
)
from edgeformers.report.terminal import render_text
from tests.report.films import outline

EVIL = '<script>alert("1")</script>\u202e\x1b[31m'


def make_page(*blocks, **more):
    values = {"kind": "Test", "title": "films", "lead": ["A lead."], "footer": "The end."}
    return Page(sections=[Section("Part", blocks)], **{**values, **more})


def everything(text):
    """A page whose every text is the given one."""
    chart = LineChart(label=text, lines={text: [[(1, 2)]]}, tip=lambda *_: text, ticks={1: text})
    return make_page(
        Paragraph(text),
        Bullets([text]),
        CommandLine(text),
        Tiles([(text, text)]),
        Findings([Finding("note", text, text, text, {}, [text])]),
        Table([[text, text], [text, Cell(text, text, text, bold=True)]]),
        StackedBar(text, [("train", 1.0, text, 0.5)], text),
        SideBySide([Plot(text, chart, text, text), SvgImage(text, text, text)]),
        Details(text, [Section(text, [Paragraph(text)], anchor="place")]),
        kind=text,
        title=text,
        lead=[text],
        origin=text,
        tiles=[(text, text)],
        footer=text,
    )


@pytest.mark.parametrize("text", ["films", EVIL, "a & b", "'\""])
def test_text_is_always_escaped(text):
    html = render_html(everything(text))
    seen = outline(html)
    assert "script" not in seen.tags
    shown = text.removesuffix("\u202e\x1b[31m")
    assert "".join(seen.words).count(shown) >= 25
    for control in ("\u202e", "\x1b"):
        assert control not in html
        assert control not in render_text(everything(text))


def test_a_page_needs_nothing_else():
    html = render_html(everything("films"))
    for reference in ("http://example", "https://", "url(", "@import", "<script", "<link"):
        assert reference not in html
    for feature in ('name="viewport"', "color-scheme: light dark", "@media print"):
        assert feature in html


def test_code_is_marked_and_options_are_not_broken():
    advice = "Run `prepare x` (a --split replaces it) with --split link=a+b, Config(new=True), "
    advice += "--set a.b=1."
    html = render_html(make_page(Paragraph(advice)))
    assert "<code>prepare x</code>" in html
    for code in ("--split link=a+b", "--split", "Config(new=True)", "--set a.b=1"):
        assert f'<code class="nobr">{code}</code>' in html


def test_a_table_names_its_rows_and_columns():
    rows = [["", "edges", "about"], ["data.max_tokens", "7", "two nodes"]]
    html = render_html(make_page(Table(rows)))
    assert '<th scope="col">edges</th>' in html
    assert '<th scope="row">data.<wbr>max_<wbr>tokens</th>' in html
    assert '<td class="words">two nodes</td>' in html
    assert "<thead>" not in render_html(make_page(Table(rows, header=False)))
    assert render_html(make_page(Table(rows, in_columns=True))).count("<table>") == 2


def test_cells_show_bars_and_intervals():
    html = render_html(
        make_page(Table([["a", Bar(0.25), IntervalCell(0.2, 0.3, 0.4, 0.9)]], False))
    )
    assert 'style="width:25.00%"' in html
    for position in ("left:20.0%;right:60.0%", "left:30.0%", "left:90.0%"):
        assert position in html
    assert "<em" not in render_html(make_page(Table([["a", IntervalCell(0.2, 0.3, 0.4)]], False)))


def test_headings_follow_the_nesting_and_empty_sections_are_left_out():
    inner = Section("Inner", [Paragraph("x")])
    page = make_page(Details("More", [Section("Middle", [inner]), Section("Empty", [])]))
    html = render_html(page)
    for heading in ("<h2>Part</h2>", "<h3>Middle</h3>", "<h4>Inner</h4>"):
        assert heading in html
    assert "Empty" not in html
    assert "<h2>" not in render_html(make_page())


def test_contents_link_the_sections_with_anchors():
    page = make_page(Section("Inner", [Paragraph("x")], anchor="inner"))
    assert outline(render_html(page)).links == []
    linked = Page(kind="k", title="t", lead=[], footer="f", sections=[page.sections[0].blocks[0]])
    assert outline(render_html(linked)).links == ["#inner"]


def test_without_matplotlib_figures_are_left_out_and_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    html = render_html(everything("films"))
    assert "<svg" not in html
    assert "edgeformers[plots]" in html
    assert "edgeformers[plots]" not in render_html(make_page(Paragraph("x")))


def luminance(color):
    parts = [int(color[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def colors_of(name, style):
    """A color in light mode, in dark mode and in print."""
    [both] = re.findall(rf"--{name}: light-dark\(#(\w+), #(\w+)\)", style)
    return [*both, *re.findall(rf"--{name}: #(\w+)", style)]


@pytest.mark.parametrize("name", ["ink", "muted", "accent", "warning"])
def test_text_has_enough_contrast_in_light_mode_in_dark_mode_and_in_print(name):
    style = render_html(make_page())
    papers, colors = (
        ["".join(2 * c for c in one) if len(one) == 3 else one for one in found]
        for found in (colors_of(n, style) for n in ("paper", name))
    )
    assert len(papers) == len(colors) == 3
    for pair in zip(papers, colors, strict=True):
        low, high = sorted(map(luminance, pair))
        assert (high + 0.05) / (low + 0.05) >= 4.5  # WCAG, small text
