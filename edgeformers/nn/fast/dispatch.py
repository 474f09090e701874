"""Conditions under which each fast path applies, and the switch that turns them all off."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

MAX_SHORT_TOKENS = 128  # per text, in the attention kernels
MAX_VIRTUAL_TOKENS = 16  # per text, in the attention kernels
MAX_WIDTH = 4096  # the fused kernels keep a whole row in registers
MAX_ELEMENTS = 2**32  # the dropout of the fused kernels numbers elements with 32 bits
_HEAD_WIDTHS = (16, 32, 64, 128)
_HALF = (torch.bfloat16, torch.float16)

_enabled = os.environ.get("EDGEFORMERS_FAST", "1") != "0"


@contextmanager
def fast_paths(enabled: bool) -> Iterator[None]:
    """Turn all fast paths on or off within a `with` block, for all threads."""
    global _enabled
    before, _enabled = _enabled, enabled
    try:
        yield
    finally:
        _enabled = before


def is_enabled() -> bool:
    """Whether fast paths may be used."""
    return _enabled


def has_triton(device: torch.device) -> bool:
    """Whether the Triton kernels are enabled and run on this GPU."""
    return _enabled and _supports_triton(device)


@cache
def _supports_triton(device: torch.device) -> bool:
    return find_spec("triton") is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def compute_dtype(x: Tensor) -> torch.dtype:
    """The precision of matrix products with x: that of autocast, or its own."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def short_attention_obstacle(
    device: torch.device, dtype: torch.dtype, head_width: int, max_length: int, num_virtual: int
) -> str:
    """Why the kernels of `short_attention` cannot be used; empty if they can."""
    if device.type != "cuda" or dtype not in _HALF or torch.compiler.is_compiling():
        return f"needs CUDA and bfloat16 or float16, without compiler (got {device.type}, {dtype})"
    if head_width not in _HEAD_WIDTHS:
        return f"needs a head width of {', '.join(map(str, _HEAD_WIDTHS))} (got {head_width})"
    if max_length > MAX_SHORT_TOKENS or num_virtual > MAX_VIRTUAL_TOKENS:
        return f"needs texts of at most {MAX_SHORT_TOKENS} tokens (got {max_length})"
    if not has_triton(device):
        return "needs Triton, a GPU of compute capability 8.0 or later, and EDGEFORMERS_FAST=1"
    return ""


def varlen_attention_obstacle(q: Tensor, window: int | None, beyond_text: bool) -> str:
    """Why variable-length flash attention cannot be used; empty if it can.

    `beyond_text`: there are virtual tokens or readout rows, which a window would not handle.
    """
    if not q.is_cuda or q.dtype not in _HALF:
        return f"needs CUDA and bfloat16 or float16 (got {q.device.type}, {q.dtype})"
    if q.size(-1) % 8 or q.size(-1) > 256:
        return f"needs a head width that is a multiple of 8, at most 256 (got {q.size(-1)})"
    if not _enabled or torch.cuda.get_device_capability(q.device) < (8, 0):
        return "needs a GPU of compute capability 8.0 or later, and EDGEFORMERS_FAST=1"
    if window is not None and beyond_text:
        return "does not support virtual tokens with a window shorter than the text"
    return ""


def can_fuse_linear(x: Tensor, linear: nn.Module, norm: nn.Module) -> bool:
    """Whether `fused_ops` can compute linear(x) and a norm after it."""
    if not x.is_cuda or torch.compiler.is_compiling() or type(linear) is not nn.Linear:
        return False
    if not isinstance(norm, nn.LayerNorm) or getattr(norm, "bias", None) is None:
        return False
    if compute_dtype(x) not in _HALF or x.dim() != 2 or not len(x):
        return False
    return _fits(len(x), linear.out_features) and has_triton(x.device)


def can_fuse_embedding(ids: Tensor, tables: list[nn.Embedding], norm: nn.Module) -> bool:
    """Whether `fused_ops` can look up and normalize these tables; token ids come first."""
    if not ids.is_cuda or torch.compiler.is_compiling() or not len(ids):
        return False
    if type(norm) is not nn.LayerNorm or not all(map(_is_plain_embedding, tables)):
        return False
    if compute_dtype(tables[0].weight) not in _HALF:
        return False
    return _fits(len(ids), tables[0].embedding_dim) and has_triton(ids.device)


def can_use_onednn(maps: list[nn.Module]) -> bool:
    """Whether `onednn_layers` can compute these linear maps."""
    if not _enabled or not torch.backends.mkldnn.is_available():
        return False
    weights = [part.weight for part in maps if type(part) is nn.Linear]
    kinds = {(weight.device.type, weight.dtype) for weight in weights}
    return len(weights) == len(maps) and kinds == {("cpu", torch.float32)}


def _fits(rows: int, width: int) -> bool:
    return width <= MAX_WIDTH and rows * width < MAX_ELEMENTS


def _is_plain_embedding(table: nn.Module) -> bool:
    """Whether a table is a float32 lookup with dense gradients and no special rows."""
    if type(table) is not nn.Embedding or table.weight.dtype != torch.float32:
        return False
    special = (table.sparse, table.scale_grad_by_freq, table.max_norm, table.padding_idx)
    return special == (False, False, None, None) and table.weight.is_contiguous()
