"""What a text encoder looks up for its tokens, in one pass over memory each way on a GPU.

Elsewhere, and wherever a module is not the plain one, the same is written in plain torch.
"""

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.nn.fast.fused_ops import MOST_PLACES, WIDEST, draw_seed, product_dtype
from edgeformers.nn.fast.short_attention import has_kernels


class Tables(NamedTuple):
    """Whose rows are summed for a token: its own, its position's and, of the types, the first."""

    tokens: nn.Embedding
    positions: nn.Embedding | None
    types: nn.Embedding | None


class _Settings(NamedTuple):
    """What is no tensor: the norm's epsilon, what share is dropped, the precision that is given."""

    eps: float
    dropout: float
    dtype: torch.dtype


def embed_norm(
    ids: Tensor,
    positions: Tensor,
    tables: Tables,
    norm: nn.LayerNorm,
    dropout: float,
    *,
    wide: bool = False,
) -> Tensor:
    """drop(norm(sum of the tables' rows)): tokens and their positions [T] -> [T, D].

    In the precision of products where the kernels run, unless `wide`; else in that of the norm.
    """
    if _is_hindered(ids, tables, norm):
        rows = tables.tokens(ids)
        if tables.positions is not None:
            rows = rows + tables.positions(positions)
        if tables.types is not None:
            rows = rows + tables.types.weight[0]
        return F.dropout(norm(rows), dropout)
    apply: Any = _EmbedNorm.apply
    dtype = torch.float32 if wide else product_dtype(tables.tokens.weight)
    weights = (None if one is None else one.weight for one in tables)
    settings = _Settings(norm.eps, dropout, dtype)
    places = (ids.contiguous(), positions.contiguous())
    return cast(Tensor, apply(*places, *weights, norm.weight, norm.bias, settings))


def _is_hindered(ids: Tensor, tables: Tables, norm: nn.LayerNorm) -> bool:
    """Whether the kernels cannot stand for these modules here."""
    if not ids.is_cuda or torch.compiler.is_compiling() or not len(ids):
        return True
    if type(norm) is not nn.LayerNorm or not all(map(_is_plain, tables)):
        return True
    if product_dtype(tables.tokens.weight) not in (torch.bfloat16, torch.float16):
        return True
    width = tables.tokens.embedding_dim
    if width > WIDEST or len(ids) * width >= MOST_PLACES:
        return True
    return not has_kernels(ids.device)


def _is_plain(table: nn.Module | None) -> bool:
    """Whether a table gives its rows as they are, and takes a dense gradient of all."""
    if table is None:
        return True
    if type(table) is not nn.Embedding or table.weight.dtype != torch.float32:
        return False
    special = (table.sparse, table.scale_grad_by_freq, table.max_norm, table.padding_idx)
    return special == (False, False, None, None) and table.weight.is_contiguous()


class _EmbedNorm(torch.autograd.Function):
    """drop(norm(tokens[ids] + positions[places] + types[0])), keeping no row for the way back."""

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
        _, _, of_tokens, of_positions, of_types, of_weight, of_shift, _ = ctx.needs_input_grad
        tables, drop = (tokens, positions, types), (seed, ctx.dropout)
        drows, (dweight, dshift, dtype) = launch_embed_norm_backward(
            grad.contiguous(), ids, places, tables, weight, moments, drop
        )
        dtokens = _scatter(drows, ids, tokens) if of_tokens else None
        dpositions = _scatter(drows, places, positions) if of_positions else None
        dtypes = F.pad(dtype[None], (0, 0, 0, len(types) - 1)) if of_types else None
        dnorm = (dweight if of_weight else None, dshift if of_shift else None)
        return None, None, dtokens, dpositions, dtypes, *dnorm, None


def _scatter(drows: Tensor, ids: Tensor, table: Tensor) -> Tensor:
    """The gradient of a table of which `ids` [T] were read, from that of the rows [T, D]."""
    found = torch.ops.aten.embedding_dense_backward(drows, ids, table.size(0), -1, False)
    return cast(Tensor, found)
