"""All settings of a run as frozen dataclasses, with TOML files and named recipes."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from edgeformers.aliases import NEWER_SETTINGS, current_setting, current_settings
from edgeformers.decode import decode
from edgeformers.errors import ConfigError, suggest

Task = Literal["edge-classification", "link-prediction"]
Recipe = Literal["default", "paper", "paper-tuned", "fast"]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Settings of the model. Each model accepts only the settings it uses."""

    name: str = ""  # model name; empty: edgeformer-e for edges, edgeformer-n for links
    backbone: str = "minilm"  # minilm, a local folder, or a Hugging Face Hub name
    bag_words: int = 2_000  # vocabulary size of bag-of-words models
    bag_width: int = 128  # embedding size of models without a language model
    fidelity: Literal["paper", "released"] = "paper"  # follow the paper or the authors' code
    node_width: int = 64  # size of node embeddings
    node_dropout: float = 0.0  # probability of replacing a node with the unknown node in training
    node_shrinkage: float = 0.0  # edges of an average node added to those of every node
    node_prior: bool = False  # add to node embeddings what a node's labeled edges predict
    direction: bool = False  # distinguish an edge's source from its target
    text_layers: int = 1  # the first layers, which read the text only; virtual tokens follow
    node_texts: bool = False  # use node texts, if the network has them
    tokens: list[str] | None = None  # virtual tokens to use; none: all of the model's
    fusion: bool = False  # combine text and node embeddings again after the last layer
    readout: Literal["cls", "neighbor"] | None = None  # token read as the output; none: the model's
    pooling: Literal["attention", "mean", "max"] = "attention"  # pooling over a node's edges
    # factorized: SVD of the adjacency; netmf: NetMF, the paper's MF
    node_init: Literal["random", "factorized", "netmf"] = "random"

    def __post_init__(self) -> None:
        _check_minimum("model", self, 1, "bag_words", "bag_width", "text_layers")


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which part of a network is used for training."""

    # split name; empty: "edge" or "link" if present, else the only split. `train` takes "future"
    # for links if the network has it
    split: str = ""
    max_tokens: int = 64  # maximum tokens per text, including special tokens
    source_neighbors: list[int] = field(default_factory=lambda: [8])  # sampled per stratum
    target_neighbors: list[int] = field(default_factory=lambda: [8])  # sampled per stratum
    strata: Literal["none", "positive", "edge_type"] = "none"  # stratification of sampled edges

    def __post_init__(self) -> None:
        _check_minimum("data", self, 3, "max_tokens")
        for name in ("source_neighbors", "target_neighbors"):
            sizes = getattr(self, name)
            if not sizes or min(sizes) < 0 or sum(sizes) < 1:
                raise ConfigError(
                    f"data.{name} must list the number of sampled edges per stratum, such as [8] "
                    f"(got {sizes})"
                )


@dataclass(frozen=True, kw_only=True)
class EdgeSettings:
    """Settings of edge classification."""

    kind: Literal["class", "multi", "ordered", "number"] | None = None  # none: from the labels
    loss: Literal["cross_entropy", "released"] = "cross_entropy"
    class_balance: float = 0.0  # class weighting; 0: by frequency, 1: all classes equal
    label_smoothing: float = 0.0
    rdrop: float = 0.0  # weight of R-Drop, the KL divergence between two dropout passes
    dropout: float = 0.1  # dropout of the classification head
    ensemble: bool = False  # combine with a linear model of words and nodes
    tune_decision: bool = False  # tune the decision rule for rare classes on validation

    def __post_init__(self) -> None:
        _check_minimum("edges", self, 0, "class_balance", "rdrop")


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """Settings of link prediction."""

    temperature: float | None = None  # softmax temperature; none: raw dot products
    learn_temperature: bool = False
    normalize: bool = False  # L2-normalize embeddings
    logq: float = 0.0  # strength of the logQ correction for popular in-batch negatives
    mask_false_negatives: bool = False
    uniform_negatives: int = 0  # extra negatives sampled uniformly from all candidates
    cached_negatives: int = 0  # extra negatives whose last computed embeddings are reused
    collaborative: bool = False  # add a node-embedding term with a learned weight
    popularity_bias: bool = False  # add a popularity term
    ensemble: bool = False  # combine with LightGCN, ALS and EASE, weighted on validation
    cold_node_rate: float | None = 0.0  # fraction of nodes treated as unseen; none: from the split

    def __post_init__(self) -> None:
        _check_minimum("links", self, 0, "cached_negatives")
        if self.cold_node_rate is not None and not 0 <= self.cold_node_rate < 1:
            raise ConfigError(
                "links.cold_node_rate must be at least 0 and less than 1, or none "
                f"(got {self.cold_node_rate})"
            )


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of training."""

    start_from: str = ""  # a run, or a saved model, to continue from; empty: train from scratch
    replay: float = 3.0  # with start_from: earlier training examples to repeat per new one
    epochs: int = 6
    batch_size: int | None = 64  # none: 16 to 1,024, depending on the number of examples
    lr: float = 5e-5  # learning rate of the backbone
    node_lr: float = 5e-3  # learning rate of the node table
    head_lr: float = 1e-3  # learning rate of all other parameters
    weight_decay: float = 1e-2  # not applied to biases and norms
    decay_nodes: bool = False  # apply weight decay to the node table; needs dense gradients
    warmup_ratio: float = 0.1  # fraction of steps with linear warmup
    lr_schedule: Literal["linear", "cosine", "constant"] = "linear"  # after the warmup
    sparse_nodes: bool | None = None  # sparse gradients of the node table; none: if it is large
    shard_nodes: bool | None = None  # divide the node table among processes; none: if it is large
    ema_decay: float | None = None  # decay of the moving average of weights; none: no average
    max_grad_norm: float | None = 1.0  # gradient clipping; none: off
    gradient_accumulation: int = 1  # batches per optimizer step
    micro_batch_size: int | None = None  # examples per forward pass; halved when out of memory
    frozen_layers: int = 0  # freeze the embeddings and this many layers of the backbone
    gradient_checkpointing: bool = False  # recompute layers in the backward pass to save memory
    lora_rank: int = 0  # train LoRA adapters instead of the backbone (needs the extra 'lora')
    patience: int | None = None  # epochs without improvement before stopping; none: off
    select_metric: str | None = None  # validation metric to select by; none: the task's default
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    cuda_graphs: bool | None = None  # none: if kernel launches would limit the speed
    seed: int = 0
    checkpoint_every: int | None = None  # optimizer steps; none: about every 30 seconds
    keep_checkpoints: int = 2
    eval_batch_size: int = 256
    eval_pairs: int | None = 10_000  # validation links ranked per epoch; none: all

    def __post_init__(self) -> None:
        _check_minimum("train", self, 1, "epochs", "batch_size", "gradient_accumulation")
        _check_minimum("train", self, 1, "micro_batch_size", "patience", "checkpoint_every")
        _check_minimum("train", self, 1, "keep_checkpoints", "eval_batch_size", "eval_pairs")
        _check_minimum("train", self, 0, "lr", "node_lr", "head_lr", "weight_decay")
        _check_minimum("train", self, 0, "frozen_layers", "lora_rank", "seed", "replay")
        if not 0 <= self.warmup_ratio < 1:
            raise ConfigError(
                f"train.warmup_ratio must be at least 0 and less than 1 (got {self.warmup_ratio})"
            )
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise ConfigError(
                f"train.max_grad_norm must be positive, or none (got {self.max_grad_norm})"
            )
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise ConfigError(f"train.ema_decay must be between 0 and 1 (got {self.ema_decay})")
        if self.shard_nodes and (self.decay_nodes or self.sparse_nodes is False):
            raise ConfigError(
                "train.shard_nodes needs sparse gradients of the node table; set "
                "train.decay_nodes=false and train.sparse_nodes=true"
            )
        if self.decay_nodes and self.sparse_nodes:
            raise ConfigError(
                "train.decay_nodes needs dense gradients of the node table; set "
                "train.sparse_nodes=false"
            )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All settings of a run. The config.toml written to a run folder reproduces the run."""

    task: Task
    recipe: str = "default"
    model: ModelSettings = field(default_factory=ModelSettings)
    data: DataSettings = field(default_factory=DataSettings)
    edges: EdgeSettings = field(default_factory=EdgeSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    train: TrainSettings = field(default_factory=TrainSettings)

    def __post_init__(self) -> None:
        if self.task not in get_args(Task):
            raise ConfigError(f"unknown task '{self.task}'; {suggest(self.task, get_args(Task))}")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunConfig":
        """A config from nested plain values, which may have the setting names of old versions."""
        empty = {name: value for name, value in values.items() if value == {}}
        return _decode({**empty, **_nest(current_settings(flatten(values)))})

    def to_toml(self) -> str:
        """The config as TOML; None is written as the string "none"."""
        values = self.to_dict()
        lines = [f"{name} = {_toml(v)}" for name, v in values.items() if not isinstance(v, dict)]
        for section, settings in values.items():
            if isinstance(settings, dict):
                lines += ["", f"[{section}]"]
                lines += [f"{name} = {_toml(value)}" for name, value in settings.items()]
        return "\n".join(lines) + "\n"

    def with_settings(self, changes: Mapping[str, Any]) -> "RunConfig":
        """A copy with settings changed by dotted name: {"train.lr": 3e-5}."""
        changed = {current_setting(name): value for name, value in changes.items()}
        return _decode(_nest({**flatten(self.to_dict()), **changed}))


#: Recipes that keep the paper's architecture, loss, batches, neighbors and model selection.
PAPER_RECIPES = ("paper", "paper-tuned")

#: The settings of each recipe for each task. `paper`: the hyperparameters of the paper's appendix.
#: `paper-tuned`: the same with learning rates found on validation, since 1e-5 is meant for
#: BERT-base. `default`: the best known settings. `fast`: minutes on a laptop.
_PAPER = {
    "model.backbone": "bert-base-uncased",
    "model.fidelity": "paper",
    "model.node_width": 64,
    "data.max_tokens": 64,
    "train.lr": 1e-5,
    "train.node_lr": 1e-5,
    "train.head_lr": 1e-5,
    "train.weight_decay": 1e-3,
    "train.batch_size": 30,
    "train.eval_batch_size": 100,
    "train.warmup_ratio": 0.0,
    "train.lr_schedule": "constant",
    "train.max_grad_norm": None,
    "train.sparse_nodes": False,
    "train.decay_nodes": True,
    "train.precision": "fp32",
    "train.epochs": 100,
    "train.patience": 3,
    "train.seed": 42,
}
_PAPER_TASKS: Mapping[Task, Mapping[str, Any]] = {
    "edge-classification": {**_PAPER, "edges.loss": "released", "edges.dropout": 0.0},
    "link-prediction": {**_PAPER, "train.select_metric": "paper/hit@1"},
}
_TUNED_RATES = {
    "train.lr": 5e-5,
    "train.node_lr": 1e-3,
    "train.head_lr": 1e-3,
    "train.precision": "auto",
}
_FAST = {
    "data.max_tokens": 32,
    "train.epochs": 3,
    "train.frozen_layers": 3,
    "train.lr": 1e-4,
    "train.node_lr": 1e-2,
    "model.node_dropout": 0.05,
}
RECIPES: Mapping[str, Mapping[Task, Mapping[str, Any]]] = {
    "default": {
        "edge-classification": {
            "train.batch_size": None,
            "model.node_dropout": 0.05,
            "model.fusion": True,
            "data.max_tokens": 256,
            "edges.class_balance": 0.25,
            "edges.rdrop": 1.0,
            "edges.ensemble": True,
            "edges.tune_decision": True,
            "train.ema_decay": 0.998,
            "train.patience": 2,
        },
        "link-prediction": {
            "train.batch_size": None,
            "model.node_dropout": 0.05,
            "links.temperature": 0.1,
            "links.normalize": True,
            "links.mask_false_negatives": True,
            "links.collaborative": True,
            "links.popularity_bias": True,
            "links.uniform_negatives": 128,
            "links.logq": 1.0,
            "links.ensemble": True,
            "links.cold_node_rate": None,
            "model.node_init": "factorized",
            "data.source_neighbors": [4],
            "data.target_neighbors": [4],
            "train.epochs": 5,
            "train.patience": 2,
        },
    },
    "paper": _PAPER_TASKS,
    "paper-tuned": {task: {**settings, **_TUNED_RATES} for task, settings in _PAPER_TASKS.items()},
    "fast": {
        "edge-classification": {
            **_FAST,
            "train.batch_size": None,
            "model.fusion": True,
            "edges.class_balance": 0.25,
            "edges.ensemble": True,
        },
        "link-prediction": {
            **_FAST,
            "train.batch_size": None,
            "data.source_neighbors": [4],
            "data.target_neighbors": [4],
            "links.temperature": 0.1,
            "links.normalize": True,
            "links.mask_false_negatives": True,
            "links.collaborative": True,
            "links.popularity_bias": True,
            "links.ensemble": True,
        },
    },
}


def make_config(
    task: Task,
    recipe: str | None = None,
    *,
    file: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    model_settings: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Settings of a recipe, overridden by those of a model, a TOML file and `settings`, in order.

    The default recipe is the one named in the file, or `default`. The config.toml of an earlier
    version keeps its meaning: it takes nothing from the recipe.
    """
    written = _settings_in(file)
    if written.get("task", task) != task:
        raise ConfigError(f"{file} is for the task {written['task']}, not {task}")
    recipe = recipe or str(written.get("recipe", "default"))
    if recipe not in RECIPES:
        raise ConfigError(f"unknown recipe '{recipe}'; {suggest(recipe, RECIPES)}")
    config = RunConfig(task=task, recipe=recipe)
    if flatten(config.to_dict()).keys() - NEWER_SETTINGS.keys() <= written.keys():
        written = {**NEWER_SETTINGS, **written}
    defaults = {**RECIPES[recipe][config.task], **(model_settings or {})}
    return config.with_settings({**defaults, **written, "recipe": recipe, **(settings or {})})


def given_settings(file: Path | None, settings: Mapping[str, Any] | None) -> set[str]:
    """The current names of the settings in a TOML file and of single settings."""
    return {*_settings_in(file), *map(current_setting, settings or {})}


def _settings_in(file: Path | None) -> dict[str, Any]:
    return {} if file is None else current_settings(flatten(read_toml(file)))


def read_toml(path: Path) -> dict[str, Any]:
    """The contents of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from error


def matches_file(file: Path, config: RunConfig) -> bool:
    """Whether a TOML file contains this config, ignoring removed settings."""
    try:
        return RunConfig.from_dict(read_toml(file)) == config
    except ConfigError:
        return False


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse `train.lr=3e-5` into a name and a TOML value; other values are strings."""
    name, equals, written = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"settings must have the form train.lr=3e-5 (got '{text}')")
    try:
        return name.strip(), tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), written.strip()


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": v for inner, v in value.items()}
        else:
            flat[name] = value
    return flat


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `flatten`."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        section, _, setting = name.rpartition(".")
        place = nested.setdefault(section, {}) if section else nested
        if not isinstance(place, dict):
            raise ConfigError(f"{section} is not a section of settings (got '{name}')")
        place[setting] = value
    return nested


def _decode(values: Mapping[str, Any]) -> RunConfig:
    return decode(RunConfig, values, raises=ConfigError, none="none")


def _check_minimum(section: str, settings: Any, minimum: int, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value >= minimum:  # also rejects NaN
            raise ConfigError(f"{section}.{name} must be at least {minimum} (got {value})")


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):  # JSON strings are TOML strings, except for DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
