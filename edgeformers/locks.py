"""Locks on outputs: one process writes a file or folder at a time, and a crash ends its lock.

The operating system holds the lock (`flock`, or `msvcrt.locking` on Windows), so it ends with the
process whatever happens to it. A lock file that is left behind means nothing.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from edgeformers.errors import InputError
from edgeformers.file_errors import writing
from edgeformers.progress import print_message

LOCK = ".lock"  # in a locked folder
WINDOWS_OFFSET = 1 << 20  # of the locked byte, so that others can read the contents

_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


class BusyError(InputError):
    """Another process is writing the same output."""


class NoLocksError(Exception):
    """The file system has no locks."""


@contextmanager
def single_writer(out: Path, *, folder: bool = False) -> Iterator[None]:
    """Lock an output while the block writes it; a second writer gets a BusyError.

    The lock is OUT/.lock for a folder that is written in place, which is created if necessary and
    removed again if it stays empty; otherwise .OUT.lock next to the output. The block may lock the
    same output again. On a file system without locks, a message asks the user to take care.
    """
    path = _lock_path(out, folder)
    held = _held.get()
    if path in held:
        yield
        return
    is_new = not path.parent.exists()
    with writing(out):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _acquire_or_raise(path, out)
    token = _held.set(held | {path})
    try:
        yield
    finally:
        _held.reset(token)
        _release(handle, path)
        if is_new:
            with suppress(OSError):  # it is not empty
                path.parent.rmdir()


def remove_stale_lock(out: Path, *, folder: bool = False) -> None:
    """Remove the lock file that a killed process left at an output that needs no more writing."""
    if _lock_path(out, folder).exists():
        with suppress(BusyError, OSError), single_writer(out, folder=folder):
            pass


def _lock_path(out: Path, folder: bool) -> Path:
    return (out / LOCK if folder else out.with_name(f".{out.name}{LOCK}")).absolute()


def acquire(path: Path) -> int | None:
    """Lock a file, which is created if necessary; None if another process holds the lock."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(handle)
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except (BlockingIOError, PermissionError):
            os.close(handle)
            return None
        except FileNotFoundError:  # its last holder has just removed it
            pass
        except OSError as error:
            os.close(handle)
            raise NoLocksError from error
        os.close(handle)


def _acquire_or_raise(path: Path, out: Path) -> int | None:
    try:
        handle = acquire(path)
    except NoLocksError:
        print_message(
            f"{out}: this file system has no locks; make sure that no other process writes it",
            show=True,
        )
        return None
    if handle is None:
        holder = path.read_text(encoding="utf-8", errors="replace").strip()
        raise BusyError(
            f"another process is writing {out} ({holder or 'unknown'}); wait until it has "
            "finished, or choose another output"
        )
    with suppress(OSError):  # only a courtesy to the next process
        os.truncate(handle, 0)
        os.write(handle, f"pid {os.getpid()} on {socket.gethostname()}\n".encode())
    return handle


def _release(handle: int | None, path: Path) -> None:
    """Remove the lock file and end the lock."""
    if handle is None:
        path.unlink(missing_ok=True)
        return
    if sys.platform == "win32":  # which does not remove open files
        os.close(handle)
    with suppress(OSError):
        path.unlink(missing_ok=True)
    if sys.platform != "win32":
        os.close(handle)


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, WINDOWS_OFFSET, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
