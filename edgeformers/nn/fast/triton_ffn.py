"""GPU kernels of what stands between a layer's matrix products: each reads its rows once.

A sum, its dropout and its norm are one pass over memory each way; the gradients of biases and of
norms are summed up on the way instead of in passes of their own. What is dropped follows from a
seed and the place in the matrix, so nothing is kept to drop the same on the way back; nor is an
activation, which is computed again beside its gradient.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS_PER_CORE = 8  # at most, of a way back
TILES_PER_PROGRAM = 8  # at least, where there are enough to keep every core busy


@triton.jit
def _mix(x):
    """A 32-bit integer of which every bit depends on every bit of x."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def is_kept(seed_at, places, threshold):
    """Whether what stands at each place is kept: its random number is not below the threshold."""
    seed = tl.load(seed_at)
    low, high = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    drawn = _mix(_mix(places.to(tl.uint32) + low) ^ high)
    return (drawn >> 8).to(tl.int32) >= threshold


@triton.jit
def _add_norm(
    mixed_at, bias_at, rows_at, weight_at, shift_at, seed_at, out_at, sum_at, mean_at, rstd_at,
    count, width, threshold, scale, eps,
    BIAS: tl.constexpr, DROP: tl.constexpr, KEEP: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """norm(rows + drop(mixed + bias)) of `ROWS` rows; for the way back the sum and its moments."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    real = (row < count)[:, None] & (column < width)[None, :]
    at = row[:, None].to(tl.int64) * width + column[None, :]
    added = tl.load(mixed_at + at, mask=real, other=0.0).to(tl.float32)
    if BIAS:
        added += tl.load(bias_at + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    if DROP:
        added = tl.where(is_kept(seed_at, at, threshold), added * scale, 0.0)
    added += tl.load(rows_at + at, mask=real, other=0.0).to(tl.float32)
    mean = tl.sum(tl.where(real, added, 0.0), 1) / width
    centered = tl.where(real, added - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centered * centered, 1) / width + eps)
    weight = tl.load(weight_at + column, mask=column < width, other=0.0).to(tl.float32)
    shift = tl.load(shift_at + column, mask=column < width, other=0.0).to(tl.float32)
    out = centered * rstd[:, None] * weight[None, :] + shift[None, :]
    tl.store(out_at + at, out.to(out_at.dtype.element_ty), mask=real)
    if KEEP:
        tl.store(sum_at + at, added.to(sum_at.dtype.element_ty), mask=real)
        tl.store(mean_at + row, mean, mask=row < count)
        tl.store(rstd_at + row, rstd, mask=row < count)


@triton.jit
def norm_backward(grad, added, mean, rstd, weight, real, width):
    """What a norm made of the rows `added` before its weight, and the gradient of these rows."""
    normed = tl.where(real, (added - mean[:, None]) * rstd[:, None], 0.0)
    inner = grad * weight[None, :]
    first = tl.sum(inner, 1) / width
    second = tl.sum(inner * normed, 1) / width
    drows = (inner - first[:, None] - normed * second[:, None]) * rstd[:, None]
    return normed, tl.where(real, drows, 0.0)


@triton.jit
def _add_norm_backward(
    grad_at, sum_at, mean_at, rstd_at, weight_at, seed_at, dmixed_at, drows_at, sums_at,
    count, width, threshold, scale, programs,
    DROP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gradients of both terms, and this program's share of those of weight, shift and bias."""
    column = tl.arange(0, COLUMNS)
    weight = tl.load(weight_at + column, mask=column < width, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, COLUMNS), tl.float32)
    dshift = tl.zeros((ROWS, COLUMNS), tl.float32)
    dbias = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(count, ROWS), programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        real = (row < count)[:, None] & (column < width)[None, :]
        at = row[:, None].to(tl.int64) * width + column[None, :]
        grad = tl.load(grad_at + at, mask=real, other=0.0).to(tl.float32)
        added = tl.load(sum_at + at, mask=real, other=0.0).to(tl.float32)
        mean = tl.load(mean_at + row, mask=row < count, other=0.0)
        rstd = tl.load(rstd_at + row, mask=row < count, other=0.0)
        normed, drows = norm_backward(grad, added, mean, rstd, weight, real, width)
        dweight += grad * normed
        dshift += grad
        tl.store(drows_at + at, drows.to(drows_at.dtype.element_ty), mask=real)
        dmixed = drows
        if DROP:
            dmixed = tl.where(is_kept(seed_at, at, threshold), drows * scale, 0.0)
        tl.store(dmixed_at + at, dmixed.to(dmixed_at.dtype.element_ty), mask=real)
        dbias += dmixed
    at = tl.program_id(0).to(tl.int64) * 3 * width + column
    tl.store(sums_at + at, tl.sum(dweight, 0), mask=column < width)
    tl.store(sums_at + at + width, tl.sum(dshift, 0), mask=column < width)
    tl.store(sums_at + at + 2 * width, tl.sum(dbias, 0), mask=column < width)


@triton.jit
def _normal(x):
    """The normal distribution below x, and exp(-x^2 / 2), of which the former is made.

    The error function is that of Abramowitz and Stegun, 7.1.26: off by 1.5e-7 at most.
    """
    bell = tl.exp(-0.5 * x * x)
    t = 1.0 / (1.0 + 0.3275911 * 0.7071067811865476 * tl.abs(x))
    series = 1.421413741 + t * (-1.453152027 + t * 1.061405429)
    above = 0.5 * bell * t * (0.254829592 + t * (-0.284496736 + t * series))
    return tl.where(x < 0.0, above, 1.0 - above), bell


@triton.jit
def _gelu(
    inner_at, bias_at, out_at, count, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """gelu(inner + bias) of a tile."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = (row < count)[:, None] & (column < width)[None, :]
    at = row[:, None].to(tl.int64) * width + column[None, :]
    bias = tl.load(bias_at + column, mask=column < width, other=0.0).to(tl.float32)
    x = tl.load(inner_at + at, mask=real, other=0.0).to(tl.float32) + bias[None, :]
    below, _ = _normal(x)
    tl.store(out_at + at, (x * below).to(out_at.dtype.element_ty), mask=real)


@triton.jit
def _gelu_backward(
    grad_at, inner_at, bias_at, act_at, sums_at, count, width, programs,
    AGAIN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """In some columns, inner's gradient in the place of grad, and this program's share of bias's.

    With `AGAIN` the activation is computed again on the way.
    """
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    bias = tl.load(bias_at + column, mask=column < width, other=0.0).to(tl.float32)
    dbias = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(count, ROWS), programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        real = (row < count)[:, None] & (column < width)[None, :]
        at = row[:, None].to(tl.int64) * width + column[None, :]
        x = tl.load(inner_at + at, mask=real, other=0.0).to(tl.float32) + bias[None, :]
        grad = tl.load(grad_at + at, mask=real, other=0.0).to(tl.float32)
        below, bell = _normal(x)
        dinner = grad * (below + x * bell * 0.3989422804014327)
        tl.store(grad_at + at, dinner.to(grad_at.dtype.element_ty), mask=real)
        if AGAIN:
            tl.store(act_at + at, (x * below).to(act_at.dtype.element_ty), mask=real)
        dbias += dinner
    at = tl.program_id(0).to(tl.int64) * width + column
    tl.store(sums_at + at, tl.sum(dbias, 0), mask=column < width)


def launch_add_norm(
    mixed: Tensor,
    bias: Tensor | None,
    rows: Tensor,
    norm: tuple[Tensor, Tensor, float],
    drop: tuple[Tensor | None, float],
    *,
    keep: bool,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """norm(rows + drop(mixed + bias)) [R, D]; with `keep` what the way back needs, else nothing.

    `norm` is weight [D], shift [D] and epsilon; `drop` a seed [1] (None: nothing is dropped) and
    the probability.
    """
    weight, shift, eps = norm
    count, width = mixed.shape
    out = torch.empty_like(mixed)
    held = torch.empty_like(mixed) if keep else out
    moments = torch.empty(2, count, device=mixed.device) if keep else weight.view(1, -1)
    shape = rows_shape(width, 2048)
    seed, *numbers = dropping(drop)
    _add_norm[(triton.cdiv(count, shape["ROWS"]),)](
        mixed, mixed if bias is None else bias, rows, weight, shift,
        mixed if seed is None else seed, out, held, moments[0], moments[-1],
        count, width, *numbers, eps,
        BIAS=bias is not None, DROP=seed is not None, KEEP=keep, **shape,
    )  # fmt: skip
    return out, (held, moments[0], moments[-1])


def launch_add_norm_backward(
    grad: Tensor,
    kept: tuple[Tensor, Tensor, Tensor],
    weight: Tensor,
    drop: tuple[Tensor | None, float],
    rows_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of mixed [R, D], of rows [R, D], and those of weight, shift and bias, [3, D]."""
    held, mean, rstd = kept
    count, width = grad.shape
    dmixed, drows = torch.empty_like(held), torch.empty_like(held, dtype=rows_dtype)
    shape = rows_shape(width, 1024)
    programs = count_programs(grad, triton.cdiv(count, shape["ROWS"]))
    sums = torch.empty(programs, 3, width, device=grad.device)
    seed, *numbers = dropping(drop)
    _add_norm_backward[(programs,)](
        grad, held, mean, rstd, weight, grad if seed is None else seed, dmixed, drows, sums,
        count, width, *numbers, programs, DROP=seed is not None, **shape,
    )  # fmt: skip
    return dmixed, drows, sums.sum(0)


def launch_gelu(inner: Tensor, bias: Tensor) -> Tensor:
    """gelu(inner + bias), [R, F]."""
    count, width = inner.shape
    out, shape = torch.empty_like(inner), _tile_shape(8)
    grid = (triton.cdiv(count, shape["ROWS"]), triton.cdiv(width, shape["COLUMNS"]))
    _gelu[grid](inner, bias, out, count, width, **shape)
    return out


def launch_gelu_backward(
    grad: Tensor, inner: Tensor, bias: Tensor, *, again: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Gradient of inner [R, F], with `again` gelu(inner + bias) [R, F], and bias's gradient [F].

    The first is written over `grad`, which is of no use any more.
    """
    count, width = inner.shape
    act = torch.empty_like(inner) if again else None
    shape = _tile_shape(4)  # so few that all programs have their registers at once
    columns = triton.cdiv(width, shape["COLUMNS"])
    rows = triton.cdiv(count, shape["ROWS"])
    programs = max(1, count_programs(grad, rows * columns) // columns)
    sums = torch.empty(programs, width, device=grad.device)
    _gelu_backward[(programs, columns)](
        grad, inner, bias, inner if act is None else act, sums, count, width, programs,
        AGAIN=again, **shape,
    )  # fmt: skip
    return grad, act, sums.sum(0)


def rows_shape(width: int, numbers: int) -> dict[str, int]:
    """Whole rows, of about so many numbers that a program can hold at once."""
    columns = triton.next_power_of_2(width)
    return {"ROWS": max(1, numbers // columns), "COLUMNS": columns, "num_warps": 4}


def _tile_shape(rows: int) -> dict[str, int]:
    return {"ROWS": rows, "COLUMNS": 256, "num_warps": 4}


def count_programs(grad: Tensor, tiles: int) -> int:
    """Enough to fill the GPU, and no more: each writes sums of its own, which are then summed."""
    cores = 4
    if grad.is_cuda:
        cores = torch.cuda.get_device_properties(grad.device).multi_processor_count
    wanted = min(tiles // TILES_PER_PROGRAM, cores * PROGRAMS_PER_CORE)
    return max(1, min(tiles, max(cores, wanted)))


def dropping(drop: tuple[Tensor | None, float]) -> tuple[Any, int, float]:
    """The seed, the random number below which is dropped, and what the rest is multiplied by."""
    seed, probability = drop
    return seed, round(probability * 2**24), 1.0 / (1.0 - probability)
