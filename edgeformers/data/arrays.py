"""Arrays and folders on disk: written piece by piece, checked, mapped, renamed at the end."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from edgeformers.errors import FormatError

REMEDY = "prepare the network again"  # what would do about a damaged file


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
