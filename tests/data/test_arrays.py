"""Arrays, records and folders on disk: damage is named, and nothing is left half-made."""

import errno
import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data import arrays
from edgeformers.data.arrays import (
    ArrayWriter,
    FolderExistsError,
    atomic_folder,
    check_files,
    checked_record,
    fingerprint_folder,
    open_array,
    refuse_foreign,
    save_array,
    write_record,
)
from edgeformers.errors import EdgeformersError, FormatError, InputError


def hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("row_shape", [(), (3,), (0,)], ids=["numbers", "rows", "empty rows"])
@pytest.mark.parametrize("dtype", [np.uint16, np.int64, np.float32, bool])
def test_pieces_come_back_as_one_mapped_array(dtype, row_shape, tmp_path):
    pieces = [np.full((n, *row_shape), n % 2, dtype) for n in (2, 0, 1, 500)]
    with ArrayWriter(tmp_path / "a.npy", dtype, row_shape) as writer:
        for piece in pieces:
            writer.append(piece)
    array = open_array(tmp_path / "a.npy")
    assert isinstance(array, np.memmap)
    assert array.dtype == dtype
    assert np.array_equal(array, np.concatenate(pieces))
    assert np.array_equal(array, np.load(tmp_path / "a.npy"))


def test_an_array_without_rows_can_be_opened(tmp_path):
    with ArrayWriter(tmp_path / "a.npy", np.int32):
        pass
    assert open_array(tmp_path / "a.npy").shape == (0,)


def test_opening_an_array_reads_its_header_only(tmp_path):
    path = tmp_path / "large.npy"
    with ArrayWriter(path, np.int64) as writer:
        writer.append(np.zeros(10, np.int64))
        writer.length = 1 << 40
    os.truncate(path, path.stat().st_size - 80 + (8 << 40))  # 8 TB of nothing
    assert open_array(path)[-1] == 0


def test_a_missing_array_is_named(tmp_path):
    with pytest.raises(FormatError, match=r"gone\.npy is missing; prepare the network again"):
        open_array(tmp_path / "gone.npy")


@pytest.mark.parametrize("change", [-1, 1, -64], ids=["cut off", "too long", "cut far"])
def test_an_array_of_another_size_is_named(change, tmp_path):
    path = tmp_path / "a.npy"
    save_array(path, np.arange(10))
    os.truncate(path, path.stat().st_size + change)
    size = f"{path.stat().st_size} bytes where its header promises 208"
    with pytest.raises(FormatError, match=rf"a\.npy is damaged \({size}\)"):
        open_array(path)


@settings(max_examples=300)
@given(st.integers(0, 127), st.integers(1, 255))
def test_a_damaged_header_is_named_or_harmless(tmp_path_factory, place, flip):
    path = tmp_path_factory.mktemp("arrays") / "a.npy"
    save_array(path, np.arange(10))
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


def test_a_record_comes_back_and_every_flipped_byte_is_found(tmp_path):
    path = tmp_path / "facts.json"
    facts = {"names": ["ä", '"', "\u2028"], "count": 7, "none": None, "deep": {"x": [1.5]}}
    write_record(path, facts)
    assert checked_record(path) == facts
    content = path.read_bytes()
    for place in range(len(content)):
        for flip in (1, 7, 32):
            path.write_bytes(
                content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :]
            )
            with pytest.raises(FormatError, match=r"facts\.json is damaged"):
                checked_record(path)


@pytest.mark.parametrize("content", ["", "[]", "{", "\xff", "[" * 100_000, "{}"])
def test_a_foreign_record_is_named(content, tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(FormatError, match=r"facts\.json is damaged"):
        checked_record(path)


def test_files_are_checked_for_presence_size_and_content(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a").write_bytes(b"12345")
    known = fingerprint_folder(tmp_path)
    check_files(tmp_path, known, checksums=True)
    (tmp_path / "deep/a").write_bytes(b"12346")
    check_files(tmp_path, known)
    with pytest.raises(FormatError, match=r"deep/a is damaged: its checksum differs"):
        check_files(tmp_path, known, checksums=True)
    (tmp_path / "deep/a").write_bytes(b"1234")
    with pytest.raises(FormatError, match=r"deep/a is damaged: 4 bytes where 5 were written"):
        check_files(tmp_path, known)
    (tmp_path / "deep/a").unlink()
    with pytest.raises(FormatError, match=r"deep/a is missing"):
        check_files(tmp_path, known)


def only_a_record(folder: Path) -> None:
    refuse_foreign(folder, lambda name: name == "network.json")


def write_aside(out: Path, content: str, **options) -> None:
    with atomic_folder(out, **{"check": only_a_record, **options}) as folder:
        (folder / "network.json").write_text(content)


@pytest.mark.parametrize("name", ["net", "net[1]", "*", ".hidden", "a b'c"])
def test_a_folder_appears_when_it_is_complete(name, tmp_path):
    out = tmp_path / "new" / name
    with atomic_folder(out) as folder:
        (folder / "file").write_text("x")
        assert not out.exists()
        assert folder.name == name
    assert [path.name for path in out.parent.iterdir()] == [name]
    assert [path.name for path in out.iterdir()] == ["file"]


def test_the_folder_one_stands_in_may_be_written_again(tmp_path, monkeypatch):
    write_aside(tmp_path / "net", "old")
    monkeypatch.chdir(tmp_path / "net")
    write_aside(Path(), "new", overwrite=True)
    assert (tmp_path / "net/network.json").read_text() == "new"
    assert not hidden(tmp_path)


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing_and_keeps_the_old_folder(error, tmp_path):
    write_aside(tmp_path / "net", "old")
    written = atomic_folder(tmp_path / "net", overwrite=True, check=only_a_record)
    with pytest.raises(type(error)), written:
        raise error
    assert (tmp_path / "net/network.json").read_text() == "old"
    assert not hidden(tmp_path)


def test_a_folder_that_exists_is_refused_or_replaced(tmp_path):
    write_aside(tmp_path / "net", "old")
    with pytest.raises(FolderExistsError, match=r"net exists already; .* or pass --overwrite"):
        write_aside(tmp_path / "net", "new")
    write_aside(tmp_path / "net", "new", overwrite=True)
    assert (tmp_path / "net/network.json").read_text() == "new"
    assert not hidden(tmp_path)


def test_what_is_not_a_network_is_never_overwritten(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("x")
    for name, words in (
        ("home", r"is not overwritten, .*\(thesis.txt\)"),
        ("file", "is a file; it"),
    ):
        for check in (None, only_a_record):
            with pytest.raises(InputError, match=f"{name} {words}"):
                write_aside(tmp_path / name, "new", overwrite=True, check=check)
    assert (tmp_path / "home/thesis.txt").exists()


@pytest.mark.parametrize("mine", ["thesis.tex", "a/b/thesis.tex", ".git/HEAD", "empty/"])
def test_a_folder_with_other_files_is_never_overwritten(mine, tmp_path):
    write_aside(tmp_path / "net", "old")
    path = tmp_path / "net" / mine
    path.mkdir() if mine.endswith("/") else path.parent.mkdir(parents=True, exist_ok=True)
    if not mine.endswith("/"):
        path.write_text("mine")
    words = rf"net is not overwritten, .* \({re.escape(mine)}\); move that elsewhere, or choose"
    with pytest.raises(InputError, match=words):
        write_aside(tmp_path / "net", "new", overwrite=True)
    assert path.exists()
    assert (tmp_path / "net/network.json").read_text() == "old"
    assert not hidden(tmp_path)


def test_a_file_that_comes_while_the_new_folder_is_written_is_kept(tmp_path):
    write_aside(tmp_path / "net", "old")
    slow = atomic_folder(tmp_path / "net", overwrite=True, check=only_a_record)
    (slow.__enter__() / "network.json").write_text("slow")
    (tmp_path / "net/thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"did not write everything in it \(thesis.tex\)"):
        slow.__exit__(None, None, None)
    assert (tmp_path / "net/thesis.tex").read_text() == "mine"


def test_a_file_of_the_operating_system_stays(tmp_path):
    write_aside(tmp_path / "net", "old")
    (tmp_path / "net/.DS_Store").write_text("view")
    write_aside(tmp_path / "net", "new", overwrite=True)
    assert (tmp_path / "net/network.json").read_text() == "new"
    assert (tmp_path / "net/.DS_Store").read_text() == "view"


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file/net cannot be written \(File exists\)"):
        write_aside(tmp_path / "file" / "net", "new")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_in_a_sentence(code, tmp_path):
    with (
        pytest.raises(EdgeformersError, match=r"the disk is full while writing .*net; free some"),
        atomic_folder(tmp_path / "net"),
    ):
        raise OSError(code, os.strerror(code))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("IO Error: Could not write: No space left on device"), "the disk is full"),
        (RuntimeError("Out of Memory Error: failed to offload data block\nmore"), "the disk is f"),
        (OSError("Out of Memory Error: failed to allocate data\nmore"), "the memory is used up"),
        (MemoryError("Unable to allocate 8 TiB"), "the memory is used up"),
    ],
)
def test_a_database_out_of_space_is_told_in_a_sentence(error, words, tmp_path):
    with pytest.raises(EdgeformersError) as told, atomic_folder(tmp_path / "net"):
        raise error
    message = str(told.value)
    assert message.startswith(f"{words}")
    assert message.endswith(f"Nothing was left behind ({str(error).partition(chr(10))[0]})")
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_locks_is_written_to_all_the_same(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    another = tmp_path / ".net.partial-another"
    (another / "net").mkdir(parents=True)
    write_aside(tmp_path / "net", "new")
    assert (tmp_path / "net/network.json").read_text() == "new"
    assert hidden(tmp_path) == [another.name]  # perhaps alive: without locks none can tell


def test_workshops_that_are_taken_away_again_and_again_end_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "_lock", lambda _: None)
    with pytest.raises(InputError, match=r"net cannot be written: other runs remove its files"):
        write_aside(tmp_path / "net", "new")


def test_what_a_killed_run_left_is_removed_but_not_the_work_of_a_living_one(tmp_path):
    dead = tmp_path / ".net.partial-dead"
    (dead / "net").mkdir(parents=True)
    with atomic_folder(tmp_path / "net") as living:
        (living / "half").write_text("")
        other = threading.Thread(target=write_aside, args=(tmp_path / "net", "done"))
        other.start()
        other.join()
        assert not dead.exists()
        assert (living / "half").exists()
        assert (tmp_path / "net/network.json").read_text() == "done"
        (tmp_path / "net").rename(tmp_path / "moved")
    assert (tmp_path / "net/half").exists()


def test_the_first_to_finish_gives_the_folder_its_name(tmp_path):
    slow = atomic_folder(tmp_path / "net")
    (slow.__enter__() / "network.json").write_text("slow")
    write_aside(tmp_path / "net", "fast")
    with pytest.raises(FolderExistsError, match="exists already"):
        slow.__exit__(None, None, None)
    assert (tmp_path / "net/network.json").read_text() == "fast"
    assert not hidden(tmp_path)


def test_a_network_moved_away_by_a_killed_run_is_put_back(tmp_path):
    old = tmp_path / ".net.partial-dead" / "net.replaced-0"
    old.mkdir(parents=True)
    (old / "network.json").write_text("old")
    with pytest.raises(FolderExistsError, match="exists already"):
        write_aside(tmp_path / "net", "new")
    assert (tmp_path / "net/network.json").read_text() == "old"
    assert not hidden(tmp_path)


def test_many_replacing_at_once_leave_one_whole_folder(tmp_path):
    out = tmp_path / "net"
    failed = []

    def replace(content):
        try:
            for _ in range(20):
                write_aside(out, content, overwrite=True)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=replace, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert (out / "network.json").read_text() in "0123"
    assert not hidden(tmp_path)


def test_a_lock_is_held_once(tmp_path):
    first = arrays._lock(tmp_path)
    assert first is not None
    assert arrays._lock(tmp_path) is None
    os.close(first)
    second = arrays._lock(tmp_path)
    assert second is not None
    os.close(second)
