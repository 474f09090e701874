"""Fused embeddings and operations between the matrix products of a layer, as autograd functions.

On a GPU they run as Triton kernels with fewer passes over memory; otherwise as plain PyTorch.
"""

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.nn.fast.dispatch import can_fuse_embedding, can_fuse_linear, compute_dtype


class Tables(NamedTuple):
    """Embedding tables; every token has type 0."""

    tokens: nn.Embedding
    positions: nn.Embedding | None
    types: nn.Embedding | None


class _Settings(NamedTuple):
    """Arguments that are not tensors."""

    eps: float
    dropout: float
    save: bool = True  # whether there will be a backward pass
    dtype: torch.dtype = torch.float32  # of embeddings


def embed_norm(
    ids: Tensor,
    positions: Tensor,
    tables: Tables,
    norm: nn.LayerNorm,
    dropout: float,
    *,
    float32: bool = False,
) -> Tensor:
    """dropout(norm(tokens[ids] + positions[positions] + types[0])): [T] and [T] -> [T, D].

    The kernels return the precision of matrix products unless `float32`; PyTorch that of the norm.
    """
    if not can_fuse_embedding(ids, [table for table in tables if table is not None], norm):
        rows = tables.tokens(ids)
        if tables.positions is not None:
            rows = rows + tables.positions(positions)
        if tables.types is not None:
            rows = rows + tables.types.weight[0]
        return F.dropout(norm(rows), dropout)
    apply: Any = _EmbedNorm.apply
    dtype = torch.float32 if float32 else compute_dtype(tables.tokens.weight)
    weights = (None if table is None else table.weight for table in tables)
    settings = _Settings(norm.eps, dropout, dtype=dtype)
    indices = (ids.contiguous(), positions.contiguous())
    return cast(Tensor, apply(*indices, *weights, norm.weight, norm.bias, settings))


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


class _EmbedNorm(torch.autograd.Function):
    """dropout(norm(tokens[ids] + positions[places] + types[0])), without saving rows."""

    @staticmethod
    def forward(
        ctx: Any,
        ids: Tensor,
        places: Tensor,
        tokens: Tensor,
        positions: Tensor | None,
        types: Tensor | None,
        weight: Tensor,
        shift: Tensor | None,
        settings: _Settings,
    ) -> Tensor:
        from edgeformers.nn.fast.triton_embedding import launch_embed_norm

        seed = draw_seed(settings.dropout, ids.device)
        tables, norm = (tokens, positions, types), (weight, shift, settings.eps)
        drop = (seed, settings.dropout)
        out, moments = launch_embed_norm(ids, places, tables, norm, drop, settings.dtype)
        ctx.save_for_backward(ids, places, *tables, weight, moments, seed)
        ctx.dropout = settings.dropout
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from edgeformers.nn.fast.triton_embedding import launch_embed_norm_backward

        ids, places, tokens, positions, types, weight, moments, seed = ctx.saved_tensors
        _, _, needs_tokens, needs_positions, needs_types, *needs_norm, _ = ctx.needs_input_grad
        tables, drop = (tokens, positions, types), (seed, ctx.dropout)
        drows, (dweight, dshift, dtype) = launch_embed_norm_backward(
            grad.contiguous(), ids, places, tables, weight, moments, drop
        )
        dtokens = _scatter(drows, ids, tokens) if needs_tokens else None
        dpositions = _scatter(drows, places, positions) if needs_positions else None
        dtypes = F.pad(dtype[None], (0, 0, 0, len(types) - 1)) if needs_types else None
        dnorm = (dweight if needs_norm[0] else None, dshift if needs_norm[1] else None)
        return None, None, dtokens, dpositions, dtypes, *dnorm, None


def _scatter(drows: Tensor, ids: Tensor, table: Tensor) -> Tensor:
    """The gradient of a table from that of the rows [T, D] looked up at `ids` [T]."""
    grad = torch.ops.aten.embedding_dense_backward(drows, ids, table.size(0), -1, False)
    return cast(Tensor, grad)
