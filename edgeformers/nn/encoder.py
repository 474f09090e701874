"""TextEncoder: a BERT-like encoder of packed texts, with one config for all model families."""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from edgeformers.errors import ConfigError, InputError, suggest
from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.fast.fused_embedding import Tables, embed_norm
from edgeformers.nn.layer import (
    ACTIVATIONS,
    FeedForward,
    PostNormLayer,
    PreNormLayer,
    TransformerLayer,
)
from edgeformers.nn.packed import PackedText


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

    def forward(self, text: PackedText) -> Tensor:
        """T tokens -> [T, D]."""
        hidden = self.embed(text)
        for layer in self.layers:
            hidden = layer(hidden, text)
        return cast(Tensor, self.final_norm(hidden))

    @property
    def width(self) -> int:
        return self.config.width

    def encode(self, text: PackedText) -> Tensor:
        """The [CLS] state of each text: T tokens -> [B, D]."""
        hidden = self.embed(text)
        for index, layer in enumerate(self.layers):
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
