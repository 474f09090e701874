"""Arrays on disk: .npy files written in pieces and memory-mapped."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from edgeformers.errors import FormatError

REMEDY = "prepare the network again"  # if a file is damaged


class ArrayWriter:
    """Writes a .npy file row by row; closing it updates the header."""

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
    """A memory-mapped array; reads only the header. A damaged file is a FormatError."""
    try:
        with path.open("rb") as file:
            if npy.read_magic(file) != (1, 0):
                raise ValueError("not an array written by this library")
            shape, is_fortran, dtype = npy.read_array_header_1_0(file)
            start = file.tell()
        if dtype.hasobject or is_fortran or min(shape, default=0) < 0:
            raise ValueError("not an array written by this library")
        expected = start + dtype.itemsize * math.prod(shape)
        if (size := path.stat().st_size) != expected:
            raise ValueError(f"{size:,} bytes instead of {expected:,}")
        return np.memmap(path, dtype, "r", start, shape)
    except FileNotFoundError as error:
        raise FormatError(f"{path} is missing; {REMEDY}") from error
    except Exception as error:  # numpy parses the header as Python
        raise FormatError(f"{path} is damaged ({error}); {REMEDY}") from error


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as a plain .npy file."""
    with path.open("wb") as file:
        npy.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
