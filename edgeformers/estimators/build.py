"""The settings of a run, and its untrained model for a network."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.baselines.collaborative.netmf import netmf_vectors
from edgeformers.config import (
    PAPER_RECIPES,
    RECIPES,
    RunConfig,
    Task,
    flatten,
    given_settings,
    make_config,
)
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import BATCH_SIZES, default_batch_size
from edgeformers.data.scratch import row_slices
from edgeformers.data.splits import DEFAULT_SPLITS, FUTURE_SPLIT, NO_TIME, TRAIN
from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError, InputError
from edgeformers.estimators.cpu_plan import PLANNED, has_plan, measure_workload, planned_settings
from edgeformers.estimators.warm_start import Parent, continued_config
from edgeformers.evaluation.network_labels import is_labeled
from edgeformers.inference.encode import EncodeOptions
from edgeformers.inference.fitted import choose_split, task_parts
from edgeformers.models.base import TextReader
from edgeformers.nn.backbones import backbone_config
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.no_text import NoText, NoTextConfig
from edgeformers.registry import MODELS, ModelEntry, find_entry, make_model
from edgeformers.sharded_nodes import sharded_tables
from edgeformers.training.data_settings import size_settings
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

#: The default model of each task, and what it encodes.
DEFAULT_MODELS: Mapping[Task, str] = {
    "edge-classification": "edgeformer-e",
    "link-prediction": "edgeformer-n",
}
ENCODED: Mapping[Task, str] = {"edge-classification": "edges", "link-prediction": "nodes"}

#: Positive and negative edges sampled around a node by the paper's recipes, unless the network has
#: numbers of its own: those of the paper's largest network, Amazon-Movie.
PAPER_NEIGHBORS: Mapping[str, list[int]] = {"source": [8, 8], "target": [10, 10]}

#: Settings of a run that are passed to the model under the same name.
MODEL_SETTINGS = (
    "node_width",
    "node_dropout",
    "node_shrinkage",
    "fidelity",
    "direction",
    "text_layers",
    "tokens",
    "fusion",
    "readout",
    "pooling",
)

LARGE_TABLE = 5_000_000  # entries of a node table above which its gradients are sparse
LARGE_SHARDED_TABLE = 1 << 26  # entries above which several processes share the rows
MAX_PRIOR_CLASSES = 10  # a node's summary grows with their square
MAX_SUMMARIES = 1 << 28  # entries of the summaries of all nodes, in every process


def run_config(
    task: Task,
    recipe: str | None = None,
    *,
    file: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    graph: EdgeTextGraph | None = None,
    device: torch.device | None = None,
) -> RunConfig:
    """Settings from a recipe, a network, the model in `model.name`, a TOML file, single settings.

    Later ones override earlier ones. Links of a network with the split `future` are trained on it,
    except by the paper's recipes. `device` is where the model will be trained. For a CPU, the
    recipe `default` is planned (`cpu_plan`); for a GPU, batches grow with the network. With
    `train.start_from`, the settings of that run take the place of the first three.
    """
    config = make_config(task, recipe, file=file, settings=settings)
    given = given_settings(file, settings)
    if config.train.start_from:
        values = flatten(config.to_dict())
        own = {name: values[name] for name in given}
        return continued_config(config, own, own.get("recipe", recipe))
    if graph is not None and (split := _default_split(config, graph)) and "data.split" not in given:
        settings = {**(settings or {}), "data.split": split}
        config = make_config(task, recipe, file=file, settings=settings)
    entry = find_model(config)
    defaults = {} if graph is None else network_settings(config, graph, given)
    on_gpu = device is not None and device.type == "cuda"
    if graph is not None and on_gpu and config.train.batch_size is None:
        defaults |= batch_settings(config, num_training_edges(config, graph))
    defaults |= {**entry.settings, **({} if config.recipe in PAPER_RECIPES else entry.tuned)}
    config = make_config(task, recipe, file=file, settings=settings, model_settings=defaults)
    if graph is None or device is None or device.type != "cpu" or given & set(PLANNED):
        return config
    defaults |= cpu_settings(config, graph)
    return make_config(task, recipe, file=file, settings=settings, model_settings=defaults)


def describe_split(config: RunConfig, graph: EdgeTextGraph, tested: Ids) -> str:
    """What a split by time means for the links that are tested, or why there is none; or empty."""
    name = choose_split(config, graph)
    split = graph.split_config(name)
    if split.how != FUTURE_SPLIT.how:
        is_missing = _uses_defaults(config, graph) and _lacks_times(graph)
        return "some edges have no time, so links are split at random" if is_missing else ""
    if not len(tested):
        return ""
    train, val, test = (f"{share:.0%}" for share in split.fractions)
    seen = graph.seen_in_training(name)
    known = float((seen[graph.src[tested]] & seen[graph.dst[tested]]).mean())
    other = name == FUTURE_SPLIT.name and "link" in graph.splits
    return (
        f"links are split by time: the first {train} of the edges train, the next {val} validate, "
        f"the last {test} test; {known:.0%} of the test links are between nodes known from training"
        + (" (data.split=link splits them at random)" if other else "")
    )


def _uses_defaults(config: RunConfig, graph: EdgeTextGraph) -> bool:
    """Whether the split was chosen neither in `prepare` nor for this run."""
    is_chosen = bool(config.data.split) or config.recipe in PAPER_RECIPES
    return not is_chosen and list(graph.split_configs.values()) == list(DEFAULT_SPLITS)


def _lacks_times(graph: EdgeTextGraph) -> bool:
    return graph.times is not None and bool((graph.times == NO_TIME).any())


def _default_split(config: RunConfig, graph: EdgeTextGraph) -> str:
    is_dated = FUTURE_SPLIT.name in graph.splits and config.recipe not in PAPER_RECIPES
    return FUTURE_SPLIT.name if is_dated and config.task == "link-prediction" else ""


def cpu_settings(config: RunConfig, graph: EdgeTextGraph) -> dict[str, Any]:
    """What is planned for training on a CPU; empty if nothing has to be."""
    if not has_plan(config, find_model(config)):
        return {}
    num_train = len(task_parts(config.task, graph, choose_split(config, graph))["train"])
    layers = backbone_config(config.model.backbone).layers
    return planned_settings(measure_workload(config, graph, num_train, layers))


def network_settings(
    config: RunConfig, graph: EdgeTextGraph, given: Collection[str] = ()
) -> dict[str, Any]:
    """What a recipe takes from a network: `default` settings that follow from its size.

    `given` are the names of settings that do not come from the recipe. The paper's recipes take
    strata and numbers of neighbors for links: positive and negative edges are sampled separately if
    only some labels count as links.
    """
    if config.recipe == "default":
        is_off = "model.node_prior" in given and not config.model.node_prior
        if config.task == "edge-classification" and (is_off or prior_obstacle(config, graph)):
            return {}
        return size_settings(config.task, num_training_edges(config, graph))
    sizes = graph.meta.neighbors or (PAPER_NEIGHBORS if graph.meta.positive_labels else {})
    if config.recipe not in PAPER_RECIPES or config.task != "link-prediction" or not sizes:
        return {}
    settings: dict[str, Any] = {f"data.{side}_neighbors": sizes[side] for side in sizes}
    return settings | {"data.strata": "positive" if len(sizes["source"]) == 2 else "none"}


def prior_obstacle(config: RunConfig, graph: EdgeTextGraph) -> str:
    """Why labels of the network cannot predict node vectors of the model; empty if they can."""
    classes, kind = len(graph.label_names), config.edges.kind or graph.label_kind or "class"
    known = {setting.name for setting in fields(find_model(config).config)}
    if "prior_classes" not in known:
        return f"'{chosen_name(config)}' cannot use them"
    if kind not in ("class", "ordered") or graph.labels is None:
        return f"{graph.path} does not have one class per edge"
    if classes > MAX_PRIOR_CLASSES:
        return f"{graph.path} has {classes} classes, more than {MAX_PRIOR_CLASSES}"
    if 2 * graph.num_nodes * classes * (classes + 1) > MAX_SUMMARIES:
        return f"{graph.path} has too many nodes and classes ({graph.num_nodes:,} and {classes})"
    return ""


def num_training_edges(config: RunConfig, graph: EdgeTextGraph) -> int:
    """The number of labeled edges, or of links, in the training part of the split."""
    codes, labels = graph.split(choose_split(config, graph)), graph.labels
    rows = row_slices(len(codes))
    if config.task == "link-prediction":
        return sum(int(((codes[r] == TRAIN) & graph.is_positive[r]).sum()) for r in rows)
    if labels is None:
        return 0
    return sum(int(((codes[r] == TRAIN) & is_labeled(labels[r])).sum()) for r in rows)


def batch_settings(config: RunConfig, examples: int) -> dict[str, Any]:
    """A batch size that fills a GPU, and its learning rates, for a number of training examples.

    The rates grow with the square root of the batch size, as the noise of gradients shrinks, except
    that of the node table: a node is in as many batches as before.
    """
    size = default_batch_size(config.task, examples, gpu=True)
    scale = max(1.0, size / BATCH_SIZES[config.task][0]) ** 0.5
    rates = {f"train.{name}": getattr(config.train, name) * scale for name in ("lr", "head_lr")}
    return {"train.batch_size": size, **rates} if scale > 1 else {}


def chosen_name(config: RunConfig) -> str:
    """The name of the model of a run."""
    return config.model.name or DEFAULT_MODELS[config.task]


def find_model(config: RunConfig) -> ModelEntry:
    """The registry entry of a run's model, which must encode what the task needs."""
    name, encoded = chosen_name(config), ENCODED[config.task]
    entry = find_entry(name)
    if entry.encodes != encoded:
        others = ", ".join(other for other, e in MODELS.items() if e.encodes == encoded)
        raise ConfigError(
            f"{config.task} needs a model of {encoded}, but '{name}' is a model of "
            f"{entry.encodes}; available: {others}"
        )
    return entry


def build_model(
    config: RunConfig,
    graph: EdgeTextGraph,
    split: str,
    options: EncodeOptions,
    parent: Parent | None = None,
) -> tuple[nn.Module, TokenStore]:
    """The untrained model on its device, and the network's texts in its tokens.

    With a `parent`, a trained model, it has its encoder and tokenizer.
    """
    encoder: TextReader
    features, seed = None, config.train.seed
    if find_model(config).text != "language-model":
        encoder, tokens = _open_words(config, graph, split, options.show, parent)
    else:
        with distributed.main_first():  # tokenizes the network if necessary
            encoder, tokens = open_backbone(
                config.model.backbone,
                graph,
                seed=seed,
                show=options.show,
                tokenizer=None if parent is None else parent.tokenizer,
            )
        if config.model.node_texts:
            features = _node_text_features(config, graph, tokens, encoder, options.device)
        if parent is not None:
            encoder = cast(TextEncoder, parent.model.encoder)
        _prepare_encoder(encoder, config)
    values = _model_values(config, graph, 0 if features is None else features.size(1))
    with sharded_tables(_is_sharded(config, values)):
        model = make_model(chosen_name(config), values, encoder, seed=seed)
    nodes: Any = model.get_submodule("nodes")
    if config.model.node_init != "random" and parent is None:
        is_needed = distributed.is_main() or not nodes.is_sharded
        nodes.set_table(_initial_vectors(config, graph, split) if is_needed else None)
    if features is not None:
        nodes.set_features(features)
    if config.model.node_shrinkage:
        nodes.set_edge_counts(torch.from_numpy(graph.training_edge_counts(split)))
    nodes.mark_seen(torch.from_numpy(graph.seen_in_training(split)))
    return model.eval().to(options.device), tokens  # training turns dropout on


def _initial_vectors(config: RunConfig, graph: EdgeTextGraph, split: str) -> Tensor:
    """Node vectors [N, K] of a factorization."""
    seed, width = config.train.seed, config.model.node_width
    if config.model.node_init == "factorized":
        return factorize(graph, split, width, seed=seed)
    return scale_vectors(netmf_vectors(graph, split, width, seed=seed))


def _is_sharded(config: RunConfig, values: Mapping[str, Any]) -> bool:
    """Whether each of several processes has only some rows of the node table."""
    chosen = config.train.shard_nodes
    is_large = values["num_nodes"] * config.model.node_width > LARGE_SHARDED_TABLE
    wanted = is_large and values["sparse"] if chosen is None else chosen
    return bool(wanted) and distributed.world_size() > 1


def _open_words(
    config: RunConfig, graph: EdgeTextGraph, split: str, show: bool, parent: Parent | None
) -> tuple[BagOfWords | NoText, TokenStore]:
    """A bag of the words of training edges in the backbone's tokens, or nothing in its place."""
    settings = config.model
    if settings.node_texts:
        raise ConfigError(
            f"'{settings.name}' has no language model, but node texts need one; "
            "use `model.node_texts=false`"
        )
    with distributed.main_first():
        tokens = backbone_tokens(
            settings.backbone,
            graph,
            show=show,
            tokenizer=None if parent is None else parent.tokenizer,
        )
    if parent is not None:
        return cast(BagOfWords | NoText, parent.model.encoder), tokens
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
            f"{graph.path} has no node texts; prepare it with `nodes=` and `text=` of "
            "read_nodes, or use `model.node_texts=false`"
        )
    store = graph.token_store(tokens.meta.fingerprint, "nodes")
    return node_text_features(encoder, store, config.data.max_tokens, device=device)


def _model_values(config: RunConfig, graph: EdgeTextGraph, feature_width: int) -> dict[str, Any]:
    """The settings of the model itself; one that the model does not have must not be set."""
    known = {setting.name for setting in fields(find_model(config).config)}
    sparse = config.train.sparse_nodes
    if sparse is None:  # sparse gradients pay if the node table is large
        is_large = graph.num_nodes * config.model.node_width > LARGE_TABLE
        sparse = (is_large or bool(config.train.shard_nodes)) and not config.train.decay_nodes
    values: dict[str, Any] = {
        "num_nodes": graph.num_nodes,
        "feature_width": feature_width,
        "sparse": sparse,
    }
    if config.model.node_prior:
        if obstacle := prior_obstacle(config, graph):
            raise ConfigError(
                f"model.node_prior needs labels of edges: {obstacle}; set it to false"
            )
        values["prior_classes"] = len(graph.label_names)
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
