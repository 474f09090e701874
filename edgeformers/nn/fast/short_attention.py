"""Attention within short texts as operators: text asking its virtual tokens and itself.

A text and its virtual tokens stay where the linear maps left them: nothing is joined, padded or
taken apart. On a GPU both ways are one kernel each (`nn.kernels`); elsewhere the same is written
in plain torch, so that whatever is built on these operators can be tested anywhere.

A bias of the linear maps, `bias` [3D], is in q, k, v and virtual already: their products add
it detached, and it is given here for its gradient alone. That takes no pass over the gradients of
q, k and v: a bias of keys moves all scores of a query alike, so its gradient is zero; a bias of
values leaves as it came, since weights sum to one, so its gradient is that of the output; and the
gradient of q is summed where it is made.

Shapes: T tokens of E texts, V virtual tokens per text, H heads of width Dh, D = H Dh. `block` is a
power of two from 16 to `LONGEST` that no text exceeds.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

LONGEST = 128  # tokens of a text
MOST_VIRTUAL = 16
_HEAD_WIDTHS = (16, 32, 64, 128)


def block_of(max_length: int) -> int:
    """The smallest block that holds a text of this length."""
    return max(16, 1 << (max_length - 1).bit_length())


@cache
def has_kernels(device: torch.device) -> bool:
    """Whether kernels of our own run on this GPU."""
    return find_spec("triton") is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def short_hindrance(
    device: torch.device, dtype: torch.dtype, head_width: int, max_length: int, num_virtual: int
) -> str:
    """Why the kernels cannot run here; empty where they can."""
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return f"needs CUDA and bfloat16 or float16 (got {device.type}, {dtype})"
    if head_width not in _HEAD_WIDTHS:
        return f"needs heads of width {', '.join(map(str, _HEAD_WIDTHS))} (got {head_width})"
    if max_length > LONGEST or num_virtual > MOST_VIRTUAL:
        return f"needs texts of at most {LONGEST} tokens (got {max_length})"
    if not has_kernels(device):
        return "needs Triton and a GPU of compute capability 8.0 or later"
    return ""


_Parts = tuple[Tensor, Tensor, Tensor, Tensor]  # q, k, v, virtual


def _parts(many: Tensor, virtual: Tensor, q: Tensor | None = None) -> _Parts:
    *first, k, v = many.unbind(1)
    return first[0] if q is None else q, k, v, virtual


@torch.library.custom_op("edgeformers::attend_text", mutates_args=())
def attend_text(
    qkv: Tensor, bias: Tensor | None, virtual: Tensor, offsets: Tensor, block: int
) -> Tensor:
    """Every token asks: qkv [T, 3, H, Dh], virtual keys, values [E, V, 2, H, Dh] -> [T, H, Dh]."""
    out = torch.empty_like(qkv[:, 0], memory_format=torch.contiguous_format)
    _forward(_parts(qkv, virtual), out, offsets, block, readout=False)
    return out


@torch.library.custom_op("edgeformers::attend_rows", mutates_args=())
def attend_rows(
    q: Tensor, kv: Tensor, bias: Tensor | None, virtual: Tensor, offsets: Tensor, block: int
) -> Tensor:
    """One row per text asks: q [E, H, Dh], kv [T, 2, H, Dh], virtual as above -> [E, H, Dh]."""
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
    """[3D], of q, k and v, from rows [R, H, Dh]; nothing where there is no bias."""
    if bias is None:
        return dq.new_empty(0)
    wide = torch.promote_types(dq.dtype, torch.float32)
    of_q, of_v = (rows.sum(0, dtype=wide).flatten() for rows in (dq, dout))
    return torch.cat([of_q, torch.zeros_like(of_q), of_v]).to(bias.dtype)


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


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.block = inputs
    ctx.save_for_backward(*tensors)


def _text_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    dqkv, dbias, dvirtual = _attend_text_backward(grad, *ctx.saved_tensors, ctx.block)
    return dqkv, dbias if ctx.needs_input_grad[1] else None, dvirtual, None, None


def _row_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    dq, dkv, dbias, dvirtual = _attend_rows_backward(grad, *ctx.saved_tensors, ctx.block)
    return dq, dkv, dbias if ctx.needs_input_grad[2] else None, dvirtual, None, None


attend_text.register_autograd(_text_gradients, setup_context=_keep)
attend_rows.register_autograd(_row_gradients, setup_context=_keep)


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
    """The same in plain torch over padded texts: a reference, and what runs without a GPU."""

    def __init__(self, inputs: _Parts, offsets: Tensor, block: int, readout: bool) -> None:
        q, k, v, virtual = inputs
        self.readout, self.num_virtual = readout, virtual.size(1)
        slots = torch.arange(block, device=q.device)
        self.real = slots < offsets.diff()[:, None]  # [E, L]
        self.places = (offsets[:-1, None] + slots).clamp(max=max(0, k.size(0) - 1))
        self.keys, self.values = (
            torch.cat([virtual[:, :, i], part[self.places]], 1).transpose(1, 2)  # [E, H, V+L, Dh]
            for i, part in enumerate((k, v))
        )
        self.queries = self.pad_rows(q)  # [E, H, 1 or L, Dh]
        self.scale = q.size(-1) ** -0.5
        self.wide = torch.promote_types(q.dtype, torch.float32)
        scores = (self.queries @ self.keys.transpose(-1, -2)).to(self.wide) * self.scale
        hidden = ~F.pad(self.real, (self.num_virtual, 0), value=True)[:, None, None]
        self.weights = scores.masked_fill(hidden, float("-inf")).softmax(-1).to(q.dtype)

    def backward(self, grad: Tensor, grads: _Parts) -> None:
        """Fill in the gradients of q, k, v and virtual."""
        dq, dk, dv, dvirtual = grads
        given = self.pad_rows(grad)
        if not self.readout:
            given = given * self.real[:, None, :, None]  # padded queries gave nothing
        dweights = (given @ self.values.transpose(-1, -2)).to(self.wide)
        weighed = self.weights * dweights
        dscores = (weighed - self.weights * weighed.sum(-1, keepdim=True)) * self.scale
        dscores = dscores.to(grad.dtype)
        dq.copy_(self.rows(dscores @ self.keys))
        for i, (target, found) in enumerate(
            (
                (dk, dscores.transpose(-1, -2) @ self.queries),
                (dv, self.weights.transpose(-1, -2) @ given),
            )
        ):
            of_keys = found.transpose(1, 2)  # [E, V+L, H, Dh]
            dvirtual[:, :, i].copy_(of_keys[:, : self.num_virtual])
            target.copy_(of_keys[:, self.num_virtual :][self.real])

    def pad_rows(self, rows: Tensor) -> Tensor:
        """[R, H, Dh] -> [E, H, 1 or L, Dh]."""
        return rows[:, :, None] if self.readout else rows[self.places].transpose(1, 2)

    def rows(self, padded: Tensor) -> Tensor:
        """[E, H, 1 or L, Dh] -> [R, H, Dh]."""
        return padded[:, :, 0] if self.readout else padded.transpose(1, 2)[self.real]
