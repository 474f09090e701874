import numpy as np
import pytest

from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.registry import LINK_BASELINES
from edgeformers.errors import InputError

QUERIES, CANDIDATES = np.arange(12), np.arange(12, 24)


def test_popularity_counts_positive_training_edges(checkerboard):
    model = Popularity().fit(checkerboard, "given")
    scores = model.scores(QUERIES, CANDIDATES)
    counts = np.bincount(model.links.train.candidates, minlength=12)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, np.tile(counts, (12, 1)))


@pytest.mark.parametrize(("queries", "candidates"), [([0], [3]), ([12], [13])])
def test_nodes_of_the_wrong_side_are_refused(checkerboard, queries, candidates):
    with pytest.raises(InputError, match="must be nodes"):
        Popularity().fit(checkerboard, "given").scores(queries, candidates)


@pytest.mark.parametrize("name", ["als", "ease"])
def test_the_checkerboard_is_learned(checkerboard, name):
    model = LINK_BASELINES[name]().fit(checkerboard, "given")
    scores = model.scores(QUERIES, CANDIDATES)
    users, items = checkerboard.node_names(QUERIES), checkerboard.node_names(CANDIDATES)
    likes = np.array([[(int(u[1:]) - int(i[1:])) % 2 == 0 for i in items] for u in users])
    assert scores[likes].min() > scores[~likes].max()
    assert len(model.trials) > 1
    assert model.setting
