"""GrowingArray: rows are appended in a time that does not depend on how many there are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


class GrowingArray:
    """An array with room for more rows; `rows` is a view of those it has."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._buffer = self.rows = rows

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end; views that were taken before keep theirs."""
        start, stop = len(self.rows), len(self.rows) + len(rows)
        if stop > len(self._buffer):
            shape = (stop + stop // 2, *self._buffer.shape[1:])
            larger = np.zeros(shape, self._buffer.dtype)
            larger[:start] = self.rows
            self._buffer = larger
        self._buffer[start:stop] = rows
        self.rows = self._buffer[:stop]
