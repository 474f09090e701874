import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.efficiency import choose_centers, compare_times


def test_timed_nodes_have_enough_edges_and_are_repeated_if_few():
    degrees = np.array([9, 9, 5, 1, 6, 7])
    assert choose_centers(degrees, 2, 3, 5).tolist() == [2, 4, 5]
    assert choose_centers(degrees, 2, 4, 7).tolist() == [5, 5, 5, 5]
    with pytest.raises(InputError, match="10 training edges"):
        choose_centers(degrees, 0, 3, 10)


def test_times_are_compared_by_the_ratio_of_medians_over_rounds():
    random = np.random.default_rng(0)
    load = random.uniform(1, 3, 40)  # of the machine, in every round the same for both
    seconds = {("a", "train", 2): 1.2 * load, ("b", "train", 2): load, ("c", "train", 2): load}
    slower = compare_times(seconds, "train", 2, "a", "b")
    assert (slower.table, slower.metric, slower.examples) == ("efficiency/train", "2", 40)
    assert slower.difference == pytest.approx(0.2)
    assert slower.low == slower.high == pytest.approx(0.2)
    same = compare_times(seconds, "train", 2, "b", "c")
    assert same.low <= 0 <= same.high
