"""Buckets: groups of different lengths in a few padded blocks, for attention over rectangles."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Offsets = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Block:
    """Groups of similar length, padded to the longest of them."""

    size: int
    query_rows: Tensor | None  # [b * Lq]; None: all rows in order
    key_rows: Tensor | None  # [b * (V+L)]; None: all rows in order
    visible: Tensor | None  # [b, 1, 1 or Lq, V+L]; None: no padding
    groups: list[tuple[int, int, int]]  # index, query rows and key rows of each group

    def queries(self, q: Tensor) -> Tensor:
        """[T or B, H, Dh] -> [b, H, Lq, Dh]."""
        return self._take(q, self.query_rows)

    def keys(self, k: Tensor) -> Tensor:
        """[S, H, Dh] -> [b, H, V+L, Dh]."""
        return self._take(k, self.key_rows)

    def to(self, device: torch.device) -> "Block":
        return replace(
            self,
            query_rows=_move(self.query_rows, device),
            key_rows=_move(self.key_rows, device),
            visible=_move(self.visible, device),
        )

    def _take(self, x: Tensor, rows: Tensor | None) -> Tensor:
        x = x if rows is None else x.index_select(0, rows)
        return x.view(self.size, -1, *x.shape[1:]).transpose(1, 2)


@dataclass(frozen=True, eq=False)
class Buckets:
    """All groups in a few blocks."""

    blocks: list[Block]
    restore: Tensor | None  # query rows among the concatenated rows of blocks; None: in order

    def to(self, device: torch.device) -> "Buckets":
        return Buckets([block.to(device) for block in self.blocks], _move(self.restore, device))


def plan_buckets(offsets: Offsets, num_virtual: int, window: int | None, readout: bool) -> Buckets:
    """Blocks of groups at `offsets` [B+1], each preceded by `num_virtual` key rows; on the host.

    See `Ragged.buckets` for `window` and `readout`.
    """
    lengths = np.diff(offsets)
    if lengths.size and lengths.min() == lengths.max() and window is None:
        rows = 1 if readout else int(lengths[0])
        columns = num_virtual + int(lengths[0])
        groups = [(index, rows, columns) for index in range(lengths.size)]
        return Buckets([Block(lengths.size, None, None, None, groups)], None)
    blocks, slots = [], []
    for members in _similar(lengths):
        block, block_slots = _pad_block(offsets, members, num_virtual, window, readout)
        blocks.append(block)
        slots.append(block_slots)
    return Buckets(blocks, _restore_order(slots))


def _similar(lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Groups in order of length, split where one is 25% plus 8 rows longer than the shortest."""
    order = np.argsort(lengths, kind="stable")
    ascending = lengths[order]
    cuts = [0]
    while cuts[-1] < order.size:
        longest = ascending[cuts[-1]] * 1.25 + 8
        cuts.append(int(np.searchsorted(ascending, longest, side="right")))
    return (order[start:stop] for start, stop in pairwise(cuts))


def _pad_block(
    offsets: Offsets,
    members: NDArray[np.int64],
    num_virtual: int,
    window: int | None,
    readout: bool,
) -> tuple[Block, NDArray[np.int64]]:
    """The block of these groups, and the query row of each of its slots (padding: -1)."""
    starts, lengths = offsets[members], np.diff(offsets)[members]
    slots = np.arange(lengths.max())
    real = slots < lengths[:, None]  # [b, L]
    # Padding repeats the last row of a group, so that padded queries have visible keys.
    positions = np.minimum(slots, lengths[:, None] - 1)
    query_rows = members[:, None] if readout else starts[:, None] + positions
    key_starts = (starts + members * num_virtual)[:, None]
    virtual_rows = key_starts + np.arange(num_virtual)
    key_rows = np.hstack([virtual_rows, key_starts + num_virtual + positions])  # [b, V+L]

    visible = real[:, None, :]  # [b, 1, L]
    if window is not None:
        query_positions = np.zeros_like(members)[:, None] if readout else positions
        distance = np.abs(query_positions[:, :, None] - positions[:, None, :])
        visible = visible & (distance <= window)
    visible = np.pad(visible, ((0, 0), (0, 0), (num_virtual, 0)), constant_values=True)
    rows = [1] * len(members) if readout else lengths.tolist()
    columns = (lengths + num_virtual).tolist()
    block = Block(
        size=len(members),
        query_rows=_tensor(query_rows.ravel()),
        key_rows=_tensor(key_rows.ravel()),
        visible=None if visible.all() else _tensor(visible[:, None]),
        groups=list(zip(members.tolist(), rows, columns, strict=True)),
    )
    return block, (query_rows if readout else np.where(real, query_rows, -1)).ravel()


def _restore_order(block_slots: list[NDArray[np.int64]]) -> Tensor:
    slots = np.concatenate(block_slots) if block_slots else np.zeros(0, dtype=np.int64)
    order = np.empty(int((slots >= 0).sum()), dtype=np.int64)
    order[slots[slots >= 0]] = np.flatnonzero(slots >= 0)
    return torch.from_numpy(order)


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def _move(rows: Tensor | None, device: torch.device) -> Tensor | None:
    return None if rows is None else rows.to(device, non_blocking=True)
