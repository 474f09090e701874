"""Ragged: rows in consecutive groups of different sizes, stored without padding.

`Buckets` pads them to a few blocks, for attention over rectangles.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.errors import InputError

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class KeyLayout:
    """Key rows when V virtual rows precede the rows of each group.

    Shapes: S = T + B*V key rows. `order` maps cat(virtual, rows) to key rows, `inverse` back.
    """

    offsets: Tensor  # [B+1] int32
    row_offsets: Tensor  # [B+1] int32, of one readout row per group: 0, 1, 2, ...
    positions: Tensor  # [S]; virtual rows have position 0
    order: Tensor  # [S]
    inverse: Tensor  # [S]
    max_length: int


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
        parts = (self.query_rows, self.key_rows, self.visible)
        query_rows, key_rows, visible = (_move(part, device) for part in parts)
        return Block(self.size, query_rows, key_rows, visible, self.groups)

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Ragged:
    """B groups of 1 to `max_length` consecutive rows: tokens of texts, edges of ego graphs.

    Create it on the host and move it with `to`. A host copy of the offsets avoids synchronization
    with the device. Values derived from the offsets are cached.
    """

    offsets: Tensor  # [B+1] int32
    positions: Tensor  # [T], from 0 within each group
    max_length: int
    host_offsets: NDArray[np.int64]  # [B+1], always on the host
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_offsets(cls, offsets: NDArray[Any]) -> "Ragged":
        """Groups from the start of each and the end of the last [B+1]."""
        return Ragged(**group_fields(offsets))

    @property
    def num_groups(self) -> int:
        return self.offsets.size(0) - 1

    @property
    def num_rows(self) -> int:
        return self.positions.size(0)

    @property
    def device(self) -> torch.device:
        return self.offsets.device

    @property
    def starts(self) -> Tensor:
        """First row of each group: [B]."""
        return self.offsets[:-1]

    @property
    def lengths(self) -> Tensor:
        """Number of rows of each group: [B]."""
        return self.offsets.diff()

    @property
    def group_ids(self) -> Tensor:
        """Group of each row: [T]."""
        return self.cached("group_ids", self._group_ids)

    @property
    def mask(self) -> Tensor:
        """The mask of `to_padded`: [B, L], False at padding."""
        columns = torch.arange(self.max_length, device=self.device)
        return columns < self.lengths[:, None]

    def to(self, device: torch.device | str, non_blocking: bool = True) -> Self:
        """The same groups on another device; a copy to the CPU always waits for its data."""
        if self.device == torch.device(device):
            return self
        non_blocking &= torch.device(device).type != "cpu"
        return self._map(lambda x: x.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same groups in page-locked memory."""
        return self._map(Tensor.pin_memory)

    def to_padded(self, hidden: Tensor) -> Tensor:
        """Packed rows [T, D] -> [B, L, D], zeros at padding."""
        slots = self.group_ids * self.max_length + self.positions
        padded = hidden.new_zeros(self.num_groups * self.max_length, *hidden.shape[1:])
        rows = padded.index_copy(0, slots, hidden)
        return rows.view(self.num_groups, self.max_length, *hidden.shape[1:])

    def layout(self, num_virtual: int) -> KeyLayout:
        """Key rows when `num_virtual` virtual rows precede each group."""
        return self.cached(("layout", num_virtual), lambda: _key_layout(self, num_virtual))

    def buckets(self, num_virtual: int, window: int | None, readout: bool) -> Buckets:
        """Padded blocks of groups of similar length, with keys as in `layout`.

        With `window`, a row attends to rows at most that far away. With `readout`, each group has
        one query row, at position 0.
        """

        def plan() -> Buckets:
            return plan_buckets(self.host_offsets, num_virtual, window, readout).to(self.device)

        return self.cached(("buckets", num_virtual, window, readout), plan)

    def cached(self, key: Any, compute: Callable[[], Value]) -> Value:
        """The result of `compute`, computed at the first call with this key."""
        if key not in self._cache:
            with torch.inference_mode(False):  # training may use it later
                self._cache[key] = compute()
        value: Value = self._cache[key]
        return value

    def _group_ids(self) -> Tensor:
        ids = torch.arange(self.num_groups, device=self.device)
        return torch.repeat_interleave(ids, self.lengths, output_size=self.num_rows)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        values: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        values |= {name: change(v) for name, v in values.items() if isinstance(v, Tensor)}
        return replace(self, **{**values, "_cache": {}})


def group_fields(offsets: NDArray[Any]) -> dict[str, Any]:
    """The fields of a `Ragged` with these offsets; empty groups are an error."""
    host = offsets.astype(np.int64)
    lengths = np.diff(host)
    check_not_empty(lengths)
    return {
        "offsets": torch.from_numpy(host.astype(np.int32)),
        "positions": torch.from_numpy(np.arange(host[-1]) - np.repeat(host[:-1], lengths)),
        "max_length": int(lengths.max(initial=0)),
        "host_offsets": host,
    }


def check_not_empty(lengths: NDArray[Any]) -> None:
    """Raise an error that names the first group without rows."""
    if (lengths < 1).any():
        raise InputError(
            f"text {int(np.argmax(lengths < 1))} has no token; every text needs at least one, "
            f"such as [CLS]"
        )


def _key_layout(groups: Ragged, num_virtual: int) -> KeyLayout:
    device = groups.device
    counts = torch.arange(groups.num_groups + 1, device=device)
    rows = torch.arange(groups.num_rows, device=device)
    if num_virtual == 0:
        return KeyLayout(
            groups.offsets, counts.int(), groups.positions, rows, rows, groups.max_length
        )
    before = counts * num_virtual
    offsets = groups.offsets + before  # [B+1]
    virtual_rows = offsets[:-1, None] + torch.arange(num_virtual, device=device)  # [B, V]
    group_rows = rows + before[1:][groups.group_ids]
    inverse = torch.cat([virtual_rows.flatten(), group_rows])  # [S]
    keys = torch.arange(inverse.size(0), device=device)
    return KeyLayout(
        offsets=offsets.int(),
        row_offsets=counts.int(),
        positions=torch.zeros_like(keys).index_copy(0, group_rows, groups.positions),
        order=torch.empty_like(keys).index_copy(0, inverse, keys),
        inverse=inverse,
        max_length=groups.max_length + num_virtual,
    )


def plan_buckets(
    offsets: NDArray[np.int64], num_virtual: int, window: int | None, readout: bool
) -> Buckets:
    """Blocks of groups at `offsets` [B+1], each preceded by `num_virtual` key rows; on the host.

    See `Ragged.buckets` for `window` and `readout`.
    """
    lengths = np.diff(offsets)
    if lengths.size and lengths.min() == lengths.max() and window is None:
        rows = 1 if readout else int(lengths[0])
        columns = num_virtual + int(lengths[0])
        groups = [(index, rows, columns) for index in range(lengths.size)]
        return Buckets([Block(lengths.size, None, None, None, groups)], None)
    planned = [_pad_block(offsets, m, num_virtual, window, readout) for m in _similar(lengths)]
    slots = np.concatenate([np.zeros(0, np.int64), *(block_slots for _, block_slots in planned)])
    order = np.empty(int((slots >= 0).sum()), dtype=np.int64)
    order[slots[slots >= 0]] = np.flatnonzero(slots >= 0)
    return Buckets([block for block, _ in planned], torch.from_numpy(order))


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
    offsets: NDArray[np.int64],
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


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def _move(rows: Tensor | None, device: torch.device) -> Tensor | None:
    return None if rows is None else rows.to(device, non_blocking=True)
