"""The only list of models: what each is called, made of, and what it encodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from edgeformers.baselines.graph.censnet import CensNet
from edgeformers.baselines.graph.ehgnn import EHGNN
from edgeformers.baselines.graph.gin import GIN
from edgeformers.baselines.graph.graphformers_edges import GraphFormersEdges
from edgeformers.baselines.graph.graphformers_n import GraphFormersN, GraphFormersNConfig
from edgeformers.baselines.graph.max_sage import MaxSAGE
from edgeformers.baselines.graph.max_sage_edges import MaxSAGEEdges
from edgeformers.baselines.graph.mean_sage import MeanSAGE
from edgeformers.baselines.graph.nenn import NENN
from edgeformers.baselines.text.bert import Bert
from edgeformers.baselines.text.bert_n import BertN
from edgeformers.baselines.text.bert_nodes import BertNodes
from edgeformers.baselines.text.text_one_hots import TextOneHots
from edgeformers.errors import ConfigError, InputError, suggest
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.models.edgeformer_e import EdgeformerE, EdgeformerEConfig
from edgeformers.models.edgeformer_n import EdgeformerN, EdgeformerNConfig
from edgeformers.nn.backbones import random_backbone
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.encoder import EncoderConfig

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


#: Learning rates that are tried, of models over a language model and over a bag of words.
BACKBONE_RATES: Mapping[str, Sequence[float]] = {"train.lr": (2e-5, 5e-5, 1e-4)}
BAG_RATES: Mapping[str, Sequence[float]] = {"train.head_lr": (3e-4, 1e-3, 3e-3)}


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One model: its class and config class, what it encodes and from what, and its settings.

    A model of "edges" takes an EdgeBatch, with `context` an EdgeContextBatch, one of "nodes" an
    EgoBatch; all give [B, D]. Its `encoder` reads texts: a language model, or a bag of words.
    """

    model: Callable[[Any, Any], nn.Module]
    config: type[ModelConfig]
    encodes: Literal["edges", "nodes"]
    text: Literal["language-model", "bag-of-words"] = "language-model"
    context: bool = False  # whether it reads the edges around both ends of an edge too
    settings: Mapping[str, Any] = field(default_factory=dict)  # of a run, over those of a recipe
    tuned: Mapping[str, Any] = field(default_factory=dict)  # and these, but not over `paper`
    grid: Mapping[str, Sequence[float]] = field(default_factory=lambda: dict(BACKBONE_RATES))
    tiny: Mapping[str, Any] = field(default_factory=lambda: {"num_nodes": 7, "node_width": 6})


#: A baseline is compared as it is, without other models beside it; one that reads texts alone is
#: not helped by node vectors in the score of links either.
ALONE: Mapping[str, Any] = {"links.ensemble": False}
EDGES_ALONE: Mapping[str, Any] = {"edges.ensemble": False}
TEXT_ALONE: Mapping[str, Any] = {**ALONE, "links.collaborative": False}
#: What ranks links best on validation with a network baseline (docs/recipes.md): it has to lean on
#: the nodes' own vectors less than Edgeformer-N.
NETWORK: Mapping[str, Any] = {
    "links.temperature": 0.2,
    "model.node_dropout": 0.5,
    "train.node_lr": 1e-3,
}


def _bag_of_nodes(model: Callable[[Any, Any], nn.Module]) -> ModelEntry:
    """A network baseline over bags of words, whose nodes start from the network's own factors."""
    return ModelEntry(
        model=model,
        config=ModelConfig,
        encodes="nodes",
        text="bag-of-words",
        settings={**ALONE, "model.node_init": "factorized"},
        tuned=NETWORK,
        grid=BAG_RATES,
    )


def _language_of_nodes(model: Callable[[Any, Any], nn.Module]) -> ModelEntry:
    """The same over a language model."""
    return ModelEntry(
        model=model, config=ModelConfig, encodes="nodes", settings=ALONE, tuned=NETWORK
    )


def _language_in_context(model: Callable[[Any, Any], nn.Module]) -> ModelEntry:
    """An edge model that has a language model read nine texts for every edge: no more than that."""
    few = {"data.source_neighbors": [4], "data.target_neighbors": [4]}
    return ModelEntry(
        model=model,
        config=ModelConfig,
        encodes="edges",
        context=True,
        settings={**EDGES_ALONE, **few},
    )


MODELS: Mapping[str, ModelEntry] = {
    "edgeformer-e": ModelEntry(model=EdgeformerE, config=EdgeformerEConfig, encodes="edges"),
    "edgeformer-n": ModelEntry(model=EdgeformerN, config=EdgeformerNConfig, encodes="nodes"),
    "bert": ModelEntry(model=Bert, config=ModelConfig, encodes="edges", settings=EDGES_ALONE),
    "bert-nodes": ModelEntry(
        model=BertNodes, config=ModelConfig, encodes="edges", settings=EDGES_ALONE
    ),
    "text-one-hots": ModelEntry(
        model=TextOneHots, config=ModelConfig, encodes="edges", settings=EDGES_ALONE
    ),
    "ehgnn": ModelEntry(
        model=EHGNN,
        config=ModelConfig,
        encodes="edges",
        text="bag-of-words",
        context=True,
        settings={**EDGES_ALONE, "model.node_init": "factorized"},
        grid=BAG_RATES,
    ),
    "bert-ehgnn": _language_in_context(EHGNN),
    "bert-max-sage": _language_in_context(MaxSAGEEdges),
    "graphformers": _language_in_context(GraphFormersEdges),
    "mean-sage": _bag_of_nodes(MeanSAGE),
    "max-sage": _bag_of_nodes(MaxSAGE),
    "gin": _bag_of_nodes(GIN),
    "censnet": _bag_of_nodes(CensNet),
    "nenn": _bag_of_nodes(NENN),
    "bert-mean-sage": _language_of_nodes(MeanSAGE),
    "bert-max-sage-n": _language_of_nodes(MaxSAGE),
    "bert-gin": _language_of_nodes(GIN),
    "bert-censnet": _language_of_nodes(CensNet),
    "bert-nenn": _language_of_nodes(NENN),
    "bert-n": ModelEntry(model=BertN, config=ModelConfig, encodes="nodes", settings=TEXT_ALONE),
    "graphformers-n": ModelEntry(
        model=GraphFormersN, config=GraphFormersNConfig, encodes="nodes", settings=TEXT_ALONE
    ),
}


def find_entry(name: str) -> ModelEntry:
    """The entry of a model's name; an unknown name is answered with the nearest."""
    if name not in MODELS:
        raise ConfigError(f"there is no model '{name}'; {suggest(name, MODELS)}")
    return MODELS[name]


def make_model(
    name: str, config_values: dict[str, Any], encoder: TextReader, *, seed: int = 0
) -> nn.Module:
    """A model by its name and plain settings; what it adds to the encoder is drawn from `seed`."""
    entry = find_entry(name)
    config = entry.config.from_dict(config_values)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return entry.model(config, encoder)


def make_tiny(name: str, *, seed: int = 0, **settings: Any) -> nn.Module:
    """A model small enough for a test: `settings` over the entry's own, a random encoder."""
    entry = find_entry(name)
    encoder: TextReader
    if entry.text == "bag-of-words":
        encoder = _tiny_bag(seed)
    else:
        encoder = random_backbone(TINY_ENCODER, seed=seed)
        encoder.initialize(seed, std=0.2)  # ten times the usual, so that every part is felt
    return make_model(name, {**entry.tiny, **settings}, encoder, seed=seed).eval()


def _tiny_bag(seed: int) -> BagOfWords:
    """A bag of all tokens of the tiny encoder but the first three, which stand for special ones."""
    size = TINY_ENCODER.vocab_size
    counts = [0, 0, 0, *range(1, size - 2)]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return BagOfWords.from_counts(counts, size, words=size, width=TINY_ENCODER.width)


def model_name(model: nn.Module) -> str:
    """The name under which a model is listed: that of its class, its config and its texts."""
    kinds = (type(model), type(getattr(model, "config", None)), _text_kind(model))
    for name, entry in MODELS.items():
        if kinds == (entry.model, entry.config, entry.text):
            return name
    raise InputError(
        f"{type(model).__name__} is not one of the listed models; available: {', '.join(MODELS)}"
    )


def _text_kind(model: nn.Module) -> str:
    encoder = getattr(model, "encoder", None)
    return "bag-of-words" if isinstance(encoder, BagOfWords) else "language-model"
