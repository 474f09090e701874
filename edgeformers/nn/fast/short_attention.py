"""Attention within short texts as PyTorch operators with Triton kernels on a GPU.

Texts and virtual tokens are read where the linear maps wrote them, without concatenation or
padding. Without a GPU the operators run in plain PyTorch, so they can be tested anywhere.

The `bias` [3D] of the linear maps is already included in q, k, v and virtual, which are computed
with a detached bias; the operators compute its gradient without a pass over the gradients of q, k
and v. The gradient of the key bias is zero, since it adds the same to all scores of a query. That
of the value bias is the gradient of the output, since attention weights sum to one. That of the
query bias is summed by the kernel that computes the gradient of q.

Shapes: T tokens of E texts, V virtual tokens per text, H heads of width Dh, D = H Dh. `block` is a
power of two from 16 to `MAX_SHORT_TOKENS` that is at least the length of every text.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def block_size(max_length: int) -> int:
    """The smallest block for texts of this length."""
    return max(16, 1 << (max_length - 1).bit_length())


_Parts = tuple[Tensor, Tensor, Tensor, Tensor]  # q, k, v, virtual


def _parts(stacked: Tensor, virtual: Tensor, q: Tensor | None = None) -> _Parts:
    *stacked_q, k, v = stacked.unbind(1)
    return stacked_q[0] if q is None else q, k, v, virtual


@torch.library.custom_op("edgeformers::attend_text", mutates_args=())
def attend_text(
    qkv: Tensor, bias: Tensor | None, virtual: Tensor, offsets: Tensor, block: int
) -> Tensor:
    """Queries of all tokens: qkv [T, 3, H, Dh], virtual k and v [E, V, 2, H, Dh] -> [T, H, Dh]."""
    out = torch.empty_like(qkv[:, 0], memory_format=torch.contiguous_format)
    _forward(_parts(qkv, virtual), out, offsets, block, readout=False)
    return out


@torch.library.custom_op("edgeformers::attend_rows", mutates_args=())
def attend_rows(
    q: Tensor, kv: Tensor, bias: Tensor | None, virtual: Tensor, offsets: Tensor, block: int
) -> Tensor:
    """One query per text: q [E, H, Dh], kv [T, 2, H, Dh], virtual as above -> [E, H, Dh]."""
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    _forward(_parts(kv, virtual, q), out, offsets, block, readout=True)
    return out


@torch.library.custom_op("edgeformers::attend_text_backward", mutates_args=())
def _attend_text_backward(
    grad: Tensor, qkv: Tensor, bias: Tensor | None, virtual: Tensor, offsets: Tensor, block: int
) -> tuple[Tensor, Tensor, Tensor]:
    dqkv, dvirtual = torch.empty_like(qkv), torch.empty_like(virtual)
    inputs, grads = _parts(qkv, virtual), _parts(dqkv, dvirtual)
    sums = None
    if bias is not None and grad.is_cuda:
        sums = grad.new_empty(offsets.size(0) - 1, 2, *grad.shape[1:], dtype=torch.float32)
    _backward(grad.contiguous(), inputs, grads, offsets, block, readout=False, sums=sums)
    rows = (dqkv[:, 0], grad) if sums is None else sums.unbind(1)
    return dqkv, _bias_gradient(bias, *rows), dvirtual


@torch.library.custom_op("edgeformers::attend_rows_backward", mutates_args=())
def _attend_rows_backward(
    grad: Tensor,
    q: Tensor,
    kv: Tensor,
    bias: Tensor | None,
    virtual: Tensor,
    offsets: Tensor,
    block: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dq, dkv, dvirtual = (torch.empty_like(part) for part in (q, kv, virtual))
    inputs, grads = _parts(kv, virtual, q), _parts(dkv, dvirtual, dq)
    _backward(grad.contiguous(), inputs, grads, offsets, block, readout=True)
    return dq, dkv, _bias_gradient(bias, dq, grad), dvirtual


def _bias_gradient(bias: Tensor | None, dq: Tensor, dout: Tensor) -> Tensor:
    """The gradient of the bias [3D] from rows [R, H, Dh]; empty without bias."""
    if bias is None:
        return dq.new_empty(0)
    wide = torch.promote_types(dq.dtype, torch.float32)
    query, value = (rows.sum(0, dtype=wide).flatten() for rows in (dq, dout))
    return torch.cat([query, torch.zeros_like(query), value]).to(bias.dtype)


@attend_text.register_fake
def _(qkv: Tensor, bias: Tensor | None, virtual: Tensor, offsets: Tensor, block: int) -> Tensor:
    return qkv.new_empty(qkv.size(0), qkv.size(2), qkv.size(3))


@attend_rows.register_fake
def _(
    q: Tensor, kv: Tensor, bias: Tensor | None, virtual: Tensor, offsets: Tensor, block: int
) -> Tensor:
    return q.new_empty(q.shape)


@_attend_text_backward.register_fake
def _(
    grad: Tensor, qkv: Tensor, bias: Tensor | None, virtual: Tensor, offsets: Tensor, block: int
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(qkv), _empty_bias(bias, grad), torch.empty_like(virtual)


@_attend_rows_backward.register_fake
def _(
    grad: Tensor,
    q: Tensor,
    kv: Tensor,
    bias: Tensor | None,
    virtual: Tensor,
    offsets: Tensor,
    block: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dq, dkv, dvirtual = (torch.empty_like(part) for part in (q, kv, virtual))
    return dq, dkv, _empty_bias(bias, grad), dvirtual


def _empty_bias(bias: Tensor | None, grad: Tensor) -> Tensor:
    return grad.new_empty(0) if bias is None else bias.new_empty(bias.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.block = inputs
    ctx.save_for_backward(*tensors)


def _text_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    dqkv, dbias, dvirtual = _attend_text_backward(grad, *ctx.saved_tensors, ctx.block)
    return dqkv, dbias if ctx.needs_input_grad[1] else None, dvirtual, None, None


def _row_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    dq, dkv, dbias, dvirtual = _attend_rows_backward(grad, *ctx.saved_tensors, ctx.block)
    return dq, dkv, dbias if ctx.needs_input_grad[2] else None, dvirtual, None, None


attend_text.register_autograd(_text_gradients, setup_context=_setup_context)
attend_rows.register_autograd(_row_gradients, setup_context=_setup_context)


def _forward(inputs: _Parts, out: Tensor, offsets: Tensor, block: int, *, readout: bool) -> None:
    if out.is_cuda:
        from edgeformers.nn.fast.triton_attention import launch_forward

        launch_forward(inputs, out, offsets, block, readout)
    else:
        padded = _Padded(inputs, offsets, block, readout)
        out.copy_(padded.rows(padded.weights @ padded.values))


def _backward(
    grad: Tensor,
    inputs: _Parts,
    grads: _Parts,
    offsets: Tensor,
    block: int,
    *,
    readout: bool,
    sums: Tensor | None = None,
) -> None:
    if grad.is_cuda:
        from edgeformers.nn.fast.triton_attention import launch_backward

        launch_backward(grad, inputs, grads, offsets, block, readout, sums)
    else:
        _Padded(inputs, offsets, block, readout).backward(grad, grads)


class _Padded:
    """Plain PyTorch implementation on padded texts: the reference, and what runs without a GPU."""

    def __init__(self, inputs: _Parts, offsets: Tensor, block: int, readout: bool) -> None:
        q, k, v, virtual = inputs
        self.readout, self.num_virtual = readout, virtual.size(1)
        slots = torch.arange(block, device=q.device)
        self.real = slots < offsets.diff()[:, None]  # [E, L]
        self.indices = (offsets[:-1, None] + slots).clamp(max=max(0, k.size(0) - 1))
        self.keys, self.values = (
            torch.cat([virtual[:, :, i], part[self.indices]], 1).transpose(1, 2)  # [E, H, V+L, Dh]
            for i, part in enumerate((k, v))
        )
        self.queries = self.pad_rows(q)  # [E, H, 1 or L, Dh]
        self.scale = q.size(-1) ** -0.5
        self.wide = torch.promote_types(q.dtype, torch.float32)
        scores = (self.queries @ self.keys.transpose(-1, -2)).to(self.wide) * self.scale
        hidden = ~F.pad(self.real, (self.num_virtual, 0), value=True)[:, None, None]
        self.weights = scores.masked_fill(hidden, float("-inf")).softmax(-1).to(q.dtype)

    def backward(self, grad: Tensor, grads: _Parts) -> None:
        """Write the gradients of q, k, v and virtual."""
        dq, dk, dv, dvirtual = grads
        padded = self.pad_rows(grad)
        if not self.readout:
            padded = padded * self.real[:, None, :, None]
        dweights = (padded @ self.values.transpose(-1, -2)).to(self.wide)
        product = self.weights * dweights
        dscores = (product - self.weights * product.sum(-1, keepdim=True)) * self.scale
        dscores = dscores.to(grad.dtype)
        dq.copy_(self.rows(dscores @ self.keys))
        dkeys = dscores.transpose(-1, -2) @ self.queries
        dvalues = self.weights.transpose(-1, -2) @ padded
        for i, (target, heads) in enumerate(((dk, dkeys), (dv, dvalues))):
            rows = heads.transpose(1, 2)  # [E, V+L, H, Dh]
            dvirtual[:, :, i].copy_(rows[:, : self.num_virtual])
            target.copy_(rows[:, self.num_virtual :][self.real])

    def pad_rows(self, rows: Tensor) -> Tensor:
        """[R, H, Dh] -> [E, H, 1 or L, Dh]."""
        return rows[:, :, None] if self.readout else rows[self.indices].transpose(1, 2)

    def rows(self, padded: Tensor) -> Tensor:
        """[E, H, 1 or L, Dh] -> [R, H, Dh]."""
        return padded[:, :, 0] if self.readout else padded.transpose(1, 2)[self.real]
