"""Transformer layers with asymmetric attention: post-norm (BERT) and pre-norm (ModernBERT)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from edgeformers.errors import ConfigError, suggest
from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.fast.fused_ops import feed_forward_norm, linear_add_norm
from edgeformers.nn.ragged import Ragged

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """FFN: two linear maps with an activation between them.

    If `gated`, the first map has twice the width and its second half gates the first (GeGLU), and
    dropout precedes the second map as in ModernBERT, instead of following it.
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
            hint = suggest(activation, ACTIVATIONS)
            raise ConfigError(f"unknown activation '{activation}'; {hint}")
        self.activate = ACTIVATIONS[activation]
        self.gated = gated
        self.up = nn.Linear(width, ffn_width * (2 if gated else 1), bias=bias)
        self.down = nn.Linear(ffn_width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """[R, D] -> [R, D]."""
        return F.dropout(self.down(self.inner(rows)), self.output_dropout)

    @property
    def output_dropout(self) -> float:
        """Dropout probability after the second map."""
        return 0.0 if self.gated or not self.training else self.dropout.p

    def inner(self, rows: Tensor) -> Tensor:
        """Input of the second map: [R, D] -> [R, F]."""
        if self.gated:
            inner, gate = self.up(rows).chunk(2, dim=-1)  # [R, F] each
            return cast(Tensor, self.dropout(self.activate(inner) * gate))
        return self.activate(self.up(rows))


class InferenceLayer(Protocol):
    """Another implementation of a layer, without gradients."""

    def accepts(self, text: Ragged) -> bool:
        """Whether it can compute the layer on these texts."""
        ...

    def __call__(
        self, hidden: Tensor, text: Ragged, virtual: Tensor | None, readout: Tensor | None
    ) -> Tensor:
        """As `TransformerLayer.forward`."""
        ...


class TransformerLayer(nn.Module, ABC):
    """Attention and FFN, each with a residual connection and a norm.

    With `gradient_checkpointing`, training recomputes the layer in the backward pass instead of
    storing its activations: less memory, about a third more time, the same gradients. Without
    gradients, `inference_layer` replaces the computation (see `nn.fast.onednn_layers`).

    Shapes: T tokens of B texts, V virtual tokens per text, D width.
    """

    gradient_checkpointing = False
    inference_layer: InferenceLayer | None = None

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

    def forward(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        *,
        readout: Tensor | None = None,
    ) -> Tensor:
        """[T, D] and [B, V, D] -> [T, D].

        With `readout` [B, D], one row per text such as its [CLS] state, only these rows are
        computed -> [B, D]. The last layer of a model needs no others.
        """
        args = (hidden, text, virtual, readout)
        learns = torch.is_grad_enabled()
        if self.gradient_checkpointing and self.training and learns:
            return cast(Tensor, checkpoint(self.compute, *args, use_reentrant=False))
        fast = None if self.training or learns else self.inference_layer
        return fast(*args) if fast is not None and fast.accepts(text) else self.compute(*args)

    @abstractmethod
    def compute(
        self, hidden: Tensor, text: Ragged, virtual: Tensor | None, readout: Tensor | None
    ) -> Tensor:
        """As `forward`, in plain PyTorch or with fused GPU kernels."""

    def attention_input(self, rows: Tensor) -> Tensor:
        """What attention reads of the layer's input."""
        return rows

    def attention_map(
        self,
        hidden: Tensor,
        text: Ragged,
        virtual: Tensor | None = None,
        *,
        readout: Tensor | None = None,
    ) -> list[Tensor]:
        """The attention weights of `forward` on the same inputs, per text [H, L, V+L]."""
        if readout is not None:
            readout = self.attention_input(readout)
        return self.attention.attention_map(self.attention_input(hidden), text, virtual, readout)


class PostNormLayer(TransformerLayer):
    """The layer of the paper (section 3.1): a norm after each residual sum, H' and H^(l+1)."""

    def compute(
        self, hidden: Tensor, text: Ragged, virtual: Tensor | None, readout: Tensor | None
    ) -> Tensor:
        """As `forward`, in plain PyTorch or with fused GPU kernels."""
        rows = hidden if readout is None else readout
        mixed = self.attention.mix(hidden, text, virtual, readout)
        dropout = self.dropout.p if self.training else 0.0
        rows = linear_add_norm(mixed, self.attention.out, rows, self.attention_norm, dropout)
        ffn, norm = self.ffn, self.ffn_norm
        if ffn.activate is F.gelu and not ffn.gated:
            return feed_forward_norm(rows, ffn.up, ffn.down, norm, ffn.output_dropout)
        return linear_add_norm(ffn.inner(rows), ffn.down, rows, norm, ffn.output_dropout)


class PreNormLayer(TransformerLayer):
    """The layer of ModernBERT: a norm before attention and before the FFN.

    Virtual tokens are added after the norm, so attention reads them unnormalized.
    """

    def compute(
        self, hidden: Tensor, text: Ragged, virtual: Tensor | None, readout: Tensor | None
    ) -> Tensor:
        """As `forward`, in plain PyTorch."""
        rows = hidden if readout is None else readout
        query = None if readout is None else self.attention_input(readout)
        mixed = self.attention(self.attention_input(hidden), text, virtual, query)
        rows = rows + self.dropout(mixed)
        return cast(Tensor, rows + self.ffn(self.ffn_norm(rows)))

    def attention_input(self, rows: Tensor) -> Tensor:
        """The normalized input of the layer."""
        return cast(Tensor, self.attention_norm(rows))
