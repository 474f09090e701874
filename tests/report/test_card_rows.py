from dataclasses import replace

import pytest

from edgeformers.data.card.card import NamedCount
from edgeformers.data.card.describe import describe
from edgeformers.report.card_rows import (
    LISTED,
    counted_rows,
    degree_rows,
    fact_rows,
    headline,
    in_short,
    label_share_rows,
    overlap_rows,
    skipped_words,
    split_rows,
    time_words,
    top,
    top_of_several,
)
from tests.report.films import make_graph


@pytest.fixture
def card():
    return describe(make_graph())


def many(count):
    return [NamedCount(f"label {n}", n + 1) for n in range(count)]


def test_the_headline_says_what_kind_of_network_it_is(card):
    assert headline(card) == "4 edges with text from 2 sources to 2 targets."
    plain = replace(card, is_bipartite=False, is_directed=False)
    assert headline(plain) == "4 edges with text among 4 nodes, undirected."
    assert headline(replace(plain, is_directed=True)).endswith("nodes, directed.")


def test_self_loops_are_counted_only_where_there_can_be_some(card):
    assert "self-loops" not in [name for name, *_ in fact_rows(card)]
    plain = replace(card, is_bipartite=False)
    assert ["self-loops", "0", "edges from a node to itself"] in fact_rows(plain)


def test_degrees_are_said_side_by_side(card):
    head, sources, targets = degree_rows(card)
    assert head[1:4] == ["nodes", "no edge", "one edge"]
    assert sources == ["sources", "2", "0", "0", "2", "2.0", "2", "2"]
    assert targets[0] == "targets"
    assert in_short(None) == ["–"] * 4


def test_counts_have_their_share_of_all_edges():
    rows = counted_rows([NamedCount("ann", 1500)], 6000)
    assert rows == [["", "edges", "of all"], ["ann", "1,500", "25%"]]


def test_a_part_says_what_is_cold_and_what_is_shared_with_training(card):
    (split,) = card.splits
    rows = {row[0]: row for row in split_rows(split)}
    assert rows["train"] == ["train", "2", "50%", "", "", ""]
    assert rows["test"] == ["test", "1", "25%", "1 of 1", "0 of 1", "1 (100%)"]
    shared = {row[0]: row[1:] for row in overlap_rows(split)}
    assert shared["test"] == ["1 (100%)", "0 (0%)", "0 (0%)"]


def test_labels_are_compared_between_parts(card):
    (split,) = card.splits
    head, *rows = label_share_rows(split)
    assert head[:2] == ["label", "train"]
    assert [row[:2] for row in rows] == [["fresh", "50%"], ["rotten", "50%"]]


def test_many_labels_are_summed_up_after_the_largest():
    assert top(many(LISTED)) == many(LISTED)
    shown = top(many(LISTED + 2))
    assert shown[0] == NamedCount(f"label {LISTED + 1}", LISTED + 2)
    assert shown[-1] == NamedCount("2 more", 3)


def test_labels_that_overlap_are_not_summed_up():
    shown, words = top_of_several(many(LISTED + 1))
    assert (len(shown), words) == (LISTED, "1 label more, each rarer")
    assert top_of_several(many(2)) == (many(2), "")


def test_times_and_skipped_rows_are_said_in_words(card):
    assert time_words(card.times).startswith("From 2020-01-01")
    alone = replace(card.times, last=card.times.first, missing=1, far=2)
    words = time_words(alone)
    assert words.startswith("All at 2020-01-01")
    assert "1 edge has no time. 2 edges far from all others are not drawn." in words
    assert skipped_words(card, 1) == "1 row of the input is not in the network:"
    assert "; the first 1:" in skipped_words(replace(card, skipped=9), 1)
