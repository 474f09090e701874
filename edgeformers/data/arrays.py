"""Arrays and folders on disk: written piece by piece, checked, mapped, renamed at the end."""

import errno
import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from edgeformers.errors import EdgeformersError, FormatError, InputError

REMEDY = "prepare the network again"  # what would do about a damaged file
LITTER = (".DS_Store", "Thumbs.db", "desktop.ini")  # files an operating system leaves in a folder


class FolderExistsError(InputError):
    """A folder has the name that a new one was to take."""


class ArrayWriter:
    """A .npy file that grows by rows: its header is written again when it is closed."""

    def __init__(self, path: Path, dtype: DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.row_shape = row_shape
        self.length = 0
        self._file = path.open("wb")
        self._write_header()

    def append(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        header = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False}
        npy.write_array_header_1_0(self._file, {**header, "shape": (self.length, *self.row_shape)})

    def __enter__(self) -> "ArrayWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_array(path: Path) -> NDArray[Any]:
    """A memory-mapped array; only its header is read. A file that is none, or cut off, is named."""
    try:
        with path.open("rb") as file:
            if npy.read_magic(file) != (1, 0):
                raise ValueError("not an array as this library writes them")
            shape, is_fortran, dtype = npy.read_array_header_1_0(file)
            start = file.tell()
        if dtype.hasobject or is_fortran or min(shape, default=0) < 0:
            raise ValueError("not an array as this library writes them")
        expected = start + dtype.itemsize * math.prod(shape)
        if (size := path.stat().st_size) != expected:
            raise ValueError(f"{size:,} bytes where its header promises {expected:,}")
        return np.memmap(path, dtype, "r", start, shape)
    except FileNotFoundError as error:
        raise FormatError(f"{path} is missing; {REMEDY}") from error
    except Exception as error:  # numpy reads the header with Python's parser, which raises its own
        raise FormatError(f"{path} is damaged ({error}); {REMEDY}") from error


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as a plain .npy file."""
    with path.open("wb") as file:
        npy.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def fingerprint_folder(folder: Path) -> dict[str, dict[str, Any]]:
    """`fingerprint` of every file below a folder, by its path in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): fingerprint(path) for path in files}


def write_record(path: Path, values: Mapping[str, Any]) -> None:
    """Write facts as JSON together with their checksum."""
    path.write_bytes(_record_text(values, _digest(values)))


def read_record(path: Path) -> dict[str, Any]:
    """What a JSON file says, not yet compared with its checksum."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} is damaged ({error}); {REMEDY}") from error
    if not isinstance(values, dict):
        raise FormatError(f"{path} is damaged (it holds no facts); {REMEDY}")
    return values


def checked_record(path: Path) -> dict[str, Any]:
    """The facts in a JSON file exactly as `write_record` wrote them."""
    values = read_record(path)
    checksum = values.pop("checksum", None)
    if checksum != _digest(values) or path.read_bytes() != _record_text(values, checksum):
        raise FormatError(f"{path} is damaged: its checksum differs; {REMEDY}")
    return values


def _record_text(values: Mapping[str, Any], checksum: str) -> bytes:
    record = {**values, "checksum": checksum}
    return json.dumps(record, indent=1, ensure_ascii=False).encode() + b"\n"


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def check_files(
    folder: Path, files: Mapping[str, Mapping[str, Any]], *, checksums: bool = False
) -> None:
    """Every file must be there with its size and, where asked, its checksum."""
    for name, known in files.items():
        path = folder / name
        if not path.is_file():
            raise FormatError(f"{path} is missing; {REMEDY}")
        if (size := path.stat().st_size) != known["bytes"]:
            raise FormatError(
                f"{path} is damaged: {size:,} bytes where {known['bytes']:,} were written; {REMEDY}"
            )
        if checksums and fingerprint(path)["sha256"] != known["sha256"]:
            raise FormatError(f"{path} is damaged: its checksum differs; {REMEDY}")


@contextmanager
def atomic_folder(
    out: Path, *, overwrite: bool = False, check: Callable[[Path], None] | None = None
) -> Iterator[Path]:
    """A new folder that takes the name `out` only when everything in it is written.

    It is written in a hidden workshop beside `out`, locked as long as its process lives; what a
    killed run left behind is removed by the next one (where the file system has locks). Without
    `overwrite`, a folder that exists is refused; with it, the old one stays until the new one is
    complete. `check` raises an InputError where the old folder holds files that this library did
    not write (see `refuse_foreign`); without it, only an empty folder is replaced. Of several
    processes writing the same folder, the first to finish names it.
    """
    if out.name in ("", ".."):
        out = out.resolve()
    with _telling_why_not(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(out)
        _refuse(out, overwrite, check)
        workshop, lock = _make_workshop(out)
        aside = workshop / out.name
        aside.mkdir()
    try:
        yield aside
        _take_place(aside, out, overwrite, check)
        shutil.rmtree(workshop, ignore_errors=True)
    except Exception as error:
        if sentence := _exhaustion(error, out):
            raise EdgeformersError(sentence) from error
        raise
    finally:
        _remove_workshop(workshop, out)
        if lock is not None:
            os.close(lock)


def refuse_foreign(folder: Path, is_ours: Callable[[str], bool]) -> None:
    """Refuse to replace a folder that holds anything else than what `is_ours` knows by its path."""
    foreign = [name for name in _entries(folder) if not is_ours(name) and not _is_litter(name)]
    if foreign:
        named = ", ".join(sorted(foreign)[:3]) + (", ..." if len(foreign) > 3 else "")
        raise InputError(
            f"{folder} is not overwritten, because edgeformers did not write everything in it "
            f"({named}); move that elsewhere, or choose another folder. Nothing was deleted"
        )


def _entries(folder: Path) -> Iterator[str]:
    """The path of every file below a folder, and of every empty folder with a / at its end."""
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_dir():
            yield path.name
        elif below := list(_entries(path)):
            yield from (f"{path.name}/{name}" for name in below)
        else:
            yield f"{path.name}/"


def _is_litter(name: str) -> bool:
    return name.rpartition("/")[2] in LITTER


def _refuse(out: Path, overwrite: bool, check: Callable[[Path], None] | None) -> None:
    """Raise where a folder is in the way that may not be replaced."""
    while (folder := _identity(out)) is not None:
        if not overwrite:
            raise FolderExistsError(
                f"{out} exists already; choose another folder, or pass --overwrite"
            )
        try:
            if not out.is_dir():
                raise InputError(f"{out} is a file; it is not overwritten")
            if any(out.iterdir()):
                (check or _refuse_all)(out)
            return
        except (OSError, EdgeformersError):
            if folder == _identity(out):
                raise  # otherwise another process replaced it meanwhile


def _refuse_all(folder: Path) -> None:
    refuse_foreign(folder, lambda name: False)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _take_place(
    aside: Path, out: Path, overwrite: bool, check: Callable[[Path], None] | None
) -> None:
    """Rename; the old folder moves into the workshop only now, and goes with it."""
    for attempt in range(100):  # another process may take the name at any moment
        _refuse(out, overwrite, check)
        if overwrite:
            with suppress(FileNotFoundError):
                old = out.rename(aside.with_name(f"{out.name}.replaced-{attempt}"))
                _keep_litter(old, aside)
        try:
            aside.rename(out)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    raise InputError(f"{out} is being replaced by other runs all the time; stop them first")


def _keep_litter(old: Path, new: Path) -> None:
    """What the operating system keeps in a folder stays in those folders that there still are."""
    for name in filter(_is_litter, _entries(old)):
        if (new / name).parent.is_dir() and not (new / name).exists():
            (old / name).rename(new / name)


def _make_workshop(out: Path) -> tuple[Path, int | None]:
    """A workshop and its lock; without one on a file system that has no locks."""
    for _ in range(100):  # another run may take a new workshop for one that was left behind
        workshop = Path(tempfile.mkdtemp(prefix=f".{out.name}.partial-", dir=out.parent))
        try:
            lock = _lock(workshop)
        except _NoLocksError:
            return workshop, None
        if lock is not None:
            return workshop, lock
    raise InputError(f"{out} cannot be written: other runs remove its files; stop them first")


def _remove_left_behind(out: Path) -> None:
    for path in out.parent.iterdir():
        if path.name.startswith(f".{out.name}.partial-") and path.is_dir():
            with suppress(_NoLocksError):
                lock = _lock(path)
                if lock is not None:
                    _remove_workshop(path, out)
                    os.close(lock)


def _remove_workshop(workshop: Path, out: Path) -> None:
    """Away with it; a run killed between its two renames had moved the old folder in here."""
    with suppress(OSError):  # another run may be removing it too
        for old in sorted(workshop.glob("*.replaced-*")):
            if not out.exists():
                old.rename(out)
    shutil.rmtree(workshop, ignore_errors=True)


class _NoLocksError(Exception):
    """The file system has no locks."""


def _lock(workshop: Path) -> int | None:
    """A lock that ends with the process that holds it; None where another has it."""
    path = workshop / "lock"
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


@contextmanager
def _telling_why_not(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror})") from error


def _exhaustion(error: Exception, out: Path) -> str | None:
    """What to say where disk or memory is used up. DuckDB's errors are known by their words:
    Arrow raises them again as its own.
    """
    words = str(error)
    reason = words.partition("\n")[0]
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or "No space left" in words or "failed to offload" in words:
        return (
            f"the disk is full while writing {out}; free some space (about twice the size of the "
            f"input) and run it again. Nothing was left behind ({reason})"
        )
    if isinstance(error, MemoryError) or words.startswith("Out of Memory Error"):
        return (
            f"the memory is used up while writing {out}; end other programs, or use a machine "
            f"with more, and run it again. Nothing was left behind ({reason})"
        )
    return None
