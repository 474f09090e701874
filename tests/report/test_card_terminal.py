import numpy as np
import pytest

from edgeformers.data.describe import describe
from edgeformers.report.card import card_text
from tests.report.films import make_graph


@pytest.fixture
def card():
    return describe(make_graph())


def test_the_terminal_card_says_what_is_there(card):
    text = card_text(card)
    assert text.startswith("FILMS\nfilms.csv\n4 edges with text from 2 sources to 2 targets.\n")
    for words in (
        "! 25% of the edges (1) have no text",
        "! [random] 100% of the test edges (1) have a text that is also in training",
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
        assert "link=per-source+new-pairs" in card_text(describe(graph), width)


def test_a_finding_of_two_splits_names_both():
    codes = make_graph().splits["random"]
    text = card_text(describe(make_graph(splits={"edge": codes, "link": codes})))
    assert "! [edge, link] 100% of the test edges (1) have a text that is also in" in text
    assert text.count("have a text that is also in") == 1
