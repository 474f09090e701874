"""Buckets: ragged texts in a few padded blocks, for attention that needs rectangles."""

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
class TextBlock:
    """Texts of similar length, padded to the longest among them."""

    size: int
    query_rows: Tensor | None  # [b * Lq]; None: all rows as they lie
    key_rows: Tensor | None  # [b * (V+L)]
    visible: Tensor | None  # [b, 1, 1 or Lq, V+L]; None: everything is real
    texts: list[tuple[int, int, int]]  # of each text: its index, its query rows, its key rows

    def queries(self, q: Tensor) -> Tensor:
        """[T or B, H, Dh] -> [b, H, Lq, Dh]."""
        return self._take(q, self.query_rows)

    def keys(self, k: Tensor) -> Tensor:
        """[S, H, Dh] -> [b, H, V+L, Dh]."""
        return self._take(k, self.key_rows)

    def to(self, device: torch.device) -> "TextBlock":
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
    """The texts in a few blocks of similar length."""

    blocks: list[TextBlock]
    restore: Tensor | None  # query rows among the blocks' rows laid end to end; None: as they lie

    def to(self, device: torch.device) -> "Buckets":
        return Buckets([block.to(device) for block in self.blocks], _move(self.restore, device))


def plan_buckets(offsets: Offsets, num_virtual: int, window: int | None, readout: bool) -> Buckets:
    """Blocks for texts at `offsets` [B+1], each with `num_virtual` key rows before its own.

    Text keys are seen through `window`. With `readout` there is one query row per text, at
    position 0. All is laid out on the host; move it with `to`.
    """
    lengths = np.diff(offsets)
    if lengths.size and lengths.min() == lengths.max() and window is None:
        rows = 1 if readout else int(lengths[0])
        columns = num_virtual + int(lengths[0])
        texts = [(index, rows, columns) for index in range(lengths.size)]
        return Buckets([TextBlock(lengths.size, None, None, None, texts)], None)
    blocks, kept = [], []
    for members in _similar(lengths):
        block, real = _pad_block(offsets, members, num_virtual, window, readout)
        blocks.append(block)
        kept.append(real)
    return Buckets(blocks, _restore_order(kept))


def _similar(lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Texts by length, cut where a text is a quarter (and some tokens) longer than the shortest."""
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
) -> tuple[TextBlock, NDArray[np.int64]]:
    """The block of these texts, and for each of its query slots the query row (padding: -1)."""
    starts, lengths = offsets[members], np.diff(offsets)[members]
    slots = np.arange(lengths.max())
    real = slots < lengths[:, None]  # [b, L]
    # Padding repeats the text's last token: a padded query sees what that one sees, never nothing.
    positions = np.minimum(slots, lengths[:, None] - 1)
    query_rows = members[:, None] if readout else starts[:, None] + positions
    key_starts = (starts + members * num_virtual)[:, None]
    virtual_rows = key_starts + np.arange(num_virtual)
    key_rows = np.hstack([virtual_rows, key_starts + num_virtual + positions])  # [b, V+L]

    visible = real[:, None, :]  # [b, 1, L]
    if window is not None:
        of_query = np.zeros_like(members)[:, None] if readout else positions
        visible = visible & (np.abs(of_query[:, :, None] - positions[:, None, :]) <= window)
    visible = np.pad(visible, ((0, 0), (0, 0), (num_virtual, 0)), constant_values=True)
    rows = [1] * len(members) if readout else lengths.tolist()
    columns = (lengths + num_virtual).tolist()
    block = TextBlock(
        size=len(members),
        query_rows=_tensor(query_rows.ravel()),
        key_rows=_tensor(key_rows.ravel()),
        visible=None if visible.all() else _tensor(visible[:, None]),
        texts=list(zip(members.tolist(), rows, columns, strict=True)),
    )
    return block, (query_rows if readout else np.where(real, query_rows, -1)).ravel()


def _restore_order(kept: list[NDArray[np.int64]]) -> Tensor:
    slots = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)
    order = np.empty(int((slots >= 0).sum()), dtype=np.int64)
    order[slots[slots >= 0]] = np.flatnonzero(slots >= 0)
    return torch.from_numpy(order)


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def _move(rows: Tensor | None, device: torch.device) -> Tensor | None:
    return None if rows is None else rows.to(device, non_blocking=True)
