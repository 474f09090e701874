"""Several processes as one: everything that knows of ranks is here.

Every function is called by all processes at the same place of the program. A process that fails
takes the others with it: its connections break, and `torchrun` ends the rest.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers.data.random import hash_keys

Item = TypeVar("Item", bound=Sequence[Any] | NDArray[Any])

_NO_GRAD, _DENSE, _SPARSE = 0, 1, 2


def initialize() -> None:
    """Join the processes that `torchrun` started; alone where there are none."""
    launched = {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()
    if launched and not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


def rank() -> int:
    """The number of this process, 0 when alone."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this process writes files and shows progress."""
    return rank() == 0


def barrier() -> None:
    """Wait for all processes."""
    if dist.is_initialized():
        dist.barrier()


@contextmanager
def main_first() -> Iterator[None]:
    """What all processes do, the main one before the others: they find what it has made."""
    if not is_main():
        barrier()
    try:
        yield
    finally:
        if is_main():
            barrier()


def run_on_main(action: Callable[[], Any]) -> None:
    """What the main process does while the others wait for it to be done."""
    if is_main():
        action()
    barrier()


def shard(items: Item) -> Item:
    """The share of a batch that this process has: every item goes to exactly one."""
    return items[rank() :: world_size()]  # type: ignore[return-value]


def step_seed(seed: int, step: int) -> int:
    """A seed for what is random in one step: of its own in every process, the same every time."""
    return int(hash_keys(seed, 0x57E9, step, rank())) >> 1


def all_sum(value: float) -> float:
    """The sum of all processes' values, in every process."""
    if world_size() == 1:
        return value
    box = torch.tensor([value], dtype=torch.float64, device=_device())
    dist.all_reduce(box)
    return float(box)


def all_mean(value: float) -> float:
    """The mean of all processes' values, in every process."""
    return all_sum(value) / world_size()


def average_gradients(modules: nn.Module) -> None:
    """The mean of all processes' gradients, in every process; sparse ones by touched rows.

    A parameter without a gradient in some processes counts as zero there; one without any
    anywhere is left alone, as it is when there is one process.
    """
    if world_size() == 1:
        return
    learned = [parameter for parameter in modules.parameters() if parameter.requires_grad]
    dense: list[Tensor] = []
    for parameter, kind in zip(learned, _gradient_kinds(learned), strict=True):
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
    """The rows of each process [n_r, ...], gradients flowing back to where each came from."""
    return [rows] if world_size() == 1 else list(_GatherRows.apply(rows))


def gather_shards(values: Sequence[NDArray[Any]], empty: NDArray[Any]) -> list[NDArray[Any]]:
    """What every process made of each item of its `shard`, as it would be of the whole list.

    All are arrays of rows like those of `empty`, which stands for a process without any item.
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
    """The main process's value, of what JSON can hold, in every process."""
    if world_size() == 1:
        return value
    written = list(json.dumps(value).encode()) if is_main() else []
    sent = _gather(torch.tensor(written, dtype=torch.uint8, device=_device()))[0]
    return json.loads(bytes(sent.cpu().numpy()))


class _GatherRows(torch.autograd.Function):
    """Rows of all processes; what flows back to a row is the sum over all that read it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> tuple[Tensor, ...]:
        parts = _gather(rows)
        ctx.sizes = [len(part) for part in parts]
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        whole = torch.cat(grads).contiguous()
        dist.all_reduce(whole)
        parts: tuple[Tensor, ...] = whole.split(ctx.sizes)
        return parts[rank()]


def _gather(rows: Tensor) -> list[Tensor]:
    """The rows of every process in rank order; there may be more in one than in another."""
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(world_size())]
    dist.all_gather(counts, count)
    sizes = [int(one) for one in counts]
    padded = rows.new_zeros(max(sizes), *rows.shape[1:])
    padded[: len(rows)] = rows.detach()
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return [part[:size] for part, size in zip(parts, sizes, strict=True)]


def _gradient_kinds(parameters: list[nn.Parameter]) -> list[int]:
    """Of each parameter, what kind of gradient any process has for it."""
    kinds = [
        _NO_GRAD if p.grad is None else _SPARSE if p.grad.is_sparse else _DENSE for p in parameters
    ]
    agreed = torch.tensor(kinds, device=_device())
    dist.all_reduce(agreed, dist.ReduceOp.MAX)
    found: list[int] = agreed.tolist()
    return found


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


def _device() -> torch.device:
    """Where tensors must be for the processes to exchange them."""
    on_gpu = dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
