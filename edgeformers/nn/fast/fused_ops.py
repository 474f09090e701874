"""Fused operations between the matrix products of a layer, as autograd functions.

On a GPU they run as Triton kernels with fewer passes over memory; otherwise as plain PyTorch.
"""

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.nn.fast.dispatch import can_fuse_linear, compute_dtype


class _Settings(NamedTuple):
    """Arguments that are not tensors."""

    eps: float
    dropout: float
    save: bool  # whether there will be a backward pass


def linear_add_norm(
    x: Tensor, linear: nn.Linear, rows: Tensor, norm: nn.Module, dropout: float
) -> Tensor:
    """norm(rows + dropout(linear(x))): [R, F] and [R, D] -> [R, D]."""
    if not can_fuse_linear(x, linear, norm):
        mixed = linear(x)
        # Norms compute in float32; rows between layers have the precision of matrix products.
        return cast(Tensor, norm(rows + F.dropout(mixed, dropout)).to(mixed.dtype))
    norm = cast(nn.LayerNorm, norm)
    apply: Any = _AddNorm.apply
    settings = _Settings(norm.eps, dropout, torch.is_grad_enabled())
    rest = (linear.bias, rows.contiguous(), norm.weight, norm.bias, settings)
    return cast(Tensor, apply(F.linear(x, linear.weight), *rest))


def feed_forward_norm(
    rows: Tensor, up: nn.Linear, down: nn.Linear, norm: nn.Module, dropout: float
) -> Tensor:
    """norm(rows + dropout(down(gelu(up(rows))))): [R, D] -> [R, D]."""
    if (
        not can_fuse_linear(rows, up, norm)
        or not can_fuse_linear(rows, down, norm)
        or up.bias is None
        or rows.dtype != compute_dtype(rows)
    ):
        return linear_add_norm(F.gelu(up(rows)), down, rows, norm, dropout)
    norm = cast(nn.LayerNorm, norm)
    apply: Any = _FeedForwardNorm.apply
    settings = _Settings(norm.eps, dropout, torch.is_grad_enabled())
    maps = (up.weight, up.bias, down.weight, down.bias)
    return cast(Tensor, apply(rows.contiguous(), *maps, norm.weight, norm.bias, settings))


def draw_seed(dropout: float, device: torch.device) -> Tensor | None:
    """A random seed [1] for a dropout mask; None without dropout."""
    if dropout == 0.0:
        return None
    return torch.empty(1, dtype=torch.int64, device=device).random_()


class _AddNorm(torch.autograd.Function):
    """norm(rows + dropout(mixed + bias)), in one pass over memory per direction."""

    @staticmethod
    def forward(
        ctx: Any,
        mixed: Tensor,
        bias: Tensor | None,
        rows: Tensor,
        weight: Tensor,
        shift: Tensor,
        settings: _Settings,
    ) -> Tensor:
        from edgeformers.nn.fast.triton_ffn import launch_add_norm

        seed = draw_seed(settings.dropout, mixed.device)
        norm, drop = (weight, shift, settings.eps), (seed, settings.dropout)
        out, saved = launch_add_norm(mixed, bias, rows, norm, drop, save=settings.save)
        ctx.save_for_backward(*saved, weight, seed)
        ctx.has_bias, ctx.dropout, ctx.rows_dtype = bias is not None, settings.dropout, rows.dtype
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from edgeformers.nn.fast.triton_ffn import launch_add_norm_backward

        *saved, weight, seed = ctx.saved_tensors
        drop = (seed, ctx.dropout)
        dmixed, drows, (dweight, dshift, dbias) = launch_add_norm_backward(
            grad.contiguous(), tuple(saved), weight, drop, ctx.rows_dtype
        )
        return dmixed, dbias if ctx.has_bias else None, drows, dweight, dshift, None


class _FeedForwardNorm(torch.autograd.Function):
    """norm(rows + dropout(down(gelu(up(rows))))), saving the input of GELU but not its output.

    The rows enter the first map and the residual sum; one `addmm_` adds their two gradients.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        up: Tensor,
        up_bias: Tensor,
        down: Tensor,
        down_bias: Tensor | None,
        weight: Tensor,
        shift: Tensor,
        settings: _Settings,
    ) -> Tensor:
        from edgeformers.nn.fast.triton_ffn import launch_add_norm, launch_gelu

        up, down = up.to(rows.dtype), down.to(rows.dtype)
        inner = F.linear(rows, up)  # [R, F]
        mixed = F.linear(launch_gelu(inner, up_bias), down)  # [R, D]
        seed = draw_seed(settings.dropout, rows.device)
        norm, drop = (weight, shift, settings.eps), (seed, settings.dropout)
        out, saved = launch_add_norm(mixed, down_bias, rows, norm, drop, save=settings.save)
        ctx.save_for_backward(rows, up, up_bias, inner, down, *saved, weight, seed)
        ctx.has_bias, ctx.dropout = down_bias is not None, settings.dropout
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from edgeformers.nn.fast.triton_ffn import launch_add_norm_backward, launch_gelu_backward

        rows, up, up_bias, inner, down, *saved, weight, seed = ctx.saved_tensors
        needs_rows, needs_up, _, needs_down, *_ = ctx.needs_input_grad
        drop = (seed, ctx.dropout)
        dmixed, drows, (dweight, dshift, dbias) = launch_add_norm_backward(
            grad.contiguous(), tuple(saved), weight, drop, rows.dtype
        )
        dinner, act, dup_bias = launch_gelu_backward(
            dmixed @ down, inner, up_bias, recompute=needs_down
        )
        ddown = None if act is None else dmixed.t() @ act  # [D, F]
        del dmixed, act  # free memory before the next products
        dup = dinner.t() @ rows if needs_up else None  # [F, D]
        dmaps = (dup, dup_bias, ddown, dbias if ctx.has_bias else None)
        return drows.addmm_(dinner, up) if needs_rows else None, *dmaps, dweight, dshift, None
