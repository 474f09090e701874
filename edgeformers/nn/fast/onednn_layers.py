"""Layers on a CPU that nothing is learned from: the same numbers from fewer and better products."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers.nn.layer import PostNormLayer
from edgeformers.nn.ragged import Ragged

SHORT = 48  # tokens up to which plain products are quicker than torch's fused attention


@contextmanager
def quick_layers(layers: Iterable[nn.Module]) -> Iterator[None]:
    """On a CPU, without gradients, run layers the quick way; otherwise they run as they are.

    Weights are copied as they are now: leave before they change. Layers of another kind than
    BERT's, or whose maps are not their own in float32, are left alone.
    """
    changed = [layer for layer in layers if isinstance(layer, PostNormLayer) and _is_plain(layer)]
    for layer in changed:
        fast = partial(_forward, layer, layer.forward, QuickLayer(layer))
        layer.forward = fast  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in changed:
            vars(layer).pop("forward", None)


class PackedLinear:
    """Linear maps of the same rows as one, with weights laid out as oneDNN multiplies them."""

    def __init__(self, *maps: nn.Linear) -> None:
        weight = torch.cat([one.weight.detach() for one in maps])
        biases = [one.bias.detach() for one in maps if one.bias is not None]
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self.bias = torch.cat(biases) if biases else None

    def __call__(self, rows: Tensor, activation: str = "none") -> Tensor:
        """[R, in] -> [R, out], activated on the way."""
        multiply = torch.ops.mkldnn._linear_pointwise
        return cast(Tensor, multiply(rows, self.weight, self.bias, activation, [], "none"))

    def add(self, rows: Tensor, ensemble: Tensor) -> Tensor:
        """[R, in] mapped, and added to `beside` on the way: -> [R, out]."""
        multiply = torch.ops.mkldnn._linear_pointwise.binary
        return cast(Tensor, multiply(rows, ensemble, self.weight, self.bias, "add"))


class QuickLayer:
    """What a `PostNormLayer` computes, for reading alone, from the weights it has now.

    The text's queries, keys and values are one product; activations and sums are made on the
    way. Texts of one length are attended to together, so that nothing is padded. A readout row
    asks states, not keys: q (W_k h) is (q W_k) h, and the sum of W_v h is W_v of the sum; the
    last layer then maps one row per text.

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
        """[T, D] and [B, V, D] -> [T, D]; of the rows `readout` [B, D] alone -> [B, D]."""
        if readout is None:
            rows, mixed = hidden, self.attend_text(hidden, text, virtual)
        else:
            rows, mixed = readout, self.attend_rows(readout, hidden, text, virtual)
        rows = self.layer.attention_norm(self.out.add(mixed, rows))
        activate = self.layer.ffn.activate
        inner = self.up(rows, "gelu") if activate is F.gelu else activate(self.up(rows))
        return cast(Tensor, self.layer.ffn_norm(self.down.add(inner, rows)))

    def attend_text(self, hidden: Tensor, text: Ragged, virtual: Tensor | None) -> Tensor:
        """Every token asks virtual tokens and its text: -> [T, D]."""
        runs = find_runs(text)
        rows = _sorted(self.query_key_value(hidden), runs.rows)  # [T, 3D]
        ensemble = None
        if virtual is not None:
            ensemble = _sorted(self.attention.key_value(virtual), runs.texts)  # [B, V, 2D]
        mixed = torch.empty_like(hidden)
        for run in runs.runs:
            q, k, v = self._split(run.shape(rows[run.rows]), 3)  # [b, H, L, D/H] each
            if ensemble is not None:
                first = self._split(ensemble[run.texts], 2)
                k, v = (torch.cat(pair, dim=2) for pair in zip(first, (k, v), strict=True))
            found = _attend(q, k, v).transpose(1, 2)  # [b, L, H, D/H]
            mixed[run.rows] = found.reshape(-1, hidden.size(1))
        return _sorted(mixed, runs.rows_back)

    def attend_rows(
        self, readout: Tensor, hidden: Tensor, text: Ragged, virtual: Tensor | None
    ) -> Tensor:
        """One row per text asks virtual tokens and its text: -> [B, D]."""
        runs, maps = find_runs(text), self.attention.key_value
        key, value = maps.weight.unflatten(0, (2, self.heads, -1)).unbind()  # [H, D/H, D] each
        q = self.attention.query(readout).unflatten(1, (self.heads, -1)).transpose(0, 1)
        asked = (q @ key * key.size(1) ** -0.5).transpose(0, 1)  # [B, H, D]
        asked, states = _sorted(asked, runs.texts), _sorted(hidden, runs.rows)
        ensemble = None if virtual is None else _sorted(virtual, runs.texts)
        heard = torch.empty_like(asked)
        for run in runs.runs:
            context = run.shape(states[run.rows])  # [b, L, D]
            if ensemble is not None:
                context = torch.cat([ensemble[run.texts], context], dim=1)
            weights = (asked[run.texts] @ context.transpose(1, 2)).softmax(-1)  # [b, H, V+L]
            heard[run.texts] = weights @ context
        heard = _sorted(heard, runs.texts_back).transpose(0, 1)  # [H, B, D]
        mixed = (heard @ value.transpose(1, 2)).transpose(0, 1).flatten(1)  # [B, D]
        return cast(Tensor, mixed if maps.bias is None else mixed + maps.bias.chunk(2)[1])

    def _split(self, rows: Tensor, parts: int) -> tuple[Tensor, ...]:
        """[b, L, parts * D] -> as many [b, H, L, D/H]."""
        split = rows.unflatten(2, (parts, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return cast(tuple[Tensor, ...], split.unbind())


@dataclass(frozen=True)
class Run:
    """Texts of one length, side by side."""

    texts: slice
    rows: slice
    length: int

    def shape(self, rows: Tensor) -> Tensor:
        """Rows of all its texts [b*L, D] -> [b, L, D]."""
        return cast(Tensor, rows.unflatten(0, (-1, self.length)))


@dataclass(frozen=True, eq=False)
class Runs:
    """Texts by length: a run for each, and the orders that bring them there and back.

    Orders are None where texts of one length lie side by side as they are.
    """

    runs: list[Run]
    rows: Tensor | None = None  # [T]
    texts: Tensor | None = None  # [B]
    rows_back: Tensor | None = None
    texts_back: Tensor | None = None


def find_runs(text: Ragged) -> Runs:
    """The texts by length; found once per batch."""
    return text.cached("runs", lambda: _plan_runs(text.host_offsets))


def _plan_runs(offsets: NDArray[np.int64]) -> Runs:
    lengths = np.diff(offsets)
    changes = np.flatnonzero(np.diff(lengths)) + 1
    if len(changes) + 1 == len(np.unique(lengths)):
        return Runs(_cut(lengths, changes))
    texts = np.argsort(lengths, kind="stable")
    ordered = lengths[texts]
    ends = np.cumsum(ordered)
    rows = np.arange(ends[-1]) + np.repeat(offsets[texts] - (ends - ordered), ordered)
    orders = (rows, texts, np.argsort(rows), np.argsort(texts))
    return Runs(_cut(ordered, np.flatnonzero(np.diff(ordered)) + 1), *map(torch.from_numpy, orders))


def _cut(lengths: NDArray[np.int64], changes: NDArray[np.int64]) -> list[Run]:
    """A run between every two changes of length."""
    begins = [0, *np.cumsum(lengths).tolist()]
    bounds = pairwise([0, *changes.tolist(), len(lengths)])
    return [Run(slice(a, b), slice(begins[a], begins[b]), int(lengths[a])) for a, b in bounds]


def _sorted(rows: Tensor, order: Tensor | None) -> Tensor:
    return rows if order is None else rows.index_select(0, order)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(Dh)) v: [b, H, L, Dh] and [b, H, V+L, Dh] -> [b, H, L, Dh]."""
    if q.size(2) > SHORT:
        return F.scaled_dot_product_attention(q, k, v)
    scores: Tensor = q * q.size(-1) ** -0.5 @ k.transpose(-1, -2)
    return scores.softmax(-1) @ v


def _forward(
    layer: PostNormLayer,
    plain: Callable[..., Tensor],
    quick: QuickLayer,
    hidden: Tensor,
    text: Ragged,
    virtual: Tensor | None = None,
    *,
    readout: Tensor | None = None,
) -> Tensor:
    window = layer.attention.window
    sees_all = window is None or window >= text.max_length - 1
    reads_only = not (layer.training or torch.is_grad_enabled())
    if sees_all and reads_only and text.num_groups and not torch.is_autocast_enabled("cpu"):
        return quick(hidden, text, virtual, readout)
    return plain(hidden, text, virtual, readout=readout)


def _is_plain(layer: PostNormLayer) -> bool:
    """Whether `QuickLayer` can stand for a layer here."""
    attention = layer.attention
    maps = (attention.query, attention.key_value, attention.out, layer.ffn.up, layer.ffn.down)
    return (
        torch.backends.mkldnn.is_available()
        and "forward" not in vars(layer)  # which somebody else has changed
        and not layer.ffn.gated
        and attention.rotary_theta is None
        and all(type(one) is nn.Linear for one in maps)
        and all(one.weight.device.type == "cpu" for one in maps)
        and all(one.weight.dtype == torch.float32 for one in maps)
    )
