"""Distributed training: the only module that deals with ranks.

All processes must call each function at the same point of the program. If a process fails,
`torchrun` ends the others.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from edgeformers import locks
from edgeformers.data.random import hash_keys

Item = TypeVar("Item", bound=Sequence[Any] | NDArray[Any])

#: How long a process waits for another: the main process may tokenize a network for hours.
TIMEOUT = timedelta(hours=12)
_NO_GRAD, _DENSE, _SPARSE = 0, 1, 2


def initialize() -> None:
    """Join the process group if `torchrun` started this process."""
    launched = {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()
    if not launched or dist.is_initialized():
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    store, own_rank, size = next(rendezvous("env://"))
    dist.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo",
        store=dist.PrefixStore(_attempt(), store),  # type: ignore[attr-defined]
        rank=own_rank,
        world_size=size,
        timeout=TIMEOUT,
    )


def rank() -> int:
    """The rank of this process; 0 in a single process."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this is the main process, which writes files and shows progress."""
    return rank() == 0


def barrier() -> None:
    """Wait for all processes."""
    if dist.is_initialized():
        dist.barrier()


@contextmanager
def locked_output(out: Path, *, folder: bool = False) -> Iterator[None]:
    """Let the main process hold the lock of an output, for all processes of the group."""
    with locks.single_writer(out, folder=folder) if is_main() else nullcontext():
        yield


@contextmanager
def main_first() -> Iterator[None]:
    """Run a block in the main process first, so that the others find its results."""
    if not is_main():
        barrier()
    try:
        yield
    finally:
        if is_main():
            barrier()


def run_on_main(action: Callable[[], Any]) -> None:
    """Run a function in the main process while the others wait."""
    if is_main():
        action()
    barrier()


def shard(items: Item) -> Item:
    """The items of a batch for this process; each item goes to exactly one process."""
    return items[rank() :: world_size()]  # type: ignore[return-value]


def step_seed(seed: int, step: int) -> int:
    """The random seed of a step, different in every process."""
    return int(hash_keys(seed, 0x57E9, step, rank())) >> 1


def all_sum(value: float) -> float:
    """The sum of a value over all processes."""
    if world_size() == 1:
        return value
    total = torch.tensor([value], dtype=torch.float64, device=_device())
    dist.all_reduce(total)
    return float(total)


def all_mean(value: float) -> float:
    """The mean of a value over all processes."""
    return all_sum(value) / world_size()


def average_gradients(modules: nn.Module) -> None:
    """Average gradients over all processes; sparse gradients are exchanged as rows.

    A missing gradient counts as zero if another process has one, and stays missing otherwise. The
    gradients of sharded node tables are left as they are.
    """
    if world_size() == 1:
        return
    sharded = {id(m.table) for m in modules.modules() if getattr(m, "is_sharded", False)}
    trained = [p for p in modules.parameters() if p.requires_grad and id(p) not in sharded]
    grads = [parameter.grad for parameter in trained]
    own = [_NO_GRAD if grad is None else _SPARSE if grad.is_sparse else _DENSE for grad in grads]
    kinds = torch.tensor(own, device=_device())
    dist.all_reduce(kinds, dist.ReduceOp.MAX)  # the kind of gradient in any of the processes
    dense: list[Tensor] = []
    for parameter, kind in zip(trained, kinds.tolist(), strict=True):
        if kind == _SPARSE:
            parameter.grad = _average_sparse(parameter)
        elif kind == _DENSE:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dense.append(parameter.grad)
    if dense:
        flat = torch.cat([grad.flatten() for grad in dense])
        dist.all_reduce(flat)
        flat /= world_size()
        for grad, part in zip(dense, flat.split([grad.numel() for grad in dense]), strict=True):
            grad.copy_(part.view_as(grad))


def gather_rows(rows: Tensor) -> list[Tensor]:
    """The rows of each process [n_r, ...]; gradients flow back to the process of each row."""
    return [rows] if world_size() == 1 else list(_GatherRows.apply(rows))


def exchange(rows: Tensor, counts: Sequence[int], expected: Sequence[int]) -> Tensor:
    """Send `counts[r]` consecutive rows to each process r; receive `expected[r]` rows from it."""
    received = rows.new_empty(sum(expected), *rows.shape[1:])
    dist.all_to_all_single(received, rows.contiguous(), list(expected), list(counts))
    return received


def gather_on_main(rows: Tensor) -> list[Tensor]:
    """The rows of each process in the main process, equally many of each; otherwise nothing."""
    rows = rows.to(_device()).contiguous()
    parts = [torch.empty_like(rows) for _ in range(world_size())] if is_main() else []
    dist.gather(rows, parts or None)
    return parts


def broadcast_rows(rows: Tensor) -> Tensor:
    """The rows of the main process; those of the others only have the same shape and type."""
    received = rows.to(_device()).contiguous()
    dist.broadcast(received, 0)
    return received.to(rows.device)


def gather_shards(values: Sequence[NDArray[Any]], empty: NDArray[Any]) -> list[NDArray[Any]]:
    """The results of all processes for the items of their `shard`, in the order of the items.

    Results are arrays with rows like those of `empty`, which is used by processes without items.
    """
    if world_size() == 1:
        return list(values)
    device = _device()
    rows = np.concatenate([empty[:0], *values])
    sizes = torch.tensor([len(value) for value in values], dtype=torch.long, device=device)
    all_rows = _gather(torch.from_numpy(rows).to(device))
    all_sizes = _gather(sizes)
    parts = [
        np.split(r.cpu().numpy(), np.cumsum(n.cpu().numpy())[:-1]) if len(n) else []
        for r, n in zip(all_rows, all_sizes, strict=True)
    ]
    count = sum(map(len, parts))
    return [parts[i % len(parts)][i // len(parts)] for i in range(count)]


def broadcast(value: Any) -> Any:
    """The value of the main process, which must be serializable as JSON."""
    if world_size() == 1:
        return value
    encoded = list(json.dumps(value).encode()) if is_main() else []
    received = _gather(torch.tensor(encoded, dtype=torch.uint8, device=_device()))[0]
    return json.loads(bytes(received.cpu().numpy()))


class _GatherRows(torch.autograd.Function):
    """Rows of all processes; the gradient of a row is the sum over all processes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> tuple[Tensor, ...]:
        parts = _gather(rows)
        ctx.sizes = [len(part) for part in parts]
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = torch.cat(grads).contiguous()
        dist.all_reduce(total)
        parts: tuple[Tensor, ...] = total.split(ctx.sizes)
        return parts[rank()]


def _gather(rows: Tensor) -> list[Tensor]:
    """The rows of each process, whose number may differ."""
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(world_size())]
    dist.all_gather(counts, count)
    sizes = [int(size) for size in counts]
    padded = rows.new_zeros(max(sizes), *rows.shape[1:])
    padded[: len(rows)] = rows.detach()
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return [part[:size] for part, size in zip(parts, sizes, strict=True)]


def _average_sparse(parameter: nn.Parameter) -> Tensor:
    shape = parameter.shape
    if parameter.grad is None:
        indices = torch.empty(0, dtype=torch.long, device=parameter.device)
        values = parameter.detach().new_empty(0, *shape[1:])
    else:
        grad = parameter.grad.coalesce()
        indices, values = grad.indices()[0], grad.values()
    rows = torch.cat(_gather(indices))
    sums = torch.cat(_gather(values)) / world_size()
    return torch.sparse_coo_tensor(rows[None], sums, shape, check_invariants=False).coalesce()


def _attempt() -> str:
    """A prefix of the keys by which processes find each other, different after each restart.

    `torchrun` keeps its key-value store when it restarts processes (seen in torch 2.13), and those
    that read the addresses of killed processes wait for them forever. On several machines, which
    count restarts separately, TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 gives each restart a new store.
    """
    is_one_machine = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if is_one_machine else "0"


def _device() -> torch.device:
    on_gpu = dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
