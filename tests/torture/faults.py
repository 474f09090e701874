"""Failing disks for tests: an error at the n-th write below a folder, and disks of a few kilobytes.

`failing_writes` works within the process, without root: it counts what the library and its
dependencies do to files below a folder (open, write, mkdir, rename, Parquet, tensors, numpy) and
raises an OSError at the n-th. A full disk stays full, so all later writes fail as well; removing
files succeeds. `tiny_disk` mounts a tmpfs, which only root may do, and covers every writer.
"""

import builtins
import errno as codes
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.torch

CREATES = ("os.mkdir", "os.rename", "os.link", "os.symlink")  # audit events
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass
class Disk:
    """Counts writes below a folder, and fails from the n-th on (never, if it is None)."""

    folder: Path
    nth: int | None
    errno: int
    kills: bool = False  # the process instead of raising an error
    writes: int = 0

    def write(self, path: Any) -> None:
        """One more write to a path; raises if the disk is full by now."""
        if not isinstance(path, str | bytes | os.PathLike) or not self._has(os.fsdecode(path)):
            return
        self.writes += 1
        if self.has_failed and self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.has_failed:
            raise OSError(self.errno, os.strerror(self.errno), os.fsdecode(path))

    def _has(self, path: str) -> bool:
        return self.folder in Path(path).absolute().parents

    @property
    def has_failed(self) -> bool:
        return self.nth is not None and self.writes >= self.nth


_disks: list[Disk] = []  # the hook below cannot be removed
_is_hooked = False


@contextmanager
def failing_writes(
    folder: Path, nth: int | None = None, errno: int = codes.ENOSPC, *, kills: bool = False
) -> Iterator[Disk]:
    """Fail the n-th write below a folder, and all that follow; without `nth`, only count them.

    With `kills`, the process is killed just before the n-th write.
    """
    global _is_hooked
    if not _is_hooked:
        sys.addaudithook(_audit)
        _is_hooked = True
    disk = Disk(folder.resolve(), nth, errno, kills)
    with pytest.MonkeyPatch.context() as patch:
        for module in (builtins, io):
            patch.setattr(module, "open", _opener(disk))
        patch.setattr(safetensors.torch, "serialize_file", _saver(disk))
        patch.setattr(pq.ParquetWriter, "__init__", _counted(pq.ParquetWriter.__init__, disk))
        patch.setattr(pq.ParquetWriter, "write_table", _table_writer(disk))
        patch.setattr(np, "save", _counted(np.save, disk, position=0))
        _disks.append(disk)
        try:
            yield disk
        finally:
            _disks.remove(disk)


@contextmanager
def tiny_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """An empty file system of so many kilobytes, mounted at a new folder (needs root)."""
    folder.mkdir(parents=True)
    size = f"size={kilobytes}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def can_mount() -> bool:
    """Whether this process may mount file systems."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False)
    return tried.returncode == 0


def leftovers(folder: Path) -> list[str]:
    """Temporary files and folders, which a failed command must not leave behind."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob(".*"))
    return sorted(name for name in names if "partial" in name or "lock" in name)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    for disk in _disks:
        if event == "open" and args[2] & WRITES and not isinstance(args[0], int):
            disk.write(args[0])
        elif event in CREATES:
            disk.write(args[1] if event == "os.rename" else args[0])


class _File(io.FileIO):
    """A file whose writes count."""

    disk: Disk

    def write(self, data: Any) -> int:
        self.disk.write(self.name)
        return super().write(data)


def _opener(disk: Disk) -> Any:
    original = io.open

    def open_file(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        **rare: Any,
    ) -> Any:
        appends = set(mode) & set("wax") and "+" not in mode
        if not appends or buffering != -1 or rare or isinstance(file, int):
            return original(file, mode, buffering, encoding, errors, newline, **rare)
        raw = _File(file, mode.replace("b", "").replace("t", ""))
        raw.disk = disk
        buffered = io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    return open_file


def _saver(disk: Disk) -> Any:
    original = safetensors.torch.serialize_file

    def save(tensors: Any, filename: Any, *args: Any, **kwargs: Any) -> None:
        try:
            disk.write(filename)
        except OSError as error:  # as Rust words it
            raise safetensors.SafetensorError(
                f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
            ) from None
        original(tensors, filename, *args, **kwargs)

    return save


def _counted(original: Any, disk: Disk, position: int = 1) -> Any:
    """A function that writes to the path among its arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        disk.write(args[position])
        return original(*args, **kwargs)

    return call


def _table_writer(disk: Disk) -> Any:
    original = pq.ParquetWriter.write_table

    def write_table(self: Any, *args: Any, **kwargs: Any) -> None:
        disk.write(self.where if isinstance(self.where, str | os.PathLike) else None)
        original(self, *args, **kwargs)

    return write_table
