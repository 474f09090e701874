"""Arrays on disk grow by pieces, are memory-mapped, and damage is detected."""

import os
import re
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data import scratch, storage
from edgeformers.data.scratch import count_values, rows_where, scratch_array
from edgeformers.data.storage import check_offsets, check_range, open_array, write_array
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


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_checks_in_blocks_see_every_value(tmp_path, monkeypatch, block):
    monkeypatch.setattr(storage.blocks, "__defaults__", (block,))
    path = tmp_path / "a.npy"
    good = np.array([0, 0, 2, 5, 5, 9])
    assert check_offsets(good, 9, path) is good
    assert check_range(good, 0, 10, path) is good
    for place in range(len(good)):
        bad = good.copy()
        bad[place] = 10
        with pytest.raises(FormatError, match="offsets"):
            check_offsets(bad, 9, path)
        with pytest.raises(FormatError, match="values"):
            check_range(bad, 0, 10, path)


def test_a_large_scratch_array_is_a_file_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "LARGE_ARRAY", 100)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    array = scratch_array((50, 2), np.int32)
    array[:] = 7
    assert isinstance(array, np.memmap)
    assert array.sum() == 700
    assert not list(tmp_path.iterdir())
    assert not isinstance(scratch_array((2, 2), np.int32), np.memmap)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_rows_are_chosen_slice_by_slice(monkeypatch, block):
    monkeypatch.setattr(scratch, "BLOCK", block)
    mask = np.array([True, False, True, True, False, False, True])
    assert rows_where(lambda part: mask[part], len(mask)).tolist() == [0, 2, 3, 6]
    assert rows_where(lambda part: mask[part], 0).tolist() == []


@pytest.mark.parametrize("block", [1, 3, 100])
def test_values_are_counted_slice_by_slice(monkeypatch, block):
    monkeypatch.setattr(scratch, "BLOCK", block)
    values, chosen = np.array([1, 4, 1, 0, 2, 7], np.int32), np.arange(3)
    assert count_values(values).tolist() == np.bincount(values).tolist()
    assert count_values(values, 9, chosen).tolist() == [0, 2, 0, 0, 1, 0, 0, 0, 0]
    assert count_values(values[:0], 2).tolist() == [0, 0]
