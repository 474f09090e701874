"""Intervals against theory and brute force, tests of two runs against counting by hand."""

import math

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.evaluation import (
    bootstrap_f1,
    bootstrap_interval,
    bootstrap_statistic,
    compare_paired,
    metrics,
    summarize_seeds,
)


def test_the_interval_of_a_mean_is_as_wide_as_theory_says():
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    interval = bootstrap_interval(values, seed=1)
    half = 1.96 * values.std() / math.sqrt(400)
    assert interval.value == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.03)
    assert interval == bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_groups_of_like_examples_widen_the_interval():
    groups = np.repeat(np.arange(40), 10)
    values = np.random.default_rng(0).normal(size=40)[groups]  # ten copies of forty numbers
    naive, honest = bootstrap_interval(values, 1), bootstrap_interval(values, 1, groups=groups)
    ratio = (honest.high - honest.low) / (naive.high - naive.low)
    assert ratio == pytest.approx(math.sqrt(10), rel=0.1)


def test_one_example_has_no_interval():
    assert math.isnan(bootstrap_interval([0.5], seed=0).low)
    assert math.isnan(bootstrap_f1([1], [1], seed=0).high)


def test_the_interval_of_f1_agrees_with_resampling_examples():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 300)
    guess = np.where(rng.random(300) < 0.6, labels, rng.integers(0, 3, 300))
    fast = bootstrap_f1(labels, guess, seed=1, resamples=1000)
    slow = bootstrap_statistic(
        lambda rows: metrics.macro_f1(labels[rows], guess[rows]), 300, seed=2, resamples=1000
    )
    assert fast.value == slow.value == metrics.macro_f1(labels, guess)
    assert fast.low == pytest.approx(slow.low, abs=0.01)
    assert fast.high == pytest.approx(slow.high, abs=0.01)
    micro = bootstrap_f1(labels, guess, seed=1, average="micro")
    assert micro.low < metrics.accuracy(labels, guess) < micro.high


def test_f1_of_several_labels_has_an_interval():
    rng = np.random.default_rng(3)
    truth = rng.random((80, 3)) < 0.4
    guess = truth ^ (rng.random((80, 3)) < 0.2)
    interval = bootstrap_f1(truth, guess, seed=0, resamples=100)
    assert interval.low < metrics.macro_f1(truth, guess) < interval.high


def test_a_level_must_be_a_share():
    with pytest.raises(InputError, match=r"such as 0.95 \(got 95\)"):
        bootstrap_interval([1.0, 2.0], 0, level=95)


def test_seeds_are_summed_up_as_mean_and_sample_deviation():
    spread = summarize_seeds([{"f1": 0.5, "mae": 1.0}, {"f1": 0.7, "mae": 1.0}])
    assert spread["f1"].mean == pytest.approx(0.6)
    assert spread["f1"].deviation == pytest.approx(math.sqrt(0.02))
    assert str(spread["f1"]) == "0.6000 (± 0.1414, 2 runs)"
    assert math.isnan(summarize_seeds([{"f1": 0.5}])["f1"].deviation)
    with pytest.raises(InputError, match="'mae' is not in all of the 2 runs"):
        summarize_seeds([{"f1": 0.5, "mae": 1.0}, {"f1": 0.7}])


def test_a_clear_winner_is_told_from_noise():
    rng = np.random.default_rng(5)
    base = rng.random(200)
    better = compare_paired(base + 0.05 + 0.05 * rng.normal(size=200), base, seed=0)
    assert better.difference.low > 0
    assert better.p_value < 0.001
    assert better.sign_p_value < 0.001
    noise = compare_paired(base + 0.05 * rng.normal(size=200), base, seed=0)
    assert noise.difference.low < 0 < noise.difference.high
    assert noise.p_value > 0.05


def test_tests_by_hand_on_five_examples():
    # all five signs equal: 2 of 32 flips are as extreme; one example is a tie and says nothing
    told = compare_paired([2, 3, 4, 5, 6, 1], [1, 1, 1, 1, 1, 1], seed=0, resamples=20_000)
    assert (told.wins, told.losses, told.ties) == (5, 0, 1)
    assert told.sign_p_value == pytest.approx(2 / 32)
    assert told.p_value == pytest.approx(2 / 32, abs=0.01)


def test_equal_runs_do_not_differ():
    told = compare_paired([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], seed=0)
    assert told.p_value == told.sign_p_value == 1.0
    assert told.difference.value == 0.0


def test_the_test_of_flips_keeps_its_level():
    rng = np.random.default_rng(6)
    p = [
        compare_paired(rng.normal(size=30), np.zeros(30), seed=i, resamples=200).p_value
        for i in range(200)
    ]
    assert np.mean(np.array(p) < 0.1) == pytest.approx(0.1, abs=0.07)


def test_runs_are_compared_on_the_same_examples():
    with pytest.raises(InputError, match=r"same examples \(got 2 and 3\)"):
        compare_paired([1.0, 2.0], [1.0, 2.0, 3.0], seed=0)


def test_the_pairs_of_one_query_count_as_one():
    groups = np.repeat(np.arange(6), 50)
    gain = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])[groups]
    alone = compare_paired(gain, np.zeros(300), seed=0)
    together = compare_paired(gain, np.zeros(300), seed=0, groups=groups)
    assert alone.p_value < 0.001
    assert together.p_value == pytest.approx(2 / 64, abs=0.01)
