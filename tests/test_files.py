"""A file or folder is seen complete or not at all, and nothing of the user's is deleted."""

import errno
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edgeformers import files
from edgeformers.errors import EdgeformersError, InputError
from edgeformers.files import (
    FolderExistsError,
    atomic_file,
    atomic_folder,
    check_no_foreign_files,
    write_atomic,
)


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "page.html"
    for text in ("old", "new é"):
        write_atomic(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert names_in(tmp_path) == ["page.html"]


def test_the_next_write_removes_what_a_killed_process_left(tmp_path):
    left = tmp_path / ".a+b.json.123-456.partial"
    other = tmp_path / ".ab.json.123-456.partial"
    left.touch()
    other.touch()
    write_atomic(tmp_path / "a+b.json", "new")
    assert (tmp_path / "a+b.json").read_text() == "new"
    assert not left.exists()
    assert other.exists()


def test_concurrent_writes_leave_one_complete_file(tmp_path):
    path, texts = tmp_path / "a.json", [str(i) * 10_000 for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: write_atomic(path, texts[i % 4]), range(200)))
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path):
    path = tmp_path / "page.html"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "\udc80")
    with pytest.raises(TypeError), atomic_file(path) as temporary:
        temporary.write_text(b"half")
    assert path.read_text(encoding="utf-8") == "old"
    assert names_in(tmp_path) == ["page.html"]


def check(folder: Path) -> None:
    check_no_foreign_files(folder, lambda name: name == "network.json")


def write_folder(out: Path, content: str, **options) -> None:
    with atomic_folder(out, **{"check": check, **options}) as folder:
        (folder / "network.json").write_text(content)


@pytest.fixture
def net(tmp_path):
    """A folder written before."""
    write_folder(tmp_path / "net", "old")
    return tmp_path / "net"


@pytest.mark.parametrize("name", ["net", "net[1]", "*", ".hidden", "a b'c"])
def test_a_folder_appears_when_it_is_complete(name, tmp_path):
    out = tmp_path / "new" / name
    with atomic_folder(out) as folder:
        (folder / "file").write_text("x")
        assert not out.exists()
        assert folder.name == name
    assert names_in(out.parent) == [name]
    assert names_in(out) == ["file"]


def test_an_existing_folder_is_refused_or_replaced(net, monkeypatch):
    with pytest.raises(FolderExistsError, match="overwrite="):
        write_folder(net, "new")
    write_folder(net, "new", overwrite=True)
    assert (net / "network.json").read_text() == "new"
    monkeypatch.chdir(net)
    write_folder(Path(), "newer", overwrite=True)  # the current folder
    assert (net / "network.json").read_text() == "newer"
    assert names_in(net.parent) == ["net"]


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_a_failure_keeps_the_old_folder(error, net):
    with pytest.raises(type(error)), atomic_folder(net, overwrite=True, check=check):
        raise error
    assert (net / "network.json").read_text() == "old"
    assert names_in(net.parent) == ["net"]


@pytest.mark.parametrize("check", [None, check])
def test_foreign_folders_and_files_are_never_overwritten(check, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("x")
    for name, word in (("home", "thesis.txt"), ("file", "is a file")):
        with pytest.raises(InputError, match=word):
            write_folder(tmp_path / name, "new", overwrite=True, check=check)
    assert (tmp_path / "home/thesis.txt").exists()


@pytest.mark.parametrize("name", ["thesis.tex", "a/b/thesis.tex", ".git/HEAD", "empty/"])
def test_a_folder_with_foreign_files_is_never_overwritten(name, net):
    path = net / name
    path.mkdir() if name.endswith("/") else path.parent.mkdir(parents=True, exist_ok=True)
    if not name.endswith("/"):
        path.write_text("mine")
    with pytest.raises(InputError, match=re.escape(name)):
        write_folder(net, "new", overwrite=True)
    assert path.exists()
    assert (net / "network.json").read_text() == "old"
    assert names_in(net.parent) == ["net"]


def test_a_foreign_file_that_arrives_while_writing_is_kept(net):
    slow = atomic_folder(net, overwrite=True, check=check)
    (slow.__enter__() / "network.json").write_text("slow")
    (net / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        slow.__exit__(None, None, None)
    assert (net / "thesis.tex").read_text() == "mine"


def test_files_of_the_operating_system_are_kept(net):
    (net / ".DS_Store").write_text("view")
    write_folder(net, "new", overwrite=True)
    assert (net / "network.json").read_text() == "new"
    assert (net / ".DS_Store").read_text() == "view"


def test_an_unwritable_path_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file/net cannot be written"):
        write_folder(tmp_path / "file" / "net", "new")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "disk is full"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "quota"),
        (RuntimeError("IO Error: Could not write: No space left on device"), "disk is full"),
        (RuntimeError("Out of Memory Error: failed to offload data block\nmore"), "disk is full"),
        (OSError("Out of Memory Error: failed to allocate data\nmore"), "out of memory"),
        (MemoryError("Unable to allocate 8 TiB"), "out of memory"),
    ],
)
def test_a_full_disk_or_memory_is_explained(error, words, tmp_path):
    with (
        pytest.raises(EdgeformersError, match=words) as caught,
        atomic_folder(tmp_path / "net"),
    ):
        raise error
    assert str(caught.value).count("net") == 1
    assert "more" not in str(caught.value)
    assert not names_in(tmp_path)


def test_a_file_system_without_locks_is_usable(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    other = tmp_path / ".net.partial-other"  # its process may be alive
    (other / "net").mkdir(parents=True)
    write_folder(tmp_path / "net", "new")
    assert sorted(names_in(tmp_path)) == [other.name, "net"]


def test_giving_up_after_many_lost_races_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_lock", lambda _: None)
    with pytest.raises(InputError, match="net cannot be written"):
        write_folder(tmp_path / "net", "new")


def test_leftovers_are_removed_unless_their_process_is_alive(tmp_path):
    dead = tmp_path / ".net.partial-dead"
    (dead / "net").mkdir(parents=True)
    with atomic_folder(tmp_path / "net") as living:
        (living / "half").write_text("")
        other = threading.Thread(target=write_folder, args=(tmp_path / "net", "done"))
        other.start()
        other.join()
        assert not dead.exists()
        assert (living / "half").exists()
        assert (tmp_path / "net/network.json").read_text() == "done"
        (tmp_path / "net").rename(tmp_path / "moved")
    assert (tmp_path / "net/half").exists()


def test_the_first_process_to_finish_wins(tmp_path):
    slow = atomic_folder(tmp_path / "net")
    (slow.__enter__() / "network.json").write_text("slow")
    write_folder(tmp_path / "net", "fast")
    with pytest.raises(FolderExistsError):
        slow.__exit__(None, None, None)
    assert (tmp_path / "net/network.json").read_text() == "fast"
    assert names_in(tmp_path) == ["net"]


def test_a_folder_set_aside_by_a_killed_process_is_put_back(tmp_path):
    old = tmp_path / ".net.partial-dead" / "net.replaced-0"
    old.mkdir(parents=True)
    (old / "network.json").write_text("old")
    with pytest.raises(FolderExistsError):
        write_folder(tmp_path / "net", "new")
    assert (tmp_path / "net/network.json").read_text() == "old"
    assert names_in(tmp_path) == ["net"]


def test_concurrent_replacements_leave_one_complete_folder(tmp_path):
    out = tmp_path / "net"
    failures = []

    def replace(content):
        try:
            for _ in range(20):
                write_folder(out, content, overwrite=True)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=replace, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert (out / "network.json").read_text() in "0123"
    assert names_in(tmp_path) == ["net"]


def test_a_lock_is_held_once(tmp_path):
    first = files._lock(tmp_path)
    assert first is not None
    assert files._lock(tmp_path) is None
    os.close(first)
    second = files._lock(tmp_path)
    assert second is not None
    os.close(second)
