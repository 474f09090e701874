"""BERT-like layers for inference on CPUs: the same results with fewer, oneDNN-packed products."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers.nn.encoder import PostNormLayer
from edgeformers.nn.fast.dispatch import can_use_onednn
from edgeformers.nn.ragged import Ragged

PLAIN_ATTENTION_TOKENS = 48  # up to here plain products are faster than fused attention


@contextmanager
def onednn_inference(layers: Iterable[nn.Module]) -> Iterator[None]:
    """Let layers use `OneDNNLayer` when they run without gradients, where it applies.

    The weights are copied on entry, so they must not change within the block.
    """
    supported = [layer for layer in layers if isinstance(layer, PostNormLayer) and _supports(layer)]
    for layer in supported:
        layer.inference_layer = OneDNNLayer(layer)
    try:
        yield
    finally:
        for layer in supported:
            layer.inference_layer = None


def _supports(layer: PostNormLayer) -> bool:
    attention, ffn = layer.attention, layer.ffn
    maps: list[nn.Module] = [attention.query, attention.key_value, attention.out, ffn.up, ffn.down]
    return not ffn.gated and attention.rotary_theta is None and can_use_onednn(maps)


class PackedLinear:
    """Linear maps of the same input as one product, with weights in the layout of oneDNN."""

    def __init__(self, *maps: nn.Linear) -> None:
        weight = torch.cat([linear.weight.detach() for linear in maps])
        biases = [linear.bias.detach() for linear in maps if linear.bias is not None]
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self.bias = torch.cat(biases) if biases else None

    def __call__(self, rows: Tensor, activation: str = "none") -> Tensor:
        """activation(linear(rows)): [R, in] -> [R, out]."""
        multiply = torch.ops.mkldnn._linear_pointwise
        return cast(Tensor, multiply(rows, self.weight, self.bias, activation, [], "none"))

    def add(self, rows: Tensor, residual: Tensor) -> Tensor:
        """linear(rows) + residual: [R, in] -> [R, out]."""
        multiply = torch.ops.mkldnn._linear_pointwise.binary
        return cast(Tensor, multiply(rows, residual, self.weight, self.bias, "add"))


class OneDNNLayer:
    """A `PostNormLayer` with its current weights, without gradients.

    Queries, keys and values of the text are one product, and activations and sums are fused into
    products. Texts of the same length are processed together, without padding. Readout rows attend
    to hidden states instead of keys and values: q (W_k h) = (q W_k) h, and the weighted sum of
    W_v h is W_v applied to the weighted sum of h, so the last layer maps one row per text.

    Shapes: T tokens of B texts, V virtual tokens per text, D width, H heads.
    """

    def __init__(self, layer: PostNormLayer) -> None:
        self.layer, self.attention = layer, layer.attention
        self.heads = layer.attention.heads
        self.query_key_value = PackedLinear(self.attention.query, self.attention.key_value)
        self.out = PackedLinear(self.attention.out)
        self.up, self.down = PackedLinear(layer.ffn.up), PackedLinear(layer.ffn.down)

    def __call__(
        self, hidden: Tensor, text: Ragged, virtual: Tensor | None, readout: Tensor | None
    ) -> Tensor:
        """As `TransformerLayer.compute`, which runs if this does not apply."""
        window = self.attention.window
        sees_all = window is None or window >= text.max_length - 1
        if not sees_all or not text.num_groups or torch.is_autocast_enabled("cpu"):
            return self.layer.compute(hidden, text, virtual, readout)
        if readout is None:
            rows, mixed = hidden, self.attend_text(hidden, text, virtual)
        else:
            rows, mixed = readout, self.attend_rows(readout, hidden, text, virtual)
        rows = self.layer.attention_norm(self.out.add(mixed, rows))
        activate = self.layer.ffn.activate
        inner = self.up(rows, "gelu") if activate is F.gelu else activate(self.up(rows))
        return cast(Tensor, self.layer.ffn_norm(self.down.add(inner, rows)))

    def attend_text(self, hidden: Tensor, text: Ragged, virtual: Tensor | None) -> Tensor:
        """All tokens attend to virtual tokens and their text: -> [T, D]."""
        rows = self.query_key_value(hidden)  # [T, 3D]
        virtual_kv = None if virtual is None else self.attention.key_value(virtual)  # [B, V, 2D]
        mixed = torch.empty_like(hidden)
        for run in equal_length_runs(text):
            q, k, v = self._split(run.stack(rows[run.rows]), 3)  # [b, H, L, D/H] each
            if virtual_kv is not None:
                pairs = zip(self._split(virtual_kv[run.groups], 2), (k, v), strict=True)
                k, v = (torch.cat(pair, dim=2) for pair in pairs)
            heads = _attend(q, k, v).transpose(1, 2)  # [b, L, H, D/H]
            mixed[run.rows] = heads.reshape(-1, hidden.size(1))
        return mixed

    def attend_rows(
        self, readout: Tensor, hidden: Tensor, text: Ragged, virtual: Tensor | None
    ) -> Tensor:
        """One row per text attends to virtual tokens and its text: -> [B, D]."""
        maps = self.attention.key_value
        key, value = maps.weight.unflatten(0, (2, self.heads, -1)).unbind()  # [H, D/H, D] each
        q = self.attention.query(readout).unflatten(1, (self.heads, -1)).transpose(0, 1)
        queries = (q @ key * key.size(1) ** -0.5).transpose(0, 1)  # [B, H, D]
        sums = torch.empty_like(queries)
        for run in equal_length_runs(text):
            context = run.stack(hidden[run.rows])  # [b, L, D]
            if virtual is not None:
                context = torch.cat([virtual[run.groups], context], dim=1)
            weights = (queries[run.groups] @ context.transpose(1, 2)).softmax(-1)  # [b, H, V+L]
            sums[run.groups] = weights @ context
        mixed = (sums.transpose(0, 1) @ value.transpose(1, 2)).transpose(0, 1).flatten(1)  # [B, D]
        return cast(Tensor, mixed if maps.bias is None else mixed + maps.bias.chunk(2)[1])

    def _split(self, rows: Tensor, parts: int) -> tuple[Tensor, ...]:
        """[b, L, parts * D] -> `parts` tensors [b, H, L, D/H]."""
        split = rows.unflatten(2, (parts, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return cast(tuple[Tensor, ...], split.unbind())


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(Dh)) v: [b, H, L, Dh] and [b, H, V+L, Dh] -> [b, H, L, Dh]."""
    if q.size(2) > PLAIN_ATTENTION_TOKENS:
        return F.scaled_dot_product_attention(q, k, v)
    scores: Tensor = q * q.size(-1) ** -0.5 @ k.transpose(-1, -2)
    return scores.softmax(-1) @ v


@dataclass(frozen=True, eq=False)
class EqualLengthRun:
    """Groups of one length."""

    groups: slice | Tensor
    rows: slice | Tensor
    length: int

    def stack(self, rows: Tensor) -> Tensor:
        """[b*L, D] -> [b, L, D]."""
        return cast(Tensor, rows.unflatten(0, (-1, self.length)))


def equal_length_runs(text: Ragged) -> list[EqualLengthRun]:
    """The groups of each length; those of one length that are consecutive are not copied."""
    return text.cached("equal_length_runs", lambda: _plan_runs(text.host_offsets))


def _plan_runs(offsets: NDArray[np.int64]) -> list[EqualLengthRun]:
    lengths, runs = np.diff(offsets), []
    for length in np.unique(lengths).tolist():
        groups = np.flatnonzero(lengths == length)
        if groups[-1] - groups[0] == len(groups) - 1:
            first, end = int(groups[0]), int(groups[-1]) + 1
            rows = slice(int(offsets[first]), int(offsets[end]))
            runs.append(EqualLengthRun(slice(first, end), rows, length))
        else:
            indices = torch.from_numpy((offsets[groups, None] + np.arange(length)).ravel())
            runs.append(EqualLengthRun(torch.from_numpy(groups), indices, length))
    return runs
