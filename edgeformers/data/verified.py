"""Checksums compared once per change of a file: which files were found whole is remembered.

What is remembered lies in the user's cache folder (`EDGEFORMERS_CACHE`, or `edgeformers` in
`XDG_CACHE_HOME` or `~/.cache`), a small file per folder. Without it files are only read again.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgeformers.data.arrays import REMEDY, check_files, fingerprint
from edgeformers.errors import FormatError

CACHE = "EDGEFORMERS_CACHE"
SETTLED = 2 * 10**9  # ns; a younger file may change again without a change of its times
KEPT = 90 * 24 * 3600  # s; after this long, files are read again

Entry = list[Any]  # size, times of change, SHA-256


def verify_files(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Every file must be there with its size and its checksum; those known are not read again."""
    check_files(folder, files)
    started = time.time_ns()
    entries = {name: _entry(folder / name, known["sha256"]) for name, known in files.items()}
    record = _record(folder)
    before = {} if record is None else _read(record)
    unknown = [name for name in files if before.get(name) != entries[name]]
    for name, digest in _digests(folder, unknown):
        if digest != files[name]["sha256"]:
            raise FormatError(f"{folder / name} is damaged: its checksum differs; {REMEDY}")
    settled = {name: one for name, one in entries.items() if one[1] < started - SETTLED}
    if record is not None and any(name in settled for name in unknown):
        with suppress(OSError):
            _write(record, settled)


def _entry(path: Path, digest: str) -> Entry:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, digest]


def _digests(folder: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    """The SHA-256 of each file, several at once: about 1.3 GB/s on each core."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        found = pool.map(lambda name: str(fingerprint(folder / name)["sha256"]), names)
        yield from zip(names, found, strict=True)


def _record(folder: Path) -> Path | None:
    """Where it is noted what was found whole in a folder; None where there is no place for it."""
    place = os.environ.get(CACHE)
    try:
        if not place:
            caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            place = str(Path(caches) / "edgeformers")
        name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    except (OSError, RuntimeError):  # no home
        return None
    return Path(place).expanduser() / "verified" / f"{name}.json"


def _read(record: Path) -> dict[str, Any]:
    """What is noted, if it can be read and is not too old."""
    try:
        if record.stat().st_mtime < time.time() - KEPT:
            return {}
        found = json.loads(record.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(record: Path, entries: Mapping[str, Entry]) -> None:
    """Readers see the old notes or the new ones; of several writers, the last one stays."""
    record.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix=f".{record.stem}.", dir=record.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(entries, file)
        Path(aside).replace(record)
    finally:
        Path(aside).unlink(missing_ok=True)
    for other in record.parent.iterdir():  # of networks that were not used for long
        if other.stat().st_mtime < time.time() - KEPT:
            other.unlink(missing_ok=True)
