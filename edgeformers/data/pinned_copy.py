"""Copying many small tensors to a GPU at once, as one buffer of bytes in pinned memory."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor


def concat_bytes(tensors: Sequence[Tensor], *, pin: bool = False) -> Tensor:
    """The bytes of CPU tensors in one buffer, widest types first, so that each is aligned."""
    arrays = [tensors[i].contiguous().numpy().reshape(-1) for i in _order(tensors)]
    parts = [array.view(np.uint8) for array in arrays]
    buffer = torch.empty(sum(map(len, parts)), dtype=torch.uint8, pin_memory=pin)
    if parts:
        np.concatenate(parts, out=buffer.numpy())
    return buffer


def split_bytes(buffer: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The inverse of `concat_bytes`, on any device: views with the shapes and types of `like`."""
    views: list[Tensor] = [buffer] * len(like)
    start, order = 0, _order(like)
    for dtype in dict.fromkeys(like[i].dtype for i in order):
        indices = [i for i in order if like[i].dtype == dtype]
        counts = [like[i].numel() for i in indices]
        stop = start + sum(counts) * dtype.itemsize
        parts = buffer[start:stop].view(dtype).split(counts)
        for i, part in zip(indices, parts, strict=True):
            views[i] = part if like[i].ndim == 1 else part.view(like[i].shape)
        start = stop
    return views


def move(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """CPU tensors on another device, by one asynchronous copy."""
    if device.type == "cpu":
        return list(tensors)
    return split_bytes(concat_bytes(tensors, pin=True).to(device, non_blocking=True), tensors)


def _order(tensors: Sequence[Tensor]) -> list[int]:
    """Indices of the tensors sorted by type, widest first."""
    return sorted(range(len(tensors)), key=lambda i: _rank(tensors[i].dtype))


@cache
def _rank(dtype: torch.dtype) -> tuple[int, str]:
    return -dtype.itemsize, str(dtype)
