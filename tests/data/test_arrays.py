"""Arrays on disk grow by pieces, are memory-mapped, and damage is detected."""

import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.storage import open_array, write_array
from edgeformers.errors import FormatError


@pytest.mark.parametrize("dtype", [np.uint16, np.int64, np.float32, bool])
def test_pieces_are_read_as_one_mapped_array(dtype, tmp_path):
    pieces = [np.full(n, n % 2, dtype) for n in (2, 0, 1, 500)]
    write_array(tmp_path / "a.npy", dtype, pieces)
    array = open_array(tmp_path / "a.npy")
    assert isinstance(array, np.memmap)
    assert array.dtype == dtype
    assert np.array_equal(array, np.concatenate(pieces))
    assert np.array_equal(array, np.load(tmp_path / "a.npy"))


def test_an_array_without_rows_can_be_opened(tmp_path):
    write_array(tmp_path / "a.npy", np.int32, [])
    assert open_array(tmp_path / "a.npy").shape == (0,)


def test_opening_an_array_reads_its_header_only(tmp_path):
    path = tmp_path / "large.npy"
    with path.open("wb") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (1 << 40,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + (8 << 40))  # 8 TB of nothing
    assert open_array(path)[-1] == 0


def test_a_missing_array_is_named(tmp_path):
    with pytest.raises(FormatError, match=r"gone\.npy is missing"):
        open_array(tmp_path / "gone.npy")


@pytest.mark.parametrize("change", [-1, 1, -64], ids=["cut off", "too long", "cut far"])
def test_an_array_of_another_size_is_named(change, tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(10))
    os.truncate(path, path.stat().st_size + change)
    with pytest.raises(FormatError, match=rf"a\.npy .*{path.stat().st_size} bytes"):
        open_array(path)


@settings(max_examples=100)
@given(st.integers(0, 127), st.integers(1, 255))
def test_a_damaged_header_is_named_or_harmless(tmp_path_factory, place, flip):
    path = tmp_path_factory.mktemp("arrays") / "a.npy"
    np.save(path, np.arange(10))
    content = bytearray(path.read_bytes())
    content[place] ^= flip
    path.write_bytes(content)
    try:
        assert open_array(path).nbytes == 80
    except FormatError as error:
        with pytest.raises(FormatError, match=re.escape(str(path))):
            raise error


def test_a_pickle_is_never_loaded(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(FormatError, match=r"a\.npy is damaged"):
        open_array(path)
