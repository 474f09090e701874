"""Atomic writes: a file or folder appears under its name only when it is complete."""

import errno
import json
import math
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeformers.errors import EdgeformersError, FileError, FormatError, InputError
from edgeformers.file_errors import writing
from edgeformers.locks import NoLocksError, acquire

if TYPE_CHECKING:
    from torch import Tensor

SYSTEM_FILES = (".DS_Store", "Thumbs.db", "desktop.ini")  # left in folders by operating systems
LARGEST_JSON = 1 << 23  # bytes; parsed values take about 20 times as much memory
ATTEMPTS = 100  # to win a race against other processes that write the same folder


class FolderExistsError(InputError):
    """The output folder exists and `overwrite` was not requested."""


@contextmanager
def atomic_file(path: Path, suffix: str = "partial") -> Iterator[Path]:
    """Yield a temporary path in the same folder, which replaces `path` if the block succeeds.

    The folder is created if necessary. What a killed process leaves behind is overwritten by the
    next one with the same suffix.
    """
    temporary = path.with_name(f".{path.name}.{suffix}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with writing(path, temporary):
            yield temporary
            temporary.replace(path)
    finally:
        with suppress(OSError):  # its folder cannot be written
            temporary.unlink(missing_ok=True)


def write_atomic(path: Path, text: str) -> None:
    """Write a UTF-8 text file; readers see the old contents or the new, never a mixture.

    Several processes may write the same file: the last one to finish wins.
    """
    _remove_temporary_files(path)
    for attempt in range(ATTEMPTS):
        try:
            with atomic_file(path, f"{os.getpid()}-{threading.get_ident()}.partial") as temporary:
                temporary.write_text(text, encoding="utf-8")
            return
        except FileError as error:  # another process may have taken it for a leftover
            if error.errno != errno.ENOENT or attempt == ATTEMPTS - 1:
                raise


def _remove_temporary_files(path: Path) -> None:
    """Remove what killed processes left of a file; a live process writes its own again."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.\d+(-\d+)?(\.partial)?")
    with suppress(OSError):  # the folder is missing, or cannot be written
        for other in path.parent.iterdir():
            if pattern.fullmatch(other.name):
                other.unlink(missing_ok=True)


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
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out)
        _check_replaceable(out, overwrite, check)
        parent, lock = _make_locked_folder(out)
    try:
        temporary = parent / out.name
        with writing(out, parent):
            temporary.mkdir()
            yield temporary
            _rename(temporary, out, overwrite, check)
            shutil.rmtree(parent, ignore_errors=True)
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
        except NoLocksError:
            return folder, None
        except OSError:
            folder.rmdir()
            raise
        if lock is not None:
            return folder, lock
    raise InputError(f"{out} cannot be written: other processes remove its files; stop them first")


def _remove_leftovers(out: Path) -> None:
    """Remove the temporary folders of processes that no longer run."""
    for path in out.parent.iterdir():
        if path.name.startswith(f".{out.name}.partial-") and path.is_dir():
            with suppress(NoLocksError):
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


def _lock(folder: Path) -> int | None:
    """The lock of a temporary folder, or None if another process holds it or removes it."""
    try:
        return acquire(folder / "lock")
    except (FileNotFoundError, PermissionError):  # just removed, or another user's
        return None


def save_tensors(
    path: Path, tensors: Mapping[str, "Tensor"], metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file with the mode that other new files have, which is not 0600."""
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode
    save_file(dict(tensors), path, metadata)
    path.chmod(mode)


def read_json_object(path: Path, remedy: str) -> dict[str, Any]:
    """The object in a JSON file, which may be hostile; whatever is wrong is a FormatError."""
    try:
        if not path.is_file():  # a pipe would block
            raise ValueError("it is missing" if not path.exists() else "it is not a file")
        with path.open("rb") as file:
            content = file.read(LARGEST_JSON + 1)
        if len(content) > LARGEST_JSON:
            raise ValueError(f"more than {LARGEST_JSON:,} bytes")
        values = json.loads(content)
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        reason = f"not valid JSON: {error}" if isinstance(error, json.JSONDecodeError) else error
        raise FormatError(f"{path} is damaged ({reason}); {remedy}") from error
    return values


def check_member(folder: Path, name: str, remedy: str) -> Path:
    """The path of a file that an untrusted folder lists, by a name inside the folder.

    It may be a symbolic link, as in a Hugging Face cache; the caller compares its checksum.
    """
    path = folder / name
    if {"", ".", ".."} & set(name.split("/")) or "\0" in name:
        raise FormatError(f"{folder} lists the file '{name}', which is outside of it; {remedy}")
    if not path.is_file():
        raise FormatError(f"{path} is missing; {remedy}")
    return path


def json_values(value: Any) -> Any:
    """Nested values as JSON has them: a number that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {name: json_values(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
