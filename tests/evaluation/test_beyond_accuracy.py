"""Coverage, novelty, popularity lift, diversity and calibration, worked out by hand."""

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.evaluation.beyond_accuracy import (
    calibration,
    expected_calibration_error,
    recommendation_metrics,
)

SOURCES, RECOMMENDED = [0, 0, 1, 1], [0, 1, 0, 2]
POPULARITY = [6, 1, 1, 0]  # with one more each: 7, 2, 2 and 1 of 12


def test_metrics_of_two_lists():
    vectors = [[2.0, 0.0], [0.0, 3.0], [1.0, 0.0], [1.0, 1.0]]
    result = recommendation_metrics(
        SOURCES, RECOMMENDED, POPULARITY, vectors=vectors, own_popularity=[1.0, 3.0]
    )
    assert result["coverage"] == 3 / 4
    bits = -np.log2(np.array([7, 2, 7, 2]) / 12)
    assert result["novelty"] == pytest.approx(bits.mean())
    assert result["popularity_lift"] == pytest.approx((6 + 1 + 6 + 1) / 4 / 2 - 1)
    assert result["diversity"] == pytest.approx(((1 - 0) + (1 - 1)) / 2)


def test_a_list_of_one_has_no_diversity_of_its_own():
    result = recommendation_metrics([0, 0, 1], [0, 1, 1], [1, 1], vectors=np.eye(2))
    assert result["diversity"] == pytest.approx(1.0)
    alone = recommendation_metrics([0], [1], [1, 1], vectors=np.eye(2))
    assert np.isnan(alone["diversity"])


def test_no_recommendations_cover_nothing():
    result = recommendation_metrics([], [], POPULARITY)
    assert result["coverage"] == 0
    assert np.isnan(result["novelty"])


def test_lists_of_unequal_length_are_refused():
    with pytest.raises(InputError, match="2 sources"):
        recommendation_metrics([0, 1], [0], POPULARITY)


def test_calibration_of_four_edges():
    probs = [[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]
    curve = calibration(probs, [0, 1, 1, 1], bins=2)
    assert curve["count"] == [4]  # the most probable of two classes has at least 0.5
    curve = calibration(probs, [0, 1, 1, 1], bins=5)
    assert curve["count"] == [2, 2]  # 0.6 and 0.7; 0.9 twice
    np.testing.assert_allclose(curve["confidence"], [0.65, 0.9])
    np.testing.assert_allclose(curve["accuracy"], [1.0, 0.5])
    assert expected_calibration_error(curve) == pytest.approx((0.35 + 0.4) / 2)


def test_certain_and_correct_is_perfect_and_nothing_is_unknown():
    assert expected_calibration_error(calibration(np.eye(3), [0, 1, 2])) == 0
    assert np.isnan(expected_calibration_error(calibration(np.empty((0, 3)), [])))
    with pytest.raises(InputError, match="labels"):
        calibration(np.eye(3), [0])
