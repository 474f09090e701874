"""Atomic writes: a file or folder appears under its name only when it is complete."""

import errno
import math
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from edgeformers.errors import EdgeformersError, InputError

SYSTEM_FILES = (".DS_Store", "Thumbs.db", "desktop.ini")  # left in folders by operating systems
ATTEMPTS = 100  # to win a race against other processes that write the same folder


class FolderExistsError(InputError):
    """The output folder exists and `overwrite` was not requested."""


@contextmanager
def atomic_file(path: Path, suffix: str = "partial") -> Iterator[Path]:
    """Yield a temporary path in the same folder, which replaces `path` if the block succeeds.

    What a killed process leaves behind is overwritten by the next one with the same suffix.
    """
    temporary = path.with_name(f".{path.name}.{suffix}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: Path, text: str) -> None:
    """Write a UTF-8 text file; readers see the old contents or the new, never a mixture."""
    with atomic_file(path, f"{os.getpid()}-{threading.get_ident()}") as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def atomic_folder(
    out: Path, *, overwrite: bool = False, check: Callable[[Path], None] | None = None
) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to `out` if the block succeeds.

    The temporary folder lies in a hidden, locked folder next to `out`; leftovers of killed
    processes are removed by the next call (on file systems with locks). With `overwrite`, an
    existing folder stays in place until the new one is complete. `check` must raise an InputError
    if the old folder may not be replaced (see `check_no_foreign_files`); without it, only an
    empty folder is. If several processes write the same folder, the first to finish wins.
    """
    if out.name in ("", ".."):
        out = out.resolve()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out)
        _check_replaceable(out, overwrite, check)
        parent, lock = _make_locked_folder(out)
        temporary = parent / out.name
        temporary.mkdir()
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror})") from error
    try:
        yield temporary
        _rename(temporary, out, overwrite, check)
        shutil.rmtree(parent, ignore_errors=True)
    except Exception as error:
        if message := _exhausted_resource(error, out):
            raise EdgeformersError(message) from error
        raise
    finally:
        _remove_temporary(parent, out)
        if lock is not None:
            os.close(lock)


def check_no_foreign_files(folder: Path, is_known: Callable[[str], bool]) -> None:
    """Raise an InputError if a folder contains files that edgeformers did not write.

    `is_known` receives each path relative to the folder, with a trailing / for an empty folder.
    """
    foreign = [
        name for name in _entries(folder) if not is_known(name) and not _is_system_file(name)
    ]
    if foreign:
        examples = ", ".join(sorted(foreign)[:3]) + (", ..." if len(foreign) > 3 else "")
        raise InputError(
            f"{folder} is not overwritten: it contains files that edgeformers did not write "
            f"({examples}); move them, or choose another folder. Nothing was deleted"
        )


def _entries(folder: Path) -> Iterator[str]:
    """Relative paths of all files below a folder, and of empty folders with a trailing /."""
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_dir():
            yield path.name
        elif children := list(_entries(path)):
            yield from (f"{path.name}/{name}" for name in children)
        else:
            yield f"{path.name}/"


def _is_system_file(name: str) -> bool:
    return name.rpartition("/")[2] in SYSTEM_FILES


def _check_replaceable(out: Path, overwrite: bool, check: Callable[[Path], None] | None) -> None:
    """Raise if `out` exists and may not be replaced."""
    while (identity := _identity(out)) is not None:
        if not overwrite:
            raise FolderExistsError(
                f"{out} already exists; choose another folder, or pass `overwrite=True`"
            )
        try:
            if not out.is_dir():
                raise InputError(f"{out} is a file; it is not overwritten")
            if any(out.iterdir()):
                if check is None:
                    check_no_foreign_files(out, lambda name: False)
                else:
                    check(out)
            return
        except (OSError, EdgeformersError):
            if identity == _identity(out):  # otherwise another process replaced it: check again
                raise


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _rename(
    temporary: Path, out: Path, overwrite: bool, check: Callable[[Path], None] | None
) -> None:
    """Rename to `out`; only now is the old folder moved next to the temporary one."""
    for attempt in range(ATTEMPTS):
        _check_replaceable(out, overwrite, check)
        if overwrite:
            with suppress(FileNotFoundError):
                old = out.rename(temporary.with_name(f"{out.name}.replaced-{attempt}"))
                _keep_system_files(old, temporary)
        try:
            temporary.rename(out)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    raise InputError(f"{out} is repeatedly replaced by other processes; stop them first")


def _keep_system_files(old: Path, new: Path) -> None:
    """Move the operating system's files to the same subfolders of the new folder."""
    for name in filter(_is_system_file, _entries(old)):
        if (new / name).parent.is_dir() and not (new / name).exists():
            (old / name).rename(new / name)


def _make_locked_folder(out: Path) -> tuple[Path, int | None]:
    """A hidden folder next to `out` and its lock (None if the file system has no locks)."""
    for _ in range(ATTEMPTS):  # another process may mistake the new folder for a leftover
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.partial-", dir=out.parent))
        try:
            lock = _lock(folder)
        except _NoLocksError:
            return folder, None
        if lock is not None:
            return folder, lock
    raise InputError(f"{out} cannot be written: other processes remove its files; stop them first")


def _remove_leftovers(out: Path) -> None:
    """Remove the temporary folders of processes that no longer run."""
    for path in out.parent.iterdir():
        if path.name.startswith(f".{out.name}.partial-") and path.is_dir():
            with suppress(_NoLocksError):
                lock = _lock(path)
                if lock is not None:
                    _remove_temporary(path, out)
                    os.close(lock)


def _remove_temporary(folder: Path, out: Path) -> None:
    """Remove a temporary folder; first put back a replaced folder that has no successor."""
    with suppress(OSError):  # another process may be removing it too
        for old in sorted(folder.glob("*.replaced-*")):
            if not out.exists():
                old.rename(out)
    shutil.rmtree(folder, ignore_errors=True)


class _NoLocksError(Exception):
    """The file system has no locks."""


def _lock(folder: Path) -> int | None:
    """A lock that ends with the process holding it, or None if another process holds it."""
    path = folder / "lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except (FileNotFoundError, PermissionError):  # just removed, or another user's
        return None
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(handle)
        return None
    except OSError as error:
        os.close(handle)
        raise _NoLocksError from error
    if path.exists():
        return handle
    os.close(handle)
    return None


def _exhausted_resource(error: Exception, out: Path) -> str | None:
    """An error message if the disk or the memory is full, else None.

    DuckDB's errors are recognized by their text, because Arrow re-raises them as its own.
    """
    text = str(error)
    reason = text.partition("\n")[0]
    disk_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if disk_full or "No space left" in text or "failed to offload" in text:
        return (
            f"the disk is full while writing {out}; free about twice the size of the input and "
            f"try again. No partial output was kept ({reason})"
        )
    if isinstance(error, MemoryError) or text.startswith("Out of Memory Error"):
        return (
            f"out of memory while writing {out}; close other programs or use a larger machine, "
            f"and try again. No partial output was kept ({reason})"
        )
    return None


def json_values(value: Any) -> Any:
    """Nested values as JSON has them: a number that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {name: json_values(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
