"""What both estimators share: settings, opening networks, building and saving models."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import nn

from edgeformers.config import RunConfig, Task, make_config
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import Ids
from edgeformers.data.network import write_network
from edgeformers.data.readers.sources import as_frame
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.splits import Side, seen_in_training
from edgeformers.data.tokens import TokenStore
from edgeformers.errors import InputError, nearest
from edgeformers.models.io import SavedModel, save_model
from edgeformers.models.registry import find_entry, make_model
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from edgeformers.train import distributed
from edgeformers.train.encode import Autocast, make_autocast
from edgeformers.train.optim import freeze_layers
from edgeformers.train.start import (
    apply_lora,
    choose_device,
    factorize,
    merge_lora,
    node_text_features,
    open_backbone,
)
from edgeformers.train.trainer import Objective, Progress, Trainer

Network = EdgeTextGraph | str | PathLike[str] | Any  # or a data frame, with column names


class NotFittedError(InputError):
    """The estimator has not learned anything yet."""


class NodeNames:
    """Ids as the user writes them <-> node numbers; an id never met is -1."""

    def __init__(self, names: pa.ChunkedArray, num_sources: int | None) -> None:
        self.names = names
        self.num_sources = num_sources  # None: one kind of node

    def numbers(self, names: Sequence[str], side: Side) -> Ids:
        """The node numbers of ids on one side."""
        start, stop = 0, len(self.names)
        if self.num_sources is not None:
            start, stop = (0, self.num_sources) if side == "source" else (self.num_sources, stop)
        known = self.names.slice(start, stop - start).combine_chunks()
        found = pc.index_in(pa.array([str(name) for name in names], pa.string()), value_set=known)
        places = pc.fill_null(found, -1 - start).to_numpy(zero_copy_only=False)
        return np.asarray(places, np.int64) + start

    def number(self, name: str, side: Side) -> int:
        """The number of one node; an unknown id is answered with the nearest."""
        number = int(self.numbers([name], side)[0])
        if number < 0:
            sample = self.names.slice(0, 50_000).to_pylist()
            raise InputError(f"there is no {side} '{name}' in the network; {nearest(name, sample)}")
        return number

    def of(self, numbers: Sequence[int] | NDArray[Any]) -> list[str]:
        """The ids of node numbers."""
        found: list[str] = self.names.take(pa.array(np.asarray(numbers, np.int64))).to_pylist()
        return found


class Estimator:
    """A model that learns from a network: `fit` it, then use it, `save` it.

    `settings` change single settings of the recipe by their dotted names, as `--set` does on the
    command line: {"train.epochs": 3, "model.backbone": "bert-base-uncased"}.
    """

    task: Task
    model: nn.Module
    head: nn.Module

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
        config = config or make_config(self.task, recipe)
        self.config = config.with_settings(changes)
        distributed.start()
        self.device = choose_device(device)
        self.show = show and distributed.is_main()
        self.progress: Progress | None = None
        self.results: dict[str, Any] = {}
        self.graph: EdgeTextGraph | None = None
        self._frames: list[TemporaryDirectory[str]] = []

    @property
    def autocast(self) -> Autocast:
        return make_autocast(self.device, self.config.train.precision)

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "model")

    def _require_fitted(self) -> None:
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} has not been fitted; call fit first")

    def _open(self, network: Network, columns: Mapping[str, Any]) -> EdgeTextGraph:
        """A prepared network, or one made on the spot from a frame."""
        if isinstance(network, EdgeTextGraph):
            return network
        if as_frame(network) is not None:
            folder = TemporaryDirectory(prefix="edgeformers-")
            self._frames.append(folder)
            return write_network(read_edges(network, **columns), Path(folder.name) / "network")
        return EdgeTextGraph.open(network)

    def _split(self, graph: EdgeTextGraph, default: str) -> str:
        """The split to learn from: the one named, the task's own, or the only one."""
        named = self.config.data.split
        if named:
            graph.split(named)
            return named
        if default in graph.splits or len(graph.splits) != 1:
            graph.split(default)
            return default
        return next(iter(graph.splits))

    def _build(self, graph: EdgeTextGraph, split: str, default_model: str) -> TokenStore:
        """The model for a network, on its device, ready to be trained."""
        settings, seed = self.config.model, self.config.train.seed
        encoder, tokens = open_backbone(settings.backbone, graph, seed=seed, show=self.show)
        features = None
        if settings.node_texts:
            features = self._node_texts(graph, tokens, encoder)
        if self.config.train.lora_rank:
            apply_lora(encoder, self.config.train.lora_rank)
        freeze_layers(encoder, self.config.train.frozen_layers)
        name = settings.name or default_model
        values: dict[str, Any] = {
            "num_nodes": graph.num_nodes,
            "node_width": settings.node_width,
            "fidelity": settings.fidelity,
            "node_dropout": settings.node_dropout,
            "direction": settings.direction,
            "edge_types": max(1, len(graph.edge_type_names)),
            "feature_width": 0 if features is None else features.size(1),
            "sparse": self.config.train.sparse_nodes,
        }
        values |= {} if settings.tokens is None else {"tokens": list(settings.tokens)}
        if find_entry(name).encodes == "nodes":
            values |= {"readout": settings.readout, "pooling": settings.pooling}
        self.model = make_model(name, values, encoder, seed=seed)
        nodes: Any = self.model.get_submodule("nodes")
        if settings.node_table == "factorized":
            nodes.set_table(factorize(graph, split, settings.node_width, seed=seed))
        if features is not None:
            nodes.set_features(features)
        nodes.mark_seen(torch.from_numpy(seen_in_training(graph.split(split), graph.facts)))
        self.model.to(self.device)
        self.tokenizer: Tokenizer = tokens.tokenizer()
        names = graph.nodes(["id"]).column(0)
        self.names = NodeNames(names, graph.num_sources if graph.is_bipartite else None)
        self.graph = graph
        return tokens

    def _node_texts(
        self, graph: EdgeTextGraph, tokens: TokenStore, encoder: TextEncoder
    ) -> torch.Tensor:
        if not graph.meta.has_node_texts:
            raise InputError(
                f"{graph.path} has no node texts; give them with --nodes and --node-text when "
                "preparing, or set model.node_texts=false"
            )
        store = graph.token_store(tokens.meta.fingerprint, "nodes")
        limit = self.config.data.max_tokens
        return node_text_features(encoder, store, limit, device=self.device)

    def _train(self, objective: Objective, run: str | PathLike[str] | None) -> None:
        folder = None if run is None else Path(run).expanduser()
        if folder is not None and distributed.is_main():
            folder.mkdir(parents=True, exist_ok=True)
            _write_config(folder / "config.toml", self.config)
        distributed.barrier()
        trainer = Trainer(
            objective, self.config.train, device=self.device, folder=folder, show=self.show
        )
        self.progress = trainer.fit()
        if self.config.train.lora_rank:
            merge_lora(self.model.get_submodule("encoder"))  # type: ignore[arg-type]
        self.model.eval()
        self.head.eval()

    def _save(
        self, folder: str | PathLike[str], label_names: Sequence[str], extra: Mapping[str, Any]
    ) -> Path:
        self._require_fitted()
        graph = self.graph
        network = {} if graph is None else {"network": str(graph.path.resolve())}
        card = {
            "data": "" if graph is None else f"{graph!r}, made from {graph.origin}",
            "split": self.config.data.split or "the task's own",
            "metrics": {k: v for k, v in self.results.items() if isinstance(v, int | float)},
            "settings": self.config.to_dict(),
        }
        return save_model(
            self.model,
            folder,
            tokenizer=self.tokenizer,
            node_names=self.names.names,
            num_sources=self.names.num_sources,
            label_names=label_names,
            head=self.head.state_dict(),
            extra={"config": self.config.to_dict(), "results": self.results, **network, **extra},
            card=card,
            overwrite=True,
        )

    def _restore(self, saved: SavedModel) -> None:
        self.model = saved.model.to(self.device)
        self.tokenizer = saved.tokenizer
        sides = saved.node_sides
        one_kind = len(sides) == 0 or sides[0].as_py() is None
        count = None if one_kind else pc.sum(pc.equal(sides, "source")).as_py()
        self.names = NodeNames(saved.node_names, count)
        self.results = dict(saved.extra.get("results", {}))

    def _pack(self, texts: Sequence[str]) -> PackedText:
        """Texts given at call time, tokenised as the model's are."""
        self.tokenizer.enable_truncation(self.config.data.max_tokens)
        encoded = self.tokenizer.encode_batch_fast([text or "" for text in texts])
        return PackedText.from_lists(one.ids for one in encoded)

    @classmethod
    def from_saved(cls, saved: SavedModel, *, device: str | torch.device | None = None) -> Self:
        """The estimator that a saved model belongs to."""
        config = RunConfig.from_dict(saved.extra["config"])
        made = cls(config=config, device=device)
        made._restore(saved)
        return made


def _write_config(path: Path, config: RunConfig) -> None:
    text = config.to_toml()
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise InputError(
            f"{path} belongs to a run with other settings; choose another run folder, or remove it"
        )
    aside = path.with_suffix(".partial")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """results.json of a run, whole or not at all."""
    aside = folder / "results.partial"
    aside.write_text(json.dumps(results, indent=1), encoding="utf-8")
    aside.replace(folder / "results.json")
