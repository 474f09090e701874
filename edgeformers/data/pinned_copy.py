"""Many small tensors side by side in one, so that they are pinned and copied to a GPU at once."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor


def flatten(tensors: Sequence[Tensor], *, pin: bool = False) -> Tensor:
    """The bytes of tensors on the host in one row, wide types first: each lies where it may."""
    rows = [tensors[at].contiguous().numpy().reshape(-1) for at in _order(tensors)]
    parts = [row.view(np.uint8) for row in rows]
    flat = torch.empty(sum(map(len, parts)), dtype=torch.uint8, pin_memory=pin)
    if parts:
        np.concatenate(parts, out=flat.numpy())
    return flat


def unflatten(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Views of `flatten`'s row, wherever it is by now, as tensors of the shapes it was made of."""
    found: list[Tensor] = [flat] * len(like)
    start, order = 0, _order(like)
    for dtype in dict.fromkeys(like[at].dtype for at in order):
        places = [at for at in order if like[at].dtype == dtype]
        counts = [like[at].numel() for at in places]
        stop = start + sum(counts) * dtype.itemsize
        parts = flat[start:stop].view(dtype).split(counts)
        for at, part in zip(places, parts, strict=True):
            found[at] = part if like[at].ndim == 1 else part.view(like[at].shape)
        start = stop
    return found


def move(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Tensors of the host on a device, at one copy that nobody waits for."""
    if device.type == "cpu":
        return list(tensors)
    return unflatten(flatten(tensors, pin=True).to(device, non_blocking=True), tensors)


def _order(tensors: Sequence[Tensor]) -> list[int]:
    """Places of tensors by the width of their type, widest first, types together."""
    return sorted(range(len(tensors)), key=lambda at: _rank(tensors[at].dtype))


@cache
def _rank(dtype: torch.dtype) -> tuple[int, str]:
    return -dtype.itemsize, str(dtype)
