"""Damage is detected; unchanged files are hashed once, whatever happens to the cache."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from edgeformers.data import storage
from edgeformers.data.storage import (
    check_files,
    check_once,
    check_range,
    fingerprint_folder,
    open_array,
    read_checked_record,
    write_record,
)
from edgeformers.errors import FormatError


def age(path, seconds=3600.0):
    """Make a file look as if it had been written some time ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEFORMERS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path, cache):
    path = tmp_path / "net"
    (path / "deep").mkdir(parents=True)
    for name in ("a", "b", "deep/c"):
        (path / name).write_bytes(name.encode() * 100)
        age(path / name)
    return path


@pytest.fixture
def files(folder):
    """The checksums of the folder's files."""
    return fingerprint_folder(folder)


@pytest.fixture
def read(monkeypatch, files):
    """The names of files whose contents were read."""
    names, original = [], storage.fingerprint

    def note(path):
        names.append(path.name)
        return original(path)

    monkeypatch.setattr(storage, "fingerprint", note)
    return names


def verify_files(folder, files):
    check_files(folder, files, verify="changed")


def flip(path):
    """Flip one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_unchanged_files_are_read_once(folder, files, read):
    verify_files(folder, files)
    assert sorted(read) == ["a", "b", "c"]
    verify_files(folder, files)
    assert len(read) == 3


def test_a_touched_file_is_read_again(folder, files, read):
    verify_files(folder, files)
    read.clear()
    age(folder / "b", 1800)
    for _ in range(2):
        verify_files(folder, files)
        assert read == ["b"]


def test_a_damaged_file_is_refused_until_it_is_repaired(folder, files):
    verify_files(folder, files)
    flip(folder / "deep/c")
    for _ in range(2):
        with pytest.raises(FormatError, match=r"deep/c is damaged"):
            verify_files(folder, files)
    flip(folder / "deep/c")
    verify_files(folder, files)


def test_a_change_within_one_tick_of_the_clock_is_seen(folder, files, read):
    (folder / "a").touch()
    verify_files(folder, files)
    read.clear()
    verify_files(folder, files)
    assert read == ["a"]


def test_another_checksum_for_the_same_file_is_compared(folder, files):
    verify_files(folder, files)
    with pytest.raises(FormatError, match="a is damaged"):
        verify_files(folder, files | {"a": files["a"] | {"sha256": files["b"]["sha256"]}})


@pytest.mark.parametrize("content", [None, b"", b"[1]", b"{", b'{"a": 3}', b"\xff"])
def test_a_lost_or_damaged_cache_does_no_harm(content, folder, files, cache, read):
    verify_files(folder, files)
    (entry,) = (cache / "verified").iterdir()
    entry.unlink() if content is None else entry.write_bytes(content)
    verify_files(folder, files)
    assert len(read) == 6


def test_old_cache_entries_are_ignored_and_removed(folder, files, cache, read):
    verify_files(folder, files)
    other = cache / "verified" / "other.json"
    other.write_text("{}")
    for path in (cache / "verified").iterdir():
        age(path, 100 * 24 * 3600)
    verify_files(folder, files)
    assert len(read) == 6
    assert not other.exists()


def test_without_a_cache_folder_files_are_read_each_time(folder, files, read, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setenv("EDGEFORMERS_CACHE", str(folder / "file"))
    verify_files(folder, files)
    verify_files(folder, files)
    assert len(read) == 6


def test_concurrent_calls_leave_a_valid_cache(folder, files, cache, read):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: verify_files(folder, files), range(40)))
    read.clear()
    verify_files(folder, files)
    assert not read
    assert len(list((cache / "verified").iterdir())) == 1


def test_nothing_is_written_into_the_folder(folder, files, cache):
    folder.chmod(0o500)
    try:
        verify_files(folder, files)
    finally:
        folder.chmod(0o700)
    assert fingerprint_folder(folder) == files
    assert (cache / "verified").is_dir()


def test_a_record_round_trips_and_every_flipped_byte_is_detected(tmp_path):
    path = tmp_path / "values.json"
    values = {"names": ["ä", '"', "\u2028"], "count": 7, "none": None, "deep": {"x": [1.5]}}
    write_record(path, values)
    assert read_checked_record(path) == values
    content = path.read_bytes()
    for place in range(len(content)):
        for flip in (1, 7, 32):
            path.write_bytes(
                content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :]
            )
            with pytest.raises(FormatError, match=r"values\.json is damaged"):
                read_checked_record(path)


@pytest.mark.parametrize("content", ["", "[]", "{", "\xff", "[" * 100_000, "{}"])
def test_a_foreign_record_is_named(content, tmp_path):
    path = tmp_path / "values.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(FormatError, match=r"values\.json is damaged"):
        read_checked_record(path)


def test_files_are_checked_for_presence_size_and_content(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a").write_bytes(b"12345")
    known = fingerprint_folder(tmp_path)
    check_files(tmp_path, known, verify=True)
    (tmp_path / "deep/a").write_bytes(b"12346")
    check_files(tmp_path, known)
    with pytest.raises(FormatError, match=r"deep/a is damaged: its checksum differs"):
        check_files(tmp_path, known, verify=True)
    (tmp_path / "deep/a").write_bytes(b"1234")
    with pytest.raises(FormatError, match=r"deep/a is damaged: .*4 bytes"):
        check_files(tmp_path, known)
    (tmp_path / "deep/a").unlink()
    with pytest.raises(FormatError, match=r"deep/a is missing"):
        check_files(tmp_path, known)


def test_the_values_of_a_large_array_are_checked_once(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(storage, "LARGE_FILE", 1)
    path, checked = tmp_path / "a.npy", []

    def check(array, low, high, path):
        checked.append(high)
        return check_range(array, low, high, path)

    def open_checked(high=10):
        return check_once(check, open_array(path), 0, high, path=path)

    np.save(path, np.arange(10))
    open_checked()
    open_checked()
    assert len(checked) == 2  # written just now, so it may change within a tick of the clock
    age(path)
    for _ in range(3):
        assert open_checked()[-1] == 9
    assert len(checked) == 3
    with pytest.raises(FormatError, match="not 0 to 8"):  # another limit
        open_checked(9)
    np.save(path, np.arange(10) + 1)
    age(path)
    for _ in range(2):
        with pytest.raises(FormatError, match="1 to 10"):
            open_checked()
