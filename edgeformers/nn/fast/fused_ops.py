"""What stands between a layer's matrix products, in fewer passes over memory on a GPU.

Elsewhere, and wherever a module is not the plain one, the same is written in plain torch.
"""

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.nn.fast.short_attention import has_kernels

WIDEST = 4096  # rows that one program holds whole
MOST_PLACES = 2**32  # of a matrix, each with a random number of its own


class _Settings(NamedTuple):
    """What is no tensor: the norm's epsilon, what share is dropped, whether there is a way back."""

    eps: float
    dropout: float
    keep: bool


def add_norm(x: Tensor, linear: nn.Linear, rows: Tensor, norm: nn.Module, dropout: float) -> Tensor:
    """norm(rows + drop(linear(x))): [R, F] and [R, D] -> [R, D]; `dropout` 0 drops nothing."""
    if not isinstance(norm, nn.LayerNorm) or _is_hindered(x, linear, norm):
        mixed = linear(x)
        # Norms compute in float32; between layers rows have the precision of the products.
        return cast(Tensor, norm(rows + F.dropout(mixed, dropout)).to(mixed.dtype))
    apply: Any = _AddNorm.apply
    settings = _Settings(norm.eps, dropout, torch.is_grad_enabled())
    rest = (linear.bias, rows.contiguous(), norm.weight, norm.bias, settings)
    return cast(Tensor, apply(F.linear(x, linear.weight), *rest))


def feed_forward_norm(
    rows: Tensor, up: nn.Linear, down: nn.Linear, norm: nn.Module, dropout: float
) -> Tensor:
    """norm(rows + drop(down(gelu(up(rows))))): [R, D] -> [R, D]; `dropout` 0 drops nothing."""
    if (
        not isinstance(norm, nn.LayerNorm)
        or _is_hindered(rows, up, norm)
        or _is_hindered(rows, down, norm)
        or up.bias is None
        or rows.dtype != product_dtype(rows)
    ):
        return add_norm(F.gelu(up(rows)), down, rows, norm, dropout)
    apply: Any = _FeedForwardNorm.apply
    settings = _Settings(norm.eps, dropout, torch.is_grad_enabled())
    maps = (up.weight, up.bias, down.weight, down.bias)
    return cast(Tensor, apply(rows.contiguous(), *maps, norm.weight, norm.bias, settings))


def _is_hindered(x: Tensor, linear: nn.Module, norm: nn.LayerNorm) -> bool:
    """Whether the kernels cannot stand for these modules here."""
    if not x.is_cuda or torch.compiler.is_compiling() or type(linear) is not nn.Linear:
        return True
    if getattr(norm, "bias", None) is None:
        return True
    dtype = product_dtype(x)
    if dtype not in (torch.bfloat16, torch.float16) or x.dim() != 2 or not len(x):
        return True
    if linear.out_features > WIDEST or x.size(0) * linear.out_features >= MOST_PLACES:
        return True
    return not has_kernels(x.device)


def product_dtype(x: Tensor) -> torch.dtype:
    """The precision in which x is multiplied here."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def draw_seed(dropout: float, device: torch.device) -> Tensor | None:
    """Of what is dropped, [1]; None where nothing is."""
    if dropout == 0.0:
        return None
    return torch.empty(1, dtype=torch.int64, device=device).random_()


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
        settings: _Settings,
    ) -> Tensor:
        from edgeformers.nn.fast.triton_ffn import launch_add_norm

        seed = draw_seed(settings.dropout, mixed.device)
        norm, drop = (weight, shift, settings.eps), (seed, settings.dropout)
        out, kept = launch_add_norm(mixed, bias, rows, norm, drop, keep=settings.keep)
        ctx.save_for_backward(*kept, weight, seed)
        ctx.has_bias, ctx.dropout, ctx.rows_dtype = bias is not None, settings.dropout, rows.dtype
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from edgeformers.nn.fast.triton_ffn import launch_add_norm_backward

        *kept, weight, seed = ctx.saved_tensors
        drop = (seed, ctx.dropout)
        dmixed, drows, (dweight, dshift, dbias) = launch_add_norm_backward(
            grad.contiguous(), tuple(kept), weight, drop, ctx.rows_dtype
        )
        return dmixed, dbias if ctx.has_bias else None, drows, dweight, dshift, None


class _FeedForwardNorm(torch.autograd.Function):
    """norm(rows + drop(down(gelu(up(rows))))), keeping what is before the activation, not after.

    The rows are read twice, by the first map and by the sum: the gradient of the one is added by
    the product that makes the gradient of the other.
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
        out, kept = launch_add_norm(mixed, down_bias, rows, norm, drop, keep=settings.keep)
        ctx.save_for_backward(rows, up, up_bias, inner, down, *kept, weight, seed)
        ctx.has_bias, ctx.dropout = down_bias is not None, settings.dropout
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from edgeformers.nn.fast.triton_ffn import launch_add_norm_backward, launch_gelu_backward

        rows, up, up_bias, inner, down, *kept, weight, seed = ctx.saved_tensors
        needs_rows, needs_up, _, needs_down, *_ = ctx.needs_input_grad
        drop = (seed, ctx.dropout)
        dmixed, drows, (dweight, dshift, dbias) = launch_add_norm_backward(
            grad.contiguous(), tuple(kept), weight, drop, rows.dtype
        )
        dinner, act, dup_bias = launch_gelu_backward(
            dmixed @ down, inner, up_bias, again=needs_down
        )
        ddown = None if act is None else dmixed.t() @ act  # [D, F]
        del dmixed, act  # before the next products: memory is scarcest here
        dup = dinner.t() @ rows if needs_up else None  # [F, D]
        dmaps = (dup, dup_bias, ddown, dbias if ctx.has_bias else None)
        return drows.addmm_(dinner, up) if needs_rows else None, *dmaps, dweight, dshift, None
