"""Triton kernels for the operations between the matrix products of a layer.

Dropout, residual sum and norm take one pass over memory in each direction, which also sums the
gradients of biases and norms. Dropout masks are recomputed from a seed and the element's index,
and GELU is recomputed in the backward pass, so neither is stored.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS_PER_CORE = 8  # maximum in backward kernels
TILES_PER_PROGRAM = 8  # minimum in backward kernels, once every core is busy


@triton.jit
def _hash(x):
    """A 32-bit hash of x."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def is_kept(seed_ptr, elements, threshold):
    """Whether dropout keeps each element: its random number is at least the threshold."""
    seed = tl.load(seed_ptr)
    low, high = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    random = _hash(_hash(elements.to(tl.uint32) + low) ^ high)
    return (random >> 8).to(tl.int32) >= threshold


@triton.jit
def _add_norm(
    mixed_ptr, bias_ptr, rows_ptr, weight_ptr, shift_ptr, seed_ptr,
    out_ptr, sum_ptr, mean_ptr, rstd_ptr, count, width, threshold, scale, eps,
    BIAS: tl.constexpr, DROP: tl.constexpr, SAVE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """norm(rows + dropout(mixed + bias)) of `ROWS` rows; with SAVE also the sum and its moments."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    real = (row < count)[:, None] & (column < width)[None, :]
    at = row[:, None].to(tl.int64) * width + column[None, :]
    added = tl.load(mixed_ptr + at, mask=real, other=0.0).to(tl.float32)
    if BIAS:
        added += tl.load(bias_ptr + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    if DROP:
        added = tl.where(is_kept(seed_ptr, at, threshold), added * scale, 0.0)
    added += tl.load(rows_ptr + at, mask=real, other=0.0).to(tl.float32)
    mean = tl.sum(tl.where(real, added, 0.0), 1) / width
    centered = tl.where(real, added - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centered * centered, 1) / width + eps)
    weight = tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    out = centered * rstd[:, None] * weight[None, :] + shift[None, :]
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=real)
    if SAVE:
        tl.store(sum_ptr + at, added.to(sum_ptr.dtype.element_ty), mask=real)
        tl.store(mean_ptr + row, mean, mask=row < count)
        tl.store(rstd_ptr + row, rstd, mask=row < count)


@triton.jit
def norm_backward(grad, added, mean, rstd, weight, real, width):
    """The normalized rows without weight and bias, and the gradient of the rows `added`."""
    normed = tl.where(real, (added - mean[:, None]) * rstd[:, None], 0.0)
    inner = grad * weight[None, :]
    first = tl.sum(inner, 1) / width
    second = tl.sum(inner * normed, 1) / width
    drows = (inner - first[:, None] - normed * second[:, None]) * rstd[:, None]
    return normed, tl.where(real, drows, 0.0)


@triton.jit
def _add_norm_backward(
    grad_ptr, sum_ptr, mean_ptr, rstd_ptr, weight_ptr, seed_ptr, dmixed_ptr, drows_ptr, sums_ptr,
    count, width, threshold, scale, programs,
    DROP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gradients of both terms, and this program's share of those of weight, shift and bias."""
    column = tl.arange(0, COLUMNS)
    weight = tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, COLUMNS), tl.float32)
    dshift = tl.zeros((ROWS, COLUMNS), tl.float32)
    dbias = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(count, ROWS), programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        real = (row < count)[:, None] & (column < width)[None, :]
        at = row[:, None].to(tl.int64) * width + column[None, :]
        grad = tl.load(grad_ptr + at, mask=real, other=0.0).to(tl.float32)
        added = tl.load(sum_ptr + at, mask=real, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row, mask=row < count, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < count, other=0.0)
        normed, drows = norm_backward(grad, added, mean, rstd, weight, real, width)
        dweight += grad * normed
        dshift += grad
        tl.store(drows_ptr + at, drows.to(drows_ptr.dtype.element_ty), mask=real)
        dmixed = drows
        if DROP:
            dmixed = tl.where(is_kept(seed_ptr, at, threshold), drows * scale, 0.0)
        tl.store(dmixed_ptr + at, dmixed.to(dmixed_ptr.dtype.element_ty), mask=real)
        dbias += dmixed
    at = tl.program_id(0).to(tl.int64) * 3 * width + column
    tl.store(sums_ptr + at, tl.sum(dweight, 0), mask=column < width)
    tl.store(sums_ptr + at + width, tl.sum(dshift, 0), mask=column < width)
    tl.store(sums_ptr + at + 2 * width, tl.sum(dbias, 0), mask=column < width)


@triton.jit
def _normal(x):
    """The normal CDF of x, and exp(-x^2 / 2).

    The error function is approximated as in Abramowitz and Stegun, 7.1.26, to within 1.5e-7.
    """
    bell = tl.exp(-0.5 * x * x)
    t = 1.0 / (1.0 + 0.3275911 * 0.7071067811865476 * tl.abs(x))
    series = 1.421413741 + t * (-1.453152027 + t * 1.061405429)
    above = 0.5 * bell * t * (0.254829592 + t * (-0.284496736 + t * series))
    return tl.where(x < 0.0, above, 1.0 - above), bell


@triton.jit
def _gelu(
    inner_ptr, bias_ptr, out_ptr, count, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """gelu(inner + bias) of a tile."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = (row < count)[:, None] & (column < width)[None, :]
    at = row[:, None].to(tl.int64) * width + column[None, :]
    bias = tl.load(bias_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    x = tl.load(inner_ptr + at, mask=real, other=0.0).to(tl.float32) + bias[None, :]
    below, _ = _normal(x)
    tl.store(out_ptr + at, (x * below).to(out_ptr.dtype.element_ty), mask=real)


@triton.jit
def _gelu_backward(
    grad_ptr, inner_ptr, bias_ptr, act_ptr, sums_ptr, count, width, programs,
    RECOMPUTE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradient of inner, written over grad, and this program's share of that of bias.

    With RECOMPUTE, also the activation.
    """
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    bias = tl.load(bias_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    dbias = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(count, ROWS), programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        real = (row < count)[:, None] & (column < width)[None, :]
        at = row[:, None].to(tl.int64) * width + column[None, :]
        x = tl.load(inner_ptr + at, mask=real, other=0.0).to(tl.float32) + bias[None, :]
        grad = tl.load(grad_ptr + at, mask=real, other=0.0).to(tl.float32)
        below, bell = _normal(x)
        dinner = grad * (below + x * bell * 0.3989422804014327)
        tl.store(grad_ptr + at, dinner.to(grad_ptr.dtype.element_ty), mask=real)
        if RECOMPUTE:
            tl.store(act_ptr + at, (x * below).to(act_ptr.dtype.element_ty), mask=real)
        dbias += dinner
    at = tl.program_id(0).to(tl.int64) * width + column
    tl.store(sums_ptr + at, tl.sum(dbias, 0), mask=column < width)


def launch_add_norm(
    mixed: Tensor,
    bias: Tensor | None,
    rows: Tensor,
    norm: tuple[Tensor, Tensor, float],
    drop: tuple[Tensor | None, float],
    *,
    save: bool,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """norm(rows + dropout(mixed + bias)) [R, D], and with `save` the sum and its moments.

    `norm` is weight [D], shift [D] and epsilon; `drop` is a seed [1] (None: no dropout) and the
    probability.
    """
    weight, shift, eps = norm
    count, width = mixed.shape
    out = torch.empty_like(mixed)
    added = torch.empty_like(mixed) if save else out
    moments = torch.empty(2, count, device=mixed.device) if save else weight.view(1, -1)
    shape = rows_shape(width, 2048)
    seed, *dropout = dropout_arguments(drop)
    _add_norm[(triton.cdiv(count, shape["ROWS"]),)](
        mixed, mixed if bias is None else bias, rows, weight, shift,
        mixed if seed is None else seed, out, added, moments[0], moments[-1],
        count, width, *dropout, eps,
        BIAS=bias is not None, DROP=seed is not None, SAVE=save, **shape,
    )  # fmt: skip
    return out, (added, moments[0], moments[-1])


def launch_add_norm_backward(
    grad: Tensor,
    saved: tuple[Tensor, Tensor, Tensor],
    weight: Tensor,
    drop: tuple[Tensor | None, float],
    rows_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of mixed [R, D], of rows [R, D], and those of weight, shift and bias, [3, D]."""
    added, mean, rstd = saved
    count, width = grad.shape
    dmixed, drows = torch.empty_like(added), torch.empty_like(added, dtype=rows_dtype)
    shape = rows_shape(width, 1024)
    programs = count_programs(grad, triton.cdiv(count, shape["ROWS"]))
    sums = torch.empty(programs, 3, width, device=grad.device)
    seed, *dropout = dropout_arguments(drop)
    _add_norm_backward[(programs,)](
        grad, added, mean, rstd, weight, grad if seed is None else seed, dmixed, drows, sums,
        count, width, *dropout, programs, DROP=seed is not None, **shape,
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
    grad: Tensor, inner: Tensor, bias: Tensor, *, recompute: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Gradient of inner [R, F], with `recompute` gelu(inner + bias) [R, F], gradient of bias [F].

    The first is written over `grad`.
    """
    count, width = inner.shape
    act = torch.empty_like(inner) if recompute else None
    shape = _tile_shape(4)  # few enough for the registers
    columns = triton.cdiv(width, shape["COLUMNS"])
    rows = triton.cdiv(count, shape["ROWS"])
    programs = max(1, count_programs(grad, rows * columns) // columns)
    sums = torch.empty(programs, width, device=grad.device)
    _gelu_backward[(programs, columns)](
        grad, inner, bias, inner if act is None else act, sums, count, width, programs,
        RECOMPUTE=recompute, **shape,
    )  # fmt: skip
    return grad, act, sums.sum(0)


def rows_shape(width: int, elements: int) -> dict[str, int]:
    """Block shape of whole rows with about `elements` elements."""
    columns = triton.next_power_of_2(width)
    return {"ROWS": max(1, elements // columns), "COLUMNS": columns, "num_warps": 4}


def _tile_shape(rows: int) -> dict[str, int]:
    return {"ROWS": rows, "COLUMNS": 256, "num_warps": 4}


def count_programs(grad: Tensor, tiles: int) -> int:
    """Number of programs that fills the GPU; each writes partial sums, so more would cost."""
    cores = 4
    if grad.is_cuda:
        cores = torch.cuda.get_device_properties(grad.device).multi_processor_count
    wanted = min(tiles // TILES_PER_PROGRAM, cores * PROGRAMS_PER_CORE)
    return max(1, min(tiles, max(cores, wanted)))


def dropout_arguments(drop: tuple[Tensor | None, float]) -> tuple[Any, int, float]:
    """Seed, threshold of the random numbers, and scale of the elements kept."""
    seed, probability = drop
    return seed, round(probability * 2**24), 1.0 / (1.0 - probability)
