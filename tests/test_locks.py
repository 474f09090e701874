"""One process writes an output at a time; a lock ends with its process."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from edgeformers.locks import BusyError, remove_stale_lock, single_writer

HOLD = """
import sys, time
from pathlib import Path
from edgeformers.locks import single_writer
with single_writer(Path(sys.argv[1]), folder=sys.argv[2] == "folder"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["file", "folder"])
def kind(request):
    return request.param


@pytest.fixture
def out(tmp_path):
    return tmp_path / "new" / "out"


@pytest.fixture
def holder(out, kind):
    """A process that holds the lock."""
    command = [sys.executable, "-c", HOLD, str(out), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def lock(out, kind):
    return single_writer(out, folder=kind == "folder")


def test_a_second_process_is_rejected_until_the_first_dies(holder, out, kind):
    before = sorted(out.parent.rglob("*"))
    with pytest.raises(BusyError, match=f"pid {holder.pid} "), lock(out, kind):
        pass
    assert sorted(out.parent.rglob("*")) == before
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock(out, kind):
        pass
    assert not [path for path in out.parent.rglob("*") if path.is_file()]


def test_a_block_may_lock_again_but_another_thread_may_not(out, kind):
    failures = []

    def try_lock():
        try:
            with lock(out, kind):
                pass
        except BusyError as error:
            failures.append(error)

    with lock(out, kind):
        with lock(out, kind):
            pass
        thread = threading.Thread(target=try_lock)
        thread.start()
        thread.join()
    assert len(failures) == 1
    with lock(out, kind):
        pass


def test_a_new_folder_that_stays_empty_is_removed(tmp_path):
    with pytest.raises(RuntimeError), single_writer(tmp_path / "run", folder=True):
        raise RuntimeError
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    with single_writer(tmp_path / "mine", folder=True):
        pass
    assert (tmp_path / "mine").is_dir()


def test_a_lock_that_a_killed_process_left_is_removed(out, kind, holder):
    remove_stale_lock(out, folder=kind == "folder")
    assert [path for path in out.parent.rglob("*") if path.is_file()]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    remove_stale_lock(out, folder=kind == "folder")
    assert not [path for path in out.parent.rglob("*") if path.is_file()]


def test_a_file_system_without_locks_is_usable_with_a_warning(out, kind, monkeypatch, capsys):
    fcntl = pytest.importorskip("fcntl")

    def fail(*_):
        raise OSError(38, os.strerror(38))

    monkeypatch.setattr(fcntl, "flock", fail)
    with lock(out, kind):
        pass
    assert "no locks" in capsys.readouterr().err
    assert not [path for path in out.parent.rglob("*") if path.is_file()]
