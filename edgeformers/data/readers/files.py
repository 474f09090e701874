"""Opens text files, plain or compressed with gzip or zstd, and reads them line by line."""

import ast
import csv
import json
from collections.abc import Callable, Iterable, Iterator
from glob import glob
from io import BufferedReader
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from edgeformers.data.table import RowErrors
from edgeformers.errors import InputError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}

#: First bytes of compressed files: the compression, and its suffix if it can be read.
MAGIC = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"BZh": ("bzip2", None),
    b"\xfd7zXZ": ("xz", None),
    b"PK\x03\x04": ("zip", None),
}
HEAD_BYTES = 1 << 20  # uncompressed, from which a format is recognized
FIRST_RECORDS = 20  # a single record may lack a key
NOT_UTF8 = "the bytes are not UTF-8; convert the file to UTF-8"
BOM = b"\xef\xbb\xbf"
DAMAGE = (pa.ArrowInvalid, OSError)  # raised by damaged compressed files

PathOrGlob = str | PathLike[str]
T = TypeVar("T")
R = TypeVar("R")


def expand_paths(paths: PathOrGlob | Iterable[PathOrGlob]) -> list[Path]:
    """The files named by paths and globs, each glob sorted by name."""
    patterns = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not patterns:
        raise InputError("no files given; pass a path or a quoted glob such as 'part-*.csv'")
    if not all(isinstance(pattern, str | PathLike) for pattern in patterns):
        raise InputError(f"this format is read from files (got {type(paths).__name__})")
    files: list[Path] = []
    for pattern in [fspath(pattern) for pattern in patterns]:
        try:
            path = Path(pattern).expanduser()
            found = [path] if path.exists() else map(Path, glob(str(path), recursive=True))
            matches = sorted(found)
        except (OSError, ValueError, RuntimeError) as error:  # too long, NUL, unknown user
            raise InputError(f"{pattern}: not a path ({error}); check its spelling") from error
        if not matches:
            raise InputError(
                f"{pattern}: no such file; pass a path or a quoted glob such as 'part-*.csv'"
            )
        files.extend(matches)
    return files


def plain_suffix(path: Path) -> str:
    """The suffix without that of a compression: '.json' for 'a.json.gz'."""
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return inner.suffix.lower()


def compression_of(path: Path) -> str:
    """The compression that a file's name implies: gzip, zstd or none."""
    return COMPRESSIONS.get(path.suffix.lower(), "none")


def open_binary(path: Path) -> BufferedReader:
    """The uncompressed bytes of a text file; raises if its first bytes contradict its name."""
    compression = compression_of(path)
    try:
        _check_first_bytes(path, compression)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); give a file") from error
    stream = pa.input_stream(str(path), compression if compression != "none" else None)
    return BufferedReader(stream, 1 << 20)


def _check_first_bytes(path: Path, named: str) -> None:
    with path.open("rb") as file:
        head = file.read(8)
    actual, suffix = next((m for magic, m in MAGIC.items() if head.startswith(magic)), ("", None))
    if actual == named or not head:
        return
    if actual:
        remedy = f"rename it to end in {suffix}" if suffix else "unpack it, or use gzip or zstd"
        raise InputError(f"{path} is compressed with {actual}; {remedy}")
    if named != "none":
        raise InputError(
            f"{path} is not compressed with {named}; remove the suffix {path.suffix}, "
            "or download it again"
        )
    if _is_utf16(head):
        raise InputError(
            f"{path} is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {path.name} > utf8-{path.name}"
        )
    if head.startswith(b"PAR1"):
        raise InputError(f"{path} is a Parquet file; rename it to end in .parquet")


def _is_utf16(head: bytes) -> bool:
    """Whether every other byte is NUL: Latin text in UTF-16, with or without a byte order mark."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return b"\0" in head
    return len(head) >= 4 and any(head[0::2]) != any(head[1::2])


def read_head(path: Path, size: int) -> bytes:
    """The first `size` uncompressed bytes of a file, without a byte order mark."""
    try:
        with open_binary(path) as stream:
            return stream.read(size).removeprefix(BOM)
    except DAMAGE as error:
        raise _damaged(path, 0, error) from error


def first_keys(head: bytes) -> set[str]:
    """The keys of the first records: of JSON objects or Python literals, or a CSV header."""
    lines = head.decode("utf-8", errors="replace").split("\n", FIRST_RECORDS)[:FIRST_RECORDS]
    if lines[0].lstrip().startswith("{"):
        return {key for line in lines for key in _keys(line)}
    return {column.strip() for column in next(csv.reader(lines[:1]), [])}


def _keys(line: str) -> set[str]:
    try:
        return set(parse_object(line))
    except (ValueError, MemoryError, RecursionError):
        return set()  # the last line may be cut off


def parse_object(line: str) -> dict[str, Any]:
    """A JSON object, or a Python literal, as in Amazon's files of 2014: its keys have one quote."""
    text = line.strip()
    try:
        item = ast.literal_eval(text) if text.startswith("{'") else json.loads(text)
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"neither JSON nor a Python literal ({error})") from None
    if not isinstance(item, dict):
        raise ValueError(f"expected an object (got {type(item).__name__})")
    return item


def numbered_lines(path: Path, *, keep_ends: bool = False) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line without its end) of every line; a byte order mark is dropped."""
    number = 0
    try:
        with open_binary(path) as stream:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    line = line.removeprefix(BOM)
                yield number, line if keep_ends else line.removesuffix(b"\n").removesuffix(b"\r")
    except DAMAGE as error:
        raise _damaged(path, number, error) from error


def parse_rows(
    rows: Iterable[tuple[int, T]], parse: Callable[[T], R], path: Path, errors: RowErrors
) -> Iterator[tuple[int, R]]:
    """(line, parsed row) of every row; if `parse` raises a ValueError, the line is reported."""
    errors.start_file()
    for line, row in rows:
        try:
            parsed = parse(row)
        except (ValueError, MemoryError, RecursionError) as error:
            errors.report(f"{path}, line {line}: {error}", line)
        else:
            yield line, parsed


def parse_lines(
    path: Path, parse: Callable[[str], R], errors: RowErrors, limit: int | None = None
) -> Iterator[tuple[int, R]]:
    """(line, parsed line) of lines of a UTF-8 file that are not blank; see `parse_rows`.

    `limit` is the number of lines to read; None: all.
    """

    def decode_and_parse(line: bytes) -> R:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(NOT_UTF8) from None
        return parse(text)

    lines = ((number, line) for number, line in numbered_lines(path) if line.strip())
    return parse_rows(islice(lines, limit), decode_and_parse, path, errors)


def _damaged(path: Path, line: int, error: Exception) -> Exception:
    if isinstance(error, OSError) and error.errno:
        return error
    return InputError(
        f"{path}: the compressed file is damaged after line {line} ({error}); download it again"
    )
