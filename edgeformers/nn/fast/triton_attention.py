"""Triton kernels of attention within short texts: one program per text and head, no padding.

A text fits into one block, so its softmax is computed in one pass, and the backward pass needs
only the inputs and no atomics. Flash attention would pad these texts to its tile of 128 rows.
"""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _load(base, rows, row_stride, head, dims, count, DIM: tl.constexpr):
    """Rows [R, DIM] of one head; zeros from row `count` on."""
    at = rows[:, None].to(tl.int64) * row_stride + head * DIM + dims[None, :]
    return tl.load(base + at, mask=(rows < count)[:, None], other=0.0)


@triton.jit
def _store(base, rows, row_stride, head, dims, count, values, DIM: tl.constexpr):
    at = rows[:, None].to(tl.int64) * row_stride + head * DIM + dims[None, :]
    tl.store(base + at, values.to(base.dtype.element_ty), mask=(rows < count)[:, None])


@triton.jit
def _store_sum(base, row_stride, head, dims, values, ROWS: tl.constexpr, DIM: tl.constexpr):
    """Store the sum of rows [ROWS, DIM], computed as a product with ones on tensor cores."""
    total = tl.dot(tl.full((16, ROWS), 1.0, values.dtype), values)
    _store(base, tl.arange(0, 16), row_stride, head, dims, 1, total, DIM)


@triton.jit
def _weights(q, k, vk, slots, vslots, length, scale, VIRTUAL: tl.constexpr):
    """softmax(q k^T) over text and virtual keys: P [Q, S] and PV [Q, 16], float32."""
    scores = tl.dot(q, tl.trans(k)) * scale
    scores = tl.where((slots < length)[None, :], scores, float("-inf"))
    highest = tl.max(scores, 1)
    if VIRTUAL > 0:
        vscores = tl.dot(q, tl.trans(vk)) * scale
        vscores = tl.where((vslots < VIRTUAL)[None, :], vscores, float("-inf"))
        highest = tl.maximum(highest, tl.max(vscores, 1))
        vweights = tl.exp2(vscores - highest[:, None])
        weights = tl.exp2(scores - highest[:, None])
        total = tl.sum(weights, 1) + tl.sum(vweights, 1)
        return weights / total[:, None], vweights / total[:, None]
    else:
        weights = tl.exp2(scores - highest[:, None])
        weights = weights / tl.sum(weights, 1)[:, None]
        return weights, weights


@triton.jit
def _forward(
    q_ptr, k_ptr, v_ptr, vk_ptr, vv_ptr, out_ptr, offsets,
    q_row, kv_row, v_row, scale,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    VIRTUAL: tl.constexpr, READOUT: tl.constexpr,
):  # fmt: skip
    text, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    start = tl.load(offsets + text)
    length = tl.load(offsets + text + 1) - start
    first = text.to(tl.int64) if READOUT else start.to(tl.int64)
    queries = 1 if READOUT else length
    rows, slots, dims, vslots = (
        tl.arange(0, ROWS), tl.arange(0, BLOCK), tl.arange(0, DIM), tl.arange(0, 16)
    )  # fmt: skip
    at, vat = start.to(tl.int64) * kv_row, text.to(tl.int64) * VIRTUAL * v_row
    q = _load(q_ptr + first * q_row, rows, q_row, head, dims, queries, DIM)
    k = _load(k_ptr + at, slots, kv_row, head, dims, length, DIM)
    v = _load(v_ptr + at, slots, kv_row, head, dims, length, DIM)
    vk = _load(vk_ptr + vat, vslots, v_row, head, dims, VIRTUAL, DIM)
    weights, vweights = _weights(q, k, vk, slots, vslots, length, scale, VIRTUAL)
    mixed = tl.dot(weights.to(v.dtype), v)
    if VIRTUAL > 0:
        vv = _load(vv_ptr + vat, vslots, v_row, head, dims, VIRTUAL, DIM)
        mixed += tl.dot(vweights.to(vv.dtype), vv)
    out_row = HEADS * DIM
    _store(out_ptr + first * out_row, rows, out_row, head, dims, queries, mixed, DIM)


@triton.jit
def _backward(
    grad_ptr, q_ptr, k_ptr, v_ptr, vk_ptr, vv_ptr,
    dq_ptr, dk_ptr, dv_ptr, dvk_ptr, dvv_ptr, sums_ptr, offsets,
    q_row, kv_row, v_row, scale, grad_scale,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    VIRTUAL: tl.constexpr, READOUT: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    text, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    start = tl.load(offsets + text)
    length = tl.load(offsets + text + 1) - start
    first = text.to(tl.int64) if READOUT else start.to(tl.int64)
    queries = 1 if READOUT else length
    rows, slots, dims, vslots = (
        tl.arange(0, ROWS), tl.arange(0, BLOCK), tl.arange(0, DIM), tl.arange(0, 16)
    )  # fmt: skip
    at, vat = start.to(tl.int64) * kv_row, text.to(tl.int64) * VIRTUAL * v_row
    out_row = HEADS * DIM
    sums_ptr += text.to(tl.int64) * 2 * out_row
    q = _load(q_ptr + first * q_row, rows, q_row, head, dims, queries, DIM)
    k = _load(k_ptr + at, slots, kv_row, head, dims, length, DIM)
    v = _load(v_ptr + at, slots, kv_row, head, dims, length, DIM)
    vk = _load(vk_ptr + vat, vslots, v_row, head, dims, VIRTUAL, DIM)
    grad = _load(grad_ptr + first * out_row, rows, out_row, head, dims, queries, DIM)
    weights, vweights = _weights(q, k, vk, slots, vslots, length, scale, VIRTUAL)

    dv = tl.dot(tl.trans(weights.to(grad.dtype)), grad)
    _store(dv_ptr + at, slots, kv_row, head, dims, length, dv, DIM)
    if SUMS:
        _store_sum(sums_ptr + out_row, out_row, head, dims, grad, ROWS, DIM)
    dweights = tl.dot(grad, tl.trans(v))
    delta = tl.sum(weights * dweights, 1)
    if VIRTUAL > 0:
        vv = _load(vv_ptr + vat, vslots, v_row, head, dims, VIRTUAL, DIM)
        dvv = tl.dot(tl.trans(vweights.to(grad.dtype)), grad)
        _store(dvv_ptr + vat, vslots, v_row, head, dims, VIRTUAL, dvv, DIM)
        dvweights = tl.dot(grad, tl.trans(vv))
        delta += tl.sum(vweights * dvweights, 1)
    dscores = (weights * (dweights - delta[:, None]) * grad_scale).to(q.dtype)
    dq = tl.dot(dscores, k)
    dk = tl.dot(tl.trans(dscores), q)
    _store(dk_ptr + at, slots, kv_row, head, dims, length, dk, DIM)
    if VIRTUAL > 0:
        dvscores = (vweights * (dvweights - delta[:, None]) * grad_scale).to(q.dtype)
        dq += tl.dot(dvscores, vk)
        dvk = tl.dot(tl.trans(dvscores), q)
        _store(dvk_ptr + vat, vslots, v_row, head, dims, VIRTUAL, dvk, DIM)
    _store(dq_ptr + first * q_row, rows, q_row, head, dims, queries, dq, DIM)
    if SUMS:
        _store_sum(sums_ptr, out_row, head, dims, dq.to(q.dtype), ROWS, DIM)


LOG2_E = 1.4426950408889634


def launch_forward(
    inputs: tuple[Tensor, Tensor, Tensor, Tensor],
    out: Tensor,
    offsets: Tensor,
    block: int,
    readout: bool,
) -> None:
    """Attention of q [R, H, Dh], k and v [T, H, Dh], virtual [E, V, 2, H, Dh] -> out [R, H, Dh].

    R is T, or E with `readout` (one query row per text). Rows may be strided, heads may not.
    """
    q, k, v, virtual = inputs
    shape = _shape(q, virtual, offsets, block, readout)
    scale = q.size(-1) ** -0.5 * LOG2_E
    parts = (q, k, v, virtual[:, :, 0], virtual[:, :, 1], out, offsets)
    strides = (q.stride(0), k.stride(0), virtual.stride(1))
    _forward[(shape.pop("programs"),)](*parts, *strides, scale, **shape)


def launch_backward(
    grad: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor],
    grads: tuple[Tensor, Tensor, Tensor, Tensor],
    offsets: Tensor,
    block: int,
    readout: bool,
    sums: Tensor | None = None,
) -> None:
    """Gradients of q, k, v and virtual, in the same memory layout, from that of the output.

    `sums` [E, 2, H, Dh] receives the gradients of q and of the output, summed over each text.
    """
    q, k, v, virtual = inputs
    dq, dk, dv, dvirtual = grads
    shape = _shape(q, virtual, offsets, block, readout)
    scale = q.size(-1) ** -0.5
    parts = (grad, q, k, v, virtual[:, :, 0], virtual[:, :, 1])
    outs = (dq, dk, dv, dvirtual[:, :, 0], dvirtual[:, :, 1], grad if sums is None else sums)
    strides = (q.stride(0), k.stride(0), virtual.stride(1))
    _backward[(shape.pop("programs"),)](
        *parts, *outs, offsets, *strides, scale * LOG2_E, scale, SUMS=sums is not None, **shape
    )


def _shape(
    q: Tensor, virtual: Tensor, offsets: Tensor, block: int, readout: bool
) -> dict[str, int]:
    return {
        "programs": (offsets.size(0) - 1) * q.size(1),
        "HEADS": q.size(1),
        "DIM": q.size(2),
        "BLOCK": block,
        "ROWS": 16 if readout else block,
        "VIRTUAL": virtual.size(1),
        "READOUT": readout,
        "num_warps": 8 if block > 64 else 4,
    }
