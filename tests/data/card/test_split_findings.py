import re
from dataclasses import replace

import numpy as np
import pytest

from edgeformers.data.card.describe import describe
from edgeformers.data.splits import EdgeArrays, SplitConfig, make_split
from tests.data.fake_graph import FakeGraph, found, six_edges

UNSEEN, SINGLE = "unseen labels", "single edges in test"


@pytest.fixture
def graph():
    return six_edges()


def test_leaks_between_training_and_test_are_told(graph):
    card = describe(graph)
    edge, text, pair = (
        found(card, f"leak: {what}")[0] for what in ("identical edge", "same text", "same pair")
    )
    assert (edge.severity, text.severity, pair.severity) == ("warning", "warning", "note")
    assert "33% of the test edges (1) are also in training" in edge.sentence
    assert (text.splits, text.numbers["count"]) == (["random"], 2)
    assert "link prediction can look the answer up" in pair.sentence
    assert pair.advice.startswith(
        "For link prediction add --split edge=random --split link=per-source+new-pairs to prepare "
        "(a --split replaces the default ones, so each is named), which drops validation and test "
    )


def test_a_repeated_pair_is_a_warning_where_only_links_can_be_predicted(graph):
    card = describe(replace(graph, label_kind=None, labels=None))
    assert found(card, "leak: same pair")[0].severity == "warning"


def test_a_label_never_seen_in_training_is_a_warning(graph):
    labels = np.array([0, 0, 0, -1, 0, 1], dtype=np.int16)
    finding = found(describe(replace(graph, labels=labels)), "unseen labels")[0]
    assert finding.severity == "warning"
    assert "1 label occurs in test but never in training, such as 'down'" in finding.sentence


def test_a_split_without_training_edges_is_a_warning(graph):
    card = describe(replace(graph, splits={"s": np.full(6, 2, np.uint8)}))
    assert "'s' has no training edges" in found(card, "empty part")[0].sentence


def with_splits(graph, **codes):
    return replace(graph, splits={name: np.array(c, np.uint8) for name, c in codes.items()})


def test_what_two_splits_share_is_told_once(graph):
    card = describe(with_splits(graph, edge=[0, 2, 0, 1, 2, 2], link=[0, 2, 0, 1, 2, 2]))
    for about in ("leak: identical edge", "leak: same text", "leak: same pair", "cold nodes"):
        [finding] = found(card, about)
        assert finding.splits == ["edge", "link"]
    assert "33% of the test edges (1) touch" in found(card, "cold nodes")[0].sentence
    alone = describe(with_splits(graph, edge=[0, 2, 0, 1, 2, 2]))
    assert [f.sentence for f in card.findings] == [f.sentence for f in alone.findings]


def test_the_numbers_of_each_split_stand_in_one_sentence(graph):
    card = describe(with_splits(graph, edge=[0, 2, 0, 1, 2, 2], link=[0, 2, 0, 0, 0, 1]))
    [text] = found(card, "leak: same text")
    assert text.splits == ["edge", "link"]
    assert text.sentence.startswith("67% and 100% of the test edges (2 and 1) have a text")
    assert text.numbers == {"count": 1, "share": 1.0}  # of the split where it is worst
    assert found(card, "cold nodes")[0].splits == ["edge"]


def test_a_share_that_splits_have_in_common_is_said_once():
    ends, words = [(n, 9) for n in range(9)], ["same"] * 9
    splits = {"a": np.array([0] * 8 + [2], np.uint8), "b": np.array([0] * 7 + [2, 2], np.uint8)}
    [text] = found(describe(FakeGraph(ends, words, 9, 1, splits=splits)), "leak: same text")
    assert text.sentence.startswith("100% of the test edges (1 and 2) have a text")


def test_cold_nodes_of_several_splits_are_named_where_they_are_most(graph):
    card = describe(with_splits(graph, a=[0, 2, 0, 0, 2, 2], b=[0, 2, 2, 1, 2, 2]))
    [cold] = found(card, "cold nodes")
    assert "33% and 75% of the test edges (1 and 3)" in cold.sentence
    assert "(in b 1 of 2 sources and 2 of 3 targets)" in cold.sentence
    assert "add --split edge=random --split link=per-source+drop to prepare" in cold.advice


def test_validation_speaks_where_there_is_no_test_and_is_told_apart(graph):
    card = describe(with_splits(graph, edge=[0, 2, 0, 1, 2, 2], old=[0, 1, 0, 1, 1, 1]))
    first, second = (finding.sentence for finding in found(card, "leak: same text"))
    assert "of the test edges" in first
    assert "of the val edges" in second


def test_splits_without_a_part_are_named_together(graph):
    card = describe(with_splits(graph, a=[2] * 6, b=[2] * 6, c=[0] * 6))
    training, test = found(card, "empty part")
    assert training.sentence == "The splits 'a' and 'b' have no training edges."
    assert test.sentence == "The split 'c' has no validation or test edges."
    assert (training.splits, test.splits) == (["a", "b"], ["c"])


def made(graph, *texts):
    """The graph with splits as `prepare` makes them from these options."""
    configs = {config.name: config for config in map(SplitConfig.parse, texts)}
    facts = EdgeArrays(
        src=graph.src,
        dst=graph.dst,
        num_nodes=graph.num_nodes,
        columns={"fold": np.array([0, 2, 0, 1, 2, 2], np.uint8)},
    )
    splits = {name: make_split(config, facts) for name, config in configs.items()}
    return replace(graph, splits=splits, split_configs=configs)


def advised(finding):
    """The options of the command that a finding advises."""
    return re.findall(r"--split (\S*=\S*)", finding.advice)


@pytest.mark.parametrize(
    ("texts", "pairs", "cold"),
    [
        (
            ["edge=random", "link=per-source+seed-1"],
            ["edge=random", "link=per-source+new-pairs+seed-1"],
            ["edge=random", "link=per-source+drop+seed-1"],
        ),
        (["mine=column:fold"], ["mine=column:fold+new-pairs"], ["mine=column:fold+drop"]),
        (
            ["edge=random+seed-3", "mine=column:fold"],
            ["edge=random+seed-3", "mine=column:fold+new-pairs"],
            ["edge=random+seed-3", "mine=column:fold+drop"],
        ),
        (["edge=random:0.5/0.0/0.5"], ["edge=random:0.5/0.0/0.5+new-pairs"], None),
    ],
)
def test_the_splits_an_advice_names_are_those_of_the_network_and_help(graph, texts, pairs, cold):
    card = describe(made(graph, *texts))
    for about, options in (("leak: same pair", pairs), ("cold nodes", cold)):
        if options is not None:
            [finding] = found(card, about)
            assert advised(finding) == options
            after = found(describe(made(graph, *options)), about)
            assert not any(set(one.splits) - {"edge"} for one in after if len(options) > 1)
            assert len(options) > 1 or not after


def test_an_advice_for_a_column_says_what_to_do_in_it(graph):
    card = describe(made(graph, "mine=column:fold"))
    [pair], [cold] = found(card, "leak: same pair"), found(card, "cold nodes")
    assert "; or give all edges of a pair one part in the column 'fold'. For edge" in pair.advice
    assert cold.advice.endswith("or put an edge of each node into training in the column 'fold'.")
    assert "replaces" not in pair.advice + cold.advice
    codes = np.array([0, 2, 0, 1, 2, 2], np.uint8)
    configs = {"column": SplitConfig(name="column", how="column")}
    named = describe(replace(graph, splits={"column": codes}, split_configs=configs))
    [pair] = found(named, "leak: same pair")
    assert advised(pair) == ["column=column:split+new-pairs"]
    assert "one part in the split column. For edge" in pair.advice


def test_unseen_labels_are_drawn_again_only_where_a_draw_decided(graph):
    labels = np.array([0, 0, 0, -1, 0, 1], dtype=np.int16)
    column = found(describe(made(replace(graph, labels=labels), "mine=column:fold")), UNSEEN)[0]
    assert column.advice == "Put some of their edges into training, or leave these labels out."
    codes = {"edge": np.array([0, 2, 0, 1, 2, 2], np.uint8)}
    configs = {"edge": SplitConfig(seed=4)}
    drawn = replace(graph, labels=labels, splits=codes, split_configs=configs)
    assert advised(found(describe(drawn), UNSEEN)[0]) == ["edge=random+seed-5"]


def test_a_source_with_a_single_edge_has_it_in_the_test():
    ends = [(0, 3), (1, 3), (2, 3), (2, 4), (2, 4)]
    sparse = FakeGraph(ends, list("abcde"), 3, 2)
    [note] = found(describe(made(sparse, "edge=random", "link=per-source")), SINGLE)
    assert note.sentence == (
        "67% of the sources (2) have one edge only, and it is a test edge: of one edge "
        "int(0.7 × 1) = 0 train."
    )
    assert advised(note) == ["edge=random", "link=per-source+drop"]
    assert note.splits == ["link"]
    for text in ("link=per-source+drop", "link=per-source+drop-source", "link=random"):
        assert not found(describe(made(sparse, text)), SINGLE)
    assert not found(describe(made(sparse, "link=per-source:1.0/0.0/0.0")), SINGLE)
    assert found(describe(made(sparse, "link=per-target")), SINGLE) == []


def test_repeated_pairs_are_joined_where_new_ones_are_tested_already(graph):
    [repeated] = found(describe(made(graph, "link=per-source+new-pairs")), "repeated pairs")
    assert repeated.advice == (
        "For link prediction you may also join the texts of a pair into one edge."
    )


def test_a_split_of_new_pairs_has_no_pair_leak():
    ends = [(0, 2), (0, 3), (1, 2), (1, 3)]
    graph = FakeGraph(ends, list("abcd"), 2, 2, splits={"link": np.array([0, 0, 0, 2], np.uint8)})
    assert not found(describe(graph), "leak: same pair")
