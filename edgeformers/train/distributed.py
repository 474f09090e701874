"""Several processes as one: everything that knows of ranks is here."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather as all_gather_with_grad


def start() -> None:
    """Join the processes that `torchrun` started; alone where there are none."""
    if "RANK" in os.environ and not dist.is_initialized():
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


def shard(ids: NDArray[Any]) -> NDArray[Any]:
    """The share of a batch that this process has: every example goes to exactly one."""
    return ids[rank() :: world_size()]


def average_gradients(modules: nn.Module) -> None:
    """The mean of all processes' gradients, in every process; sparse ones by touched rows."""
    if world_size() == 1:
        return
    dense: list[Tensor] = []
    for parameter in modules.parameters():
        if not parameter.requires_grad:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad.is_sparse:
            parameter.grad = _average_sparse(parameter.grad)
        else:
            dense.append(parameter.grad)
    if dense:
        flat = torch.cat([grad.flatten() for grad in dense])
        dist.all_reduce(flat)
        flat /= world_size()
        for grad, part in zip(dense, flat.split([grad.numel() for grad in dense]), strict=True):
            grad.copy_(part.view_as(grad))


def gather_rows(rows: Tensor) -> Tensor:
    """Rows of all processes in rank order, gradients flowing back to where each came from.

    The processes must hold equally many rows.
    """
    if world_size() == 1:
        return rows
    return torch.cat(list(all_gather_with_grad(rows.contiguous())))


def gather_arrays(values: NDArray[Any]) -> NDArray[Any]:
    """Arrays of all processes joined in rank order; their lengths may differ."""
    if world_size() == 1:
        return values
    return np.concatenate(gather_objects(values))


def gather_objects(value: Any) -> list[Any]:
    """One object from every process, in rank order, in every process."""
    found: list[Any] = [None] * world_size()
    dist.all_gather_object(found, value)
    return found


def interleave(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Undo `shard`: rows of each process, strided, back in their first order."""
    pieces = list(parts)
    total = sum(map(len, pieces))
    whole = np.empty((total, *pieces[0].shape[1:]), pieces[0].dtype)
    for start_at, piece in enumerate(pieces):
        whole[start_at :: len(pieces)] = piece
    return whole


def gather_sharded(values: NDArray[Any]) -> NDArray[Any]:
    """What every process computed for its `shard`, whole and in order, in every process."""
    return values if world_size() == 1 else interleave(gather_objects(values))


def from_main(value: Any) -> Any:
    """The main process's value, in every process."""
    if world_size() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def _average_sparse(grad: Tensor) -> Tensor:
    grad = grad.coalesce()
    indices, values = grad.indices(), grad.values()
    count = torch.tensor([indices.size(1)], device=grad.device)
    counts = [torch.zeros_like(count) for _ in range(world_size())]
    dist.all_gather(counts, count)
    longest = int(torch.stack(counts).max())
    padded_indices = indices.new_zeros(longest)
    padded_values = values.new_zeros(longest, values.size(1))
    padded_indices[: indices.size(1)] = indices[0]
    padded_values[: indices.size(1)] = values
    all_indices = [torch.empty_like(padded_indices) for _ in counts]
    all_values = [torch.empty_like(padded_values) for _ in counts]
    dist.all_gather(all_indices, padded_indices)
    dist.all_gather(all_values, padded_values)
    kept = [int(c) for c in counts]
    rows = torch.cat([i[:n] for i, n in zip(all_indices, kept, strict=True)])
    sums = torch.cat([v[:n] for v, n in zip(all_values, kept, strict=True)]) / world_size()
    return torch.sparse_coo_tensor(rows[None], sums, grad.shape).coalesce()
