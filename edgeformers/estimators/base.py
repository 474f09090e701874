"""What both estimators share: settings, opening networks, building, training and saving models."""

import json
import math
import shutil
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Self

import pyarrow.compute as pc
import torch
from tokenizers import Tokenizer
from torch import nn

from edgeformers import distributed
from edgeformers.config import RunConfig, Task, matches_file
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.readers.sources import is_frame
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.tokenize import add_tokens
from edgeformers.data.tokenizer import TOKENIZER
from edgeformers.data.tokens import TOKEN_LIMIT, TokenStore
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError, FormatError, InputError, suggest
from edgeformers.estimators.build import build_model, make_samplers
from edgeformers.estimators.settings import find_model, run_config
from edgeformers.files import write_atomic
from edgeformers.inference.encode import Autocast, make_autocast
from edgeformers.inference.saved_model import SavedModel, save_model
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from edgeformers.registry import ModelEntry
from edgeformers.training.initialization import choose_device, merge_lora
from edgeformers.training.trainer import Objective, Progress, Trainer

Network = EdgeTextGraph | str | PathLike[str] | Any  # or a data frame, with column names


class NotFittedError(InputError):
    """The estimator has not learned anything yet."""


class Estimator(ABC):
    """A model that learns from a network: `fit` it, then use it, `save` it.

    `settings` change single settings of the recipe by their dotted names, as `--set` does on the
    command line: {"train.epochs": 3, "model.backbone": "bert-base-uncased"}.
    """

    task: Task
    default_split: str
    model: nn.Module
    head: nn.Module
    objective: Any  # made by `_attach`
    trained_on: str | None = None  # where the network of a loaded model was

    def __init__(
        self,
        backbone: str | None = None,
        *,
        recipe: str = "default",
        settings: Mapping[str, Any] | None = None,
        config: RunConfig | None = None,
        device: str | torch.device | None = None,
        seed: int | None = None,
        show: bool = True,
    ) -> None:
        changes = dict(settings or {})
        changes |= {"model.backbone": backbone} if backbone is not None else {}
        changes |= {"train.seed": seed} if seed is not None else {}
        if config is not None and config.task != self.task:
            raise ConfigError(f"{type(self).__name__} is for {self.task}, not for {config.task}")
        if config is None:
            self.config = run_config(self.task, recipe, settings=changes)
        else:
            self.config = config.with_settings(changes)
        self.entry: ModelEntry = find_model(self.config)
        distributed.initialize()
        self.device = choose_device(device)
        self.show = show and distributed.is_main()
        self.progress: Progress | None = None
        self.results: dict[str, Any] = {}
        self.label_names: list[str] = []
        self.graph: EdgeTextGraph | None = None
        self._carries_network = False  # made from a frame: it is saved with the model

    def __repr__(self) -> str:
        state = "fitted" if self.is_fitted else "not fitted"
        model, recipe = self.config.model, self.config.recipe
        return f"{type(self).__name__}({model.backbone!r}, recipe={recipe!r}), {state}"

    @property
    def autocast(self) -> Autocast:
        return make_autocast(self.device, self.config.train.precision)

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "model")

    def attach(self, network: EdgeTextGraph | str | PathLike[str] | None = None) -> Self:
        """Give a loaded model the network it was trained on, to evaluate and embed.

        Without `network` it is looked for where it was, or in the folder of the model.
        """
        self._require_fitted()
        carried = network is None and self._carries_network
        if network is None:
            network = self._find_network()
        graph = _verified(network)
        labels = list(graph.label_names) if self.label_names else []
        if graph.node_index.ids != self.names.ids or labels != list(self.label_names):
            raise InputError(
                f"{graph.path} has other nodes or labels than the network this model was trained "
                "on; give that one"
            )
        self._attach(graph, self._token_store(graph))
        self.graph, self._carries_network = graph, carried
        return self

    def _find_network(self) -> Path:
        """The network of a loaded model, where it was."""
        if self.trained_on is not None and Path(self.trained_on).is_dir():
            return Path(self.trained_on)
        where = (
            "was not saved with it"
            if self.trained_on is None
            else f"is no longer at '{self.trained_on}'"
        )
        raise InputError(
            f"the network this model was trained on {where}; say where it is: attach(NETWORK), "
            "load(MODEL, network=NETWORK), or --network on the command line"
        )

    def write_results(self, run: str | PathLike[str]) -> None:
        """RUN/results.json with what `evaluate` found."""
        folder = Path(run).expanduser()
        distributed.run_on_main(lambda: write_results(folder, self.results))

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the model as one folder that `edgeformers.load` reads.

        The network of a model that was fitted on a data frame is saved with it; of another one,
        the path is.
        """
        return self._save(folder, {})

    @classmethod
    def from_saved(cls, saved: SavedModel, *, device: str | torch.device | None = None) -> Self:
        """The estimator that a saved model belongs to."""
        config = RunConfig.from_dict(saved.extra["config"])
        made = cls(config=config, device=device)
        made._restore(saved)
        return made

    @abstractmethod
    def _attach(self, graph: EdgeTextGraph, tokens: TokenStore) -> None:
        """Make the objective that reads a network."""

    def _require_fitted(self) -> None:
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} has not been fitted; call fit first")

    def _ready_objective(self) -> Any:
        """What reads the network; that of a loaded model is looked for where it was."""
        self._require_fitted()
        if not hasattr(self, "objective"):
            self.attach()
        return self.objective

    def _part(self, name: str) -> Ids:
        """The edges of a part of the split; there must be some."""
        parts: dict[str, Ids] = self._ready_objective().parts
        if name not in parts:
            raise InputError(f"a split has no part '{name}'; {suggest(name, parts)}")
        if not len(parts[name]):
            with_edges = ", ".join(part for part, edges in parts.items() if len(edges))
            raise InputError(
                f"the split has no edge in '{name}' to evaluate or predict; available: {with_edges}"
            )
        return parts[name]

    def _open(self, network: Network, columns: Mapping[str, Any]) -> EdgeTextGraph:
        """A prepared network, or one made on the spot from a frame."""
        if is_frame(network):
            self._carries_network = True
            folder = Path(mkdtemp(prefix="edgeformers-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            config = PrepareConfig(tokenizer=None, progress=self.show)
            return write_network(read_edges(network, **columns), folder / "network", config=config)
        if columns:
            raise InputError(
                f"{', '.join(columns)}: a prepared network has its columns named already; names "
                "are for data frames"
            )
        self._carries_network = False
        return _verified(network)

    def _split(self, graph: EdgeTextGraph) -> str:
        """The split to learn from: the one named, the task's own, or the only one."""
        name = self.config.data.split or self.default_split
        if not self.config.data.split and name not in graph.splits and len(graph.splits) == 1:
            name = next(iter(graph.splits))
        graph.split(name)
        return name

    def _build(self, graph: EdgeTextGraph) -> TokenStore:
        """The model for a network, on its device, ready to be trained."""
        self.model, tokens = build_model(
            self.config, graph, self._split(graph), device=self.device, show=self.show
        )
        self.tokenizer: Tokenizer = tokens.tokenizer()
        self.names = graph.node_index
        self.graph, self.results = graph, {}
        return tokens

    def _samplers(self, graph: EdgeTextGraph) -> dict[str, EgoSampler]:
        """What draws training edges around sources and around targets."""
        seed = self.config.train.seed
        return make_samplers(self.config.data, graph, self._split(graph), seed=seed)

    def _train(
        self,
        objective: Objective,
        run: str | PathLike[str] | None,
        finish: Callable[[], None] | None = None,
    ) -> None:
        """Train, do what is left to `finish`, and save where there is a run's folder."""
        folder = None if run is None else Path(run).expanduser()
        if folder is not None:
            with distributed.main_first():
                _write_config(folder, self.config)
        trainer = Trainer(
            objective, self.config.train, device=self.device, folder=folder, show=self.show
        )
        self.progress = trainer.fit()
        encoder = self.model.get_submodule("encoder")
        if self.config.train.lora_rank and isinstance(encoder, TextEncoder):
            merge_lora(encoder)
        self.model.eval()
        self.head.eval()
        if finish is not None:
            finish()
        if folder is not None:
            self.save(folder / "model")

    def _save(self, folder: str | PathLike[str], extra: Mapping[str, Any]) -> Path:
        self._require_fitted()
        graph, results = self.graph, _plain(self.results)
        facts = {"task": self.task, "config": self.config.to_dict(), "results": results, **extra}
        network = self.trained_on if graph is None else graph.path
        if self._carries_network and graph is None:
            network = self._find_network()
        if network is not None and not self._carries_network:
            facts["network"] = str(Path(network).resolve())
        card = {
            "data": "" if graph is None else f"{graph!r}, made from {graph.origin}",
            "split": self.config.data.split or "the task's own",
            "metrics": {
                f"{part} {name}": value
                for part, found in self.results.items()
                for name, value in found.items()
                if isinstance(value, int | float)
            },
            "settings": self.config.to_dict(),
        }
        if self._carries_network:
            card["notes"] = "The folder `network` holds the edges it was trained on, with texts."
        distributed.run_on_main(
            lambda: save_model(
                self.model,
                folder,
                tokenizer=self.tokenizer,
                node_names=self.names.ids,
                num_sources=self.names.num_sources,
                label_names=self.label_names,
                head=self.head.state_dict(),
                extra=facts,
                card=card,
                network=network if self._carries_network else None,
                overwrite=True,
            )
        )
        return Path(folder).expanduser()

    def _restore(self, saved: SavedModel) -> None:
        self.model = saved.model.to(self.device)
        self.tokenizer = saved.tokenizer
        sides = saved.node_sides
        one_kind = len(sides) == 0 or sides[0].as_py() is None
        count = None if one_kind else pc.sum(pc.equal(sides, "source")).as_py()
        self.names = NodeIndex(saved.node_names, count)
        self.label_names = list(saved.label_names)
        self.results = dict(saved.extra.get("results", {}))
        self._carries_network = saved.network is not None
        self.trained_on = str(saved.network) if saved.network else saved.extra.get("network")

    def _attach_where_it_was(self) -> None:
        with suppress(InputError, FormatError):  # gone, or another one by now: to be given
            self.attach()

    def _token_store(self, graph: EdgeTextGraph) -> TokenStore:
        """The network's texts in the model's own tokens, whatever backbone it began with."""
        with TemporaryDirectory(prefix="edgeformers-") as folder, distributed.main_first():
            self.tokenizer.save(str(Path(folder) / TOKENIZER))
            return add_tokens(graph, folder, progress=self.show)

    def _pack(self, texts: Sequence[str | None], *, whole: bool = False) -> PackedText:
        """Texts given at call time, tokenised as the model's are; `whole`, cut as a network's."""
        for text in texts:
            if not isinstance(text, str | None):
                raise InputError(f"the text of an edge must be text (got {text!r})")
        cutter = Tokenizer.from_str(self.tokenizer.to_str())  # the model's own is saved uncut
        kept = TOKEN_LIMIT + cutter.num_special_tokens_to_add(is_pair=False)
        cutter.enable_truncation(kept if whole else self.config.data.max_tokens)
        encoded = cutter.encode_batch_fast([text or "" for text in texts])
        return PackedText.from_lists(one.ids for one in encoded)


def _verified(network: EdgeTextGraph | str | PathLike[str]) -> EdgeTextGraph:
    graph = network if isinstance(network, EdgeTextGraph) else EdgeTextGraph.open(network)
    graph.verify()
    return graph


def _write_config(folder: Path, config: RunConfig) -> None:
    """config.toml of a run folder; one that is there must be the same."""
    path = folder / "config.toml"
    if path.exists():
        if not matches_file(path, config):
            raise InputError(
                f"{path} belongs to a run with other settings; choose another run folder, or "
                "remove it"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path, config.to_toml())


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """results.json of a run, whole or not at all."""
    write_atomic(folder / "results.json", json.dumps(_plain(results), indent=1))


def _plain(value: Any) -> Any:
    """Nested values as JSON can hold them: what is no number is null."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
