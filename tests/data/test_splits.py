"""Splits: their shares, their seeds, and what becomes of nodes training has not seen."""

from collections import Counter
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.splits import (
    NO_TIME,
    NONE,
    TEST,
    TRAIN,
    VAL,
    EdgeArrays,
    How,
    SplitConfig,
    Unseen,
    cold_edges,
    count_parts,
    make_split,
    seen_in_training,
)
from edgeformers.errors import ConfigError, InputError


def facts(src, dst, **more):
    src, dst = np.asarray(src), np.asarray(dst)
    return EdgeArrays(src=src, dst=dst, num_nodes=int(max(src.max(), dst.max())) + 1, **more)


@pytest.fixture
def reviews():
    rng = np.random.default_rng(0)
    src = rng.integers(0, 40, 1000)
    dst = 40 + rng.integers(0, 30, 1000)
    return facts(src, dst, times=rng.integers(0, 50, 1000))


def test_random_split_cuts_where_the_published_one_does():
    n = 734_640
    edges = facts(np.zeros(n, np.int32), np.ones(n, np.int32))
    counts = count_parts(make_split(SplitConfig(how="random"), edges))
    assert counts == {"train": 514_247, "val": 73_465, "test": 146_928, "none": 0}


@pytest.mark.parametrize("how", ["random", "per_source", "per_target"])
def test_a_seed_gives_one_split_and_another_seed_another(how, reviews):
    first = make_split(SplitConfig(how=how, seed=3), reviews)
    assert (first == make_split(SplitConfig(how=how, seed=3), reviews)).all()
    assert (first != make_split(SplitConfig(how=how, seed=4), reviews)).any()


def test_a_seed_means_the_same_for_ever():
    edges = facts(np.arange(10), np.arange(10))
    codes = make_split(SplitConfig(how="random", seed=0), edges)
    assert codes.tolist() == [0, 0, 2, 1, 0, 0, 0, 0, 2, 0]


@pytest.mark.parametrize(("how", "side"), [("per_source", "src"), ("per_target", "dst")])
def test_every_node_is_cut_at_the_same_shares(how, side, reviews):
    codes = make_split(SplitConfig(how=how), reviews)
    nodes = getattr(reviews, side)
    for node in np.unique(nodes):
        parts = Counter(codes[nodes == node].tolist())
        n = int((nodes == node).sum())
        assert (parts[TRAIN], parts[VAL]) == (int(0.7 * n), int(0.8 * n) - int(0.7 * n))


def test_training_comes_before_validation_and_test_in_time(reviews):
    codes = make_split(SplitConfig(how="chronological"), reviews)
    last, first = reviews.times[codes == TRAIN].max(), reviews.times[codes == VAL].min()
    assert last <= first
    assert reviews.times[codes == VAL].max() <= reviews.times[codes == TEST].min()


@pytest.mark.parametrize(("how", "side"), [("per_source", "src"), ("per_target", "dst")])
def test_per_node_chronology_holds_within_each_node(how, side, reviews):
    codes = make_split(SplitConfig(how=f"chronological_{how}"), reviews)
    nodes = getattr(reviews, side)
    for node in np.unique(nodes):
        mine = nodes == node
        order = np.lexsort((np.arange(len(mine))[mine], reviews.times[mine]))
        assert (np.diff(codes[mine][order].astype(int)) >= 0).all()


def test_times_before_1970_come_first():
    edges = facts([0] * 4, [1] * 4, times=np.array([5, -7, 0, -1]))
    config = SplitConfig(how="chronological", fractions=(0.5, 0.25, 0.25))
    assert make_split(config, edges).tolist() == [TEST, TRAIN, VAL, TRAIN]


def test_a_column_is_taken_as_it_is():
    column = np.array([TRAIN, TEST, NONE], np.uint8)
    edges = facts([0, 0, 0], [1, 1, 1], columns={"split": column})
    assert (make_split(SplitConfig(how="column"), edges) == column).all()


def test_unseen_nodes_are_kept_as_cold_or_dropped_on_one_side():
    column = np.array([TRAIN, TEST, TEST, VAL], np.uint8)
    edges = facts([0, 0, 1, 1], [2, 3, 2, 3], columns={"split": column})
    kept = make_split(SplitConfig(how="column"), edges)
    assert cold_edges(kept, edges, "source").tolist() == [False, False, True, True]
    assert cold_edges(kept, edges, "target").tolist() == [False, True, False, True]
    for unseen, expected in {
        "drop_source": [TRAIN, TEST, NONE, NONE],
        "drop_target": [TRAIN, NONE, TEST, NONE],
        "drop": [TRAIN, NONE, NONE, NONE],
    }.items():
        codes = make_split(SplitConfig(how="column", unseen=unseen), edges)
        assert codes.tolist() == expected


def test_new_pairs_alone_are_tested_on():
    column = np.array([TRAIN, TEST, TEST, VAL], np.uint8)
    edges = facts([0, 0, 0, 0], [1, 1, 2, 1], columns={"split": column})
    codes = make_split(SplitConfig(how="column", new_pairs=True), edges)
    assert codes.tolist() == [TRAIN, NONE, TEST, NONE]


def test_without_directions_a_pair_is_known_whichever_end_comes_first():
    column = np.array([TRAIN, TEST, VAL, TEST], np.uint8)
    ends = {"src": [0, 1, 1, 2], "dst": [1, 0, 2, 0], "columns": {"split": column}}
    config = SplitConfig(how="column", new_pairs=True)
    assert make_split(config, facts(**ends)).tolist() == [TRAIN, TEST, VAL, TEST]
    undirected = make_split(config, facts(**ends, directed=False))
    assert undirected.tolist() == [TRAIN, NONE, VAL, TEST]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(6, 9)), min_size=1, max_size=60),
    st.sampled_from(["random", "per_source", "per_target"]),
    st.sampled_from(["keep", "drop", "drop_source", "drop_target"]),
    st.integers(0, 2**32),
)
def test_after_dropping_no_node_is_unseen_on_that_side(pairs, how, unseen, seed):
    src, dst = zip(*pairs, strict=True)
    edges = facts(src, dst)
    codes = make_split(SplitConfig(how=how, unseen=unseen, seed=seed), edges)
    seen = seen_in_training(codes, edges)
    later = (codes == VAL) | (codes == TEST)
    if unseen in ("drop", "drop_source"):
        assert seen[edges.src[later]].all()
    if unseen in ("drop", "drop_target"):
        assert seen[edges.dst[later]].all()
    assert sum(count_parts(codes).values()) == len(pairs)


def test_a_split_is_read_from_the_command_line():
    assert SplitConfig.parse("per-source") == SplitConfig(name="per-source", how="per_source")
    assert SplitConfig.parse("link=chronological-per-target:0.8/0.1/0.1+drop-source+seed-7") == (
        SplitConfig(
            name="link",
            how="chronological_per_target",
            fractions=(0.8, 0.1, 0.1),
            unseen="drop_source",
            seed=7,
        )
    )
    assert SplitConfig.parse("edge=column:split_edge+new-pairs") == SplitConfig(
        name="edge", how="column", column="split_edge", new_pairs=True
    )


def test_a_sign_in_the_name_of_a_column_does_not_name_the_split():
    assert SplitConfig.parse("column:a=b").column == "a=b"
    assert SplitConfig.parse("x=column:a=b").column == "a=b"


@given(
    st.fixed_dictionaries({
        "name": st.sampled_from(["edge", "by-time", "a_2"]),
        "how": st.sampled_from(get_args(How)),
        "fractions": st.sampled_from([(0.7, 0.1, 0.2), (0.8, 0.1, 0.1), (1.0, 0.0, 0.0)]),
        "seed": st.integers(0, 9),
        "unseen": st.sampled_from(get_args(Unseen)),
        "new_pairs": st.booleans(),
    })
)  # fmt: skip
def test_a_split_is_written_as_the_command_line_reads_it(values):
    if values["how"].startswith("cold"):  # cannot drop what it is of
        values["unseen"] = "keep"
    config = SplitConfig(**values)
    if config.how == "column":  # has shares of its own
        config = replace(config, fractions=(0.7, 0.1, 0.2), column="split_edge")
    assert SplitConfig.parse(config.to_text()) == config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("randon", "split how 'randon' is unknown; did you mean 'random'"),
        ("random:0.5/0.5", "write the shares as 0.7/0.1/0.2 (got '0.5/0.5')"),
        ("random:a/b/c", "write the shares as 0.7/0.1/0.2"),
        ("random:0.5/0.5/0.5", "three shares that add up to 1"),
        ("random+dorp", "split unseen 'dorp' is unknown; did you mean 'drop'"),
        ("a b=random", "a split's name is made of letters"),
    ],
)
def test_a_split_that_cannot_be_says_what_would_do(text, words):
    with pytest.raises(ConfigError, match=words.replace("(", r"\(").replace(")", r"\)")):
        SplitConfig.parse(text)


def test_missing_times_and_columns_are_named():
    edges = facts([0, 0], [1, 1])
    with pytest.raises(InputError, match="needs times; name the time column with --time"):
        make_split(SplitConfig(how="chronological"), edges)
    with pytest.raises(InputError, match="needs the column 'split', which is not there"):
        make_split(SplitConfig(how="column"), edges)
    edges = facts([0, 0], [1, 1], times=np.array([3, NO_TIME]))
    with pytest.raises(InputError, match="1 have none, the first is edge 1"):
        make_split(SplitConfig(how="chronological"), edges)
