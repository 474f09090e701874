"""Fused embedding lookup, LayerNorm and dropout, as an autograd function.

On a GPU it runs as Triton kernels with one pass over memory per direction; otherwise as plain
PyTorch.
"""

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.nn.fast.dispatch import can_fuse_embedding, compute_dtype
from edgeformers.nn.fast.fused_ops import draw_seed


class Tables(NamedTuple):
    """Embedding tables; every token has type 0."""

    tokens: nn.Embedding
    positions: nn.Embedding | None
    types: nn.Embedding | None


class _Settings(NamedTuple):
    """Arguments that are not tensors."""

    eps: float
    dropout: float
    dtype: torch.dtype  # of the output


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
    settings = _Settings(norm.eps, dropout, dtype)
    indices = (ids.contiguous(), positions.contiguous())
    return cast(Tensor, apply(*indices, *weights, norm.weight, norm.bias, settings))


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
