"""Opening text files: plain, gzip or zstd, one line at a time with its number."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from glob import glob
from os import PathLike, fspath
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from edgeformers.errors import InputError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}

#: What the first bytes of a file give away: what it is, and the suffix that says so.
MAGIC = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"BZh": ("bzip2", None),
    b"\xfd7zXZ": ("xz", None),
    b"PK\x03\x04": ("zip", None),
}
BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")

PathOrGlob = str | PathLike[str]


def expand_paths(paths: PathOrGlob | Iterable[PathOrGlob]) -> list[Path]:
    """Files named by a path, a glob or several of either, each glob in the order of its names."""
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not given:
        raise InputError("no file is named; give a path or a quoted glob such as 'part-*.csv'")
    files: list[Path] = []
    for one in [fspath(path) for path in given]:
        path = Path(one).expanduser()
        if path.exists():
            files.append(path)
        elif found := sorted(glob(str(path), recursive=True)):
            files.extend(map(Path, found))
        else:
            raise InputError(
                f"{one}: no such file; give a path or a quoted glob such as 'part-*.csv'"
            )
    return files


def plain_suffix(path: Path) -> str:
    """The suffix below any compression: '.json' for 'a.json.gz'."""
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return inner.suffix.lower()


def compression_of(path: Path) -> str:
    """What a file is compressed with, by its name: gzip, zstd or none."""
    return COMPRESSIONS.get(path.suffix.lower(), "none")


def open_binary(path: Path) -> BinaryIO:
    """The uncompressed bytes of a file; one whose first bytes belie its name is refused."""
    compression = compression_of(path)
    _check_magic(path, compression)
    if compression == "gzip":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if compression == "zstd":
        return cast(BinaryIO, pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    return path.open("rb")


def _check_magic(path: Path, named: str) -> None:
    with path.open("rb") as file:
        head = file.read(8)
    found, suffix = next((m for magic, m in MAGIC.items() if head.startswith(magic)), ("", None))
    if found == named or not head:
        return
    if found and suffix is None:
        raise InputError(f"{path} is compressed with {found}; unpack it, or use gzip or zstd")
    if found:
        raise InputError(
            f"{path} is compressed with {found}, which its name does not tell; "
            f"rename it to end in {suffix}"
        )
    if named != "none":
        raise InputError(
            f"{path} is not compressed with {named}, as its name says; "
            f"rename it without {path.suffix}, or fetch it again"
        )
    if head.startswith(UTF16) and b"\0" in head:
        raise InputError(
            f"{path} is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {path.name} > utf8-{path.name}"
        )
    if head.startswith(b"PAR1"):
        raise InputError(f"{path} is a Parquet file; rename it to end in .parquet")


def numbered_lines(path: Path, *, keep_ends: bool = False) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, the line without its end) for every line; a leading BOM is dropped."""
    number = 0
    try:
        with open_binary(path) as stream:
            for number, line in enumerate(_lines(stream), start=1):
                if number == 1:
                    line = line.removeprefix(BOM)
                yield number, line if keep_ends else line.removesuffix(b"\n").removesuffix(b"\r")
    except (EOFError, zlib.error, pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise InputError(
            f"{path}: the compressed file breaks off after line {number} ({error}); fetch it again"
        ) from error


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    begun: list[bytes] = []  # pieces of a line that is not complete yet
    while chunk := stream.read(1 << 20):
        first, *others = chunk.split(b"\n")
        begun.append(first)
        for piece in others:
            yield b"".join(begun) + b"\n"
            begun = [piece]
    if any(begun):
        yield b"".join(begun)
