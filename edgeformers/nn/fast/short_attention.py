"""Attention within short texts on a GPU, as an autograd function over Triton kernels.

Texts and virtual tokens are read where the linear maps wrote them, without concatenation or
padding.

The `bias` [3D] of the linear maps is already included in q, k, v and virtual, which are computed
with a detached bias; the backward pass computes its gradient without a pass over the gradients of
q, k and v. The gradient of the key bias is zero, since it adds the same to all scores of a query.
That of the value bias is the gradient of the output, since attention weights sum to one. That of
the query bias is summed by the kernel that computes the gradient of q.

Shapes: T tokens of E texts, V virtual tokens per text, H heads of width Dh, D = H Dh. `block` is a
power of two from 16 to `MAX_SHORT_TOKENS` that is at least the length of every text.
"""

from typing import Any, cast

import torch
from torch import Tensor


def block_size(max_length: int) -> int:
    """The smallest block for texts of this length."""
    return max(16, 1 << (max_length - 1).bit_length())


def attend_short(
    stacked: Tensor,
    bias: Tensor | None,
    virtual: Tensor,
    offsets: Tensor,
    block: int,
    q: Tensor | None = None,
) -> Tensor:
    """q, k and v of all tokens [T, 3, H, Dh], virtual k and v [E, V, 2, H, Dh] -> [T, H, Dh].

    With one query per text, q [E, H, Dh], `stacked` is k and v [T, 2, H, Dh] -> [E, H, Dh].
    """
    apply: Any = _ShortAttention.apply
    return cast(Tensor, apply(stacked, bias, virtual, offsets, block, q))


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        stacked: Tensor,
        bias: Tensor | None,
        virtual: Tensor,
        offsets: Tensor,
        block: int,
        q: Tensor | None,
    ) -> Tensor:
        from edgeformers.nn.fast.triton_attention import launch_forward

        inputs = _parts(stacked, virtual, q)
        out = torch.empty_like(inputs[0], memory_format=torch.contiguous_format)
        launch_forward(inputs, out, offsets, block, q is not None)
        ctx.save_for_backward(stacked, bias, virtual, offsets, q)
        ctx.block = block
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from edgeformers.nn.fast.triton_attention import launch_backward

        stacked, bias, virtual, offsets, q = ctx.saved_tensors
        grad = grad.contiguous()
        dstacked, dvirtual = torch.empty_like(stacked), torch.empty_like(virtual)
        dq = None if q is None else torch.empty_like(q)
        inputs, grads = _parts(stacked, virtual, q), _parts(dstacked, dvirtual, dq)
        needs_bias, sums = ctx.needs_input_grad[1], None
        wide = torch.promote_types(grad.dtype, torch.float32)
        if needs_bias and q is None:
            sums = grad.new_empty(offsets.size(0) - 1, 2, *grad.shape[1:], dtype=wide)
        launch_backward(grad, inputs, grads, offsets, ctx.block, q is not None, sums)
        dbias = None
        if needs_bias:
            rows = (grads[0], grad) if sums is None else sums.unbind(1)
            query, value = (part.sum(0, dtype=wide).flatten() for part in rows)
            dbias = torch.cat([query, torch.zeros_like(query), value]).to(bias.dtype)
        return dstacked, dbias, dvirtual, None, None, dq


def _parts(
    stacked: Tensor, virtual: Tensor, q: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v and virtual."""
    *stacked_q, k, v = stacked.unbind(1)
    return stacked_q[0] if q is None else q, k, v, virtual
