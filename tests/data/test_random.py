"""The counter-based generator: reference values, uniformity, independence of streams."""

import numpy as np
import pytest

from edgeformers.data.random import hash_keys, permute, splitmix64, uniform
from edgeformers.errors import InputError

GOLDEN = 0x9E3779B97F4A7C15


def reference_splitmix64(state, count):
    """The published algorithm with Python's integers."""
    outputs = []
    for _ in range(count):
        state = (state + GOLDEN) % 2**64
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        outputs.append(z ^ (z >> 31))
    return outputs


def test_the_published_first_outputs_of_seed_zero():
    states = np.array([0, GOLDEN, 2 * GOLDEN % 2**64], dtype=np.uint64)
    assert splitmix64(states).tolist() == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


@pytest.mark.parametrize("seed", [1, 12345, 2**63, 2**64 - 1])
def test_any_seed_follows_the_published_algorithm(seed):
    states = [(seed + i * GOLDEN) % 2**64 for i in range(50)]
    assert splitmix64(np.array(states, dtype=np.uint64)).tolist() == reference_splitmix64(seed, 50)


def test_the_argument_is_not_modified():
    states = np.arange(4, dtype=np.uint64)
    splitmix64(states)
    hash_keys(0, states)
    assert states.tolist() == [0, 1, 2, 3]


def test_keys_chain_the_hash_over_the_streams():
    (a,) = reference_splitmix64(7, 1)
    (b,) = reference_splitmix64(a ^ 3, 1)
    (c,) = reference_splitmix64(b ^ 40, 1)
    assert int(hash_keys(7, 3, 40)) == c
    assert int(hash_keys(7)) == a


def test_keys_are_the_same_in_every_version():
    assert hash_keys(0, 1, np.arange(3)).tolist() == [
        4964578127960768432,
        5067554077270220563,
        6768782832058643234,
    ]


def test_streams_broadcast_and_slices_agree():
    grid = hash_keys(5, np.arange(3)[:, None], np.arange(1000))
    assert grid.shape == (3, 1000)
    np.testing.assert_array_equal(grid[1, 400:410], hash_keys(5, 1, np.arange(400, 410)))
    assert hash_keys(5, np.arange(0)).shape == (0,)
    assert uniform(hash_keys(5, 1)).shape == ()


def test_keys_do_not_collide_and_the_order_of_streams_matters():
    grid = hash_keys(0, np.arange(300)[:, None], np.arange(300))
    assert len(np.unique(grid)) == grid.size
    assert int(hash_keys(0, 1, 2)) != int(hash_keys(0, 2, 1))
    assert int(hash_keys(0, 1)) != int(hash_keys(1, 0))
    assert int(hash_keys(0, 1)) != int(hash_keys(0, 1, 0))


def test_integers_are_taken_modulo_2_to_the_64():
    assert int(hash_keys(0, -1)) == int(hash_keys(0, np.int64(-1))) == int(hash_keys(0, 2**64 - 1))
    assert int(hash_keys(0, np.int32(9))) == int(hash_keys(0, 9))


def test_uniform_numbers_fill_the_unit_interval_evenly():
    u = uniform(hash_keys(0, 0, np.arange(1_000_000)))
    counts = np.histogram(u, bins=100, range=(0, 1))[0]
    chi_square = ((counts - 10_000) ** 2 / 10_000).sum()
    assert 50 < chi_square < 170  # 99 degrees of freedom: mean 99, deviation 14
    assert abs(u.mean() - 0.5) < 0.0015
    assert abs(u.var() - 1 / 12) < 0.0005


def test_uniform_uses_the_upper_53_bits_and_is_below_one():
    assert uniform(np.array([0, 2**11 - 1, 2**63], dtype=np.uint64)).tolist() == [0.0, 0.0, 0.5]
    assert uniform(np.uint64(2**64 - 1)) == 1 - 2**-53


def test_streams_seeds_and_neighboring_counters_are_uncorrelated():
    index = np.arange(200_000)
    rows = [hash_keys(0, 0, index), hash_keys(0, 1, index), hash_keys(1, 0, index)]
    rows.append(hash_keys(0, 0, index + 1))
    correlation = np.corrcoef([uniform(row) for row in rows])
    assert np.abs(correlation - np.eye(4)).max() < 0.01  # four deviations of 1 / sqrt(200,000)
    low_bits = np.array([row & np.uint64(1) for row in rows], dtype=np.float64)
    assert np.abs(np.corrcoef(low_bits) - np.eye(4)).max() < 0.01


def test_invalid_seeds_and_keys_are_errors():
    for seed in (-1, 2**64):
        with pytest.raises(InputError, match=f"seed .*got {seed}"):
            hash_keys(seed, 1)
    with pytest.raises(InputError, match="float64"):
        hash_keys(0, np.array([0.5]))
    with pytest.raises(InputError, match="integers"):
        uniform(np.array(["7"]))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 17, 1000, 4097])
def test_a_permutation_has_every_number_once(count):
    places = permute(np.arange(count), count, 7, 1)
    assert np.sort(places).tolist() == list(range(count))
    assert permute(np.array([count - 1]), count, 7, 1)[0] == places[-1]


def test_permutations_look_random():
    count = 50_000
    first, second = (permute(np.arange(count), count, seed) for seed in (1, 2))
    for other in (np.arange(count), second):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.02
        assert (first == other).sum() < 10
    steps = np.bincount(np.diff(first) % 16, minlength=16)
    assert abs(steps / (count / 16) - 1).max() < 0.1
