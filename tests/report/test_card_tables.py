from dataclasses import replace

import pytest

from edgeformers.data.card.card import NamedCount
from edgeformers.data.card.describe import describe
from edgeformers.report.card_tables import (
    MAX_LISTED,
    count_table,
    degree_table,
    label_share_table,
    largest_items,
    named_count_table,
    overlap_table,
    split_table,
)
from tests.report.films import make_graph


@pytest.fixture(scope="module")
def card():
    return describe(make_graph())


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
    assert [row[:2] for row in rows] == [["fresh", "50%"], ["rotten", "50%"]]
    bare = replace(split, parts=[replace(part, labels=None) for part in split.parts])
    assert label_share_table(bare) is None


def test_of_many_labels_the_largest_are_listed():
    assert largest_items(labels(MAX_LISTED)) == labels(MAX_LISTED)
    shown = largest_items(labels(MAX_LISTED + 2))
    assert shown[0] == NamedCount(f"label {MAX_LISTED + 1}", MAX_LISTED + 2)
    assert shown[-1] == NamedCount("2 more", 3)
    assert largest_items(labels(MAX_LISTED + 2), sum_others=False) == shown[:-1]
