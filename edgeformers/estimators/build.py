"""The model of a run, made for a network: what reads texts, the nodes, and what draws edges."""

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.config import RECIPES, DataSettings, RunConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.splits import TRAIN
from edgeformers.data.tokens import TokenStore
from edgeformers.errors import ConfigError, InputError
from edgeformers.estimators.settings import chosen_name, find_model
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.encoder import TextEncoder
from edgeformers.registry import make_model
from edgeformers.training.initialization import (
    SCRATCH,
    apply_lora,
    backbone_tokens,
    factorize,
    make_bag_of_words,
    node_text_features,
    open_backbone,
)
from edgeformers.training.optimizers import freeze_layers

#: Settings of a run that are settings of the model by the same name.
OWN_SETTINGS = (
    "node_width",
    "node_dropout",
    "fidelity",
    "direction",
    "tokens",
    "fusion",
    "readout",
    "pooling",
)

LARGE_TABLE = 5_000_000  # entries of a node table that a dense step should not walk through


def build_model(
    config: RunConfig, graph: EdgeTextGraph, split: str, *, device: torch.device, show: bool
) -> tuple[nn.Module, TokenStore]:
    """The model for a network as its training starts, and the network's texts in its tokens."""
    encoder: TextEncoder | BagOfWords
    features = None
    if find_model(config).text == "bag-of-words":
        encoder, tokens = _open_bag(config, graph, split, show)
    else:
        with distributed.main_first():  # it tokenises what is not tokenised yet
            encoder, tokens = open_backbone(
                config.model.backbone, graph, seed=config.train.seed, show=show
            )
        if config.model.node_texts:
            features = _node_texts(config, graph, tokens, encoder, device)
        _prepare_encoder(encoder, config)
    width = 0 if features is None else features.size(1)
    values = _model_values(config, graph, width)
    model = make_model(chosen_name(config), values, encoder, seed=config.train.seed)
    _prepare_nodes(model.get_submodule("nodes"), features, config, graph, split)
    return model.to(device), tokens


def make_samplers(
    data: DataSettings, graph: EdgeTextGraph, split: str, *, seed: int
) -> dict[str, EgoSampler]:
    """What draws training edges around sources and around targets, by the loaders' names."""
    adjacency = graph.training_adjacency(split, strata=data.strata)
    sizes = {"source": data.source_neighbors, "target": data.target_neighbors}
    return {
        f"{side}_sampler": EgoSampler(
            adjacency, _per_stratum(wanted, adjacency.num_strata), seed=seed
        )
        for side, wanted in sizes.items()
    }


def _open_bag(
    config: RunConfig, graph: EdgeTextGraph, split: str, show: bool
) -> tuple[BagOfWords, TokenStore]:
    """A bag of words in the backbone's tokens, its words those of the training edges."""
    settings = config.model
    if settings.node_texts:
        raise ConfigError(
            f"'{settings.name}' reads bags of words, and texts of nodes are read by a language "
            "model; set model.node_texts=false"
        )
    with distributed.main_first():
        tokens = backbone_tokens(settings.backbone, graph, show=show)
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
    """Settle what of a language model is learned, and how."""
    train = config.train
    if train.lora_rank:
        apply_lora(encoder, train.lora_rank, seed=train.seed)
    if train.gradient_checkpointing:
        encoder.enable_gradient_checkpointing()
    if not config.model.backbone.startswith(SCRATCH):  # what is untrained must learn
        freeze_layers(encoder, train.frozen_layers)


def _node_texts(
    config: RunConfig,
    graph: EdgeTextGraph,
    tokens: TokenStore,
    encoder: TextEncoder,
    device: torch.device,
) -> Tensor:
    if not graph.meta.has_node_texts:
        raise InputError(
            f"{graph.path} has no node texts; give them with --nodes and --node-text when "
            "preparing, or set model.node_texts=false"
        )
    store = graph.token_store(tokens.meta.fingerprint, "nodes")
    return node_text_features(encoder, store, config.data.max_tokens, device=device)


def _model_values(config: RunConfig, graph: EdgeTextGraph, feature_width: int) -> dict[str, Any]:
    """The settings of the model itself; one that it has not may not be set."""
    known = {one.name for one in fields(find_model(config).config)}
    values: dict[str, Any] = {
        "num_nodes": graph.num_nodes,
        "feature_width": feature_width,
        "sparse": _is_sparse(config, graph.num_nodes),
    }
    if "edge_types" in known:
        values["edge_types"] = max(1, len(graph.edge_type_names))
    plain = RunConfig(task=config.task)
    usual = plain.with_settings(RECIPES.get(config.recipe, {}).get(config.task, {}))
    for name in OWN_SETTINGS:
        value = getattr(config.model, name)
        unasked = (getattr(plain.model, name), getattr(usual.model, name))
        if name not in known and value not in unasked:
            raise ConfigError(
                f"'{chosen_name(config)}' has no setting model.{name} (got {value!r}); leave it out"
            )
        if name in known and value is not None:
            values[name] = value
    return values


def _is_sparse(config: RunConfig, num_nodes: int) -> bool:
    """Whether a step should touch the batch's rows of the node table alone: as set, or if large."""
    train, entries = config.train, num_nodes * config.model.node_width
    if train.sparse_nodes is None:
        return not train.decay_nodes and entries > LARGE_TABLE
    return train.sparse_nodes


def _prepare_nodes(
    nodes: Any, features: Tensor | None, config: RunConfig, graph: EdgeTextGraph, split: str
) -> None:
    """Give nodes their first vectors, and tell which of them training meets."""
    if config.model.node_init == "factorized":
        width, seed = config.model.node_width, config.train.seed
        nodes.set_table(factorize(graph, split, width, seed=seed))
    if features is not None:
        nodes.set_features(features)
    nodes.mark_seen(torch.from_numpy(graph.splits.seen_in_training(split)))


def _per_stratum(sizes: list[int], strata: int) -> list[int]:
    """One number per stratum: a single one is shared among them."""
    if len(sizes) == strata:
        return sizes
    if len(sizes) == 1:
        return [max(1, sizes[0] // strata)] * strata
    raise InputError(
        f"neighbors are given for {len(sizes)} strata, the network has {strata}: {sizes}"
    )
