"""TextStates: hidden states of texts after the lowest layers of a model, in a temporary file."""

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.types import Ids
from edgeformers.file_errors import writing

DTYPE = np.dtype(np.float16)
MAX_DISK_SHARE = 0.5  # of the free space of a disk


class TextStates:
    """States [T, D] of texts truncated to `max_tokens`, after `layers` layers, memory-mapped.

    The file has no name, so the operating system removes it when the process ends, however it ends.

    Shapes: n texts, T tokens of some texts, D width.
    """

    def __init__(
        self,
        lengths: NDArray[np.integer],
        pieces: Iterable[tuple[Ids, NDArray[np.floating]]],
        *,
        max_tokens: int,
        layers: int,
        folder: Path,
    ) -> None:
        """Store pieces of texts and their states; `lengths` [n] are the tokens of all texts."""
        self.max_tokens, self.layers = max_tokens, layers
        self._lengths = np.minimum(lengths, max_tokens).astype(np.int64)
        self._starts = np.full(len(lengths), -1, np.int64)
        rows, width = 0, 0
        with writing(folder), tempfile.TemporaryFile(dir=folder) as file:
            for texts, states in pieces:
                file.write(states.astype(DTYPE).tobytes())
                own = self._lengths[texts]
                self._starts[texts] = rows + np.cumsum(own) - own
                rows, width = rows + len(states), states.shape[1]
            file.flush()
            self._rows = np.memmap(file, DTYPE, "r", shape=(rows, width))

    def take(self, text_ids: ArrayLike, max_tokens: int) -> NDArray[np.float16] | None:
        """The states [T, D] of some texts; None if one is not stored, or cut to another length."""
        texts = np.asarray(text_ids, np.int64)
        starts, lengths = self._starts[texts], self._lengths[texts]
        if max_tokens != self.max_tokens or (starts < 0).any():
            return None
        before = np.cumsum(lengths) - lengths
        rows = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
        return np.asarray(self._rows[rows])


def find_folder_for_states(num_tokens: int, width: int, folders: Sequence[Path]) -> Path | None:
    """The first folder that can be written and has enough free space for so many states."""
    size = num_tokens * width * DTYPE.itemsize
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=folder):
                if size <= MAX_DISK_SHARE * shutil.disk_usage(folder).free:
                    return folder
        except OSError:  # read-only, or without space for a file
            continue
    return None
