"""Triton kernels of text embeddings: lookup in three tables, sum, norm and dropout in one pass.

The backward pass gathers the rows again and recomputes the dropout mask from its seed, so no rows
are stored.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from edgeformers.nn.fast.triton_ffn import (
    count_programs,
    dropout_arguments,
    is_kept,
    norm_backward,
    rows_shape,
)

Tables = tuple[Tensor, Tensor | None, Tensor | None]  # of tokens, positions and types


@triton.jit
def _gather(
    ids_ptr, places_ptr, tokens_ptr, positions_ptr, types_ptr, row, column, count, width, vocab,
    POSITIONS: tl.constexpr, TYPES: tl.constexpr,
):  # fmt: skip
    """Sums of the tables' rows; NaN for invalid token ids, which would read other memory."""
    token = tl.load(ids_ptr + row, mask=row < count, other=-1).to(tl.int64)
    is_token = ((token >= 0) & (token < vocab))[:, None] & (column < width)[None, :]
    at = token[:, None] * width + column[None, :]
    added = tl.load(tokens_ptr + at, mask=is_token, other=float("nan"))
    if POSITIONS:
        place = tl.load(places_ptr + row, mask=row < count, other=0).to(tl.int64)
        at = place[:, None] * width + column[None, :]
        added += tl.load(positions_ptr + at, mask=is_token, other=0.0)
    if TYPES:
        added += tl.load(types_ptr + column, mask=column < width, other=0.0)[None, :]
    return added


@triton.jit
def _embed_norm(
    ids_ptr, places_ptr, tokens_ptr, positions_ptr, types_ptr, weight_ptr, shift_ptr, seed_ptr,
    out_ptr, mean_ptr, rstd_ptr, count, width, vocab, threshold, scale, eps,
    POSITIONS: tl.constexpr, TYPES: tl.constexpr, SHIFT: tl.constexpr, DROP: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """dropout(norm(sum of table rows)) of `ROWS` tokens, and the moments of the sums."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    real = (row < count)[:, None] & (column < width)[None, :]
    added = _gather(
        ids_ptr, places_ptr, tokens_ptr, positions_ptr, types_ptr, row, column, count, width, vocab,
        POSITIONS, TYPES,
    )  # fmt: skip
    mean = tl.sum(tl.where(real, added, 0.0), 1) / width
    centered = tl.where(real, added - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centered * centered, 1) / width + eps)
    weight = tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    out = centered * rstd[:, None] * weight[None, :]
    if SHIFT:
        out += tl.load(shift_ptr + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    at = row[:, None].to(tl.int64) * width + column[None, :]
    if DROP:
        out = tl.where(is_kept(seed_ptr, at, threshold), out * scale, 0.0)
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=real)
    tl.store(mean_ptr + row, mean, mask=row < count)
    tl.store(rstd_ptr + row, rstd, mask=row < count)


@triton.jit
def _embed_norm_backward(
    grad_ptr, ids_ptr, places_ptr, tokens_ptr, positions_ptr, types_ptr, weight_ptr, seed_ptr,
    mean_ptr, rstd_ptr, drows_ptr, sums_ptr, count, width, vocab, threshold, scale, programs,
    POSITIONS: tl.constexpr, TYPES: tl.constexpr, DROP: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gradients of the sums, and this program's share of those of weight, shift and the type."""
    column = tl.arange(0, COLUMNS)
    weight = tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, COLUMNS), tl.float32)
    dshift = tl.zeros((ROWS, COLUMNS), tl.float32)
    dtype = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(count, ROWS), programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        real = (row < count)[:, None] & (column < width)[None, :]
        at = row[:, None].to(tl.int64) * width + column[None, :]
        grad = tl.load(grad_ptr + at, mask=real, other=0.0).to(tl.float32)
        if DROP:
            grad = tl.where(is_kept(seed_ptr, at, threshold), grad * scale, 0.0)
        added = _gather(
            ids_ptr, places_ptr, tokens_ptr, positions_ptr, types_ptr, row, column,
            count, width, vocab, POSITIONS, TYPES,
        )  # fmt: skip
        mean = tl.load(mean_ptr + row, mask=row < count, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < count, other=0.0)
        normed, drows = norm_backward(grad, added, mean, rstd, weight, real, width)
        dweight += grad * normed
        dshift += grad
        tl.store(drows_ptr + at, drows, mask=real)
        dtype += drows
    at = tl.program_id(0).to(tl.int64) * 3 * width + column
    tl.store(sums_ptr + at, tl.sum(dweight, 0), mask=column < width)
    tl.store(sums_ptr + at + width, tl.sum(dshift, 0), mask=column < width)
    tl.store(sums_ptr + at + 2 * width, tl.sum(dtype, 0), mask=column < width)


def launch_embed_norm(
    ids: Tensor,
    places: Tensor,
    tables: Tables,
    norm: tuple[Tensor, Tensor | None, float],
    drop: tuple[Tensor | None, float],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """dropout(norm(tokens[ids] + positions[places] + types[0])) [T, D], and moments [2, T].

    `norm` is weight [D], shift [D] and epsilon; `drop` is a seed [1] (None: no dropout) and the
    probability.
    """
    weight, shift, eps = norm
    count, (vocab, width) = ids.size(0), tables[0].shape
    out = torch.empty(count, width, dtype=dtype, device=ids.device)
    moments = torch.empty(2, count, device=ids.device)
    shape = rows_shape(width, 2048)
    seed, *dropout = dropout_arguments(drop)
    _embed_norm[(triton.cdiv(count, shape["ROWS"]),)](
        ids, places, *_or_first(*tables), *_or_first(weight, shift),
        ids if seed is None else seed, out, *moments, count, width, vocab, *dropout, eps,
        SHIFT=shift is not None, DROP=seed is not None, **_flags(tables), **shape,
    )  # fmt: skip
    return out, moments


def launch_embed_norm_backward(
    grad: Tensor,
    ids: Tensor,
    places: Tensor,
    tables: Tables,
    weight: Tensor,
    moments: Tensor,
    drop: tuple[Tensor | None, float],
) -> tuple[Tensor, Tensor]:
    """Gradients of the sums [T, D] in float32, and of weight, shift and types[0] [3, D]."""
    count, (vocab, width) = ids.size(0), tables[0].shape
    drows = torch.empty(count, width, device=grad.device)
    shape = rows_shape(width, 1024)
    programs = count_programs(grad, triton.cdiv(count, shape["ROWS"]))
    sums = torch.empty(programs, 3, width, device=grad.device)
    seed, *dropout = dropout_arguments(drop)
    _embed_norm_backward[(programs,)](
        grad, ids, places, *_or_first(*tables), weight, ids if seed is None else seed, *moments,
        drows, sums, count, width, vocab, *dropout, programs,
        DROP=seed is not None, **_flags(tables), **shape,
    )  # fmt: skip
    return drows, sums.sum(0)


def _or_first(first: Tensor, *others: Tensor | None) -> list[Tensor]:
    """The tensors, with the first, which is not read, in place of None."""
    return [first, *(first if other is None else other for other in others)]


def _flags(tables: Tables) -> dict[str, bool]:
    return {"POSITIONS": tables[1] is not None, "TYPES": tables[2] is not None}
