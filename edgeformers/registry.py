"""The only list of neural models, by the name under which they are trained and saved."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import torch
from torch import nn

from edgeformers import aliases
from edgeformers.baselines.graph.censnet import CensNet
from edgeformers.baselines.graph.ehgnn import EHGNN, EHGNNConfig
from edgeformers.baselines.graph.gin import GIN, GINE
from edgeformers.baselines.graph.graphformers import GraphFormersForEdges, GraphFormersForNodes
from edgeformers.baselines.graph.nenn import NENN
from edgeformers.baselines.graph.node_texts import NodeTextConfig
from edgeformers.baselines.graph.sage import (
    MaxSAGE,
    MaxSAGEForEdges,
    MaxSAGEWithTexts,
    MeanSAGE,
    MeanSAGEWithTexts,
)
from edgeformers.baselines.text.bert import (
    Bert,
    BertForNodes,
    BertWithNodeOneHots,
    BertWithNodeTokens,
)
from edgeformers.errors import ConfigError, InputError, suggest
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.models.edgeformer_e import EdgeformerE, EdgeformerEConfig
from edgeformers.models.edgeformer_n import EdgeformerN, EdgeformerNConfig
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.no_text import NoText

GridPoint = Mapping[str, float]

#: Learning rates to try on validation: of the backbone, the node table and everything else. Models
#: without a language model have as many points.
BACKBONE_RATES: tuple[GridPoint, ...] = tuple(
    {"train.lr": lr, "train.node_lr": node_lr, "train.head_lr": head_lr}
    for lr, node_lr, head_lr in (
        (1e-5, 3e-4, 1e-4),
        (2e-5, 1e-3, 3e-4),
        (5e-5, 1e-3, 1e-3),
        (1e-4, 5e-3, 1e-3),
    )
)
BAG_RATES: tuple[GridPoint, ...] = tuple(
    {"train.node_lr": node_lr, "train.head_lr": head_lr}
    for node_lr, head_lr in ((3e-4, 3e-4), (1e-3, 1e-3), (5e-3, 1e-3), (1e-3, 5e-3))
)

#: Baselines are compared without an ensemble.
ALONE: Mapping[str, Any] = {"links.ensemble": False}
EDGES_ALONE: Mapping[str, Any] = {"edges.ensemble": False}
#: The settings with which graph baselines rank links best on validation (docs/decisions.md): they
#: need to rely less on the nodes' own vectors than Edgeformer-N.
NETWORK: Mapping[str, Any] = {
    "links.temperature": 0.2,
    "model.node_dropout": 0.5,
    "model.node_shrinkage": 0.0,
    "train.node_lr": 1e-3,
}


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """A neural model: its classes, what it encodes, its text encoder, and its settings.

    A model of "edges" takes an EdgeBatch, or an EdgeContextBatch with `context`; a model of
    "nodes" takes an EgoBatch. All return [B, D].
    """

    model: Callable[[Any, Any], nn.Module]
    config: type[ModelConfig] = ModelConfig
    encodes: Literal["edges", "nodes"]
    text: Literal["language-model", "bag-of-words", "none"] = "language-model"
    context: bool = False  # whether it also reads the edges around both ends of an edge
    settings: Mapping[str, Any] = field(default_factory=dict)  # override those of a recipe
    tuned: Mapping[str, Any] = field(default_factory=dict)  # likewise, but not those of `paper`
    grid: tuple[GridPoint, ...] = BACKBONE_RATES


def _edges_in_context(
    model: Callable[[Any, Any], nn.Module], config: type[ModelConfig]
) -> ModelEntry:
    """An edge model in which a language model reads nine texts per edge, to limit its cost."""
    neighbors = {"data.source_neighbors": [4], "data.target_neighbors": [4]}
    settings = {**EDGES_ALONE, **neighbors}
    return ModelEntry(model=model, config=config, encodes="edges", context=True, settings=settings)


def _vanilla_gnn(
    model: Callable[[Any, Any], nn.Module], text: Literal["bag-of-words", "none"]
) -> ModelEntry:
    """A graph baseline without a language model, with node vectors initialized by NetMF."""
    return ModelEntry(
        model=model,
        encodes="nodes",
        text=text,
        settings={**ALONE, "model.node_init": "netmf"},
        tuned=NETWORK,
        grid=BAG_RATES,
    )


def _nodes_over_bert(model: Callable[[Any, Any], nn.Module]) -> ModelEntry:
    """A graph baseline over a language model."""
    return ModelEntry(model=model, encodes="nodes", settings=ALONE, tuned=NETWORK)


#: Neural models, trained by the estimators.
MODELS: Mapping[str, ModelEntry] = {
    "edgeformer-e": ModelEntry(model=EdgeformerE, config=EdgeformerEConfig, encodes="edges"),
    "edgeformer-n": ModelEntry(model=EdgeformerN, config=EdgeformerNConfig, encodes="nodes"),
    "bert": ModelEntry(model=Bert, encodes="edges", settings=EDGES_ALONE),
    "bert-nodes": ModelEntry(model=BertWithNodeTokens, encodes="edges", settings=EDGES_ALONE),
    "text-one-hots": ModelEntry(model=BertWithNodeOneHots, encodes="edges", settings=EDGES_ALONE),
    "ehgnn": ModelEntry(
        model=EHGNN,
        config=EHGNNConfig,
        encodes="edges",
        text="bag-of-words",
        context=True,
        settings=EDGES_ALONE,
        grid=BAG_RATES,
    ),
    "bert-ehgnn": _edges_in_context(EHGNN, EHGNNConfig),
    "bert-max-sage": _edges_in_context(MaxSAGEForEdges, NodeTextConfig),
    "graphformers": _edges_in_context(GraphFormersForEdges, NodeTextConfig),
    "mean-sage": _vanilla_gnn(MeanSAGE, "none"),
    "max-sage": _vanilla_gnn(MaxSAGE, "none"),
    "gin": _vanilla_gnn(GIN, "none"),
    "mean-sage-words": _vanilla_gnn(MeanSAGEWithTexts, "bag-of-words"),
    "max-sage-words": _vanilla_gnn(MaxSAGEWithTexts, "bag-of-words"),
    "gin-words": _vanilla_gnn(GINE, "bag-of-words"),
    "censnet": _vanilla_gnn(CensNet, "bag-of-words"),
    "nenn": _vanilla_gnn(NENN, "bag-of-words"),
    "bert-mean-sage": _nodes_over_bert(MeanSAGEWithTexts),
    "bert-max-sage-n": _nodes_over_bert(MaxSAGEWithTexts),
    "bert-gin": _nodes_over_bert(GINE),
    "bert-censnet": _nodes_over_bert(CensNet),
    "bert-nenn": _nodes_over_bert(NENN),
    "bert-n": ModelEntry(model=BertForNodes, encodes="nodes", settings=ALONE),
    "graphformers-n": ModelEntry(model=GraphFormersForNodes, encodes="nodes", settings=ALONE),
}


def find_entry(name: str) -> ModelEntry:
    """The entry of a neural model; an unknown name is answered with the closest one."""
    if name not in MODELS and (old := aliases.name_in_0_1(name)):
        raise ConfigError(
            f"the model '{old}' of version 0.1 is defined differently now; train it again, with "
            "the current names of settings"
        )
    if name not in MODELS:
        raise ConfigError(f"unknown model '{name}'; {suggest(name, MODELS)}")
    return MODELS[name]


def make_model(
    name: str, config_values: dict[str, Any], encoder: TextReader, *, seed: int = 0
) -> nn.Module:
    """Build a model from plain settings; `seed` initializes all parameters but the encoder's."""
    entry = find_entry(name)
    config = entry.config.from_dict(config_values)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return entry.model(config, encoder)


def model_name(model: nn.Module) -> str:
    """The registered name of a model, found by its class, config class and text encoder."""
    kinds = {BagOfWords: "bag-of-words", NoText: "none"}
    text = kinds.get(type(getattr(model, "encoder", None)), "language-model")
    classes = (type(model), type(getattr(model, "config", None)), text)
    for name, entry in MODELS.items():
        if classes == (entry.model, entry.config, entry.text):
            return name
    raise InputError(
        f"{type(model).__name__} is not a registered model; available: {', '.join(MODELS)}"
    )


def __getattr__(name: str) -> Any:
    """The lists of simple baselines, which were here before; they take longer to import."""
    if name.endswith("_BASELINES"):
        return getattr(import_module("edgeformers.baselines.registry"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
