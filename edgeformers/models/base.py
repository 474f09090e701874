"""Settings, protocols and input checks that all models share."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from edgeformers.data.batch import EdgeBatch, EdgeContextBatch, EgoBatch
from edgeformers.errors import ConfigError, InputError, suggest
from edgeformers.nn.nodes import NodeLookup
from edgeformers.nn.packed import PackedText

Fidelity = Literal["paper", "released"]


@runtime_checkable
class EdgeEncoder(Protocol):
    """A model of edges: EdgeBatch -> [B, D]."""

    def forward(self, batch: EdgeBatch) -> Tensor: ...


@runtime_checkable
class ContextEncoder(Protocol):
    """A model of edges that also reads the edges around them: EdgeContextBatch -> [B, D]."""

    def forward(self, batch: EdgeContextBatch) -> Tensor: ...


@runtime_checkable
class NodeEncoder(Protocol):
    """A model of nodes: EgoBatch -> [B, D]."""

    def forward(self, batch: EgoBatch) -> Tensor: ...


class TextReader(Protocol):
    """Encodes texts as vectors: the [CLS] token of a language model, or a bag of words."""

    @property
    def width(self) -> int: ...

    def encode(self, text: PackedText) -> Tensor:
        """T tokens -> [texts, D]."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Settings of all models: the node table."""

    num_nodes: int
    node_width: int = 64  # d' of the paper
    node_dropout: float = 0.0  # share of nodes replaced by the unknown node in training
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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Settings from plain values, such as JSON."""
        known = [field.name for field in fields(cls)]
        for name in values.keys() - set(known):
            raise ConfigError(f"{cls.__name__} has no setting '{name}'; {suggest(name, known)}")
        plain: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in values.items()
        }
        return cls(**plain)


@dataclass(frozen=True, kw_only=True)
class EdgeformerConfig(ModelConfig):
    """Settings of both Edgeformers.

    `fidelity` selects the paper or the authors' released code where they differ: node projections
    without bias and local attention per layer, or one of each with bias, shared by all layers;
    and the pooling of edges.
    """

    fidelity: Fidelity = "paper"
    edge_types: int = 1  # each type has its own projections
    direction: bool = False  # distinguish an edge's source from its target

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fidelity not in ("paper", "released"):
            raise ConfigError(f"fidelity must be 'paper' or 'released' (got '{self.fidelity}')")
        if self.edge_types < 1:
            raise ConfigError(f"edge_types must be at least 1 (got {self.edge_types})")


def make_lookup(config: ModelConfig) -> NodeLookup:
    """The node table of a model."""
    return NodeLookup(
        config.num_nodes,
        config.node_width,
        node_dropout=config.node_dropout,
        feature_width=config.feature_width,
        sparse=config.sparse,
    )


def check_tokens(tokens: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Raise unless `tokens` is a subset of the known virtual tokens, in their order."""
    if tokens != tuple(name for name in known if name in tokens):
        raise ConfigError(
            f"tokens must be among {', '.join(known)}, each once and in this order "
            f"(got {', '.join(map(str, tokens))})"
        )


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """The attention of one layer to one text: `weights` [H, L, V+L], virtual tokens first.

    The last layer computes the readout row only: L is 1.
    """

    layer: int
    virtual: tuple[str, ...]
    weights: Tensor


def check_padded(token_ids: Tensor, token_mask: Tensor, vocab_size: int) -> None:
    """Raise an InputError unless padded tokens have valid types, shapes and ids."""
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


def module_device(module: torch.nn.Module) -> torch.device:
    """The device of a module's parameters."""
    return next(module.parameters()).device
