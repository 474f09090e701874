"""Known links and the columns of nodes."""

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.evaluation import columns_of
from tests.evaluation.problems import known_links


def test_known_links_can_be_asked_one_by_one():
    known = known_links([2, 0, 2], [4, 1, 0], 4)
    rows, columns = np.repeat(np.arange(4), 6), np.tile(np.arange(6), 4)
    told = known.contains(rows, columns)
    assert [(r, c) for r, c, t in zip(rows, columns, told, strict=True) if t] == [
        (0, 1),
        (2, 0),
        (2, 4),
    ]
    place, candidate = known.of(np.array([2, 1, 0, 2]))
    assert list(zip(place, candidate, strict=True)) == [(0, 0), (0, 4), (2, 1), (3, 0), (3, 4)]
    assert not known_links([], [], 4).contains(rows, columns).any()


def test_nodes_find_their_columns():
    assert columns_of([30, 10, 30], [20, 30, 10]).tolist() == [1, 2, 1]
    assert columns_of([], []).tolist() == []
    with pytest.raises(InputError, match="node 25 is to be found but is not among the 3"):
        columns_of([30, 25], [20, 30, 10])
