import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.card.card import Distribution, Histogram, NamedCount, WeightSummary
from edgeformers.data.card.describe import describe
from edgeformers.report.card import card_html, card_text
from tests.report.films import make_graph, outline


@pytest.fixture
def card():
    return describe(make_graph())


def test_the_page_is_well_formed_and_complete(card):
    page = card_html(card)
    seen = outline(page)
    words = " ".join(seen.words)
    for part in ("Before you train", "Network", "Texts", "Labels", "Time", "Split: random"):
        assert part in words
    assert "25% of the edges (1) have no text" in words
    assert "30,522 tokens" in words
    assert "64 tokens" in words
    assert {"h1", "h2", "svg", "table", "title"} <= seen.tags
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_every_plot_has_a_name_for_those_who_do_not_see_it(card):
    page = card_html(card)
    plots = re.findall(r"<svg [^>]*>", page)
    assert plots
    assert all("aria-label=" in plot or 'aria-hidden="true"' in plot for plot in plots)
    labels = outline(page).labels
    assert any("Length of the texts in tokens: median 3, longest 90" in label for label in labels)
    assert "Split random: train 2, val 1, test 1 edges" in labels


def test_the_page_fetches_nothing(card):
    page = card_html(card)
    for reference in (
        "http://",
        "https://",
        "src=",
        "href=",
        "url(",
        "@import",
        "<script",
        "<link",
    ):
        assert reference not in page


def test_what_the_data_says_is_never_markup():
    evil = '<script>alert("1")</script>'
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
    page = card_html(describe(graph))
    assert "<script" not in page
    assert "script" not in outline(page).tags
    assert page.count("&lt;script&gt;") >= 10


def test_many_labels_are_summed_up():
    names = [f"label {n}" for n in range(50)]
    graph = make_graph(label_names=names, labels=np.array([40, 40, 41, 42], np.int16))
    page, text = card_html(describe(graph)), card_text(describe(graph))
    assert "30 more" in page
    assert "30 more" in text
    assert text.index("  label 40") < text.index("  label 42")


def test_a_card_with_almost_nothing_is_still_a_page():
    empty = np.zeros(0, np.int32)
    nothing = make_graph(
        words=(),
        num_nodes=0,
        num_edges=0,
        num_sources=0,
        num_targets=0,
        src=empty,
        dst=empty,
        labels=None,
        label_kind=None,
        times=None,
        weights=None,
        edge_types=None,
        splits={},
        node_labels=None,
        tokens=None,
        notes=[],
        skipped={},
    )
    card = describe(nothing)
    outline(card_html(card))
    assert "The network has no edge" in card_text(card)


def test_a_single_moment_has_no_plot():
    page = card_html(describe(make_graph(times=np.full(4, make_graph().times[0]))))
    assert "<p>All at 2020-01-01.</p></section>" in page
    assert "Edges per second" not in page


def test_labels_of_nodes_are_shares_of_the_labeled_nodes():
    labels = (np.array([0, 0, 2, 3, 3]), np.array([0, 1, 1]))
    graph = make_graph(node_labels=labels, node_label_names=["old", "new"])
    page = card_html(describe(graph))
    assert "2 nodes have labels, perhaps several: shares are those of the labeled nodes." in page
    assert '<th scope="row">new</th><td>2</td><td>100%</td>' in page


def test_notes_and_skipped_rows_are_whole_however_long():
    row = f"films.csv, line 7: column '{'x' * 300}' is empty"
    skipped = {"count": 30, "examples": [row] * 20}
    page = card_html(describe(make_graph(notes=["why " * 99], skipped=skipped)))
    assert page.count("x" * 300) == 20
    assert "why " * 98 in page
    assert "30 rows of the input are not in the network; the first 20:" in page


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(finite, min_size=4, max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=4, max_size=4),
    st.lists(st.text(max_size=5), min_size=4, max_size=4),
)
def test_any_numbers_times_and_texts_make_a_page(weights, times, words):
    graph = make_graph(
        tuple(words), tuple(words), weights=np.array(weights, np.float32), times=np.array(times)
    )
    card = describe(graph)
    outline(card_html(card))
    assert "nan" not in "".join(re.findall(r'(?:x|y|width|height)="[^"]*"', card_html(card)))
    assert card_text(card, 60)


def test_a_constant_weight_is_drawn():
    quantiles = {str(q): 0.3 for q in (1, 5, 25, 50, 75, 95, 99)}
    flat = Distribution(4, 0.3, 0.3, 0.3, quantiles, Histogram([0.3, 0.30000001], [4]))
    card = replace(
        describe(make_graph()), weights=WeightSummary(0, 0, flat), edge_types=[NamedCount("x", 4)]
    )
    assert "Weights of the edges" in card_html(card)


def test_a_finding_of_two_splits_names_both():
    codes = make_graph().splits["random"]
    page = card_html(describe(make_graph(splits={"edge": codes, "link": codes})))
    assert "leak: same text · splits edge, link</p>" in page
