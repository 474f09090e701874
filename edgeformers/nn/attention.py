"""Asymmetric attention over packed texts: text attends to virtual tokens, which stay unchanged."""

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.errors import ConfigError
from edgeformers.nn.fast.dispatch import (
    compute_dtype,
    short_attention_obstacle,
    varlen_attention_obstacle,
)
from edgeformers.nn.fast.short_attention import attend_short, block_size
from edgeformers.nn.ragged import Buckets, Ragged

Backend = Literal["auto", "short", "varlen", "bucketed"]


class AsymmetricAttention(nn.Module):
    """Multi-head attention MHA(H, H~): text queries, keys and values of [virtual ; text].

    Virtual tokens (the two end nodes and, in Edgeformer-N, the neighborhood token) carry network
    signal into the text (section 3.1). They have no queries, so no layer updates them.

    With `rotary_theta`, rows are rotated by their position; virtual tokens have position 0. With
    `window`, a token attends to text within that distance and to all virtual tokens.

    Shapes: B texts, T tokens in total, V virtual tokens per text, D width, H heads.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        rotary_theta: float | None = None,
        window: int | None = None,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.rotary_theta = rotary_theta
        self.window = window
        self.backend: Backend = backend
        self.query = nn.Linear(width, width, bias=bias)
        self.key_value = nn.Linear(width, 2 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        readout: Tensor | None = None,
    ) -> Tensor:
        """[T, D] and [B, V, D] -> [T, D]; with one query row per text `readout` [B, D] -> [B, D].

        Readout rows have position 0, as [CLS] and virtual tokens do.
        """
        return cast(Tensor, self.out(self.mix(hidden, text, virtual, readout)))

    def mix(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        readout: Tensor | None = None,
    ) -> Tensor:
        """As `forward`, without the output map: the concatenated heads."""
        if self._is_short(hidden, text, virtual):
            return self._attend_short(hidden, text, virtual, readout)
        q, k, v = self._project(hidden, text, virtual, readout)
        mixed = attend(
            q,
            k,
            v,
            text,
            _count(virtual),
            readout=readout is not None,
            dropout=self.dropout if self.training else 0.0,
            window=self.window,
            backend=self.backend,
        )
        return mixed.flatten(1)  # [T, D]

    def attention_map(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        readout: Tensor | None = None,
    ) -> list[Tensor]:
        """The attention weights of `forward`: per text [H, L, V+L], with readout [H, 1, V+L]."""
        q, k, _ = self._project(hidden, text, virtual, readout)
        plan = text.buckets(_count(virtual), self.window, readout is not None)
        maps: list[Tensor] = [q.new_empty(0)] * text.num_groups
        for block in plan.blocks:
            scores = block.queries(q) @ block.keys(k).transpose(-1, -2) / q.size(-1) ** 0.5
            if block.visible is not None:
                scores = scores.masked_fill(~block.visible, float("-inf"))
            weights = scores.softmax(-1)
            for padded, (index, rows, columns) in zip(weights, block.groups, strict=True):
                maps[index] = padded[:, :rows, :columns]
        return maps

    def _is_short(self, hidden: Tensor, text: Ragged, virtual: Tensor | None) -> bool:
        """Whether to use the kernels for short texts."""
        if self.backend not in ("auto", "short") or not text.num_groups:
            return False
        if self.rotary_theta is not None or type(self.query) is not nn.Linear:
            obstacle = "needs absolute positions and plain linear maps"
        elif self.window is not None and self.window < text.max_length - 1:
            obstacle = f"does not support windows (got {self.window})"
        else:
            sizes = (hidden.size(-1) // self.heads, text.max_length, _count(virtual))
            obstacle = short_attention_obstacle(hidden.device, compute_dtype(hidden), *sizes)
        if obstacle and self.backend == "short":
            raise ConfigError(f"attention backend 'short' {obstacle}; use 'auto' or 'bucketed'")
        return not obstacle

    def _attend_short(
        self, hidden: Tensor, text: Ragged, virtual: Tensor | None, readout: Tensor | None
    ) -> Tensor:
        """As `mix`, with one product for q, k and v of the text."""
        maps, q = (self.query, self.key_value), None
        bias = None if self.query.bias is None else torch.cat([part.bias for part in maps])  # [3D]
        if readout is None:
            weight = torch.cat([linear.weight for linear in maps])
            rows = self._product(hidden, weight, bias)  # [T, 3, H, D/H]
        else:
            rows = self._product(hidden, self.key_value.weight, self.key_value.bias)
            q = self._product(readout, self.query.weight, self.query.bias)[:, 0]  # [B, H, D/H]
        if virtual is None:
            virtual_kv = rows.new_empty(text.num_groups, 0, 2, *rows.shape[2:])
        else:  # [B, V, 2, H, D/H]
            virtual_kv = self._product(virtual, self.key_value.weight, self.key_value.bias)
        block = block_size(text.max_length)
        return attend_short(rows, bias, virtual_kv, text.offsets, block, q).flatten(1)

    def _product(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """[..., D] -> [..., 1 to 3, H, D/H]; `attend_short` computes the gradient of the bias."""
        product = F.linear(rows, weight, None if bias is None else bias.detach())
        heads = (-1, self.heads, rows.size(-1) // self.heads)
        return cast(Tensor, product.unflatten(-1, heads))

    def _project(
        self, hidden: Tensor, text: Ragged, virtual: Tensor | None, readout: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows = hidden if readout is None else readout
        context = hidden if not _count(virtual) else join_virtual(hidden, text, virtual)  # [S, D]
        q = self.query(rows).unflatten(-1, (self.heads, -1))  # [T or B, H, D/H]
        k, v = self.key_value(context).unflatten(-1, (2, self.heads, -1)).unbind(1)
        if self.rotary_theta is not None:
            if readout is None:  # at position 0 there is no rotation
                q = _rotate(q, *_rotation(text, 0, self.rotary_theta, q.size(-1)))
            k = _rotate(k, *_rotation(text, _count(virtual), self.rotary_theta, k.size(-1)))
        return q, k, v


def join_virtual(hidden: Tensor, text: Ragged, virtual: Tensor | None) -> Tensor:
    """H~: [T, D] and [B, V, D] -> [T + B*V, D], the virtual tokens of each text before it."""
    if virtual is None:
        return hidden
    layout = text.layout(virtual.size(1))
    rows = torch.cat([virtual.flatten(0, 1), hidden])
    permute: Callable[..., Tensor] = _Permute.apply
    return permute(rows, layout.order, layout.inverse)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    groups: Ragged,
    num_virtual: int = 0,
    *,
    readout: bool = False,
    dropout: float = 0.0,
    window: int | None = None,
    backend: Backend = "auto",
) -> Tensor:
    """softmax(q k^T / sqrt(Dh)) v per group: q [T, H, Dh], k and v [T + B*V, H, Dh] -> as q.

    Rows of k and v are ordered as in `groups.layout(num_virtual)`. With `readout`, q has one row
    per group, [B, H, Dh]. Backends:

    - "varlen": PyTorch's variable-length flash attention (CUDA, 16-bit floats). It does not apply
      `dropout`, and does not combine a window with virtual tokens or a readout.
    - "bucketed": padded blocks of groups of similar length, on any device.
    - "auto": varlen if it applies, else bucketed. ("short" exists only in `AsymmetricAttention`.)
    """
    if groups.num_groups == 0:
        return q + k + v  # empty, but part of the autograd graph
    if window is not None and window >= groups.max_length - 1:
        window = None  # covers the whole text
    obstacle = varlen_attention_obstacle(q, window, num_virtual > 0 or readout)
    if backend == "varlen" and obstacle:
        raise ConfigError(f"attention backend 'varlen' {obstacle}; use 'auto' or 'bucketed'")
    if backend == "bucketed" or obstacle:
        return _attend_bucketed(q, k, v, groups.buckets(num_virtual, window, readout), dropout)
    from torch.nn.attention.varlen import varlen_attn  # imports torch._dynamo: a second

    keys = groups.layout(num_virtual)
    offsets, max_length = groups.offsets, groups.max_length
    if readout:
        offsets, max_length = keys.row_offsets, 1
    reach = -1 if window is None else window
    args = (q, k, v, offsets, keys.offsets, max_length, keys.max_length)
    return cast(Tensor, varlen_attn(*args, window_size=(reach, reach)))


def attend_within(qkv: Tensor, groups: Ragged) -> Tensor:
    """Self-attention within each group: [T, 3, H, Dh] -> [T, H, Dh]."""
    shape = (qkv.device, qkv.dtype, qkv.size(-1), groups.max_length, 0)
    if not groups.num_groups or short_attention_obstacle(*shape):
        q, k, v = qkv.unbind(1)
        return attend(q, k, v, groups)
    no_virtual = qkv.new_empty(groups.num_groups, 0, 2, *qkv.shape[2:])
    block = block_size(groups.max_length)
    return attend_short(qkv, None, no_virtual, groups.offsets, block)


def _attend_bucketed(q: Tensor, k: Tensor, v: Tensor, plan: Buckets, dropout: float) -> Tensor:
    parts = [
        F.scaled_dot_product_attention(
            block.queries(q), block.keys(k), block.keys(v), block.visible, dropout_p=dropout
        )
        for block in plan.blocks
    ]
    rows = torch.cat([part.transpose(1, 2).flatten(0, 1) for part in parts])
    return rows if plan.restore is None else rows.index_select(0, plan.restore)


def _count(virtual: Tensor | None) -> int:
    return 0 if virtual is None else virtual.size(1)


def _rotation(text: Ragged, num_virtual: int, theta: float, dim: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angles of every key row, each [S, 1, Dh/2]."""

    def compute() -> tuple[Tensor, Tensor]:
        steps = torch.arange(0, dim, 2, device=text.device, dtype=torch.float32) / dim
        angles = text.layout(num_virtual).positions[:, None, None] * theta**-steps
        return angles.cos(), angles.sin()

    return text.cached(("rotation", num_virtual, theta, dim), compute)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    wide = x if x.dtype == torch.float64 else x.float()
    left, right = wide.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1).type_as(x)


class _Permute(torch.autograd.Function):
    """Permuted rows; the backward pass is a gather too, not a scatter with atomics."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = ctx.saved_tensors
        return grad.index_select(0, inverse), None, None
