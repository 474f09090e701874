"""Build the untrained model of a run for a network."""

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.baselines.collaborative.netmf import netmf_vectors
from edgeformers.config import RECIPES, RunConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import TRAIN
from edgeformers.data.tokens import TokenStore
from edgeformers.errors import ConfigError, InputError
from edgeformers.estimators.settings import chosen_name, find_model
from edgeformers.inference.encode import EncodeOptions
from edgeformers.models.base import TextReader
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.no_text import NoText, NoTextConfig
from edgeformers.registry import make_model
from edgeformers.training.initialization import (
    SCRATCH,
    apply_lora,
    backbone_tokens,
    factorize,
    make_bag_of_words,
    node_text_features,
    open_backbone,
    scale_vectors,
)
from edgeformers.training.optimizers import freeze_layers

#: Settings of a run that are passed to the model under the same name.
MODEL_SETTINGS = (
    "node_width",
    "node_dropout",
    "fidelity",
    "direction",
    "tokens",
    "fusion",
    "readout",
    "pooling",
)

LARGE_TABLE = 5_000_000  # entries of a node table above which its gradients are sparse


def build_model(
    config: RunConfig, graph: EdgeTextGraph, split: str, options: EncodeOptions
) -> tuple[nn.Module, TokenStore]:
    """The untrained model on its device, and the network's texts in its tokens."""
    encoder: TextReader
    features = None
    if find_model(config).text != "language-model":
        encoder, tokens = _open_words(config, graph, split, options.show)
    else:
        with distributed.main_first():  # tokenizes the network if necessary
            encoder, tokens = open_backbone(
                config.model.backbone, graph, seed=config.train.seed, show=options.show
            )
        if config.model.node_texts:
            features = _node_text_features(config, graph, tokens, encoder, options.device)
        _prepare_encoder(encoder, config)
    values = _model_values(config, graph, 0 if features is None else features.size(1))
    model = make_model(chosen_name(config), values, encoder, seed=config.train.seed)
    _prepare_nodes(model.get_submodule("nodes"), features, config, graph, split)
    return model.to(options.device), tokens


def _open_words(
    config: RunConfig, graph: EdgeTextGraph, split: str, show: bool
) -> tuple[BagOfWords | NoText, TokenStore]:
    """A bag of the words of training edges in the backbone's tokens, or nothing in its place."""
    settings = config.model
    if settings.node_texts:
        raise ConfigError(
            f"'{settings.name}' has no language model, but node texts need one; "
            "set model.node_texts=false"
        )
    with distributed.main_first():
        tokens = backbone_tokens(settings.backbone, graph, show=show)
    if find_model(config).text == "none":
        return NoText(NoTextConfig(vocab_size=tokens.vocab_size, width=settings.bag_width)), tokens
    bag = make_bag_of_words(
        tokens,
        np.flatnonzero(graph.split(split) == TRAIN),
        config.data.max_tokens,
        words=settings.bag_words,
        width=settings.bag_width,
        seed=config.train.seed,
    )
    return bag, tokens


def _prepare_encoder(encoder: TextEncoder, config: RunConfig) -> None:
    """Apply LoRA, gradient checkpointing and frozen layers to a language model."""
    train = config.train
    if train.lora_rank:
        apply_lora(encoder, train.lora_rank, seed=train.seed)
    if train.gradient_checkpointing:
        encoder.enable_gradient_checkpointing()
    if not config.model.backbone.startswith(SCRATCH):  # an untrained encoder must learn
        freeze_layers(encoder, train.frozen_layers)


def _node_text_features(
    config: RunConfig,
    graph: EdgeTextGraph,
    tokens: TokenStore,
    encoder: TextEncoder,
    device: torch.device,
) -> Tensor:
    if not graph.meta.has_node_texts:
        raise InputError(
            f"{graph.path} has no node texts; prepare it with --nodes and --node-text, or set "
            "model.node_texts=false"
        )
    store = graph.token_store(tokens.meta.fingerprint, "nodes")
    return node_text_features(encoder, store, config.data.max_tokens, device=device)


def _model_values(config: RunConfig, graph: EdgeTextGraph, feature_width: int) -> dict[str, Any]:
    """The settings of the model itself; one that the model does not have must not be set."""
    known = {setting.name for setting in fields(find_model(config).config)}
    values: dict[str, Any] = {
        "num_nodes": graph.num_nodes,
        "feature_width": feature_width,
        "sparse": _is_sparse(config, graph.num_nodes),
    }
    if "edge_types" in known:
        values["edge_types"] = max(1, len(graph.edge_type_names))
    defaults = RunConfig(task=config.task)
    recipe = defaults.with_settings(RECIPES.get(config.recipe, {}).get(config.task, {}))
    for name in MODEL_SETTINGS:
        value = getattr(config.model, name)
        not_chosen = (getattr(defaults.model, name), getattr(recipe.model, name))
        if name in known and value is not None:
            values[name] = value
        elif name not in known and value not in not_chosen:
            raise ConfigError(
                f"'{chosen_name(config)}' has no setting model.{name} (got {value!r}); remove it"
            )
    return values


def _is_sparse(config: RunConfig, num_nodes: int) -> bool:
    """Whether the node table has sparse gradients: as set, or if it is large."""
    train, entries = config.train, num_nodes * config.model.node_width
    if train.sparse_nodes is None:
        return not train.decay_nodes and entries > LARGE_TABLE
    return train.sparse_nodes


def _prepare_nodes(
    nodes: Any, features: Tensor | None, config: RunConfig, graph: EdgeTextGraph, split: str
) -> None:
    """Initialize node vectors, and mark the nodes that occur in training."""
    width, seed = config.model.node_width, config.train.seed
    if config.model.node_init == "factorized":
        nodes.set_table(factorize(graph, split, width, seed=seed))
    elif config.model.node_init == "netmf":
        nodes.set_table(scale_vectors(netmf_vectors(graph, split, width, seed=seed)))
    if features is not None:
        nodes.set_features(features)
    nodes.mark_seen(torch.from_numpy(graph.seen_in_training(split)))
