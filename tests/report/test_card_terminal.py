import numpy as np
import pytest

from edgeformers.data.card.describe import describe
from edgeformers.report.card import card_text, headline
from tests.report.films import make_graph


@pytest.fixture
def card():
    return describe(make_graph())


def test_the_terminal_card_says_what_is_there(card):
    text = card_text(card)
    assert text.startswith("FILMS\nfilms.csv\n4 edges with text from 2 sources to 2 targets.\n")
    for words in (
        "! 25% of the edges (1) have no text",
        "! [random] 100% of the test edges (1) have a text",
        "  fresh   2  67%  ",
        "cut: 25% at 64, 0% at 128, 0% at 256 tokens (tiny)",
        "2 × good",
        "films.csv, line 7: column 'film' is empty",
        "labels were taken from column 'fresh'",
        "SPLIT random",
    ):
        assert words in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_asked(card, width):
    assert max(map(len, card_text(card, width).splitlines())) <= width


def test_a_terminal_is_not_steered_by_the_data():
    graph = make_graph(
        ("\x1b[31mred", "b", "", "\x1b[31mred"), ("\x1b]0;x\x07", "b\u202e", "c", "d")
    )
    text = card_text(describe(graph))
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "[31mred" in text


def test_wide_letters_keep_the_columns_straight():
    text = card_text(describe(make_graph(label_names=["良い", "bad"])))
    assert "  良い  2  67%" in text
    assert "  bad   1  33%" in text


def test_a_command_in_an_advice_is_not_broken_at_its_hyphens():
    graph = make_graph(dst=np.array([2, 2, 2, 2], np.int32), labels=None, label_kind=None)
    for width in range(60, 90):
        assert "link=per-source+drop+new-pairs" in card_text(describe(graph), width)


def test_notes_and_skipped_rows_are_whole_however_long():
    note = "the column 'stars' was taken for a label because " + "of many reasons " * 9 + "END"
    row = f"films.csv, line 7: column '{'x' * 90}' is empty; every edge needs both ends"
    skipped = {"count": 9, "examples": [f"{row} {n}" for n in range(7)]}
    text = card_text(describe(make_graph(notes=[note], skipped=skipped)), 60)
    told = text[text.index("PREPARATION") : text.index("SPLIT")]
    words = "".join(told.split())
    assert "…" not in told
    assert "".join(note.split()) in words
    assert words.count("".join(row.split())) == 5
    assert "  9 rows of the input are not in the network; the first 5:" in told


def test_one_of_something_is_singular():
    one = np.zeros(1, np.int32)
    graph = make_graph(
        ("good",),
        num_nodes=2,
        num_edges=1,
        num_sources=1,
        num_targets=1,
        src=one,
        dst=one + 1,
        labels=one.astype(np.int16),
        times=None,
        weights=None,
        edge_types=None,
        node_labels=None,
        tokens=None,
        splits={},
    )
    card = describe(graph)
    assert "\n1 edge with text from 1 source to 1 target.\n" in card_text(card)
    assert "  1 row of the input is not in the network:" in card_text(card)
    assert headline(describe(make_graph(is_bipartite=False))).endswith("4 nodes, directed.")


def test_times_are_days_where_none_has_a_clock(card):
    assert "TIME\n  From 2020-01-01 to 2021-02-02.\n  edges per week\n" in card_text(card)
    noon = make_graph().times + 12 * 3_600_000_000
    text = card_text(describe(make_graph(times=noon)))
    assert "  From 2020-01-01 12:00:00 to 2021-02-02 12:00:00.\n" in text


def test_a_single_moment_is_not_a_course_of_time():
    times = np.full(4, make_graph().times[0])
    text = card_text(describe(make_graph(times=times)))
    assert "TIME\n  All at 2020-01-01.\n\n" in text
    assert "edges per" not in text


def test_labels_of_nodes_are_shares_of_the_labeled_nodes():
    labels = (np.array([0, 0, 2, 3, 3]), np.array([0, 1, 1]))
    text = card_text(describe(make_graph(node_labels=labels, node_label_names=["old", "new"])))
    assert (
        "NODE LABELS\n  shares of 2 labeled nodes; a node may have several labels\n"
        "  old  1   50%  " in text
    )
    assert "\n  new  2  100%  " in text


def test_the_rest_of_many_labels_of_nodes_is_not_summed_up():
    names = [f"label {n:02}" for n in range(25)]
    labels = (np.array([0, 0, 0, 25, 25]), np.arange(25))
    text = card_text(describe(make_graph(node_labels=labels, node_label_names=names)))
    assert "  5 labels more, each rarer\n" in text
    assert "2500%" not in text


def test_a_finding_of_two_splits_names_both():
    codes = make_graph().splits["random"]
    text = card_text(describe(make_graph(splits={"edge": codes, "link": codes})))
    assert "! [edge, link] 100% of the test edges (1) have a text" in text
    assert text.count("[edge, link]") >= 1
