"""TextEncoder: a BERT-like encoder of packed texts, with one config for all model families.

Its layers have asymmetric attention: post-norm (BERT) or pre-norm (ModernBERT).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from edgeformers.errors import ConfigError, InputError, suggest
from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.fast.fused_ops import (
    Tables,
    embed_norm,
    feed_forward_norm,
    linear_add_norm,
)
from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import Ragged

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The architecture of a text encoder.

    `family` determines only how checkpoints are read and written.
    """

    family: str = "bert"
    vocab_size: int
    width: int
    heads: int
    layers: int
    ffn_width: int
    max_positions: int = 512  # maximum tokens per text
    position_kind: Literal["absolute", "rotary"] = "absolute"
    position_offset: int = 0  # first position; RoBERTa starts after its padding id
    type_vocab: int = 2  # rows of the segment table, of which only the first is used; 0: none
    embedding_width: int | None = None  # ELECTRA: smaller embeddings, projected to `width`
    pad_token_id: int = 0
    norm_place: Literal["post", "pre"] = "post"
    norm_eps: float = 1e-12
    norm_bias: bool = True
    activation: str = "gelu"
    gated: bool = False
    attention_bias: bool = True
    ffn_bias: bool = True
    dropout: float = 0.1  # after attention and in the FFN
    attention_dropout: float = 0.1  # of attention weights; ignored by varlen attention
    embedding_dropout: float = 0.1
    windows: tuple[int | None, ...] = ()  # attention window of each layer; None or (): unlimited
    rotary_theta: float = 160_000.0
    window_rotary_theta: float = 10_000.0  # in layers with a window

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            hint = suggest(self.activation, ACTIVATIONS)
            raise ConfigError(f"unknown activation '{self.activation}'; {hint}")
        if self.width % self.heads:
            raise ConfigError(
                f"width must be divisible by heads (got width={self.width}, heads={self.heads})"
            )
        if self.windows and len(self.windows) != self.layers:
            raise ConfigError(
                f"windows must have one entry per layer, {self.layers} (got {len(self.windows)})"
            )

    def window(self, layer: int) -> int | None:
        """The attention window of a layer; None: the whole text."""
        return self.windows[layer] if self.windows else None

    def theta(self, layer: int) -> float | None:
        """The base of the rotary angles of a layer; None with absolute positions."""
        if self.position_kind == "absolute":
            return None
        return self.rotary_theta if self.window(layer) is None else self.window_rotary_theta


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


class TransformerLayer(nn.Module, ABC):
    """Attention and FFN, each with a residual connection and a norm.

    With `gradient_checkpointing`, training recomputes the layer in the backward pass instead of
    storing its activations: less memory, about a third more time, the same gradients. Without
    gradients, `inference_layer` replaces the computation (see `nn.fast.onednn_layers`).

    Shapes: T tokens of B texts, V virtual tokens per text, D width.
    """

    gradient_checkpointing = False
    inference_layer: Callable[[Tensor, Ragged, Tensor | None, Tensor | None], Tensor] | None = None

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
        return (fast or self.compute)(*args)

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
        rows = hidden if readout is None else readout
        query = None if readout is None else self.attention_input(readout)
        mixed = self.attention(self.attention_input(hidden), text, virtual, query)
        rows = rows + self.dropout(mixed)
        return cast(Tensor, rows + self.ffn(self.ffn_norm(rows)))

    def attention_input(self, rows: Tensor) -> Tensor:
        """The normalized input of the layer."""
        return cast(Tensor, self.attention_norm(rows))


class TextEmbeddings(nn.Module):
    """Normalized sums of token, position and segment embeddings; all tokens are in segment 0."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_width or config.width
        self.offset = config.position_offset
        self.float32 = config.norm_place == "pre"  # pre-norm layers sum in float32
        self.tokens = nn.Embedding(config.vocab_size, width)
        self.positions: nn.Embedding | None = None
        if config.position_kind == "absolute":
            self.positions = nn.Embedding(config.max_positions + self.offset, width)
        self.types = nn.Embedding(config.type_vocab, width) if config.type_vocab else None
        self.norm = nn.LayerNorm(width, eps=config.norm_eps, bias=config.norm_bias)
        self.dropout = nn.Dropout(config.embedding_dropout)
        self.project = nn.Linear(width, config.width) if width != config.width else nn.Identity()

    def forward(self, text: PackedText) -> Tensor:
        """T tokens -> [T, D]."""
        tables = Tables(self.tokens, self.positions, self.types)
        dropout = self.dropout.p if self.training else 0.0
        positions = text.positions + self.offset
        rows = embed_norm(
            text.token_ids, positions, tables, self.norm, dropout, float32=self.float32
        )
        return cast(Tensor, self.project(rows))


class TextEncoder(nn.Module):
    """A text encoder with the parts `embed`, `layers` and `final_norm`.

    Edgeformers loop over `layers` themselves to add virtual tokens between layers; `forward` is the
    plain encoder without virtual tokens.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = TextEmbeddings(config)
        self.layers = nn.ModuleList(_make_layer(config, index) for index in range(config.layers))
        pre_norm = config.norm_place == "pre"
        self.final_norm = _make_norm(config) if pre_norm else nn.Identity()

    def embed(self, text: PackedText) -> Tensor:
        """H^(0): T tokens -> [T, D]."""
        if text.max_length > self.config.max_positions:
            raise InputError(
                f"a text has {text.max_length} tokens, but the encoder accepts at most "
                f"{self.config.max_positions}; truncate texts when tokenizing"
            )
        return cast(Tensor, self.embeddings(text))

    def start(self, text: PackedText) -> tuple[Tensor, int]:
        """The states [T, D] to start from, and the first layer to apply: H^(0), 0 without cache."""
        if text.states is None:
            return self.embed(text), 0
        return text.states.to(self.embeddings.norm.weight.dtype), text.state_layers

    def lower_states(self, text: PackedText, layers: int) -> Tensor:
        """The states after the first `layers` layers: T tokens -> [T, D]."""
        hidden = self.embed(text)
        for layer in self.layers[:layers]:
            hidden = layer(hidden, text)
        return hidden

    def forward(self, text: PackedText) -> Tensor:
        """T tokens -> [T, D]."""
        hidden, first = self.start(text)
        for layer in self.layers[first:]:
            hidden = layer(hidden, text)
        return cast(Tensor, self.final_norm(hidden))

    @property
    def width(self) -> int:
        return self.config.width

    def encode(self, text: PackedText) -> Tensor:
        """The [CLS] state of each text: T tokens -> [B, D]."""
        hidden, first = self.start(text)
        for index, layer in enumerate(self.layers[first:], start=first):
            readout = hidden[text.starts] if index == len(self.layers) - 1 else None
            hidden = layer(hidden, text, readout=readout)
        return cast(Tensor, self.final_norm(hidden))

    def enable_gradient_checkpointing(self) -> None:
        """Recompute layers in the backward pass instead of storing activations."""
        for layer in self.layers:
            cast(TransformerLayer, layer).gradient_checkpointing = True

    @torch.no_grad()
    def initialize(self, seed: int, std: float = 0.02) -> None:
        """Random weights: matrices from N(0, std), zero biases, unit norms."""
        generator = torch.Generator().manual_seed(seed)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.weight.copy_(torch.randn(module.weight.shape, generator=generator) * std)
            elif isinstance(module, nn.LayerNorm):
                module.weight.fill_(1.0)
            if isinstance(bias := getattr(module, "bias", None), Tensor):
                bias.zero_()


def _make_layer(config: EncoderConfig, index: int) -> TransformerLayer:
    attention = AsymmetricAttention(
        config.width,
        config.heads,
        bias=config.attention_bias,
        dropout=config.attention_dropout,
        rotary_theta=config.theta(index),
        window=config.window(index),
    )
    ffn = FeedForward(
        config.width,
        config.ffn_width,
        activation=config.activation,
        gated=config.gated,
        bias=config.ffn_bias,
        dropout=config.dropout,
    )
    if config.norm_place == "post":
        both = (_make_norm(config), _make_norm(config))
        return PostNormLayer(attention, ffn, norms=both, dropout=config.dropout)
    # The embeddings are already normalized, so the first pre-norm layer skips its first norm.
    first = nn.Identity() if index == 0 else _make_norm(config)
    norms = (first, _make_norm(config))
    return PreNormLayer(attention, ffn, norms=norms, dropout=config.attention_dropout)


def _make_norm(config: EncoderConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.width, eps=config.norm_eps, bias=config.norm_bias)
