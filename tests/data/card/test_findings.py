import re
import shlex
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from edgeformers.config import RunConfig, flatten
from edgeformers.data.card.describe import describe
from edgeformers.data.card.findings import _texts
from edgeformers.data.splits import EdgeList, SplitConfig, make_split
from tests.cli.commands import named_options, options
from tests.data.fake_graph import FakeGraph, findings_about, microseconds, six_edges


@pytest.fixture
def graph():
    return six_edges()


def test_warnings_come_before_notes(graph):
    severities = [finding.severity for finding in describe(graph).findings]
    assert severities == sorted(severities, reverse=True)
    assert set(severities) == {"note", "warning"}


@pytest.mark.parametrize(
    ("about", "words", "remedy"),
    [
        ("empty texts", "17% of the edges (1)", "input"),
        ("long texts", "17% of the texts", "--set data.max_tokens=128"),
        ("unlabeled edges", "17% of the edges (1)", "neighbors"),
        ("label balance", "60% of the labeled edges are 'up'", "macro-F1"),
        ("rare labels", "'down' the fewest (2)", "--set edges.class_balance=1"),
        ("single edges, targets", "33% of the targets (1)", "--min-degree"),
        ("isolated nodes", "17% of the nodes (1)", "--keep-isolated"),
        ("identical edges", "17% of the edges (1)", "--drop-repeats"),
        ("shared texts", "50% of the edges (3)", "most repeated texts"),
        ("skipped rows", "25% of the rows (2)", "prepare again"),
        ("missing times", "17% of the edges (1)", "--split random"),
        ("cold nodes", "1 of 2 sources and 1 of 3 targets", "+drop"),
        ("weights", "33% of the edges (2)", "at least 0"),
        ("self-loops", "17% of the edges (1)", "link prediction"),
        ("hubs, sources", "'n0' alone has 67% of the edges (4)", "without this node"),
    ],
)
def test_a_finding_has_its_numbers_and_names_its_remedy(graph, about, words, remedy):
    graph = replace(
        graph,
        skipped={"count": 2, "examples": ["row 7: no target"]},
        weights=np.array([1, 2, np.nan, -1, 2, 2], dtype=np.float32),
    )
    if about == "self-loops":
        graph = replace(graph, ends=[(0, 0), *graph.ends[1:]], is_bipartite=False, num_sources=6)
    if about.startswith("hubs"):
        nodes = {0: 0, 1: 1, 3: 20, 4: 21, 5: 22}
        ends = [(nodes[a], nodes[b]) for a, b in graph.ends]
        graph = replace(graph, ends=ends, num_sources=20)
    [finding] = findings_about(describe(graph), about)
    assert words in finding.sentence
    assert remedy in finding.advice
    assert "{" not in finding.sentence + finding.advice


def test_a_network_without_edges_has_a_card():
    card = describe(FakeGraph([], [], 0, 0, splits={"s": np.zeros(0, np.uint8)}))
    assert card.counts.edges == 0
    assert "no edges" in card.findings[0].sentence


def test_ids_on_both_sides_suggest_one_node_type(graph):
    ends = [(i, 20 + (i + 1) % 20) for i in range(20)]
    people = FakeGraph(ends, ["hello"] * 20, 20, 20, shared_names=18)
    [finding] = findings_about(describe(people), "two kinds of nodes")
    assert finding.severity == "warning"
    assert "90% of the sources (18)" in finding.sentence
    assert "--one-node-type" in finding.advice
    assert not findings_about(describe(replace(people, shared_names=3)), "two kinds of nodes")
    assert not findings_about(
        describe(replace(graph, shared_names=2)), "two kinds of nodes"
    )  # too few


UNSEEN, SINGLE = "unseen labels", "single edges in test"


def test_leaks_between_training_and_test_are_reported(graph):
    card = describe(graph)
    edge, text, pair = (
        findings_about(card, f"leak: {what}")[0]
        for what in ("identical edge", "same text", "same pair")
    )
    assert (edge.severity, text.severity, pair.severity) == ("warning", "warning", "note")
    assert "33% of the test edges (1) are also in training" in edge.sentence
    assert (text.splits, text.numbers["count"]) == (["random"], 2)
    assert "n0 → n3" in pair.sentence
    assert "--drop-repeats" in edge.advice
    assert "+new-pairs" in pair.advice
    assert advised(card) == ["edge=random", "link=per-source+drop+new-pairs"]
    assert card.prepare_options.startswith("--drop-repeats ")


def test_a_repeated_pair_is_a_warning_in_a_network_without_labels(graph):
    card = describe(replace(graph, label_kind=None, labels=None))
    assert findings_about(card, "leak: same pair")[0].severity == "warning"


def test_a_label_never_seen_in_training_is_a_warning(graph):
    labels = np.array([0, 0, 0, -1, 0, 1], dtype=np.int16)
    finding = findings_about(describe(replace(graph, labels=labels)), "unseen labels")[0]
    assert finding.severity == "warning"
    assert "1 label occurs in test" in finding.sentence
    assert "'down'" in finding.sentence


def test_a_split_without_training_edges_is_a_warning(graph):
    card = describe(replace(graph, splits={"s": np.full(6, 2, np.uint8)}))
    assert "'s' has no training edges" in findings_about(card, "empty part")[0].sentence


def with_splits(graph, **codes):
    return replace(graph, splits={name: np.array(c, np.uint8) for name, c in codes.items()})


def test_splits_with_the_same_problem_share_one_finding(graph):
    card = describe(with_splits(graph, edge=[0, 2, 0, 1, 2, 2], link=[0, 2, 0, 1, 2, 2]))
    for about in ("leak: identical edge", "leak: same text", "leak: same pair", "cold nodes"):
        [finding] = findings_about(card, about)
        assert finding.splits == ["edge", "link"]
    assert "33% of the test edges (1)" in findings_about(card, "cold nodes")[0].sentence
    alone = describe(with_splits(graph, edge=[0, 2, 0, 1, 2, 2]))
    assert [f.sentence for f in card.findings] == [f.sentence for f in alone.findings]


def test_one_sentence_has_the_numbers_of_each_split(graph):
    card = describe(with_splits(graph, edge=[0, 2, 0, 1, 2, 2], link=[0, 2, 0, 0, 0, 1]))
    [text] = findings_about(card, "leak: same text")
    assert text.splits == ["edge", "link"]
    assert text.sentence.startswith("67% and 100% of the test edges (2 and 1)")
    assert text.numbers == {"count": 1, "share": 1.0}  # of the worst split
    assert findings_about(card, "cold nodes")[0].splits == ["edge"]


def test_a_share_that_splits_have_in_common_is_given_once():
    ends, words = [(n, 9) for n in range(9)], ["same"] * 9
    splits = {"a": np.array([0] * 8 + [2], np.uint8), "b": np.array([0] * 7 + [2, 2], np.uint8)}
    [text] = findings_about(
        describe(FakeGraph(ends, words, 9, 1, splits=splits)), "leak: same text"
    )
    assert text.sentence.startswith("100% of the test edges (1 and 2)")


def test_cold_nodes_of_several_splits_are_counted_for_the_worst(graph):
    card = describe(with_splits(graph, a=[0, 2, 0, 0, 2, 2], b=[0, 2, 2, 1, 2, 2]))
    [cold] = findings_about(card, "cold nodes")
    assert "33% and 75% of the test edges (1 and 3)" in cold.sentence
    assert "(in b 1 of 2 sources and 2 of 3 targets)" in cold.sentence
    assert advised(card) == ["edge=random+seed-1", "link=per-source+drop+new-pairs+seed-1"]


def test_validation_is_checked_if_there_is_no_test_part(graph):
    card = describe(with_splits(graph, edge=[0, 2, 0, 1, 2, 2], old=[0, 1, 0, 1, 1, 1]))
    first, second = (finding.sentence for finding in findings_about(card, "leak: same text"))
    assert "of the test edges" in first
    assert "of the val edges" in second


def test_splits_with_the_same_empty_part_are_reported_together(graph):
    card = describe(with_splits(graph, a=[2] * 6, b=[2] * 6, c=[0] * 6))
    training, test = findings_about(card, "empty part")
    assert "'a' and 'b' have no training edges" in training.sentence
    assert "'c' has no validation or test edges" in test.sentence
    assert (training.splits, test.splits) == (["a", "b"], ["c"])


def with_split_options(graph, *texts):
    """The graph with the splits that `prepare` makes from these options."""
    configs = {config.name: config for config in map(SplitConfig.parse, texts)}
    arrays = EdgeList(
        src=graph.src,
        dst=graph.dst,
        num_nodes=graph.num_nodes,
        columns={"fold": np.array([0, 2, 0, 1, 2, 2], np.uint8)},
    )
    splits = {name: make_split(config, arrays) for name, config in configs.items()}
    return replace(graph, splits=splits, split_configs=configs)


def advised(card):
    """The splits that a card advises."""
    words = shlex.split(card.prepare_options)
    return [split for option, split in pairwise(words) if option == "--split"]


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        (
            ["edge=random", "link=per-source+seed-1"],
            ["edge=random", "link=per-source+drop+new-pairs+seed-1"],
        ),
        (["mine=column:fold"], ["mine=column:fold+drop+new-pairs"]),
        (
            ["edge=random+seed-3", "mine=column:fold"],
            ["edge=random+seed-3", "mine=column:fold+drop+new-pairs"],
        ),
        (["edge=random:0.5/0.0/0.5"], ["edge=random:0.5/0.0/0.5+new-pairs"]),
    ],
)
def test_the_advised_splits_solve_all_findings_together(graph, texts, options):
    card = describe(with_split_options(graph, *texts))
    assert any(f.about in ("leak: same pair", "cold nodes") for f in card.findings)
    assert advised(card) == options
    after = describe(with_split_options(graph, *options))
    assert not advised(after)
    for about in ("leak: same pair", "cold nodes"):
        left = {split for finding in findings_about(after, about) for split in finding.splits}
        assert left <= ({"edge"} if len(options) > 1 else set())  # for edge classification


def test_the_advice_for_a_column_says_what_to_change_in_it(graph):
    card = describe(with_split_options(graph, "mine=column:fold"))
    [pair], [cold] = findings_about(card, "leak: same pair"), findings_about(card, "cold nodes")
    assert "the column 'fold'" in pair.advice
    assert "the column 'fold'" in cold.advice
    codes = np.array([0, 2, 0, 1, 2, 2], np.uint8)
    configs = {"column": SplitConfig(name="column", how="column")}
    named = describe(replace(graph, splits={"column": codes}, split_configs=configs))
    [pair] = findings_about(named, "leak: same pair")
    assert advised(named) == ["column=column:split+drop+new-pairs"]
    assert "the split column" in pair.advice


def test_options_are_quoted_for_the_shell(graph):
    codes = {"s": np.array([0, 2, 0, 1, 2, 2], np.uint8)}
    configs = {"s": SplitConfig(name="s", how="column", column="my fold")}
    card = describe(replace(graph, splits=codes, split_configs=configs))
    assert "--split 's=column:my fold+" in card.prepare_options


def test_unseen_labels_are_drawn_again_unless_a_column_decides(graph):
    labels = np.array([0, 0, 0, -1, 0, 1], dtype=np.int16)
    column = findings_about(
        describe(with_split_options(replace(graph, labels=labels), "mine=column:fold")), UNSEEN
    )[0]
    assert "training" in column.advice
    assert "seed" not in column.advice
    codes = {"edge": np.array([0, 2, 0, 1, 2, 2], np.uint8)}
    configs = {"edge": SplitConfig(seed=4)}
    drawn = replace(graph, labels=labels, splits=codes, split_configs=configs)
    assert advised(describe(drawn)) == ["edge=random+drop+new-pairs+seed-5"]
    assert "+seed-5" in findings_about(describe(drawn), UNSEEN)[0].advice


def test_a_single_edge_of_a_source_is_in_the_test_part():
    ends = [(0, 3), (1, 3), (2, 3), (2, 4), (2, 4)]
    sparse = FakeGraph(ends, list("abcde"), 3, 2)
    card = describe(with_split_options(sparse, "edge=random", "link=per-source"))
    [note] = findings_about(card, SINGLE)
    assert note.sentence.startswith("67% of the sources (2)")
    assert advised(card) == ["edge=random", "link=per-source+drop+new-pairs"]
    assert note.splits == ["link"]
    for text in ("link=per-source+drop", "link=per-source+drop-source", "link=random"):
        assert not findings_about(describe(with_split_options(sparse, text)), SINGLE)
    assert not findings_about(
        describe(with_split_options(sparse, "link=per-source:1.0/0.0/0.0")), SINGLE
    )
    assert findings_about(describe(with_split_options(sparse, "link=per-target")), SINGLE) == []


def test_repeated_pairs_need_no_other_split_if_new_pairs_are_tested(graph):
    [repeated] = findings_about(
        describe(with_split_options(graph, "link=per-source+new-pairs")), "repeated pairs"
    )
    assert "merge" in repeated.advice
    assert "+new-pairs" not in repeated.advice


def test_a_split_of_new_pairs_has_no_pair_leak():
    ends = [(0, 2), (0, 3), (1, 2), (1, 3)]
    graph = FakeGraph(ends, list("abcd"), 2, 2, splits={"link": np.array([0, 0, 0, 2], np.uint8)})
    assert not findings_about(describe(graph), "leak: same pair")


@pytest.mark.parametrize("name", _texts())
def test_every_remedy_names_options_and_settings_that_exist(name):
    advice = " ".join(_texts()[name].values())
    assert named_options(advice) <= options()
    settings = flatten(RunConfig(task="edge-classification").to_dict())
    assert set(re.findall(r"--set ([\w.]+)", advice)) <= settings.keys()
    for option in re.findall(r"(\+[a-z-]+)[ )]", advice.replace("{seed}", "1")):
        SplitConfig.parse(f"link=per-source{option}")


def test_a_card_without_advice_on_preparing_has_no_options():
    ends = [(i % 3, 3 + i % 2) for i in range(6)]
    assert describe(FakeGraph(ends, list("abcdef"), 3, 2)).prepare_options == ""


@pytest.mark.parametrize("words", [[""] * 4, ["same"] * 4, ["", "same", "same", ""]])
def test_texts_that_tell_nothing_are_a_warning(words):
    card = describe(FakeGraph([(0, 2), (0, 3), (1, 2), (1, 3)], words, 2, 2))
    [finding] = findings_about(card, "uninformative texts")
    assert finding.severity == "warning"
    assert "--text" in finding.advice
    assert not findings_about(card, "empty texts") + findings_about(card, "shared texts")


IMPLAUSIBLE = "implausible times"


def at_times(*days):
    ends = [(i % 3, 3 + i % 2) for i in range(len(days))]
    words = [f"text {i}" for i in range(len(days))]
    return describe(FakeGraph(ends, words, 3, 2, times=microseconds(*days)))


def test_an_edge_in_the_future_is_a_warning():
    days = ["2024-01-01"] * 299
    [finding] = findings_about(at_times(*days[:7], "2999-12-31", *days[7:]), IMPLAUSIBLE)
    assert finding.severity == "warning"
    assert finding.numbers == {"future": 1, "early": 0}
    for word in ("(1)", "edge 7", "2999-12-31"):
        assert word in finding.sentence


def test_many_edges_before_1971_are_a_warning():
    days = [None, *["1970-01-01"] * 2, *["2024-01-01"] * 97]
    [finding] = findings_about(at_times(*days), IMPLAUSIBLE)
    assert (finding.severity, finding.numbers) == ("warning", {"future": 0, "early": 2})
    for word in ("(2)", "edge 1", "1970-01-01"):
        assert word in finding.sentence
    both = findings_about(at_times(*days, "2999-12-31"), IMPLAUSIBLE)
    assert [finding.numbers for finding in both] == [{"future": 1, "early": 2}]


def test_steps_are_explained_where_numbers_may_be_steps():
    steps = [f"1970-01-01T00:00:{step:02}" for step in range(60)]
    [finding] = findings_about(at_times(*steps), IMPLAUSIBLE)
    assert "steps" in finding.advice
    for days in (["9999-12-31"], ["0001-01-01", "9999-12-31"], ["1900-01-01"] * 9):
        [finding] = findings_about(at_times(*days, "2024-01-01"), IMPLAUSIBLE)
        assert "1970" not in finding.advice + finding.sentence


def test_today_and_a_few_early_edges_are_plausible():
    today = str(np.datetime64("today"))
    assert not findings_about(at_times("1960-01-01", *[today] * 99), IMPLAUSIBLE)
    assert not findings_about(at_times("1971-01-01", "2024-01-01"), IMPLAUSIBLE)
    assert not findings_about(at_times(None, None), IMPLAUSIBLE)
