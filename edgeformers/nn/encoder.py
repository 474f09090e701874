"""TextEncoder: embeddings and layers over packed text, with one config for every family."""

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
    """The shape of a text encoder, whichever family its checkpoint comes from.

    `family` names that family: it says how a checkpoint is read and written, nothing else.
    """

    family: str = "bert"
    vocab_size: int
    width: int
    heads: int
    layers: int
    ffn_width: int
    max_positions: int = 512  # tokens a text may have
    position_kind: Literal["absolute", "rotary"] = "absolute"
    position_offset: int = 0  # RoBERTa's first position, after its padding id
    type_vocab: int = 2  # rows of the segment table, of which packed text uses the first; 0: none
    embedding_width: int | None = None  # ELECTRA: narrower embeddings, projected to width
    pad_token_id: int = 0
    norm_place: Literal["post", "pre"] = "post"
    norm_eps: float = 1e-12
    norm_bias: bool = True
    activation: str = "gelu"
    gated: bool = False
    attention_bias: bool = True
    ffn_bias: bool = True
    dropout: float = 0.1  # after attention and in the FFN
    attention_dropout: float = 0.1  # of attention probabilities; not in varlen attention
    embedding_dropout: float = 0.1
    windows: tuple[int | None, ...] = ()  # of each layer how far a token sees; None or (): all
    rotary_theta: float = 160_000.0
    window_rotary_theta: float = 10_000.0  # in layers that have a window

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            hint = suggest(self.activation, ACTIVATIONS)
            raise ConfigError(f"no activation '{self.activation}'; {hint}")
        if self.width % self.heads:
            raise ConfigError(
                f"width must be divisible by heads (got width={self.width}, heads={self.heads})"
            )
        if self.windows and len(self.windows) != self.layers:
            raise ConfigError(
                f"windows must name each of the {self.layers} layers (got {len(self.windows)})"
            )

    def window(self, layer: int) -> int | None:
        """How far a token sees in this layer; None: the whole text."""
        return self.windows[layer] if self.windows else None

    def theta(self, layer: int) -> float | None:
        """The base of this layer's rotary angles; None where positions are absolute."""
        if self.position_kind == "absolute":
            return None
        return self.rotary_theta if self.window(layer) is None else self.window_rotary_theta


class TextEmbeddings(nn.Module):
    """Token, position and segment embeddings, normalized; every text is segment 0."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_width or config.width
        self.offset = config.position_offset
        self.wide = config.norm_place == "pre"  # layers then sum rows up, and in float32
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
        places = text.positions + self.offset
        rows = embed_norm(text.token_ids, places, tables, self.norm, dropout, wide=self.wide)
        return cast(Tensor, self.project(rows))


class TextEncoder(nn.Module):
    """A pretrained text encoder in parts: `embed`, `layers`, `final_norm`.

    The models write the loop over `layers` themselves, since what joins the text between two
    layers is theirs; `forward` is the plain encoder without virtual tokens.
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
                f"a text has {text.max_length} tokens, the encoder takes "
                f"{self.config.max_positions}; cut texts when tokenizing"
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
        """The [CLS] row of every text: T tokens -> [texts, D]; the last layer computes no other."""
        hidden = self.embed(text)
        for index, layer in enumerate(self.layers):
            readout = hidden[text.starts] if index == len(self.layers) - 1 else None
            hidden = layer(hidden, text, readout=readout)
        return cast(Tensor, self.final_norm(hidden))

    @torch.no_grad()
    def initialize(self, seed: int, std: float = 0.02) -> None:
        """Draw all weights anew: matrices from N(0, std), biases zero, norms one."""
        generator = torch.Generator().manual_seed(seed)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                drawn = torch.randn(module.weight.shape, generator=generator) * std
                module.weight.copy_(drawn)
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
    # The embeddings are normalized already, so the first pre-norm layer does not do it again.
    before = nn.Identity() if index == 0 else _make_norm(config)
    norms = (before, _make_norm(config))
    return PreNormLayer(attention, ffn, norms=norms, dropout=config.attention_dropout)


def _make_norm(config: EncoderConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.width, eps=config.norm_eps, bias=config.norm_bias)
