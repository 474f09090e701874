import shutil
from collections import namedtuple

import numpy as np
import pytest

from edgeformers.data.text_states import TextStates, find_folder_for_states

LENGTHS = np.array([3, 1, 5, 2])  # of which at most 4 tokens are stored
WIDTH = 2


@pytest.fixture
def rows():
    """States of the texts 2 and 0: 4 and 3 tokens."""
    return np.arange(7 * WIDTH).reshape(7, WIDTH).astype(np.float32)


@pytest.fixture
def states(rows, tmp_path):
    pieces = [(np.array([2]), rows[:4]), (np.array([0]), rows[4:])]
    return TextStates(LENGTHS, pieces, max_tokens=4, layers=1, folder=tmp_path)


def test_states_come_in_the_order_of_the_texts(states, rows):
    np.testing.assert_array_equal(states.take([0, 2, 0], 4), rows[[4, 5, 6, 0, 1, 2, 3, 4, 5, 6]])


def test_a_text_that_is_not_stored_has_no_states(states):
    assert states.take([0, 1], 4) is None


def test_states_of_texts_cut_elsewhere_are_not_used(states):
    assert states.take([0], 3) is None


def test_nothing_is_left_in_the_folder(states, tmp_path):
    assert states.take([0], 4) is not None
    assert not list(tmp_path.iterdir())


def test_a_folder_without_space_is_passed_over(tmp_path, monkeypatch):
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    usage = namedtuple("usage", "free")
    free = {small: 100, large: 10_000}
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(free[folder]))
    folders = [tmp_path / "missing", small, large]
    assert find_folder_for_states(20, WIDTH, folders) == large
    assert find_folder_for_states(10_000, WIDTH, folders) is None
