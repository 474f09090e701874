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
    draw_clusters,
    fit_polynomial,
    holm,
    is_significant,
    metrics,
    summarize_seeds,
    two_level_difference,
    welch_test,
)
from edgeformers.evaluation.significance import MAX_CLUSTERS, holm_levels


def test_the_interval_of_a_mean_agrees_with_theory():
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    interval = bootstrap_interval(values, seed=1)
    half = 1.96 * values.std() / math.sqrt(400)
    assert interval.value == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.03)
    assert interval == bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_groups_of_equal_examples_widen_the_interval():
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


def test_multi_label_f1_has_an_interval():
    rng = np.random.default_rng(3)
    truth = rng.random((80, 3)) < 0.4
    guess = truth ^ (rng.random((80, 3)) < 0.2)
    interval = bootstrap_f1(truth, guess, seed=0, resamples=100)
    assert interval.low < metrics.macro_f1(truth, guess) < interval.high


def test_the_level_must_be_between_0_and_1():
    with pytest.raises(InputError, match="level"):
        bootstrap_interval([1.0, 2.0], 0, level=95)


def test_seeds_are_summarized_by_mean_and_sample_deviation():
    spread = summarize_seeds([{"f1": 0.5, "mae": 1.0}, {"f1": 0.7, "mae": 1.0}])
    assert spread["f1"].mean == pytest.approx(0.6)
    assert spread["f1"].deviation == pytest.approx(math.sqrt(0.02))
    assert str(spread["f1"]) == "0.6000 (± 0.1414, 2 runs)"
    assert math.isnan(summarize_seeds([{"f1": 0.5}])["f1"].deviation)
    with pytest.raises(InputError, match="mae"):
        summarize_seeds([{"f1": 0.5, "mae": 1.0}, {"f1": 0.7}])


def test_a_better_model_is_distinguished_from_noise():
    rng = np.random.default_rng(5)
    base = rng.random(200)
    better = compare_paired(base + 0.05 + 0.05 * rng.normal(size=200), base, seed=0)
    assert better.difference.low > 0
    assert better.p_value < 0.001
    assert better.sign_p_value < 0.001
    noise = compare_paired(base + 0.05 * rng.normal(size=200), base, seed=0)
    assert noise.difference.low < 0 < noise.difference.high
    assert noise.p_value > 0.05


def test_p_values_of_five_examples_by_hand():
    # all five signs equal: 2 of 32 flips are as extreme; one example is a tie and says nothing
    result = compare_paired([2, 3, 4, 5, 6, 1], [1, 1, 1, 1, 1, 1], seed=0, resamples=20_000)
    assert (result.wins, result.losses, result.ties) == (5, 0, 1)
    assert result.sign_p_value == pytest.approx(2 / 32)
    assert result.p_value == pytest.approx(2 / 32, abs=0.01)


def test_equal_runs_do_not_differ():
    result = compare_paired([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], seed=0)
    assert result.p_value == result.sign_p_value == 1.0
    assert result.difference.value == 0.0


def test_the_sign_flip_test_keeps_its_level():
    rng = np.random.default_rng(6)
    p = [
        compare_paired(rng.normal(size=30), np.zeros(30), seed=i, resamples=200).p_value
        for i in range(200)
    ]
    assert np.mean(np.array(p) < 0.1) == pytest.approx(0.1, abs=0.07)


def test_paired_scores_must_have_the_same_length():
    with pytest.raises(InputError, match="same length"):
        compare_paired([1.0, 2.0], [1.0, 2.0, 3.0], seed=0)


def test_grouped_pairs_count_as_one_in_a_comparison():
    groups = np.repeat(np.arange(6), 50)
    gain = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])[groups]
    alone = compare_paired(gain, np.zeros(300), seed=0)
    together = compare_paired(gain, np.zeros(300), seed=0, groups=groups)
    assert alone.p_value < 0.001
    assert together.p_value == pytest.approx(2 / 64, abs=0.01)


def test_a_gain_is_significant_above_two_standard_errors():
    gains = np.array([0.0, 1.0, 2.0])  # deviation 1, error .577
    assert not is_significant(gains)
    assert is_significant(gains + 0.2)
    assert not is_significant(np.array([5.0]))


def test_a_group_of_examples_counts_as_one_observation():
    gains = np.array([0.0, 1.0, 2.0])
    assert is_significant(np.repeat(gains, 9))
    assert not is_significant(np.repeat(gains, 9), groups=np.repeat(np.arange(3), 9))
    assert is_significant(np.repeat(gains + 0.2, 3), groups=np.repeat(np.arange(3), 3))
    assert not is_significant(np.repeat(gains, 9), groups=np.zeros(27))


def test_the_standard_error_of_groups_of_different_sizes():
    gains, groups = np.array([1.0, 2.0, 3.0]), np.array([7, 7, 5])  # mean 2, error 2 / 3
    assert is_significant(gains, groups)
    assert not is_significant(gains - 0.7, groups)


def test_drawn_clusters_are_weighted_by_how_often_they_are_drawn():
    cluster, counts = draw_clusters([7, 7, 3, 9], 0, resamples=50)
    assert cluster.tolist() == [1, 1, 0, 2]
    assert counts.shape == (50, 3)
    assert (counts.sum(axis=1) == 3).all()


def test_many_clusters_are_merged_at_random():
    cluster, counts = draw_clusters(np.arange(20_000), 0, resamples=3)
    assert counts.shape[1] == MAX_CLUSTERS == len(np.unique(cluster))
    assert np.bincount(cluster).max() <= 5


@pytest.mark.parametrize(("runs", "spread"), [(1, 0.0), (3, 0.0), (3, 0.1), (2, 0.05)])
def test_two_level_intervals_cover_the_truth(runs, spread):
    rng, covered = np.random.default_rng(0), 0
    for trial in range(100):
        first, second = (
            values[:, None] + rng.normal(0, spread, runs) for values in rng.normal(0, 0.5, (2, 200))
        )
        cluster, counts = draw_clusters(np.arange(200), trial, resamples=200)
        resampled = [[counts[:, cluster] @ values / 200] for values in (first, second)]
        gap = first.mean() - second.mean()
        interval, p_value = two_level_difference(*resampled, gap, trial)
        covered += interval.low <= 0 <= interval.high
        assert interval.value == gap
        assert 0 < p_value <= 1
    assert covered >= 88


def test_welch_agrees_with_scipy():
    from scipy import stats

    a, b = [0.1, 0.4, 0.35], [0.2, 0.1, 0.15, 0.12]
    found, p_value = welch_test([a], [b])
    expected = stats.ttest_ind(a, b, equal_var=False)
    assert p_value == pytest.approx(expected.pvalue)
    assert [found.low, found.high] == pytest.approx(list(expected.confidence_interval(0.95)))
    exact, p_value = welch_test([[0.3]], [[0.1]])
    assert (exact.value, math.isnan(exact.low), math.isnan(p_value)) == (
        pytest.approx(0.2),
        True,
        True,
    )


def test_a_fitted_line_agrees_with_scipy():
    from scipy import stats

    x, y = [2, 3, 4, 5, 5], [1.0, 1.4, 2.1, 2.3, 2.6]
    found, expected = fit_polynomial(x, y), stats.linregress(x, y)
    assert found.coefficient.value == pytest.approx(expected.slope)
    assert found.r_squared == pytest.approx(expected.rvalue**2)
    half = stats.t.ppf(0.975, 3) * expected.stderr
    assert found.coefficient.high - found.coefficient.value == pytest.approx(half)
    curve = fit_polynomial([1, 2, 3, 4], [1, 4, 9, 16], 2)
    assert curve.coefficient.value == pytest.approx(1)
    assert math.isnan(fit_polynomial([1, 2], [3, 5]).coefficient.low)
    with pytest.raises(InputError, match="degree 2"):
        fit_polynomial([1, 1, 2], [1, 2, 3], 2)


def test_holm_adjusts_the_smallest_p_value_most():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@pytest.mark.parametrize(
    ("p_values", "tests"),
    [
        ([0.01, 0.04], [2, 1]),  # both are significant
        ([0.04, 0.03], [2, 2]),  # neither is: the second is tested only after the first
        ([0.2, 0.001, 0.02], [1, 3, 2]),
    ],
)
def test_intervals_exclude_0_where_holm_does(p_values, tests):
    assert holm_levels(p_values) == pytest.approx([1 - 0.05 / count for count in tests])
    for p_value, level, adjusted in zip(
        p_values, holm_levels(p_values), holm(p_values), strict=True
    ):
        assert (p_value < 1 - level) == (adjusted < 0.05)
