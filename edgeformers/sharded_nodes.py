"""A node table whose rows are divided among the processes that train it.

Row r belongs to process r % world, so that popular nodes, which often have consecutive numbers, are
spread over all processes. The model itself never communicates, so that processes may call it a
different number of times: `rows_of` brings the rows that some batches need, each once, and returns
their gradients to the processes they belong to.
"""

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.data.batch import nodes_of
from edgeformers.nn.nodes import NodeLookup

BLOCK_BYTES = 1 << 26  # of rows that are initialized, gathered or read at once

_is_sharding: ContextVar[bool] = ContextVar("is_sharding", default=False)


@contextmanager
def sharded_tables(active: bool) -> Iterator[None]:
    """Let models that are made in the block have sharded node tables, if `active`."""
    token = _is_sharding.set(active)
    try:
        yield
    finally:
        _is_sharding.reset(token)


def lookup_class() -> type[NodeLookup]:
    """The class of node tables in this context."""
    return ShardedNodeLookup if _is_sharding.get() else NodeLookup


def find_sharded(modules: nn.Module) -> "dict[str, ShardedNodeLookup]":
    """The sharded node tables of modules, by name."""
    named = modules.named_modules()
    return {name: module for name, module in named if isinstance(module, ShardedNodeLookup)}


@contextmanager
def rows_of(modules: nn.Module, batches: Iterable[Any]) -> Iterator[None]:
    """Let sharded node tables look up the nodes of some batches within the block.

    All processes must enter and leave it together. At its end, gradients of the rows become sparse
    gradients of the tables, averaged over all processes. A block within a block looks up other
    nodes; their gradients are returned at the end of the outer one.
    """
    lookups = list(find_sharded(modules).values())
    nodes = [part for batch in batches for part in nodes_of(batch)] if lookups else []
    outer = [lookup.fetched for lookup in lookups]
    for lookup in lookups:
        lookup.hold(lookup.fetch(nodes))
    try:
        yield
        for lookup, before in zip(lookups, outer, strict=True):
            if before is None:
                lookup.return_gradients()
    finally:
        for lookup, before in zip(lookups, outer, strict=True):
            lookup.fetched = before
            if before is None:
                lookup.held = []


@dataclass(frozen=True)
class FetchedRows:
    """Rows of a sharded table: U of them from all processes, and A that this one gave away.

    Shapes: `nodes` [U], sorted, the unknown node last; `order` [U] sorts them by process; `given`
    [A] are rows of this process. The counts are those of each process.
    """

    nodes: Tensor
    table: Tensor  # [U, K]
    is_seen: Tensor  # [U]
    keep: Tensor  # [U]
    features: Tensor  # [U, F]
    order: Tensor
    counts: list[int]
    given: Tensor
    given_counts: list[int]


class ShardedNodeLookup(NodeLookup):
    """A NodeLookup of which every process has its own rows.

    Outside of `rows_of`, a lookup fetches its rows itself; then all processes must call it.
    """

    is_sharded = True
    fetched: FetchedRows | None = None  # for lookups
    held: list[FetchedRows]  # whose gradients are to be returned

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.held = []

    def hold(self, fetched: FetchedRows) -> None:
        """Look up nodes in these rows, and keep those that get a gradient."""
        self.fetched = fetched
        if fetched.table.requires_grad:
            self.held.append(fetched)

    @property
    def num_rows(self) -> int:
        """The number of rows in all processes."""
        return self.num_nodes + 1

    def forward(self, nodes: Tensor) -> Tensor:
        """Node numbers [...] -> z^(0) [..., K]."""
        fetched = self.fetched or self.fetch([nodes])
        at = torch.searchsorted(fetched.nodes, nodes)
        return self.look_up(torch.where(nodes >= 0, at, -1), fetched)

    @torch.no_grad()
    def fetch(self, nodes: list[Tensor]) -> FetchedRows:
        """The rows of nodes, from all processes."""
        world, device = distributed.world_size(), self.table.device
        parts = [torch.tensor([self.num_nodes]), *nodes]
        flat = torch.cat([part.to(device).flatten() for part in parts])
        needed = flat[flat >= 0].unique()
        owner = needed % world
        order = owner.argsort(stable=True)
        asked, ones = owner.bincount(minlength=world), [1] * world
        both = torch.stack([asked, distributed.exchange(asked, ones, ones)])
        counts, given_counts = both.tolist()
        given = distributed.exchange(needed[order], counts, given_counts) // world
        columns = [tensor[given].view(len(given), -1).to(self.table) for tensor in self._tensors()]
        rows = distributed.exchange(torch.cat(columns, 1), given_counts, counts)
        rows = torch.empty_like(rows).index_copy_(0, order, rows)
        table, is_seen, keep, features = rows.split([part.size(1) for part in columns], 1)
        table = table.contiguous().requires_grad_(self.training and self.table.requires_grad)
        more = {"order": order, "counts": counts, "given": given, "given_counts": given_counts}
        return FetchedRows(needed, table, is_seen[:, 0] > 0, keep.flatten(), features, **more)

    @torch.no_grad()
    def return_gradients(self) -> None:
        """Send the gradients of fetched rows to their processes."""
        if not self.held:
            return
        rows, sums = zip(*map(self._return_gradient, self.held), strict=True)
        self.table.grad = torch.sparse_coo_tensor(
            torch.cat(rows)[None],
            torch.cat(sums) / distributed.world_size(),
            self.table.shape,
            check_invariants=False,
        )

    def _return_gradient(self, fetched: FetchedRows) -> tuple[Tensor, Tensor]:
        """The rows of this process that others used, and their gradients; rows may repeat."""
        width = self.table.size(1)
        sent = self.table.new_zeros(len(fetched.nodes), width + 1)  # last: whether it was used
        if fetched.table.grad is not None:
            grad = fetched.table.grad.coalesce()
            sent[grad.indices()[0]] = F.pad(grad.values(), (0, 1), value=1.0)
        got = distributed.exchange(sent[fetched.order], fetched.counts, fetched.given_counts)
        is_used = got[:, width] > 0
        return fetched.given[is_used], got[is_used, :width]

    @torch.no_grad()
    def set_table(self, vectors: Tensor | None) -> None:
        """Initialize with the vectors [N, K] of the main process, sent block by block."""
        if vectors is not None:
            self.check_table(vectors)
        for start, stop in _blocks(self.num_nodes, self.table[:1].nbytes):
            block = self.table.new_empty(stop - start, self.table.size(1))
            if vectors is not None:
                block.copy_(vectors[start:stop])
            copy_own_rows(self.table, distributed.broadcast_rows(block), start)

    @torch.no_grad()
    def set_rows(self, rows: Tensor) -> None:
        """Set the rows of this process, from the whole table [N + 1, K]."""
        copy_own_rows(self.table, rows, 0)

    def _tensors(self) -> list[Tensor]:
        """The tensors with a row per node: table, is_seen, keep and features; some may be empty."""
        none = self.table.detach()[:, :0]
        keep = self.keep if self.node_shrinkage else none
        return [self.table, self.is_seen, keep, none if self.feature_map is None else self.features]

    def _initial_table(self, width: int) -> Tensor:
        """The rows of this process of the table that a single process would start with."""
        std = math.sqrt(2 / (self.num_nodes + width))  # of xavier_normal_
        table = torch.zeros(num_own_rows(self.num_rows), width)
        for start, stop in _blocks(self.num_nodes, 4 * width):
            copy_own_rows(table, torch.empty(stop - start, width).normal_(0, std), start)
        return table

    def _copy_rows(self, target: Tensor, values: Tensor) -> None:
        copy_own_rows(target, values, 0)


def row_tensor_names(modules: nn.Module) -> dict[str, int]:
    """The names of the tensors of sharded tables, with the number of rows in all processes."""
    return {
        f"{name}.{part}": lookup.num_rows
        for name, lookup in find_sharded(modules).items()
        for part in ("table", "is_seen", "keep", "features")
    }


def num_own_rows(num_rows: int) -> int:
    """How many of the rows of a table belong to this process."""
    return len(range(distributed.rank(), num_rows, distributed.world_size()))


def copy_own_rows(target: Tensor, block: Tensor, start: int) -> None:
    """Copy what belongs to this process of a table's rows from `start` on."""
    world = distributed.world_size()
    first = (distributed.rank() - start) % world
    own, at = block[first::world], (start + first) // world
    target[at : at + len(own)].copy_(own)


def read_own_rows(stored: Any) -> Tensor:
    """The rows of this process of a tensor in an open safetensors file (`get_slice`)."""
    num_rows, *rest = stored.get_shape()
    first: Tensor = stored[:1]
    own = first.new_empty(num_own_rows(num_rows), *rest)
    for start, stop in _blocks(num_rows, first.nbytes):
        copy_own_rows(own, stored[start:stop], start)
    return own


def gather_state(state: Any, rows: Mapping[str, int], folder: Path, name: str = "") -> Any:
    """A nested state with all rows of the sharded tensors `rows`, in the main process only.

    They are gathered block by block in files that are mapped into memory, so that the system can
    write them out. The files are in `folder`, have no name, and vanish with the tensors.
    """
    if isinstance(state, Tensor):
        return _gather_rows(state, rows[name], folder) if name in rows else state
    if isinstance(state, dict):
        return {k: gather_state(v, rows, folder, f"{name}/{k}") for k, v in state.items()}
    if isinstance(state, list):
        return [gather_state(v, rows, folder, f"{name}/{i}") for i, v in enumerate(state)]
    return state


def _gather_rows(own: Tensor, num_rows: int, folder: Path) -> Tensor:
    world, rest = distributed.world_size(), list(own.shape[1:])
    most = math.ceil(num_rows / world)  # rows of a process
    rows = own[:0]
    if distributed.is_main():
        rows = _map_file(folder, [most * world, *rest], own.dtype)
    for start, stop in _blocks(most, world * own[:1].nbytes):
        block, part = own.new_zeros(stop - start, *rest), own[start:stop]
        block[: len(part)] = part
        for number, received in enumerate(distributed.gather_on_main(block)):
            rows[start * world + number : stop * world : world] = received.cpu()
    return rows[:num_rows]


def _map_file(folder: Path, shape: list[int], dtype: torch.dtype) -> Tensor:
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.truncate(math.prod(shape) * dtype.itemsize)
        flat = torch.from_file(file.name, shared=True, size=math.prod(shape), dtype=dtype)
    return flat.view(shape)


def _blocks(num_rows: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """The first row and the end of each block; a multiple of 16 rows, as `normal_` draws them."""
    size = max(1, BLOCK_BYTES // row_bytes // 16) * 16
    return ((start, min(start + size, num_rows)) for start in range(0, num_rows, size))
