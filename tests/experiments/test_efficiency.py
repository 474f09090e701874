import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.efficiency import choose_centers


def test_timed_nodes_have_enough_edges_and_are_repeated_if_few():
    degrees = np.array([9, 9, 5, 1, 6, 7])
    assert choose_centers(degrees, 2, 3, 5).tolist() == [2, 4, 5]
    assert choose_centers(degrees, 2, 4, 7).tolist() == [5, 5, 5, 5]
    with pytest.raises(InputError, match="10 training edges"):
        choose_centers(degrees, 0, 3, 10)
