"""Settings of all models, and the base class of both Edgeformers."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor, nn

from edgeformers.decode import decode
from edgeformers.errors import ConfigError, InputError
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.encoder import TextEncoder, TransformerLayer
from edgeformers.nn.no_text import NoText
from edgeformers.nn.nodes import NodeLookup, NodeProjection
from edgeformers.nn.packed import PackedText
from edgeformers.sharded_nodes import lookup_class

#: Encodes texts as vectors: the [CLS] token of a language model, or a bag of words.
TextReader = TextEncoder | BagOfWords | NoText


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Settings of all models: the node table."""

    num_nodes: int
    node_width: int = 64  # d' of the paper
    node_dropout: float = 0.0  # share of nodes replaced by the unknown node in training
    node_shrinkage: float = 0.0  # edges of an average node added to those of every node
    feature_width: int = 0  # width of node features or node text vectors; 0: none
    sparse: bool = False  # sparse gradients for the node table

    def __post_init__(self) -> None:
        for name, least in (("num_nodes", 0), ("node_width", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least} (got {getattr(self, name)})")
        if not 0 <= self.node_dropout < 1:
            raise ConfigError(
                f"node_dropout must be 0 or more and below 1 (got {self.node_dropout})"
            )
        if not 0 <= self.node_shrinkage < math.inf:
            raise ConfigError(f"node_shrinkage must be 0 or more (got {self.node_shrinkage})")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Settings from plain values, such as JSON."""
        return decode(cls, values, raises=ConfigError)


@dataclass(frozen=True, kw_only=True)
class EdgeformerConfig(ModelConfig):
    """Settings of both Edgeformers.

    `fidelity` selects the paper or the authors' released code where they differ: node projections
    without bias and local attention per layer, or one of each with bias, shared by all layers;
    and the pooling of edges.
    """

    fidelity: Literal["paper", "released"] = "paper"
    edge_types: int = 1  # each type has its own projections
    direction: bool = False  # distinguish an edge's source from its target
    text_layers: int = 1  # the first layers, which read the text only; 1 in the paper
    tokens: tuple[str, ...] = ()  # the virtual tokens; fewer than the default for ablations

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fidelity not in ("paper", "released"):
            raise ConfigError(f"fidelity must be 'paper' or 'released' (got '{self.fidelity}')")
        for name in ("edge_types", "text_layers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1 (got {getattr(self, name)})")
        known = type(self).tokens  # the default
        if self.tokens != tuple(name for name in known if name in self.tokens):
            raise ConfigError(
                f"tokens must be among {', '.join(known)}, each once and in this order "
                f"(got {', '.join(map(str, self.tokens))})"
            )


def make_lookup(config: ModelConfig) -> NodeLookup:
    """The node table of a model."""
    return lookup_class()(
        config.num_nodes,
        config.node_width,
        node_dropout=config.node_dropout,
        node_shrinkage=config.node_shrinkage,
        feature_width=config.feature_width,
        sparse=config.sparse,
    )


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """The attention of one layer to one text: `weights` [H, L, V+L], virtual tokens first.

    The last layer computes the readout row only: L is 1.
    """

    layer: int
    virtual: tuple[str, ...]
    weights: Tensor


class Edgeformer(nn.Module, ABC):
    """What both Edgeformers share: texts and virtual tokens are encoded together in every layer.

    The first `text_layers` layers (layer 0 in the paper) read the text only. Every further layer
    reads [virtual ; text], where the virtual tokens are not updated by the layers. The last layer
    computes only the row that is read out.

    Shapes: E texts of T tokens in all, V virtual tokens, D width, K node width.
    """

    def __init__(self, config: EdgeformerConfig, encoder: TextEncoder) -> None:
        super().__init__()
        if len(encoder.layers) <= config.text_layers:
            raise ConfigError(
                f"an Edgeformer needs an encoder with at least {config.text_layers + 1} layers, "
                f"because text_layers={config.text_layers} of them read the text only "
                f"(got {len(encoder.layers)})"
            )
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config)
        self.projections = self.per_layer(
            lambda: NodeProjection(
                config.node_width,
                encoder.width,
                bias=config.fidelity == "released",
                edge_types=config.edge_types,
                direction=config.direction,
            )
        )  # W_n

    @property
    def width(self) -> int:
        return self.encoder.width

    def per_layer(self, make: Callable[[], nn.Module]) -> nn.ModuleList:
        """A module for every layer with virtual tokens: one each (paper), or a shared one."""
        count = len(self.encoder.layers) - self.config.text_layers
        if self.config.fidelity == "released":
            return nn.ModuleList([make()] * count)
        return nn.ModuleList(make() for _ in range(count))

    @abstractmethod
    def node_vectors(self, batch: Any) -> Tensor | None:
        """z^(0) of the node tokens [E, V, K]; None without node tokens."""

    @abstractmethod
    def virtual_tokens(
        self, index: int, z: Tensor | None, hidden: Tensor, batch: Any
    ) -> Tensor | None:
        """The virtual tokens [E, V, D] of layer `text_layers + index`."""

    def readout_rows(self, hidden: Tensor, virtual: Tensor | None, text: PackedText) -> Tensor:
        """The rows that the last layer computes [E, D]: [CLS]."""
        return hidden[text.starts]

    def encode_texts(self, batch: Any, z: Tensor | None) -> Tensor:
        """Texts with the vectors of their node tokens -> their states [E, D]."""
        text, last, text_layers = batch.text, len(self.encoder.layers) - 1, self.config.text_layers
        virtual, readout = None, None
        hidden, first = self.encoder.start(text)  # [T, D]
        for index, layer in enumerate(self.encoder.layers[first:], start=first):
            if index >= text_layers:
                virtual = self.virtual_tokens(index - text_layers, z, hidden, batch)  # [E, V, D]
            if index == last:
                readout = self.readout_rows(hidden, virtual, text)
            hidden = layer(hidden, text, virtual, readout=readout)
        return cast(Tensor, self.encoder.final_norm(hidden))

    @torch.no_grad()
    def attention_maps(self, batch: Any) -> list[list[AttentionMap]]:
        """For every text, the attention of each layer."""
        text = batch.text
        maps: list[list[AttentionMap]] = [[] for _ in range(text.num_texts)]
        for index, (layer, hidden, virtual) in enumerate(self._layer_inputs(batch)):
            names = self.config.tokens if virtual is not None else ()
            weights = layer.attention_map(hidden, text, virtual)
            for text_maps, text_weights in zip(maps, weights, strict=True):
                text_maps.append(AttentionMap(layer=index, virtual=names, weights=text_weights))
        return maps

    @torch.no_grad()
    def readout_attention(self, batch: Any) -> list[Tensor]:
        """For every text, the attention of its state [V+L]: the row that is read out.

        Of the last layer, averaged over heads, virtual tokens first.
        """
        *_, (layer, hidden, virtual) = self._layer_inputs(batch)
        readout = self.readout_rows(hidden, virtual, batch.text)
        maps = layer.attention_map(hidden, batch.text, virtual, readout=readout)
        return [weights[:, 0].float().mean(0) for weights in maps]

    def _layer_inputs(self, batch: Any) -> Iterator[tuple[TransformerLayer, Tensor, Tensor | None]]:
        """Each layer with the rows [T, D] and the virtual tokens [E, V, D] that it reads."""
        text, z, virtual = batch.text, self.node_vectors(batch), None
        hidden, text_layers = self.encoder.embed(text), self.config.text_layers
        for index, layer in enumerate(self.encoder.layers):
            if index:
                hidden = self.encoder.layers[index - 1](hidden, text, virtual)
            if index >= text_layers:
                virtual = self.virtual_tokens(index - text_layers, z, hidden, batch)
            yield cast(TransformerLayer, layer), hidden, virtual

    def pack(self, token_ids: Tensor, token_mask: Tensor) -> PackedText:
        """Padded texts [E, L] and their mask, checked and packed on the host."""
        _check_padded(token_ids, token_mask, self.encoder.config.vocab_size)
        return PackedText.from_padded(token_ids, token_mask)


def _check_padded(token_ids: Tensor, token_mask: Tensor, vocab_size: int) -> None:
    if token_ids.is_floating_point() or token_ids.dtype == torch.bool:
        raise InputError(f"token_ids must be integers (got {token_ids.dtype})")
    if token_ids.dim() != 2:
        raise InputError(f"token_ids must be [B, L] (got {list(token_ids.shape)})")
    if token_ids.shape != token_mask.shape:
        raise InputError(
            "token_ids and token_mask must have the same shape "
            f"(got {list(token_ids.shape)} and {list(token_mask.shape)})"
        )
    real = token_ids[token_mask.bool()]
    if real.numel() and (int(real.min()) < 0 or int(real.max()) >= vocab_size):
        bad = int(real.max()) if int(real.max()) >= vocab_size else int(real.min())
        raise InputError(
            f"token {bad} is not in the backbone's vocabulary of {vocab_size:,}; "
            "use the tokenizer of the backbone"
        )
