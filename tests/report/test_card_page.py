import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.card.card import DataCard, Distribution, Histogram, NamedCount, WeightSummary
from edgeformers.data.card.describe import describe
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.table import EdgeTable
from edgeformers.report.card_page import (
    MAX_LISTED,
    bar_tables,
    card_page,
    count_table,
    degree_table,
    label_share_table,
    named_count_table,
    overlap_table,
    split_table,
    summary_sentence,
    write_card,
)
from edgeformers.report.page import Bar, render_html
from edgeformers.report.terminal import render_text
from tests.report.films import make_graph, outline


def html_of(card):
    return render_html(card_page(card))


def text_of(card, width=80):
    return render_text(card_page(card), width)


@pytest.fixture(scope="module")
def card():
    return describe(make_graph())


@pytest.fixture(scope="module")
def html(card):
    return html_of(card)


def test_the_page_is_complete_and_small(card, html):
    seen = outline(html)
    words = " ".join(seen.words)
    for part in ("Before you train", "Network", "Texts", "Labels", "Time", "Split: random"):
        assert part in words
    assert "30,522 tokens" in words
    assert {"h1", "h2", "svg", "table", "title"} <= seen.tags
    assert len(html) < 40_000


def test_every_figure_has_a_label_for_screen_readers(html):
    plots = re.findall(r"<svg [^>]*>", html)
    assert len(plots) == 6
    assert all("aria-label=" in plot for plot in plots)
    labels = outline(html).labels
    assert any("tokens: median 3, longest 90" in label for label in labels)
    assert "Split random: train 2, val 1, test 1 edges" in labels


def test_the_terminal_shows_findings_tables_and_sparklines(card):
    text = text_of(card)
    assert text.startswith("FILMS\nfilms.csv\n4 edges with text from 2 sources to 2 targets.\n")
    for part in (
        "! 25% of the edges (1) have no text",
        "! [random] 100% of the test edges (1)",
        "  fresh       2               67%  ",
        "25% at 64, 0% at 128, 0% at 256 tokens",
        "  good      2     50%",
        "films.csv, line 7: column 'film' is empty",
        "labels were taken from column 'fresh'",
        "SPLIT: RANDOM",
        "tokens: 0 █                     ▃ 88",
    ):
        assert part in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_of_text_is_too_wide(card, width):
    assert max(map(len, text_of(card, width).splitlines())) <= width


def test_data_is_never_markup_and_never_controls_a_terminal():
    evil = '<script>alert("1")</script>\x1b]0;x\x07\u202e'
    graph = make_graph(
        (evil, "b", "", evil),
        (evil, "b", "c", evil),
        name=evil,
        origin=evil,
        label_names=[evil, "'\"&"],
        splits={evil: np.array([0, 0, 1, 2], np.uint8)},
        edge_type_names=[evil, "x"],
        node_label_names=[evil],
        notes=[evil],
        skipped={"count": 1, "examples": [evil]},
        tokens=SimpleNamespace(lengths=np.array([3, 3, 2, 90]), name=evil, vocab_size=9),
    )
    html, text = html_of(describe(graph)), text_of(describe(graph))
    assert "script" not in outline(html).tags
    assert html.count("&lt;script&gt;") >= 10
    assert all(c.isprintable() or c == "\n" for c in text)


def test_wide_letters_keep_columns_aligned():
    text = text_of(describe(make_graph(label_names=["良い", "bad"])))
    assert "  良い      2               67%" in text
    assert "  bad       1               33%" in text


def test_of_many_labels_the_largest_are_listed_and_the_others_added_up():
    names = [f"label {n}" for n in range(50)]
    graph = make_graph(label_names=names, labels=np.array([40, 40, 41, 42], np.int16))
    text = text_of(describe(graph))
    assert "30 more" in text
    assert text.index("  label 40") < text.index("  label 42")


def test_overlapping_labels_are_shares_and_the_others_are_not_added_up():
    names = [f"label {n:02}" for n in range(25)]
    labels = (np.array([0, 0, 0, 25, 25]), np.arange(25))
    text = text_of(describe(make_graph(node_labels=labels, node_label_names=names)))
    assert "5 rarer labels" in text
    assert "2500%" not in text


def test_an_empty_network_has_a_page():
    empty = np.zeros(0, np.int32)
    missing = dict.fromkeys(
        ("labels", "label_kind", "times", "weights", "edge_types", "node_labels", "tokens")
    )
    sizes = dict.fromkeys(("num_nodes", "num_edges", "num_sources", "num_targets"), 0)
    graph = make_graph(
        (), src=empty, dst=empty, splits={}, notes=[], skipped={}, **missing, **sizes
    )
    outline(html_of(describe(graph)))
    assert "0 edges" in text_of(describe(graph))


def test_the_summary_names_the_kind_of_network(card):
    assert summary_sentence(card) == "4 edges with text from 2 sources to 2 targets."
    plain = replace(card, is_bipartite=False, is_directed=False)
    assert summary_sentence(plain) == "4 edges with text among 4 nodes, undirected."
    single = replace(card.counts, edges=1, nodes=1)
    assert summary_sentence(replace(plain, counts=single)).startswith(
        "1 edge with text among 1 node,"
    )


def test_times_are_dates_if_none_has_a_time_of_day(card):
    assert "TIME\n  From 2020-01-01 to 2021-02-02.\n  edges per week: ▄" in text_of(card)
    noon = make_graph().times + 12 * 3_600_000_000
    assert "From 2020-01-01 12:00:00 to" in text_of(describe(make_graph(times=noon)))


def test_a_single_time_has_no_figure_and_missing_times_are_counted(card):
    single = describe(make_graph(times=np.full(4, make_graph().times[0])))
    assert "TIME\n  All at 2020-01-01.\n\n" in text_of(single)
    assert "Edges per" not in html_of(replace(single, sides=[]))
    text = text_of(replace(card, times=replace(card.times, missing=1, far=2)))
    assert "1 edge has no time. 2 outliers are not drawn." in text


def test_notes_and_skipped_rows_are_complete_however_long():
    note = "column 'stars' is the label because " + "of many reasons " * 9 + "END"
    row = f"films.csv, line 7: column '{'x' * 90}' is empty"
    skipped = {"count": 30, "examples": [f"{row} {n}" for n in range(20)]}
    card = describe(make_graph(notes=[note], skipped=skipped))
    words = "".join(text_of(card, 60).partition("PREPARATION")[2].split())
    assert "".join(note.split()) in words
    assert words.count("".join(row.split())) == 5
    assert "30rowsoftheinputwereskipped" in words
    assert html_of(card).count("x" * 90) == 20


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(finite, min_size=4, max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=4, max_size=4),
    st.lists(st.text(max_size=5), min_size=4, max_size=4),
)
def test_any_weights_times_and_texts_can_be_shown(weights, times, words):
    graph = make_graph(
        tuple(words), tuple(words), weights=np.array(weights, np.float32), times=np.array(times)
    )
    card = describe(graph)
    html = html_of(card)
    outline(html)
    assert "nan" not in "".join(re.findall(r'(?:x|y|d|style)="[^"]*"', html))
    assert text_of(card, 60)


def test_constant_weights_are_drawn(card):
    quantiles = {str(q): 0.3 for q in (1, 5, 25, 50, 75, 95, 99)}
    flat = Distribution(4, 0.3, 0.3, 0.3, quantiles, Histogram([0.3, 0.30000001], [4]))
    html = html_of(
        replace(card, weights=WeightSummary(0, 0, flat), edge_types=[NamedCount("x", 4)])
    )
    assert "Edge weights: from 0.3 to 0.3" in html


def test_a_finding_names_all_its_splits():
    codes = make_graph().splits["random"]
    card = describe(make_graph(splits={"edge": codes, "link": codes}))
    assert "splits edge, link</p>" in html_of(card)
    assert text_of(card).count("! [edge, link] 100% of the test edges (1)") >= 1


def test_both_files_are_written(tmp_path, card, html):
    path = write_card(make_graph(), tmp_path / "new" / "folder")
    assert path.read_text(encoding="utf-8") == html
    assert DataCard.from_json(path.with_name("card.json").read_text(encoding="utf-8")) == card
    assert sorted(file.name for file in path.parent.iterdir()) == ["card.html", "card.json"]


def test_a_failed_write_keeps_the_old_files(tmp_path, card):
    path = write_card(card, tmp_path)
    before = path.read_text(encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_card(replace(card, name="\udc80", origin="\udc80"), tmp_path)
    assert path.read_text(encoding="utf-8") == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["card.html", "card.json"]


def test_a_prepared_network_gets_its_card(tmp_path):
    rows = [
        {"source": "ann", "target": "jaws", "text": "good", "label": "fresh", "split": "train"},
        {"source": "bob", "target": "jaws", "text": "", "label": "rotten", "split": "train"},
        {"source": "ann", "target": "heat", "text": "good", "label": "fresh", "split": "test"},
    ]
    table = EdgeTable.from_rows(
        lambda: rows, fields=["label", "split"], origin="films.csv", bipartite=True
    )
    config = PrepareConfig(tokenizer=None, progress=False)
    graph = write_network(table, tmp_path / "films", config=config)
    assert "3 edges with text from 2 sources" in write_card(graph, graph.path).read_text("utf-8")
    card = DataCard.from_json((graph.path / "card.json").read_text(encoding="utf-8"))
    (split,) = card.splits
    assert split.part("test").cold == {"sources": 0, "targets": 1}
    assert split.part("test").same_text.example == "good"
    assert card.sides[0].hubs[0] == NamedCount("ann", 2)


def labels(count):
    return [NamedCount(f"label {n}", n + 1) for n in range(count)]


def test_self_loops_are_counted_except_in_bipartite_networks(card):
    assert "self-loops" not in [row[0] for row in count_table(card).rows]
    assert "self-loops" in [row[0] for row in count_table(replace(card, is_bipartite=False)).rows]


def test_degrees_have_a_row_per_side(card):
    head, sources, targets = degree_table(card).rows
    assert head[1:4] == ["nodes", "no edge", "one edge"]
    assert sources == ["sources", "2", "0", "0", "2", "2.0", "2", "2"]
    assert targets[0] == "targets"
    empty = replace(card, sides=[replace(card.sides[0], degree=None)])
    assert degree_table(empty).rows[1][4:] == ["–"] * 4


def test_counts_have_their_share_of_all_edges():
    assert named_count_table([NamedCount("ann", 1500)], 6000).rows[1] == ["ann", "1,500", "25%"]


def test_a_split_lists_cold_nodes_and_overlap_with_training(card):
    (split,) = card.splits
    rows = {row[0]: row for row in split_table(split).rows}
    assert rows["train"] == ["train", "2", "50%", "", "", ""]
    assert rows["test"] == ["test", "1", "25%", "1 of 1", "0 of 1", "1 (100%)"]
    shared = {row[0]: row[1:] for row in overlap_table(split).rows}
    assert shared["test"] == ["1 (100%)", "0 (0%)", "0 (0%)"]


def test_labels_are_compared_between_parts(card):
    (split,) = card.splits
    head, *rows = label_share_table(split).rows
    assert head[:2] == ["label", "train"]
    assert [row[:2] for row in rows] == [("fresh", "50%"), ("rotten", "50%")]
    bare = replace(split, parts=[replace(part, labels=None) for part in split.parts])
    assert label_share_table(bare) is None


def test_of_many_labels_the_largest_are_listed():
    (table,) = bar_tables(labels(MAX_LISTED), 100, "all")
    assert [row[0] for row in table.rows[1:]] == [f"label {n}" for n in range(MAX_LISTED)]
    (table,) = bar_tables(labels(MAX_LISTED + 2), 100, "all")
    assert table.rows[1][:2] == [f"label {MAX_LISTED + 1}", str(MAX_LISTED + 2)]
    assert table.rows[-1][:2] == ["2 more", "3"]
    table, more = bar_tables(labels(MAX_LISTED + 2), 100, "all", overlap=True)
    assert len(table.rows) == MAX_LISTED + 1
    assert "2 rarer labels" in more.text


def test_bars_show_their_share_even_of_nothing():
    (table,) = bar_tables([NamedCount("a", 1), NamedCount("b", 0)], 0, "all edges")
    assert table.rows[0][2] == "of all edges"
    (table,) = bar_tables([NamedCount("a", 1)], 2, "all edges")
    assert table.rows[1] == ["a", "1", "50%", Bar(0.5)]
