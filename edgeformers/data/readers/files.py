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

PathOrGlob = str | PathLike[str]


def expand_paths(paths: PathOrGlob | Iterable[PathOrGlob]) -> list[Path]:
    """Files named by a path, a glob or several of either, each glob in the order of its names."""
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    files: list[Path] = []
    for one in (fspath(path) for path in given):
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


def open_binary(path: Path) -> BinaryIO:
    """The uncompressed bytes of a file, whatever it is compressed with."""
    compression = COMPRESSIONS.get(path.suffix.lower())
    if compression == "gzip":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if compression == "zstd":
        return cast(BinaryIO, pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    return path.open("rb")


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, the line without its end) for every line; a leading BOM is dropped."""
    number = 0
    try:
        with open_binary(path) as stream:
            for number, line in enumerate(_lines(stream), start=1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile) and error.errno:
            raise
        raise InputError(
            f"{path}: the compressed file breaks off after line {number} ({error}); fetch it again"
        ) from error


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    rest = b""
    while chunk := stream.read(1 << 20):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest.removesuffix(b"\r")
