"""The Transformer layer around asymmetric attention: post-norm (BERT) and pre-norm (ModernBERT)."""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.errors import ConfigError, suggest
from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.fast.fused_ops import add_norm, feed_forward_norm
from edgeformers.nn.ragged import Ragged

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """FFN: two linear maps around an activation, the same for every row.

    `gated` doubles the first map and lets its second half gate the first (GeGLU); the dropout
    then stands before the second map, as in ModernBERT, rather than after it.
    """

    def __init__(
        self,
        width: int,
        ffn_width: int,
        *,
        activation: str = "gelu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(f"no activation '{activation}'; {suggest(activation, ACTIVATIONS)}")
        self.activate = ACTIVATIONS[activation]
        self.gated = gated
        self.up = nn.Linear(width, ffn_width * (2 if gated else 1), bias=bias)
        self.down = nn.Linear(ffn_width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """[R, D] -> [R, D]."""
        return F.dropout(self.down(self.inner(rows)), self.drop_after)

    @property
    def drop_after(self) -> float:
        """The share of numbers that is dropped after the second map."""
        return 0.0 if self.gated or not self.training else self.dropout.p

    def inner(self, rows: Tensor) -> Tensor:
        """What stands before the second map: [R, D] -> [R, F]."""
        if self.gated:
            inner, gate = self.up(rows).chunk(2, dim=-1)  # [R, F] each
            return cast(Tensor, self.dropout(self.activate(inner) * gate))
        return self.activate(self.up(rows))


class TransformerLayer(nn.Module):
    """The parts of a layer: attention, FFN and their two norms; its kinds differ in the order.

    A layer is called with `hidden` [T, D], the texts, and any virtual tokens [B, V, D]. With
    `readout` [B, D], one row per text (its [CLS] state, or a virtual token), it computes those
    rows alone and gives [B, D]: what a last layer needs when nothing else of it is read.
    """

    def __init__(
        self,
        attention: AsymmetricAttention,
        ffn: FeedForward,
        *,
        norms: tuple[nn.Module, nn.Module],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.ffn = ffn
        self.attention_norm, self.ffn_norm = norms
        self.dropout = nn.Dropout(dropout)


class PostNormLayer(TransformerLayer):
    """One layer as the paper writes it (section 3.1), H' and H^(l+1) normalized after each sum.

    Shapes: T tokens of B texts, V virtual tokens per text, D width.
    """

    def forward(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        *,
        readout: Tensor | None = None,
    ) -> Tensor:
        """[T, D] and [B, V, D] -> [T, D]; of the rows `readout` [B, D] alone -> [B, D]."""
        rows = hidden if readout is None else readout
        mixed = self.attention.mix(hidden, text, virtual, readout)
        drop = self.dropout.p if self.training else 0.0
        rows = add_norm(mixed, self.attention.out, rows, self.attention_norm, drop)
        ffn, norm, drop = self.ffn, self.ffn_norm, self.ffn.drop_after
        if ffn.activate is F.gelu and not ffn.gated:
            return feed_forward_norm(rows, ffn.up, ffn.down, norm, drop)
        return add_norm(ffn.inner(rows), ffn.down, rows, norm, drop)

    def attention_map(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        *,
        readout: Tensor | None = None,
    ) -> list[Tensor]:
        """The attention `forward` pays on the same inputs, of each text [H, L, V+L]."""
        return self.attention.attention_map(hidden, text, virtual, readout)


class PreNormLayer(TransformerLayer):
    """One layer of ModernBERT's shape: each sum is normalized before it is read, not after.

    Virtual tokens join after the norm, so attention reads them at the scale they are given.
    Shapes: T tokens of B texts, V virtual tokens per text, D width.
    """

    def forward(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        *,
        readout: Tensor | None = None,
    ) -> Tensor:
        """[T, D] and [B, V, D] -> [T, D]; of the rows `readout` [B, D] alone -> [B, D]."""
        rows = hidden if readout is None else readout
        mixed = self.attention(self.attention_norm(hidden), text, virtual, self._norm(readout))
        rows = rows + self.dropout(mixed)
        return cast(Tensor, rows + self.ffn(self.ffn_norm(rows)))

    def attention_map(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        *,
        readout: Tensor | None = None,
    ) -> list[Tensor]:
        """The attention `forward` pays on the same inputs, of each text [H, L, V+L]."""
        normed = self.attention_norm(hidden)
        return self.attention.attention_map(normed, text, virtual, self._norm(readout))

    def _norm(self, readout: Tensor | None) -> Tensor | None:
        return None if readout is None else self.attention_norm(readout)
