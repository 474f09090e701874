"""GPU kernels of text embeddings: rows of three tables summed, normalized and dropped in one pass.

No row is kept for the way back: rows are gathered again, and what is dropped follows from a seed
and the place in the matrix.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from edgeformers.nn.fast.triton_ffn import (
    count_programs,
    dropping,
    is_kept,
    norm_backward,
    rows_shape,
)

Tables = tuple[Tensor, Tensor | None, Tensor | None]  # of tokens, positions and types


@triton.jit
def _gather(
    ids_at, places_at, tokens_at, positions_at, types_at, row, column, count, width, known,
    POSITIONS: tl.constexpr, TYPES: tl.constexpr,
):  # fmt: skip
    """The sums of the tables' rows; no numbers for what is no token, nor in places of no meaning.

    A token that the table does not know would otherwise be whatever lies behind it in memory.
    """
    token = tl.load(ids_at + row, mask=row < count, other=-1).to(tl.int64)
    is_known = ((token >= 0) & (token < known))[:, None] & (column < width)[None, :]
    at = token[:, None] * width + column[None, :]
    added = tl.load(tokens_at + at, mask=is_known, other=float("nan"))
    if POSITIONS:
        place = tl.load(places_at + row, mask=row < count, other=0).to(tl.int64)
        at = place[:, None] * width + column[None, :]
        added += tl.load(positions_at + at, mask=is_known, other=0.0)
    if TYPES:
        added += tl.load(types_at + column, mask=column < width, other=0.0)[None, :]
    return added


@triton.jit
def _embed_norm(
    ids_at, places_at, tokens_at, positions_at, types_at, weight_at, shift_at, seed_at,
    out_at, mean_at, rstd_at, count, width, known, threshold, scale, eps,
    POSITIONS: tl.constexpr, TYPES: tl.constexpr, SHIFT: tl.constexpr, DROP: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """drop(norm(sum of the tables' rows)) of `ROWS` tokens, and the moments of the sums."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    real = (row < count)[:, None] & (column < width)[None, :]
    added = _gather(
        ids_at, places_at, tokens_at, positions_at, types_at, row, column, count, width, known,
        POSITIONS, TYPES,
    )  # fmt: skip
    mean = tl.sum(tl.where(real, added, 0.0), 1) / width
    centered = tl.where(real, added - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centered * centered, 1) / width + eps)
    weight = tl.load(weight_at + column, mask=column < width, other=0.0).to(tl.float32)
    out = centered * rstd[:, None] * weight[None, :]
    if SHIFT:
        out += tl.load(shift_at + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    at = row[:, None].to(tl.int64) * width + column[None, :]
    if DROP:
        out = tl.where(is_kept(seed_at, at, threshold), out * scale, 0.0)
    tl.store(out_at + at, out.to(out_at.dtype.element_ty), mask=real)
    tl.store(mean_at + row, mean, mask=row < count)
    tl.store(rstd_at + row, rstd, mask=row < count)


@triton.jit
def _embed_norm_backward(
    grad_at, ids_at, places_at, tokens_at, positions_at, types_at, weight_at, seed_at,
    mean_at, rstd_at, drows_at, sums_at, count, width, known, threshold, scale, programs,
    POSITIONS: tl.constexpr, TYPES: tl.constexpr, DROP: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gradients of the sums, and this program's share of those of weight, shift and the type."""
    column = tl.arange(0, COLUMNS)
    weight = tl.load(weight_at + column, mask=column < width, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, COLUMNS), tl.float32)
    dshift = tl.zeros((ROWS, COLUMNS), tl.float32)
    dtype = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(count, ROWS), programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        real = (row < count)[:, None] & (column < width)[None, :]
        at = row[:, None].to(tl.int64) * width + column[None, :]
        grad = tl.load(grad_at + at, mask=real, other=0.0).to(tl.float32)
        if DROP:
            grad = tl.where(is_kept(seed_at, at, threshold), grad * scale, 0.0)
        added = _gather(
            ids_at, places_at, tokens_at, positions_at, types_at, row, column, count, width, known,
            POSITIONS, TYPES,
        )  # fmt: skip
        mean = tl.load(mean_at + row, mask=row < count, other=0.0)
        rstd = tl.load(rstd_at + row, mask=row < count, other=0.0)
        normed, drows = norm_backward(grad, added, mean, rstd, weight, real, width)
        dweight += grad * normed
        dshift += grad
        tl.store(drows_at + at, drows, mask=real)
        dtype += drows
    at = tl.program_id(0).to(tl.int64) * 3 * width + column
    tl.store(sums_at + at, tl.sum(dweight, 0), mask=column < width)
    tl.store(sums_at + at + width, tl.sum(dshift, 0), mask=column < width)
    tl.store(sums_at + at + 2 * width, tl.sum(dtype, 0), mask=column < width)


def launch_embed_norm(
    ids: Tensor,
    places: Tensor,
    tables: Tables,
    norm: tuple[Tensor, Tensor | None, float],
    drop: tuple[Tensor | None, float],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """drop(norm(tokens[ids] + positions[places] + types[0])) [T, D], and the sums' moments [2, T].

    `norm` is weight [D], shift [D] and epsilon; `drop` a seed [1] (None: nothing is dropped) and
    the probability.
    """
    weight, shift, eps = norm
    count, (known, width) = ids.size(0), tables[0].shape
    out = torch.empty(count, width, dtype=dtype, device=ids.device)
    moments = torch.empty(2, count, device=ids.device)
    shape = rows_shape(width, 2048)
    seed, *numbers = dropping(drop)
    _embed_norm[(triton.cdiv(count, shape["ROWS"]),)](
        ids, places, *_or_first(*tables), *_or_first(weight, shift),
        ids if seed is None else seed, out, *moments, count, width, known, *numbers, eps,
        SHIFT=shift is not None, DROP=seed is not None, **_which(tables), **shape,
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
    """Gradients of the sums in float32 [T, D], and those of weight, shift and types[0], [3, D]."""
    count, (known, width) = ids.size(0), tables[0].shape
    drows = torch.empty(count, width, device=grad.device)
    shape = rows_shape(width, 1024)
    programs = count_programs(grad, triton.cdiv(count, shape["ROWS"]))
    sums = torch.empty(programs, 3, width, device=grad.device)
    seed, *numbers = dropping(drop)
    _embed_norm_backward[(programs,)](
        grad, ids, places, *_or_first(*tables), weight, ids if seed is None else seed, *moments,
        drows, sums, count, width, known, *numbers, programs,
        DROP=seed is not None, **_which(tables), **shape,
    )  # fmt: skip
    return drows, sums.sum(0)


def _or_first(first: Tensor, *others: Tensor | None) -> list[Tensor]:
    """The tensors; where there is none, the first, which is then not read there."""
    return [first, *(first if one is None else one for one in others)]


def _which(tables: Tables) -> dict[str, bool]:
    return {"POSITIONS": tables[1] is not None, "TYPES": tables[2] is not None}
