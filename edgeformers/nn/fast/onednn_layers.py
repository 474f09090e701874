"""BERT-like layers for inference on CPUs: the same results with fewer, oneDNN-packed products."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers.nn.encoder import PostNormLayer
from edgeformers.nn.fast.dispatch import can_use_onednn
from edgeformers.nn.ragged import Ragged

CACHED_TOKENS = 2048  # tokens per batch on a CPU: their activations fit in its caches
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
        runs = equal_length_runs(text)
        rows = runs.sort_rows(self.query_key_value(hidden))  # [T, 3D]
        virtual_kv = None  # [B, V, 2D]
        if virtual is not None:
            virtual_kv = runs.sort_groups(self.attention.key_value(virtual))
        mixed = torch.empty_like(hidden)
        for groups, part, length in runs.slices:
            q, k, v = self._split(rows[part].unflatten(0, (-1, length)), 3)  # [b, H, L, D/H] each
            if virtual_kv is not None:
                pairs = zip(self._split(virtual_kv[groups], 2), (k, v), strict=True)
                k, v = (torch.cat(pair, dim=2) for pair in pairs)
            heads = _attend(q, k, v).transpose(1, 2)  # [b, L, H, D/H]
            mixed[part] = heads.reshape(-1, hidden.size(1))
        return runs.restore_rows(mixed)

    def attend_rows(
        self, readout: Tensor, hidden: Tensor, text: Ragged, virtual: Tensor | None
    ) -> Tensor:
        """One row per text attends to virtual tokens and its text: -> [B, D]."""
        runs, maps = equal_length_runs(text), self.attention.key_value
        key, value = maps.weight.unflatten(0, (2, self.heads, -1)).unbind()  # [H, D/H, D] each
        q = self.attention.query(readout).unflatten(1, (self.heads, -1)).transpose(0, 1)
        queries = runs.sort_groups((q @ key * key.size(1) ** -0.5).transpose(0, 1))  # [B, H, D]
        rows = runs.sort_rows(hidden)
        virtual = None if virtual is None else runs.sort_groups(virtual)
        sums = torch.empty_like(queries)
        for groups, part, length in runs.slices:
            context = rows[part].unflatten(0, (-1, length))  # [b, L, D]
            if virtual is not None:
                context = torch.cat([virtual[groups], context], dim=1)
            weights = (queries[groups] @ context.transpose(1, 2)).softmax(-1)  # [b, H, V+L]
            sums[groups] = weights @ context
        sums = runs.restore_groups(sums).transpose(0, 1)  # [H, B, D]
        mixed = (sums @ value.transpose(1, 2)).transpose(0, 1).flatten(1)  # [B, D]
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
class EqualLengthRuns:
    """Groups sorted by length; without permutations if equal lengths are consecutive already."""

    slices: list[tuple[slice, slice, int]]  # groups and rows of one length, in sorted order
    groups: tuple[Tensor, Tensor] | None = None  # the permutation and its inverse, [B]
    rows: tuple[Tensor, Tensor] | None = None  # likewise, [T]

    def sort_groups(self, values: Tensor) -> Tensor:
        return values if self.groups is None else values.index_select(0, self.groups[0])

    def restore_groups(self, values: Tensor) -> Tensor:
        return values if self.groups is None else values.index_select(0, self.groups[1])

    def sort_rows(self, values: Tensor) -> Tensor:
        return values if self.rows is None else values.index_select(0, self.rows[0])

    def restore_rows(self, values: Tensor) -> Tensor:
        return values if self.rows is None else values.index_select(0, self.rows[1])


def equal_length_runs(text: Ragged) -> EqualLengthRuns:
    """The groups of each length."""
    return text.cached("equal_length_runs", lambda: _plan_runs(text.host_offsets))


def _plan_runs(offsets: NDArray[np.int64]) -> EqualLengthRuns:
    lengths = np.diff(offsets)
    changes = np.flatnonzero(np.diff(lengths)) + 1
    if len(changes) + 1 == len(np.unique(lengths)):
        return EqualLengthRuns(_slices(lengths, changes))
    groups = np.argsort(lengths, kind="stable")
    ordered = lengths[groups]
    ends = np.cumsum(ordered)
    rows = np.arange(ends[-1]) + np.repeat(offsets[groups] - (ends - ordered), ordered)
    slices = _slices(ordered, np.flatnonzero(np.diff(ordered)) + 1)
    return EqualLengthRuns(slices, _with_inverse(groups), _with_inverse(rows))


def _slices(
    lengths: NDArray[np.int64], changes: NDArray[np.int64]
) -> list[tuple[slice, slice, int]]:
    starts = [0, *np.cumsum(lengths).tolist()]
    bounds = pairwise([0, *changes.tolist(), len(lengths)])
    return [(slice(a, b), slice(starts[a], starts[b]), int(lengths[a])) for a, b in bounds]


def _with_inverse(order: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(order), torch.from_numpy(np.argsort(order))
