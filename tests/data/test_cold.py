"""Nodes held out entirely: what of them training, their neighbors and the card may see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.card.describe import describe
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import (
    MOST_PROFILE,
    NONE,
    PROFILE,
    TEST,
    TRAIN,
    VAL,
    EdgeArrays,
    SplitConfig,
    count_parts,
    make_split,
)
from edgeformers.errors import ConfigError, InputError

SIDES = {"cold_source": ("src", "dst"), "cold_target": ("dst", "src")}


def facts(src, dst, **more):
    src, dst = np.asarray(src), np.asarray(dst)
    return EdgeArrays(src=src, dst=dst, num_nodes=int(max(src.max(), dst.max())) + 1, **more)


@st.composite
def networks(draw):
    """Edges of 12 sources and 8 targets, or of 12 nodes of one kind; pairs repeat."""
    first = draw(st.sampled_from([12, 0]))
    ends = st.tuples(st.integers(0, 11), st.integers(first, first + 7))
    pairs = draw(st.lists(ends, min_size=1, max_size=120))
    return facts(*np.array(pairs).T)


@given(networks(), st.sampled_from(list(SIDES)), st.integers(0, 3))
def test_a_node_is_in_training_whole_or_not_at_all(edges, how, seed):
    codes = make_split(SplitConfig(how=how, seed=seed), edges)
    own, other = (getattr(edges, end) for end in SIDES[how])
    asked = (codes == VAL) | (codes == TEST)
    held = np.unique(own[asked | (codes == PROFILE)])
    trained = np.unique(np.concatenate([own[codes == TRAIN], other[codes == TRAIN]]))
    assert not np.isin(held, trained).any()
    for node in held:
        parts = codes[own == node]
        profile = int((parts == PROFILE).sum())
        assert 1 <= profile <= MOST_PROFILE
        assert not {VAL, TEST} <= set(parts.tolist())
    pairs = own.astype(np.int64) * edges.num_nodes + other
    assert not np.isin(pairs[asked], pairs[codes == PROFILE]).any()


def test_half_of_the_edges_of_a_held_out_node_are_its_profile_and_no_more_than_eight():
    counts = [1, 2, 3, 7, 40]
    src = np.repeat(np.arange(5), counts)
    edges = facts(src, 5 + np.arange(len(src)))
    codes = make_split(SplitConfig(how="cold_source", fractions=(0.0, 0.0, 1.0)), edges)
    profiles = [int((codes[src == node] == PROFILE).sum()) for node in range(5)]
    assert profiles == [1, 1, 1, 3, 8]
    assert [int((codes[src == node] == TEST).sum()) for node in range(5)] == [0, 1, 2, 4, 32]


def test_the_shares_are_of_nodes_that_have_edges_on_the_side():
    src = np.repeat(np.arange(100), 3)
    edges = facts(src, 100 + np.tile(np.arange(3), 100))
    codes = make_split(SplitConfig(how="cold_source"), edges)
    asked = {code: len(np.unique(src[codes == code])) for code in (TRAIN, VAL, TEST)}
    assert asked == {TRAIN: 70, VAL: 10, TEST: 20}
    assert count_parts(codes) == {"train": 210, "val": 20, "test": 40, "profile": 30, "none": 0}


def test_among_nodes_of_one_kind_two_held_out_nodes_are_not_joined():
    rng = np.random.default_rng(0)
    edges = facts(rng.integers(0, 30, 400), rng.integers(0, 30, 400))
    codes = make_split(SplitConfig(how="cold_source"), edges)
    held = np.unique(edges.src[(codes == TEST) | (codes == VAL) | (codes == PROFILE)])
    assert len(held) >= 8
    assert (codes[np.isin(edges.dst, held)] == NONE).all()


def test_a_split_of_cold_nodes_cannot_drop_them():
    with pytest.raises(ConfigError, match="which 'drop_source' would drop; drop those of the o"):
        SplitConfig.parse("cold-source+drop-source")
    assert SplitConfig.parse("cold=cold-source+drop-target").unseen == "drop_target"


def test_an_edge_can_be_kept_around_one_end_alone():
    src, dst = np.array([0, 0, 1]), np.array([2, 3, 2])
    keep = np.array([True, True, False]), np.array([True, False, True])
    found = build_adjacency(src, dst, 4, keep=keep)
    assert [found.edges_of(node).tolist() for node in range(4)] == [[0, 1], [], [0, 2], []]
    assert found.neighbors_of(2).tolist() == [0, 1]


@pytest.fixture
def shop(make_network):
    """ann and bob are trained on; new arrives with two texts and is asked for two links."""
    rows = [
        ("ann", "tent", "train"),
        ("bob", "tent", "train"),
        ("bob", "lamp", "train"),
        ("new", "tent", "profile"),
        ("new", "lamp", "profile"),
        ("new", "rope", "test"),
        ("ann", "rope", "train"),
        ("bob", "rope", "val"),
    ]
    return make_network([
        {"source": s, "target": t, "text": f"{s} of {t}", "split": part} for s, t, part in rows
    ], config=PrepareConfig(tokenizer=None, progress=False))  # fmt: skip


def test_a_profile_stands_around_who_was_held_out_and_around_nobody_else(shop):
    found = shop.training_adjacency("column")
    numbers = {name: shop.node_number(name) for name in ("ann", "bob", "new", "tent", "lamp")}
    edges = {name: found.edges_of(node).tolist() for name, node in numbers.items()}
    assert edges == {"ann": [0, 6], "bob": [1, 2], "new": [3, 4], "tent": [0, 1], "lamp": [2]}
    assert found.held_out.tolist() == [False, False, True, False, False, False]
    assert found.training_degrees().tolist() == [2, 2, 0, 2, 1, 1]
    assert found.profile_sizes().tolist() == [0, 0, 2, 0, 0, 0]


def test_without_profiles_nobody_is_held_out(simulated):
    found = simulated.training_adjacency("link")
    assert found.held_out is None
    assert (found.training_degrees() == found.degrees()).all()
    assert not found.profile_sizes().any()


def test_a_split_that_was_not_prepared_is_made_by_its_name(simulated):
    named = simulated.split("cold-source:0.5/0.2/0.3+seed-4")
    config = SplitConfig(how="cold_source", fractions=(0.5, 0.2, 0.3), seed=4)
    assert (named == make_split(config, simulated.facts)).all()
    assert simulated.split("cold-source:0.5/0.2/0.3+seed-4") is named
    assert all(map(simulated.has_split, ("link", "cold-target")))
    assert "cold-target" not in simulated.splits


@pytest.mark.parametrize("name", ["lnik", "column:fold", "cold-source+drop-source", "cold"])
def test_a_name_that_says_nothing_is_answered_with_the_splits_there_are(simulated, name):
    assert not simulated.has_split(name)
    with pytest.raises(InputError, match=r"has no split '.*'; "):
        simulated.split(name)


def test_a_split_in_time_needs_times(shop):
    assert not shop.has_split("chronological")


def test_the_card_counts_profiles_and_does_not_warn_of_what_is_meant(make_network):
    rows = [
        {"source": f"s{i % 20}", "target": f"t{i % 7}", "text": f"text {i}"} for i in range(140)
    ]
    splits = (SplitConfig.parse("cold=cold-source"),)
    graph = make_network(rows, config=PrepareConfig(tokenizer=None, progress=False, splits=splits))
    card = describe(graph)
    assert [part.name for part in card.splits[0].parts] == ["train", "val", "test", "profile"]
    assert card.splits[0].part("test").cold["sources"] == 4
    assert "cold nodes" not in [finding.about for finding in card.findings]
