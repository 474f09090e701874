"""Files on disk: memory-mapped arrays, checksums, JSON records that carry their own, metadata.

Verifying a folder hashes a file once and remembers its size and times in the user's cache folder
(`EDGEFORMERS_CACHE`, or `edgeformers` in `XDG_CACHE_HOME` or `~/.cache`), so unchanged files are
not read again. The same goes for the values of large arrays (`check_once`). Without a cache
folder, every call reads all files.
"""

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from edgeformers.data.scratch import row_slices
from edgeformers.data.splits import SplitConfig
from edgeformers.data.table import LabelKind
from edgeformers.decode import decode
from edgeformers.errors import EdgeformersError, FormatError, InputError
from edgeformers.files import (
    check_member,
    check_no_foreign_files,
    read_json_object,
    write_atomic,
)
from edgeformers.threads import num_threads

FORMAT = "edgeformers-network"
SCHEMA_VERSION = 1
METADATA = "network.json"

#: Files that are added to the folder of a network after its metadata.
_ADDED = re.compile(
    r"""card\.(html|json) | \.card\.(html|json)\.[\d-]+ | splits/
    | tokens/([0-9a-f]{16}/((tokens|tokenizer)\.json | (edges|nodes)\.(ids|offsets)\.npy)?)?
    | vectors/([0-9a-f]{16}/(vectors\.(json|npy))?)?
    | (tokens|vectors)/\.[0-9a-f]{16}\.partial-.*""",
    re.VERBOSE | re.DOTALL,
)

REMEDY = "prepare the network again"  # if a file is damaged
CACHE = "EDGEFORMERS_CACHE"
LARGE_FILE = 1 << 26  # bytes; the values of smaller arrays are checked whenever they are opened
SETTLED = 2 * 10**9  # ns; a file changed more recently may change again with the same times
KEPT = 90 * 24 * 3600  # s; older cache entries are ignored and removed

Verify = bool | Literal["changed"]  # whether checksums are compared: of all files, or changed ones


class ArrayWriter:
    """Writes a .npy file of one dimension piece by piece; the header is updated at the end."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file = path.open("wb")
        self._write_header()

    def append(self, piece: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(piece, self.dtype).data)
        self.length += len(piece)

    def __enter__(self) -> "ArrayWriter":
        return self

    def __exit__(self, *error: object) -> None:
        with self._file:
            self._file.seek(0)
            self._write_header()

    def _write_header(self) -> None:
        header = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False}
        npy.write_array_header_1_0(self._file, {**header, "shape": (self.length,)})


def write_array(path: Path, dtype: DTypeLike, pieces: Iterable[NDArray[Any]]) -> None:
    """Write pieces one after another to a .npy file of one dimension."""
    with ArrayWriter(path, dtype) as writer:
        for piece in pieces:
            writer.append(piece)


def blocks(array: NDArray[Any], size: int | None = None) -> Iterator[tuple[int, NDArray[Any]]]:
    """The rows of an array in blocks, each with the number of its first row."""
    return ((rows.start, array[rows]) for rows in row_slices(len(array), size))


def open_array(path: Path, kinds: str = "biuf") -> NDArray[Any]:
    """A memory-mapped array; reads only the header. A damaged file is a FormatError.

    `kinds` are the kinds of types that it may have, as in `dtype.kind`.
    """
    try:
        with path.open("rb") as file:
            if npy.read_magic(file) != (1, 0):
                raise ValueError("not an array written by this library")
            shape, is_fortran, dtype = npy.read_array_header_1_0(file)
            start = file.tell()
        if dtype.kind not in kinds or is_fortran or not shape or min(shape) < 0:
            raise ValueError("not an array written by this library")
        expected = start + dtype.itemsize * math.prod(shape)
        if (size := path.stat().st_size) != expected:
            raise ValueError(f"{size:,} bytes instead of {expected:,}")
        return np.memmap(path, dtype, "r", start, shape)
    except FileNotFoundError as error:
        raise FormatError(f"{path} is missing; {REMEDY}") from error
    except Exception as error:  # numpy parses the header as Python
        raise FormatError(f"{path} is damaged ({error}); {REMEDY}") from error


def check_range(array: NDArray[Any], low: int, high: int, path: Path) -> NDArray[Any]:
    """The array, if all values are from `low` to `high` - 1; otherwise a FormatError."""
    for _, block in blocks(array):
        if not (low <= block.min() and block.max() < high):
            found = f"{block.min()} to {block.max()}"
            raise FormatError(f"{path} has values from {found}, not {low} to {high - 1}; {REMEDY}")
    return array


def check_offsets(offsets: NDArray[Any], length: int, path: Path) -> NDArray[Any]:
    """The offsets, if they rise from 0 to `length`; otherwise a FormatError."""
    end = 0
    for _, block in blocks(offsets):
        rises = end <= block[0] and (block[1:] >= block[:-1]).all()
        end = block[-1] if rises else -1
        if not rises:
            break
    if offsets[0] != 0 or end != length:
        raise FormatError(f"{path} has offsets that do not rise from 0 to {length:,}; {REMEDY}")
    return offsets


def check_once(
    check: Callable[..., NDArray[Any]], array: NDArray[Any], *limits: int, path: Path
) -> NDArray[Any]:
    """`check(array, *limits, path)`, unless a large file passed it and has not changed since."""
    started = time.time_ns()
    state = _file_state(path, f"{check.__name__} {limits}")
    if state[0] < LARGE_FILE:
        return check(array, *limits, path)
    if _read_cache(path).get("contents") != state:
        check(array, *limits, path)
        if state[1] < started - SETTLED:
            with suppress(OSError, RuntimeError):
                _write_cache(path, {"contents": state})
    return array


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def fingerprint_folder(folder: Path) -> dict[str, dict[str, Any]]:
    """`fingerprint` of every file below a folder, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): fingerprint(path) for path in files}


def check_files(
    folder: Path, files: Mapping[str, Mapping[str, Any]], *, verify: Verify = False
) -> None:
    """Raise a FormatError unless every file has its size and, optionally, its checksum.

    `files` are fingerprints by relative path.
    """
    for name, expected in files.items():
        path = check_member(folder, name, REMEDY)
        if not isinstance(expected, Mapping) or {*map(type, expected.values())} != {int, str}:
            raise FormatError(f"{folder} has no checksum of {name}; {REMEDY}")
        if (size := path.stat().st_size) != expected["bytes"]:
            raise FormatError(
                f"{path} is damaged: it has {size:,} bytes instead of {expected['bytes']:,}; "
                f"{REMEDY}"
            )
    if not verify:
        return
    started = time.time_ns()
    current = {name: _file_state(folder / name, file["sha256"]) for name, file in files.items()}
    cached = _read_cache(folder) if verify == "changed" else {}
    changed = [name for name in files if cached.get(name) != current[name]]
    with ThreadPoolExecutor(min(8, num_threads())) as pool:  # about 1.3 GB/s per core
        prints = pool.map(lambda name: fingerprint(folder / name), changed)
        for name, current_print in zip(changed, prints, strict=True):
            if current_print["sha256"] != files[name]["sha256"]:
                raise FormatError(f"{folder / name} is damaged: its checksum differs; {REMEDY}")
    settled = {name: state for name, state in current.items() if state[1] < started - SETTLED}
    if verify == "changed" and any(name in settled for name in changed):
        with suppress(OSError, RuntimeError):
            _write_cache(folder, settled)


def _file_state(path: Path, checked: str) -> list[Any]:
    """Size, modification and change time of a file, and what it was checked for: its SHA-256."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, checked]


def _cache_file(folder: Path) -> Path:
    """The cache file of a folder or file; a RuntimeError if the user has no home folder."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    caches = Path(os.environ.get(CACHE) or base / "edgeformers").expanduser()
    return caches / "verified" / f"{name}.json"


def _read_cache(folder: Path) -> dict[str, Any]:
    """The cached file states; empty if the cache is missing, unreadable or too old."""
    try:
        path = _cache_file(folder)
        is_recent = path.stat().st_mtime >= time.time() - KEPT
        states = json.loads(path.read_bytes()) if is_recent else {}
    except (OSError, ValueError, RuntimeError):
        return {}
    return states if isinstance(states, dict) else {}


def _write_cache(folder: Path, states: Mapping[str, list[Any]]) -> None:
    path = _cache_file(folder)
    write_atomic(path, json.dumps(states))
    for other in path.parent.iterdir():
        if other.stat().st_mtime < time.time() - KEPT:
            other.unlink(missing_ok=True)


def write_record(path: Path, values: Mapping[str, Any]) -> None:
    """Write values as JSON together with their checksum."""
    path.write_bytes(_record_text(values, _digest(values)))


def read_record(path: Path) -> dict[str, Any]:
    """The contents of a JSON object file, without comparing the checksum."""
    return read_json_object(path, REMEDY)


def read_checked_record(path: Path) -> dict[str, Any]:
    """The values in a JSON file, byte for byte as `write_record` wrote them."""
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


@dataclass(frozen=True, kw_only=True)
class NetworkMeta:
    """The contents of network.json."""

    format: str = FORMAT
    schema_version: int = SCHEMA_VERSION
    library_version: str
    num_nodes: int
    num_sources: int  # of all nodes, if there is one node type
    num_edges: int
    is_bipartite: bool
    is_directed: bool
    has_published_order: bool = False  # validation and test links are in their published order
    label_kind: LabelKind | None = None
    label_names: list[str] = field(default_factory=list)
    edge_type_names: list[str] = field(default_factory=list)
    node_label_names: list[str] = field(default_factory=list)
    positive_labels: list[str] = field(default_factory=list)  # labels of links; empty: all edges
    neighbors: dict[str, list[int]] = field(default_factory=dict)  # of a recipe, per side
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> config and counts
    has_node_texts: bool = False
    columns: list[str] = field(default_factory=list)  # of edges.parquet
    origin: str = ""
    skipped: dict[str, Any] = field(default_factory=dict)  # unusable rows of the input
    notes: list[str] = field(default_factory=list)  # for the data card
    stores: list[dict[str, Any]] = field(default_factory=list)  # merged ones; see StoreMerge
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # size and SHA-256 of each file

    def write(self, folder: Path) -> None:
        write_record(folder / METADATA, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "NetworkMeta":
        """The metadata of the network in a folder."""
        file = path / METADATA
        if not file.is_file():
            raise FormatError(
                f"{path} is not a prepared network: it has no {METADATA}; "
                f"create one with: edgeformers prepare EDGES.csv -o {path}"
            )
        values = read_record(file)
        if values.get("format") != FORMAT:
            raise FormatError(f"{file} does not describe a network; choose another folder")
        if values.get("schema_version") != SCHEMA_VERSION:
            raise FormatError(
                f"{file} has schema version {values.get('schema_version')}, not {SCHEMA_VERSION}; "
                "prepare the network again from its table"
            )
        values = read_checked_record(file)
        try:
            meta = decode(cls, values)
            meta._check()
        except EdgeformersError as error:
            raise FormatError(f"{file}: {error}; {REMEDY}") from error
        return meta

    def _check(self) -> None:
        """Raise a FormatError for counts and names that contradict each other."""
        if not 0 <= self.num_sources <= self.num_nodes or self.num_edges < 0:
            raise FormatError(
                f"{self.num_sources} sources, {self.num_nodes} nodes and {self.num_edges} edges "
                "cannot be"
            )
        if unknown := {*self.positive_labels} - {*self.label_names}:
            raise FormatError(f"there is no label '{min(unknown)}' (positive_labels)")
        for name, split in self.splits.items():
            if not isinstance(split.get("config"), dict) or split["config"].get("name") != name:
                raise FormatError(f"the split '{name}' has no settings")
            SplitConfig.from_dict(split["config"])


def check_replaceable(folder: Path) -> None:
    """Raise an InputError if a folder is not a network, or contains other files too."""
    file = folder / METADATA
    try:
        values = read_checked_record(file)
        if values.get("format") != FORMAT:  # any schema version may be replaced
            raise FormatError(f"{file} does not describe a network")
    except FormatError as error:
        raise InputError(
            f"{folder} is not a prepared network; it is not overwritten ({error})"
            if file.exists()
            else f"{folder} is not a prepared network; it is not overwritten"
        ) from error
    known = {METADATA, *values.get("files", ())}
    check_no_foreign_files(folder, lambda name: name in known or bool(_ADDED.fullmatch(name)))
