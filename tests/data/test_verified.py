"""Checksums are compared once per change of a file, whatever becomes of the notes about it."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgeformers.data import verified
from edgeformers.data.arrays import fingerprint_folder
from edgeformers.data.verified import verify_files
from edgeformers.errors import FormatError


def age(path, seconds=3600.0):
    """Let a file be as if it had been written some time ago."""
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
def read(monkeypatch):
    """The names of files whose contents were read."""
    names, original = [], verified.fingerprint

    def note(path):
        names.append(path.name)
        return original(path)

    monkeypatch.setattr(verified, "fingerprint", note)
    return names


def flip(path):
    """One bit, somewhere in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_unchanged_files_are_read_once(folder, read):
    files = fingerprint_folder(folder)
    verify_files(folder, files)
    assert sorted(read) == ["a", "b", "c"]
    verify_files(folder, files)
    assert len(read) == 3


def test_a_touched_file_is_read_again(folder, read):
    files = fingerprint_folder(folder)
    verify_files(folder, files)
    read.clear()
    age(folder / "b", 1800)
    for _ in range(2):
        verify_files(folder, files)
        assert read == ["b"]


def test_a_changed_file_is_refused_until_it_is_whole_again(folder):
    files = fingerprint_folder(folder)
    verify_files(folder, files)
    flip(folder / "deep/c")
    for _ in range(2):
        with pytest.raises(FormatError, match=r"deep/c is damaged: its checksum differs; prepare"):
            verify_files(folder, files)
    flip(folder / "deep/c")
    verify_files(folder, files)


def test_a_change_within_one_tick_of_the_clock_is_seen(folder, read):
    files = fingerprint_folder(folder)
    (folder / "a").touch()
    verify_files(folder, files)
    read.clear()
    verify_files(folder, files)
    assert read == ["a"]


def test_another_checksum_for_the_same_file_is_compared(folder):
    files = fingerprint_folder(folder)
    verify_files(folder, files)
    with pytest.raises(FormatError, match="a is damaged: its checksum differs"):
        verify_files(folder, files | {"a": files["a"] | {"sha256": files["b"]["sha256"]}})


@pytest.mark.parametrize("content", [None, b"", b"[1]", b"{", b'{"a": 3}', b"\xff"])
def test_notes_that_are_lost_or_damaged_do_no_harm(content, folder, cache, read):
    files = fingerprint_folder(folder)
    verify_files(folder, files)
    (notes,) = (cache / "verified").iterdir()
    notes.unlink() if content is None else notes.write_bytes(content)
    verify_files(folder, files)
    assert len(read) == 6


def test_after_long_files_are_read_again_and_old_notes_go(folder, cache, read):
    files = fingerprint_folder(folder)
    verify_files(folder, files)
    other = cache / "verified" / "other.json"
    other.write_text("{}")
    for path in (cache / "verified").iterdir():
        age(path, 100 * 24 * 3600)
    verify_files(folder, files)
    assert len(read) == 6
    assert not other.exists()


def test_without_a_place_for_notes_files_are_read_each_time(folder, read, monkeypatch):
    files = fingerprint_folder(folder)
    (folder / "file").write_text("")
    monkeypatch.setenv("EDGEFORMERS_CACHE", str(folder / "file"))
    verify_files(folder, files)
    verify_files(folder, files)
    assert len(read) == 6


def test_many_at_once_leave_whole_notes(folder, cache, read):
    files = fingerprint_folder(folder)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: verify_files(folder, files), range(40)))
    read.clear()
    verify_files(folder, files)
    assert not read
    assert len(list((cache / "verified").iterdir())) == 1


def test_nothing_is_written_into_the_folder(folder, cache):
    files = fingerprint_folder(folder)
    folder.chmod(0o500)
    try:
        verify_files(folder, files)
    finally:
        folder.chmod(0o700)
    assert fingerprint_folder(folder) == files
    assert (cache / "verified").is_dir()
