"""Splits: fractions, seeds, cold nodes, and nodes without training edges."""

from collections import Counter
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data import scratch
from edgeformers.data.splits import (
    MAX_PROFILE,
    NO_TIME,
    NONE,
    PROFILE,
    TEST,
    TRAIN,
    VAL,
    EdgeList,
    SplitConfig,
    SplitMethod,
    Unseen,
    cold_edges,
    count_parts,
    make_split,
    seen_in_training,
)
from edgeformers.errors import ConfigError, InputError

SIDES = {"cold_source": ("src", "dst"), "cold_target": ("dst", "src")}


def edge_list(src, dst, **more):
    src, dst = np.asarray(src), np.asarray(dst)
    return EdgeList(src=src, dst=dst, num_nodes=int(max(src.max(), dst.max())) + 1, **more)


@pytest.fixture
def reviews():
    rng = np.random.default_rng(0)
    src = rng.integers(0, 40, 1000)
    dst = 40 + rng.integers(0, 30, 1000)
    return edge_list(src, dst, times=rng.integers(0, 50, 1000))


def test_a_random_split_has_the_published_counts():
    n = 734_640
    edges = edge_list(np.zeros(n, np.int32), np.ones(n, np.int32))
    counts = count_parts(make_split(SplitConfig(how="random"), edges))
    assert counts == {"train": 514_247, "val": 73_465, "test": 146_928, "none": 0}


@pytest.mark.parametrize("how", ["random", "per_source", "per_target"])
def test_the_seed_determines_the_split(how, reviews):
    first = make_split(SplitConfig(how=how, seed=3), reviews)
    assert (first == make_split(SplitConfig(how=how, seed=3), reviews)).all()
    assert (first != make_split(SplitConfig(how=how, seed=4), reviews)).any()


def test_a_seed_gives_the_same_split_in_every_version():
    edges = edge_list(np.arange(10), np.arange(10))
    codes = make_split(SplitConfig(how="random", seed=0), edges)
    assert codes.tolist() == [0, 0, 2, 1, 0, 0, 0, 0, 2, 0]


@pytest.mark.parametrize(("how", "side"), [("per_source", "src"), ("per_target", "dst")])
def test_per_node_splits_have_the_same_fractions_for_every_node(how, side, reviews):
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
        own = nodes == node
        order = np.lexsort((np.arange(len(own))[own], reviews.times[own]))
        assert (np.diff(codes[own][order].astype(int)) >= 0).all()


def test_times_before_1970_come_first():
    edges = edge_list([0] * 4, [1] * 4, times=np.array([5, -7, 0, -1]))
    config = SplitConfig(how="chronological", fractions=(0.5, 0.25, 0.25))
    assert make_split(config, edges).tolist() == [TEST, TRAIN, VAL, TRAIN]


def test_a_column_is_taken_as_it_is():
    column = np.array([TRAIN, TEST, NONE], np.uint8)
    edges = edge_list([0, 0, 0], [1, 1, 1], columns={"split": column})
    assert (make_split(SplitConfig(how="column"), edges) == column).all()


def test_edges_of_unseen_nodes_are_kept_or_dropped_per_side():
    column = np.array([TRAIN, TEST, TEST, VAL], np.uint8)
    edges = edge_list([0, 0, 1, 1], [2, 3, 2, 3], columns={"split": column})
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


def test_new_pairs_drops_pairs_linked_in_training():
    column = np.array([TRAIN, TEST, TEST, VAL], np.uint8)
    edges = edge_list([0, 0, 0, 0], [1, 1, 2, 1], columns={"split": column})
    codes = make_split(SplitConfig(how="column", new_pairs=True), edges)
    assert codes.tolist() == [TRAIN, NONE, TEST, NONE]


def test_in_an_undirected_network_pairs_have_no_order():
    column = np.array([TRAIN, TEST, VAL, TEST], np.uint8)
    ends = {"src": [0, 1, 1, 2], "dst": [1, 0, 2, 0], "columns": {"split": column}}
    config = SplitConfig(how="column", new_pairs=True)
    assert make_split(config, edge_list(**ends)).tolist() == [TRAIN, TEST, VAL, TEST]
    undirected = make_split(config, edge_list(**ends, directed=False))
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
    edges = edge_list(src, dst)
    codes = make_split(SplitConfig(how=how, unseen=unseen, seed=seed), edges)
    seen = seen_in_training(codes, edges)
    held_out = (codes == VAL) | (codes == TEST)
    if unseen in ("drop", "drop_source"):
        assert seen[edges.src[held_out]].all()
    if unseen in ("drop", "drop_target"):
        assert seen[edges.dst[held_out]].all()
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


def test_a_column_name_may_contain_an_equals_sign():
    assert SplitConfig.parse("column:a=b").column == "a=b"
    assert SplitConfig.parse("x=column:a=b").column == "a=b"


@given(
    st.fixed_dictionaries({
        "name": st.sampled_from(["edge", "by-time", "a_2"]),
        "how": st.sampled_from(get_args(SplitMethod)),
        "fractions": st.sampled_from([(0.7, 0.1, 0.2), (0.8, 0.1, 0.1), (1.0, 0.0, 0.0)]),
        "seed": st.integers(0, 9),
        "unseen": st.sampled_from(get_args(Unseen)),
        "new_pairs": st.booleans(),
    })
)  # fmt: skip
def test_to_text_is_the_inverse_of_parse(values):
    if values["how"].startswith("cold"):
        values["unseen"] = "keep"
    config = SplitConfig(**values)
    if config.how == "column":
        config = replace(config, fractions=(0.7, 0.1, 0.2), column="split_edge")
    assert SplitConfig.parse(config.to_text()) == config


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("randon", "'random'"),
        ("random:0.5/0.5", "0.5/0.5"),
        ("random:a/b/c", "a/b/c"),
        ("random:0.5/0.5/0.5", "fractions"),
        ("random+dorp", "'drop'"),
        ("random+drop-surce", "'drop-source'"),
        ("random+new-pair", "'new-pairs'"),
        ("chronological-per-sorce", "'chronological-per-source'"),
        ("shuffle", "per-source"),
        ("a b=random", "a b"),
        ("cold-source+drop-source", "'drop-source'"),
    ],
)
def test_an_invalid_split_is_an_error(text, word):
    with pytest.raises(ConfigError, match=word):
        SplitConfig.parse(text)


def test_a_missing_time_or_column_is_named():
    edges = edge_list([0, 0], [1, 1])
    with pytest.raises(InputError, match="`time="):
        make_split(SplitConfig(how="chronological"), edges)
    with pytest.raises(InputError, match="column 'split'"):
        make_split(SplitConfig(how="column"), edges)
    edges = edge_list([0, 0], [1, 1], times=np.array([3, NO_TIME]))
    with pytest.raises(InputError, match="edge 1"):
        make_split(SplitConfig(how="chronological"), edges)


def test_the_place_of_an_edge_without_a_time_is_named_if_known():
    times = np.array([3, NO_TIME, 4, NO_TIME])
    edges = edge_list([0] * 4, [1] * 4, times=times, place=lambda edge: f"a.csv, line {edge + 2}")
    with pytest.raises(InputError, match=r"2 of 4 .*a\.csv, line 3"):
        make_split(SplitConfig(how="chronological_per_source"), edges)


@pytest.mark.parametrize("how", [name for name in get_args(SplitMethod) if "chron" in name])
def test_a_split_by_time_needs_different_times(how):
    edges = edge_list([0] * 10, [1] * 10, times=np.full(10, 7))
    with pytest.raises(InputError, match="same"):
        make_split(SplitConfig(how=how), edges)
    assert (make_split(SplitConfig(how=how, fractions=(1, 0, 0)), edges) == TRAIN).all()


def test_some_edges_must_be_later_than_training():
    half = edge_list([0] * 10, [1] * 10, times=np.arange(10) // 5)
    with pytest.raises(InputError, match="2 different"):
        make_split(SplitConfig(how="chronological"), half)
    assert (make_split(SplitConfig(how="chronological", fractions=(0.5, 0.2, 0.3)), half)).any()


@st.composite
def networks(draw):
    """Edges of 12 sources and 8 targets, or of 12 nodes of one type; pairs repeat."""
    first = draw(st.sampled_from([12, 0]))
    ends = st.tuples(st.integers(0, 11), st.integers(first, first + 7))
    pairs = draw(st.lists(ends, min_size=1, max_size=120))
    return edge_list(*np.array(pairs).T)


@given(networks(), st.sampled_from(list(SIDES)), st.integers(0, 3))
def test_a_held_out_node_has_no_training_edge(edges, how, seed):
    codes = make_split(SplitConfig(how=how, seed=seed), edges)
    own, other = (getattr(edges, end) for end in SIDES[how])
    asked = (codes == VAL) | (codes == TEST)
    held = np.unique(own[asked | (codes == PROFILE)])
    trained = np.unique(np.concatenate([own[codes == TRAIN], other[codes == TRAIN]]))
    assert not np.isin(held, trained).any()
    for node in held:
        parts = codes[own == node]
        profile = int((parts == PROFILE).sum())
        assert 1 <= profile <= MAX_PROFILE
        assert not {VAL, TEST} <= set(parts.tolist())
    pairs = own.astype(np.int64) * edges.num_nodes + other
    assert not np.isin(pairs[asked], pairs[codes == PROFILE]).any()


def test_half_of_a_held_out_nodes_edges_but_at_most_eight_are_its_profile():
    counts = [1, 2, 3, 7, 40]
    src = np.repeat(np.arange(5), counts)
    edges = edge_list(src, 5 + np.arange(len(src)))
    codes = make_split(SplitConfig(how="cold_source", fractions=(0.0, 0.0, 1.0)), edges)
    profiles = [int((codes[src == node] == PROFILE).sum()) for node in range(5)]
    assert profiles == [1, 1, 1, 3, 8]
    assert [int((codes[src == node] == TEST).sum()) for node in range(5)] == [0, 1, 2, 4, 32]


def test_cold_fractions_count_nodes_with_edges_on_that_side():
    src = np.repeat(np.arange(100), 3)
    edges = edge_list(src, 100 + np.tile(np.arange(3), 100))
    codes = make_split(SplitConfig(how="cold_source"), edges)
    asked = {code: len(np.unique(src[codes == code])) for code in (TRAIN, VAL, TEST)}
    assert asked == {TRAIN: 70, VAL: 10, TEST: 20}
    assert count_parts(codes) == {"train": 210, "val": 20, "test": 40, "profile": 30, "none": 0}


def test_edges_between_two_held_out_nodes_belong_to_no_part():
    rng = np.random.default_rng(0)
    edges = edge_list(rng.integers(0, 30, 400), rng.integers(0, 30, 400))
    codes = make_split(SplitConfig(how="cold_source"), edges)
    held = np.unique(edges.src[(codes == TEST) | (codes == VAL) | (codes == PROFILE)])
    assert len(held) >= 8
    assert (codes[np.isin(edges.dst, held)] == NONE).all()


@given(st.lists(st.integers(-3, 3)), st.integers(1, 4), st.booleans())
def test_cutting_in_blocks_equals_sorting_everything(times, block, per_node):
    count, node = len(times), np.arange(len(times)) % 3
    how = "chronological_per_source" if per_node else "chronological"
    edges = EdgeList(src=node, dst=node + 3, num_nodes=6, times=np.array(times, np.int64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "BLOCK", block)
        try:
            codes = make_split(SplitConfig(how=how), edges)
        except InputError:
            first = sorted(times)[: int(0.7 * count)]
            assert first[-1 if not per_node else 0] == max(times)
            return
    expected = np.zeros(count, np.uint8)
    for group in [node == n for n in range(3)] if per_node else [np.ones(count, bool)]:
        rows = np.flatnonzero(group)
        rows = rows[np.argsort(np.array(times, np.int64)[rows], kind="stable")]
        for share in (0.7, 0.8):
            expected[rows[int(share * len(rows)) :]] += 1
    assert codes.tolist() == expected.tolist()
    assert sum(count_parts(codes).values()) == count
