"""What stands between a layer's matrix products, in fewer passes over memory on a GPU.

Elsewhere, and wherever a module is not the plain one, the same is written in plain torch.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.nn.short import has_kernels

WIDEST = 4096  # rows that one program holds whole
_MOST_PLACES = 2**32  # of a matrix, each with a random number of its own


def add_norm(x: Tensor, linear: nn.Linear, rows: Tensor, norm: nn.Module, dropout: float) -> Tensor:
    """norm(rows + drop(linear(x))): [R, F] and [R, D] -> [R, D]; `dropout` 0 drops nothing."""
    if not isinstance(norm, nn.LayerNorm) or _is_hindered(x, linear, norm):
        mixed = linear(x)
        # Norms compute in float32; between layers rows have the precision of the products.
        return cast(Tensor, norm(rows + F.dropout(mixed, dropout)).to(mixed.dtype))
    apply: Any = _AddNorm.apply
    rest = (linear.bias, rows.contiguous(), norm.weight, norm.bias, norm.eps, dropout)
    return cast(Tensor, apply(F.linear(x, linear.weight), *rest))


def linear_gelu(x: Tensor, linear: nn.Linear) -> Tensor:
    """gelu(linear(x)): [R, D] -> [R, F]."""
    if linear.bias is None or _is_hindered(x, linear, None):
        return F.gelu(linear(x))
    apply: Any = _Gelu.apply
    return cast(Tensor, apply(F.linear(x, linear.weight), linear.bias))


def _is_hindered(x: Tensor, linear: nn.Module, norm: nn.LayerNorm | None) -> bool:
    """Whether the kernels cannot stand for these modules here."""
    if not x.is_cuda or torch.compiler.is_compiling() or type(linear) is not nn.Linear:
        return True
    if norm is not None and getattr(norm, "bias", None) is None:
        return True
    is_auto = torch.is_autocast_enabled("cuda")
    dtype = torch.get_autocast_dtype("cuda") if is_auto else x.dtype
    if dtype not in (torch.bfloat16, torch.float16) or x.dim() != 2 or not len(x):
        return True
    if linear.out_features > WIDEST or x.size(0) * linear.out_features >= _MOST_PLACES:
        return True
    return not has_kernels(x.device)


class _AddNorm(torch.autograd.Function):
    """norm(rows + drop(mixed + bias)), each way in one pass."""

    @staticmethod
    def forward(
        ctx: Any,
        mixed: Tensor,
        bias: Tensor | None,
        rows: Tensor,
        weight: Tensor,
        shift: Tensor,
        eps: float,
        dropout: float,
    ) -> Tensor:
        from edgeformers.nn.fused_kernels import launch_add_norm

        seed = None
        if dropout > 0.0:
            seed = torch.empty(1, dtype=torch.int64, device=mixed.device).random_()
        keep = any(ctx.needs_input_grad)
        out, kept = launch_add_norm(
            mixed, bias, rows, (weight, shift, eps), (seed, dropout), keep=keep
        )
        ctx.save_for_backward(*kept, weight, seed)
        ctx.has_bias, ctx.dropout, ctx.rows_dtype = bias is not None, dropout, rows.dtype
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from edgeformers.nn.fused_kernels import launch_add_norm_backward

        *kept, weight, seed = ctx.saved_tensors
        drop = (seed, ctx.dropout)
        dmixed, drows, (dweight, dshift, dbias) = launch_add_norm_backward(
            grad.contiguous(), tuple(kept), weight, drop, ctx.rows_dtype
        )
        return dmixed, dbias if ctx.has_bias else None, drows, dweight, dshift, None, None


class _Gelu(torch.autograd.Function):
    """gelu(inner + bias), each way in one pass."""

    @staticmethod
    def forward(ctx: Any, inner: Tensor, bias: Tensor) -> Tensor:
        from edgeformers.nn.fused_kernels import launch_gelu

        ctx.save_for_backward(inner, bias)
        return launch_gelu(inner, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        from edgeformers.nn.fused_kernels import launch_gelu_backward

        return launch_gelu_backward(grad.contiguous(), *ctx.saved_tensors)
