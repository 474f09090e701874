"""The sampler: which edges it draws, which it must never draw, and with which frequency."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.sampler import EgoSampler
from edgeformers.errors import InputError


@st.composite
def networks(draw):
    num_nodes = draw(st.integers(2, 7))
    ends = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(ends, ends, st.integers(0, 1)), min_size=1, max_size=40))
    src, dst, strata = (np.array(column) for column in zip(*edges, strict=True))
    return num_nodes, src, dst, strata


@settings(derandomize=True, deadline=None, max_examples=80)
@given(networks(), st.integers(0, 6), st.integers(1, 6), st.integers(0, 2**63), st.integers(0, 9))
def test_samples_are_distinct_allowed_edges_and_as_many_as_possible(
    network, first, second, seed, epoch
):
    num_nodes, src, dst, strata = network
    adjacency = build_adjacency(src, dst, num_nodes, strata=strata, num_strata=2)
    sampler = EgoSampler(adjacency, (first, second), seed=seed)
    centers = np.repeat(np.arange(num_nodes), num_nodes)
    partners = np.tile(np.arange(num_nodes), num_nodes)
    drawn = sampler.sample(centers, partners=partners, epoch=epoch)
    assert drawn.edge_ids.shape == (num_nodes**2, first + second)
    for row, (center, partner) in enumerate(zip(centers, partners, strict=True)):
        for stratum, slots in enumerate([slice(0, first), slice(first, first + second)]):
            edges = drawn.edge_ids[row, slots][drawn.mask[row, slots]]
            allowed = {
                e
                for e in range(len(src))
                if strata[e] == stratum
                and center in (src[e], dst[e])
                and src[e] + dst[e] - center != partner
            }
            assert (
                len(set(edges.tolist()))
                == len(edges)
                == min(len(allowed), (first, second)[stratum])
            )
            assert set(edges.tolist()) <= allowed
            others = drawn.neighbors[row, slots][drawn.mask[row, slots]]
            assert (others == src[edges] + dst[edges] - center).all()


@pytest.fixture
def star():
    """Node 0 with 30 edges to 1..30, every third in the second stratum."""
    strata = (np.arange(30) % 3 == 2).astype(np.int16)
    return build_adjacency(
        np.zeros(30, np.int32), np.arange(1, 31), 31, strata=strata, num_strata=2
    )


def test_edges_between_query_and_key_are_never_drawn():
    src, dst = np.array([0, 0, 0, 1, 0, 2]), np.array([1, 1, 2, 0, 3, 1])
    sampler = EgoSampler(build_adjacency(src, dst, 4), (8,))
    for epoch in range(20):
        query, key = sampler.sample([0, 1], partners=[1, 0], epoch=epoch).edge_ids
        assert set(query[query >= 0]) == {2, 4}  # neither 0 -> 1 twice nor 1 -> 0
        assert set(key[key >= 0]) == {5}


@pytest.mark.parametrize("others", [0, 20, 4_000])
def test_a_partner_with_nearly_all_edges_is_excluded_in_bounded_time(others):
    """Where every draw was read until enough others were found, this took a minute."""
    partner, num_edges = 1, 40_000
    dst = np.full(num_edges, partner)
    dst[:others] = 2 + np.arange(others) % 7
    adjacency = build_adjacency(np.zeros(num_edges, np.int64), dst, 9)
    centers = np.zeros(20_000, np.int64)
    drawn = EgoSampler(adjacency, [4]).sample(centers, partners=centers + partner)
    assert (drawn.edge_ids[drawn.mask] < others).all()
    assert drawn.mask.all() == (others == 4_000)  # with fewer, as many as are found


def test_a_sample_depends_on_seed_epoch_and_node_only(star):
    sampler = EgoSampler(star, (4, 2), seed=5)
    alone = sampler.sample([0], epoch=3).edge_ids[0]
    among = sampler.sample([7, 0, 0, 9], epoch=3).edge_ids
    assert (among[1] == alone).all()
    assert (among[2] == alone).all()
    assert (EgoSampler(star, (4, 2), seed=5).sample([0], epoch=3).edge_ids[0] == alone).all()
    assert (sampler.sample([0], epoch=4).edge_ids[0] != alone).any()
    assert (EgoSampler(star, (4, 2), seed=6).sample([0], epoch=3).edge_ids[0] != alone).any()


def test_a_seed_gives_the_same_sample_in_every_version(star):
    drawn = EgoSampler(star, (4, 2), seed=0).sample([0], epoch=0)
    assert drawn.edge_ids.tolist() == [[27, 22, 15, 28, 14, 2]]


def test_every_edge_is_drawn_equally_often(star):
    sampler = EgoSampler(star, (5, 0))
    counts = np.zeros(30)
    epochs = 4000
    for epoch in range(epochs):
        counts[sampler.sample([0], epoch=epoch).edge_ids[0]] += 1
    positive = counts[np.arange(30) % 3 != 2]
    expected = epochs * 5 / 20
    chi_square = ((positive - expected) ** 2 / expected).sum()
    assert chi_square < 36.2  # 19 degrees of freedom, 1 in 100
    assert counts[np.arange(30) % 3 == 2].sum() == 0


@pytest.mark.parametrize("size", [3, 7, 9], ids=["few", "most", "all-but-one"])
@pytest.mark.parametrize("partners", [[0], [11]], ids=["no partner", "partner with two edges"])
def test_edges_are_equally_likely_for_every_sample_size(size, partners):
    """Node 0 with ten edges to 1..10 and two to 11."""
    dst = np.array([*range(1, 11), 11, 11])
    sampler = EgoSampler(build_adjacency(np.zeros(12, int), dst, 12), (size,))
    counts = np.zeros(12)
    epochs = 3000
    for epoch in range(epochs):
        drawn = sampler.sample([0], partners=partners, epoch=epoch).edge_ids[0]
        counts[drawn[drawn >= 0]] += 1
    allowed = 10 if partners == [11] else 12
    expected = epochs * size / allowed
    spread = ((counts[:allowed] - expected) ** 2 / (expected * (1 - size / allowed))).sum()
    assert spread < 27  # about a chi-square of at most 12, 1 in 100
    assert counts[allowed:].sum() == 0


def test_pairs_of_edges_are_drawn_equally_often(star):
    sampler = EgoSampler(star, (0, 2))
    seen: dict[frozenset[int], int] = {}
    epochs = 4500
    for epoch in range(epochs):
        pair = frozenset(sampler.sample([0], epoch=epoch).edge_ids[0].tolist())
        seen[pair] = seen.get(pair, 0) + 1
    assert len(seen) == 45  # all pairs of the ten edges
    expected = epochs / 45
    assert sum((n - expected) ** 2 / expected for n in seen.values()) < 68.7  # 44 df, 1 in 100


def test_nodes_without_edges_and_empty_batches_work(star):
    sampler = EgoSampler(star, (3, 3))
    isolated = EgoSampler(build_adjacency(np.array([0]), np.array([1]), 3), (4,)).sample([2])
    assert not isolated.mask.any()
    assert isolated.sizes.tolist() == [0]
    assert sampler.sample([]).edge_ids.shape == (0, 6)


def test_threads_draw_the_same_samples(star):
    sampler = EgoSampler(star, (4, 2))
    expected = [sampler.sample([0], epoch=epoch).edge_ids for epoch in range(50)]
    samples: dict[int, np.ndarray] = {}

    def work(start):
        for epoch in range(start, 50, 4):
            samples[epoch] = sampler.sample([0], epoch=epoch).edge_ids

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((samples[epoch] == expected[epoch]).all() for epoch in range(50))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda star: EgoSampler(star, (4,)), "sizes"),
        (lambda star: EgoSampler(star, (0, 0)), "sizes"),
        (lambda star: EgoSampler(star, (1, 1)).sample([31]), "node 31"),
        (lambda star: EgoSampler(star, (1, 1)).sample([[0]]), "shape"),
        (
            lambda star: EgoSampler(star, (1, 1)).sample([0], partners=[1, 2]),
            "partner",
        ),
    ],
)
def test_invalid_arguments_are_errors(star, call, word):
    with pytest.raises(InputError, match=word):
        call(star)


@given(
    ends=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40),
    data=st.data(),
)
def test_a_sample_as_of_a_time_is_that_of_the_network_as_it_was(ends, data):
    src, dst = np.array(ends, np.int32).T
    times = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(src), max_size=len(src))))
    strata = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(src), max_size=len(src))))
    now = data.draw(st.integers(-1, 11))
    more = {"strata": strata.astype(np.int16), "num_strata": 2, "times": times}
    centers, partners = np.arange(6), np.roll(np.arange(6), 1)
    sampler = EgoSampler(build_adjacency(src, dst, 6, **more), [2, 1], seed=3)
    found = sampler.sample(centers, partners=partners, before=np.full(6, now), epoch=1)
    assert (times[found.edge_ids[found.mask]] < now).all()
    earlier = EgoSampler(build_adjacency(src, dst, 6, keep=times < now, **more), [2, 1], seed=3)
    expected = earlier.sample(centers, partners=partners, epoch=1)
    assert np.array_equal(found.edge_ids, expected.edge_ids)
    assert np.array_equal(found.neighbors, expected.neighbors)


def test_each_center_has_its_own_time():
    src, dst = np.zeros(9, np.int32), np.arange(1, 10, dtype=np.int32)
    adjacency = build_adjacency(src, dst, 10, times=np.arange(9)[::-1].copy())
    sample = EgoSampler(adjacency, [9]).sample([0, 0, 0], before=[0, 4, 100])
    assert sample.sizes.tolist() == [0, 4, 9]
    assert sorted(sample.edge_ids[1][:4].tolist()) == [5, 6, 7, 8]


def test_a_sampler_without_times_cannot_go_back(simulated):
    sampler = simulated.sampler("link", [3])
    with pytest.raises(InputError, match="timed"):
        sampler.sample([0], before=[5])
    timed = simulated.sampler("link", [3], timed=True)
    with pytest.raises(InputError, match="time per center"):
        timed.sample([0, 1], before=[5])
    now = int(np.median(simulated.times))
    found = timed.sample(np.arange(20), before=np.full(20, now))
    assert found.mask.any()
    assert (simulated.times[found.edge_ids[found.mask]] < now).all()


def test_a_timed_sampler_needs_all_times(make_network):
    with pytest.raises(InputError, match="time for every edge"):
        make_network().sampler("link", [1], timed=True)
