"""The only list of models: what each is called, made of, and what it encodes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from edgeformers.errors import ConfigError, InputError, nearest
from edgeformers.models.base import ModelConfig
from edgeformers.models.edgeformer_e import EdgeformerE, EdgeformerEConfig
from edgeformers.models.edgeformer_n import EdgeformerN, EdgeformerNConfig
from edgeformers.nn.backbones import random_backbone
from edgeformers.nn.encoder import EncoderConfig, TextEncoder

#: The encoder of a tiny instance; nothing is dropped, so that training is as sure as evaluation.
TINY_ENCODER = EncoderConfig(
    vocab_size=30,
    width=16,
    heads=4,
    layers=3,
    ffn_width=24,
    max_positions=12,
    dropout=0.0,
    attention_dropout=0.0,
    embedding_dropout=0.0,
)


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One model: its class and config class, what it encodes, and the settings of a tiny one.

    A model of "edges" takes an EdgeBatch, one of "nodes" an EgoBatch; both give [B, D].
    """

    model: Callable[[Any, TextEncoder], nn.Module]
    config: type[ModelConfig]
    encodes: Literal["edges", "nodes"]
    tiny: Mapping[str, Any] = field(default_factory=lambda: {"num_nodes": 7, "node_width": 6})


MODELS: Mapping[str, ModelEntry] = {
    "edgeformer-e": ModelEntry(model=EdgeformerE, config=EdgeformerEConfig, encodes="edges"),
    "edgeformer-n": ModelEntry(model=EdgeformerN, config=EdgeformerNConfig, encodes="nodes"),
}


def find_entry(name: str) -> ModelEntry:
    """The entry of a model's name; an unknown name is answered with the nearest."""
    if name not in MODELS:
        raise ConfigError(f"there is no model '{name}'; {nearest(name, MODELS)}")
    return MODELS[name]


def make_model(
    name: str, config_values: dict[str, Any], encoder: TextEncoder, *, seed: int = 0
) -> nn.Module:
    """A model by its name and plain settings; what it adds to the encoder is drawn from `seed`."""
    entry = find_entry(name)
    config = entry.config.from_dict(config_values)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return entry.model(config, encoder)


def make_tiny(name: str, *, seed: int = 0, **settings: Any) -> nn.Module:
    """A model small enough for a test: `settings` over the entry's own, a random encoder."""
    encoder = random_backbone(TINY_ENCODER, seed=seed)
    encoder.initialize(seed, std=0.2)  # ten times the usual, so that every part of it is felt
    return make_model(name, {**find_entry(name).tiny, **settings}, encoder, seed=seed).eval()


def model_name(model: nn.Module) -> str:
    """The name under which a model is listed."""
    for name, entry in MODELS.items():
        if type(model) is entry.model:
            return name
    raise InputError(
        f"{type(model).__name__} is not one of the listed models; there is: {', '.join(MODELS)}"
    )
