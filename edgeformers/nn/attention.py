"""Attention in which text reads virtual tokens but never rewrites them, over packed texts."""

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn

from edgeformers.errors import ConfigError
from edgeformers.nn.buckets import Buckets
from edgeformers.nn.fast.short_attention import (
    LONGEST,
    attend_rows,
    attend_text,
    block_of,
    short_hindrance,
)
from edgeformers.nn.ragged import Ragged

Backend = Literal["auto", "short", "varlen", "bucketed"]


class AsymmetricAttention(nn.Module):
    """Multi-head attention MHA(H, H~): text asks, [virtual ; text] answers.

    Virtual tokens (the two end nodes and, in Edgeformer-N, the neighborhood token) carry
    network signal into the text (section 3.1). They have no query of their own, so no layer
    updates them and no attention row is computed only to be thrown away.

    With `rotary_theta`, text rows are rotated by their position; virtual tokens stand at
    position 0. With `window`, a token sees the text within that distance, and every virtual token.

    Shapes: B texts, T tokens of them all, V virtual tokens per text, D width, H heads.
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
        if width % heads:
            raise ConfigError(
                f"width must be divisible by heads (got width={width}, heads={heads})"
            )
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

        A readout row stands at position 0, as [CLS] and virtual tokens do.
        """
        return cast(Tensor, self.out(self.mix(hidden, text, virtual, readout)))

    def mix(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        readout: Tensor | None = None,
    ) -> Tensor:
        """As `forward`, before the output map: values weighed by attention, heads side by side."""
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

    def _is_short(self, hidden: Tensor, text: Ragged, virtual: Tensor | None) -> bool:
        """Whether the operators for short texts read these texts here."""
        if self.backend not in ("auto", "short") or not text.num_groups:
            return False
        hindrance = self._short_hindrance(hidden, text, _count(virtual))
        if hindrance and self.backend == "short":
            raise ConfigError(f"attention backend 'short' {hindrance}; use 'auto' or 'bucketed'")
        return not hindrance

    def attention_map(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        readout: Tensor | None = None,
    ) -> list[Tensor]:
        """How `forward` weighs the values: of each text [H, L, V+L]; with readout [H, 1, V+L]."""
        q, k, _ = self._project(hidden, text, virtual, readout)
        plan = text.buckets(_count(virtual), self.window, readout is not None)
        maps: list[Tensor] = [q.new_empty(0)] * text.num_groups
        for block in plan.blocks:
            scores = block.queries(q) @ block.keys(k).transpose(-1, -2) / q.size(-1) ** 0.5
            if block.visible is not None:
                scores = scores.masked_fill(~block.visible, float("-inf"))
            for one, (index, rows, columns) in zip(scores.softmax(-1), block.texts, strict=True):
                maps[index] = one[:, :rows, :columns]
        return maps

    def _short_hindrance(self, hidden: Tensor, text: Ragged, num_virtual: int) -> str:
        if self.rotary_theta is not None or type(self.query) is not nn.Linear:
            return "reads absolute positions through plain linear maps"
        if self.window is not None and self.window < text.max_length - 1:
            return f"has no window (got {self.window})"
        if self.backend == "short" and hidden.device.type == "cpu":
            return "" if text.max_length <= LONGEST else f"needs at most {LONGEST} tokens"
        head_width, kind = hidden.size(-1) // self.heads, hidden.device.type
        is_auto = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if is_auto else hidden.dtype
        return short_hindrance(hidden.device, dtype, head_width, text.max_length, num_virtual)

    def _attend_short(
        self, hidden: Tensor, text: Ragged, virtual: Tensor | None, readout: Tensor | None
    ) -> Tensor:
        """As `forward` before the output map; text rows are mapped to q, k and v in one product."""
        maps, spans = (self.query, self.key_value), (text.offsets, block_of(text.max_length))
        bias = None if self.query.bias is None else torch.cat([one.bias for one in maps])  # [3D]
        if readout is None:
            weight = torch.cat([one.weight for one in maps])
            rows = self._product(hidden, weight, bias)  # [T, 3, H, D/H]
        else:
            rows = self._product(hidden, self.key_value.weight, self.key_value.bias)
        if virtual is None:
            ensemble = rows.new_empty(text.num_groups, 0, 2, *rows.shape[2:])
        else:  # [B, V, 2, H, D/H]
            ensemble = self._product(virtual, self.key_value.weight, self.key_value.bias)
        if readout is None:
            return cast(Tensor, attend_text(rows, bias, ensemble, *spans)).flatten(1)
        q = self._product(readout, self.query.weight, self.query.bias)[:, 0]  # [B, H, D/H]
        return cast(Tensor, attend_rows(q, rows, bias, ensemble, *spans)).flatten(1)

    def _product(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """[..., D] -> [..., 1 to 3, H, D/H]; the operators give the bias its gradient, not this."""
        made = F.linear(rows, weight, None if bias is None else bias.detach())
        heads = (-1, self.heads, rows.size(-1) // self.heads)
        return cast(Tensor, made.unflatten(-1, heads))

    def _project(
        self, hidden: Tensor, text: Ragged, virtual: Tensor | None, readout: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows = hidden if readout is None else readout
        context = hidden if not _count(virtual) else join_virtual(hidden, text, virtual)  # [S, D]
        q = self.query(rows).unflatten(-1, (self.heads, -1))  # [T or B, H, D/H]
        k, v = self.key_value(context).unflatten(-1, (2, self.heads, -1)).unbind(1)
        if self.rotary_theta is not None:
            if readout is None:  # a readout row stands at position 0: no rotation
                q = _rotate(q, *_rotation(text, 0, self.rotary_theta, q.size(-1)))
            k = _rotate(k, *_rotation(text, _count(virtual), self.rotary_theta, k.size(-1)))
        return q, k, v


def join_virtual(hidden: Tensor, text: Ragged, virtual: Tensor | None) -> Tensor:
    """H~: [T, D] and [B, V, D] -> [T + B*V, D], each text after its own virtual tokens."""
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
    text: Ragged,
    num_virtual: int = 0,
    *,
    readout: bool = False,
    dropout: float = 0.0,
    window: int | None = None,
    backend: Backend = "auto",
) -> Tensor:
    """softmax(q k^T / sqrt(Dh)) v within each text: q [T, H, Dh], k and v [T + B*V, H, Dh] -> as q.

    Rows of k and v lie as `text.layout(num_virtual)` says. With `readout`, q holds one row per
    text, [B, H, Dh]. Backends: "varlen" is torch's variable-length flash attention (CUDA, 16-bit
    floats); it has no dropout of attention probabilities, so `dropout` is not applied there.
    "bucketed" pads within blocks of texts of similar length and runs anywhere. "auto" takes
    varlen where it can run. A window shorter than the text is left to bucketed when there are
    virtual tokens or a readout: flash attention would slide the window past virtual tokens.
    ("short" is a way of `AsymmetricAttention` as a whole, see `nn.short`.)
    """
    if text.num_groups == 0:
        return q + k + v  # no rows, but every input keeps its place in the graph
    if window is not None and window >= text.max_length - 1:
        window = None  # every token already sees its whole text
    hindrance = _varlen_hindrance(q, window, num_virtual > 0 or readout)
    if backend == "varlen" and hindrance:
        raise ConfigError(f"attention backend 'varlen' {hindrance}; use 'auto' or 'bucketed'")
    if backend == "bucketed" or hindrance:
        return _attend_bucketed(q, k, v, text.buckets(num_virtual, window, readout), dropout)
    return _attend_varlen(q, k, v, text, num_virtual, window, readout)


def attend_within(qkv: Tensor, text: Ragged) -> Tensor:
    """Every row asks the rows of its own text, as `attend` does: [T, 3, H, Dh] -> [T, H, Dh]."""
    shape = (qkv.device, qkv.dtype, qkv.size(-1), text.max_length, 0)
    if not text.num_groups or short_hindrance(*shape):
        q, k, v = qkv.unbind(1)
        return attend(q, k, v, text)
    ensemble = qkv.new_empty(text.num_groups, 0, 2, *qkv.shape[2:])
    return cast(Tensor, attend_text(qkv, None, ensemble, text.offsets, block_of(text.max_length)))


def _attend_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    text: Ragged,
    num_virtual: int,
    window: int | None,
    readout: bool,
) -> Tensor:
    keys = text.layout(num_virtual)
    queries, longest = text.offsets, text.max_length
    if readout:
        queries, longest = keys.row_offsets, 1
    reach = -1 if window is None else window
    args = (q, k, v, queries, keys.offsets, longest, keys.max_length)
    return cast(Tensor, varlen_attn(*args, window_size=(reach, reach)))


def _varlen_hindrance(q: Tensor, window: int | None, beyond_text: bool) -> str:
    """Why variable-length flash attention cannot run here; empty where it can."""
    if not q.is_cuda or q.dtype not in (torch.bfloat16, torch.float16):
        return f"needs CUDA and bfloat16 or float16 (got {q.device.type}, {q.dtype})"
    if q.size(-1) % 8 or q.size(-1) > 256:
        return f"needs a head width that is a multiple of 8 up to 256 (got {q.size(-1)})"
    if torch.cuda.get_device_capability(q.device) < (8, 0):
        return "needs a GPU of compute capability 8.0 or later"
    if window is not None and beyond_text:
        return "cannot show virtual tokens to a window shorter than the text"
    return ""


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
    """Cosine and sine of every key row's angles, each [S, 1, Dh/2]; made once per batch."""

    def make() -> tuple[Tensor, Tensor]:
        steps = torch.arange(0, dim, 2, device=text.device, dtype=torch.float32) / dim
        angles = text.layout(num_virtual).positions[:, None, None] * theta**-steps
        return angles.cos(), angles.sin()

    return text.cached(("rotation", num_virtual, theta, dim), make)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    wide = x if x.dtype == torch.float64 else x.float()
    left, right = wide.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1).type_as(x)


class _Permute(torch.autograd.Function):
    """Rows in another order; the gradient is a gather as well, not a scatter with atomics."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = ctx.saved_tensors
        return grad.index_select(0, inverse), None, None
