"""FittedModel: what `fit` produces and `load` restores, complete for use and for saving."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import pyarrow.compute as pc
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.config import RunConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.tokens import TOKEN_LIMIT, TokenStore
from edgeformers.errors import InputError
from edgeformers.files import json_values
from edgeformers.inference.encode import EncodeOptions, choose_device, make_autocast
from edgeformers.inference.network import (
    AttachedNetwork,
    Loader,
    open_network,
    tokenize_network,
)
from edgeformers.inference.saved_model import SavedModel, save_model
from edgeformers.nn.packed import PackedText


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FittedModel(ABC, Generic[Loader]):
    """A trained model with its head, tokenizer and nodes, usually attached to its network.

    A loaded model opens the network it was trained on when it first needs it.
    """

    config: RunConfig
    options: EncodeOptions
    model: nn.Module
    tokenizer: Tokenizer
    nodes: NodeIndex
    label_names: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)  # of every part evaluated so far
    attached: AttachedNetwork[Loader] | None = None
    network_path: Path | None = None  # where the network was when the model was saved
    carries_network: bool = False  # fitted on a data frame: the network is saved with the model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.model.backbone!r}, {len(self.nodes):,} nodes)"

    @property
    def device(self) -> torch.device:
        return self.options.device

    @property
    def width(self) -> int:
        """The width D of the model's vectors."""
        return int(self.model.width)  # type: ignore[arg-type]

    @cached_property
    def network(self) -> AttachedNetwork[Loader]:
        """The network that the model reads; raises InputError if it cannot be found."""
        attached = self.attached or self.attach().attached
        assert attached is not None
        return attached

    def attach(self, network: EdgeTextGraph | str | PathLike[str] | None = None) -> Self:
        """A copy that reads the network it was trained on; by default from where it was."""
        graph = open_network(self._find_network() if network is None else network)
        labels = list(graph.label_names) if self.label_names else []
        if graph.node_index.ids != self.nodes.ids or labels != list(self.label_names):
            raise InputError(
                f"{graph.path} has other nodes or labels than the network this model was trained on"
            )
        tokens = tokenize_network(graph, self.tokenizer, show=self.options.show)
        carries = network is None and self.carries_network
        return replace(self, attached=self._attach(graph, tokens), carries_network=carries)

    @abstractmethod
    def _attach(self, graph: EdgeTextGraph, tokens: TokenStore) -> AttachedNetwork[Loader]:
        """The network with what this kind of model reads of it."""

    @abstractmethod
    def head_tensors(self) -> dict[str, Tensor]:
        """The tensors of the head, to be saved."""

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write a folder that `edgeformers.load` reads, in place of an earlier one.

        The network of a model fitted on a data frame is copied into it; otherwise its path is
        recorded.
        """
        graph = None if self.attached is None else self.attached.graph
        network = self.network_path if graph is None else graph.path
        if self.carries_network and graph is None:
            network = self._find_network()
        extra = self._extra()
        if network is not None and not self.carries_network:
            extra["network"] = str(Path(network).resolve())
        distributed.run_on_main(
            lambda: save_model(
                self.model,
                folder,
                tokenizer=self.tokenizer,
                node_names=self.nodes.ids,
                num_sources=self.nodes.num_sources,
                label_names=self.label_names,
                head=self.head_tensors(),
                extra=extra,
                card=self._card(graph),
                network=network if self.carries_network else None,
                overwrite=True,
            )
        )
        return Path(folder).expanduser()

    def pack(self, texts: Sequence[str | None], *, full: bool = False) -> PackedText:
        """Tokenize texts as the model's are; `full`, cut only as a network cuts them."""
        for text in texts:
            if not isinstance(text, str | None):
                raise InputError(f"the text of an edge must be a string (got {text!r})")
        tokenizer = Tokenizer.from_str(self.tokenizer.to_str())  # truncation changes it
        limit = TOKEN_LIMIT + tokenizer.num_special_tokens_to_add(is_pair=False)
        tokenizer.enable_truncation(limit if full else self.config.data.max_tokens)
        encoded = tokenizer.encode_batch_fast([text or "" for text in texts])
        return PackedText.from_lists(text.ids for text in encoded)

    def _find_network(self) -> Path:
        if self.network_path is not None and self.network_path.is_dir():
            return self.network_path
        where = f"is no longer at '{self.network_path}'" if self.network_path else "is unknown"
        raise InputError(
            f"the network this model was trained on {where}; give it with attach(NETWORK), "
            "load(MODEL, network=NETWORK) or --network"
        )

    def _extra(self) -> dict[str, Any]:
        """Plain values saved with the model."""
        return {
            "task": self.config.task,
            "config": self.config.to_dict(),
            "results": json_values(self.results),
        }

    def _card(self, graph: EdgeTextGraph | None) -> dict[str, Any]:
        card = {
            "data": "" if graph is None else f"{graph!r}, made from {graph.origin}",
            "split": self.config.data.split or "default",
            "metrics": {
                f"{part} {name}": value
                for part, metrics in self.results.items()
                for name, value in metrics.items()
                if isinstance(value, int | float)
            },
            "settings": self.config.to_dict(),
        }
        if self.carries_network:
            card["notes"] = "The folder `network` contains the training edges with their texts."
        return card


Model = TypeVar("Model", bound="FittedModel[Any]")


def fitted_model(model: Any, kind: type[Model]) -> Model:
    """A fitted model, or that of an estimator; any other kind is an InputError."""
    fitted = getattr(model, "fitted_", model)
    if not isinstance(fitted, kind):
        raise InputError(f"{type(model).__name__} is not a {kind.__name__.removeprefix('Fitted')}")
    return fitted


def make_options(
    config: RunConfig, device: str | torch.device | None, *, show: bool
) -> EncodeOptions:
    """How a model with these settings encodes on a device."""
    distributed.initialize()
    chosen = choose_device(device)
    return EncodeOptions(
        device=chosen,
        autocast=make_autocast(chosen, config.train.precision),
        batch=config.train.eval_batch_size,
        show=show and distributed.is_main(),
    )


def saved_fields(saved: SavedModel, options: EncodeOptions) -> Mapping[str, Any]:
    """The fields of a FittedModel that a saved model has."""
    sides = saved.node_sides
    is_bipartite = len(sides) > 0 and sides[0].is_valid
    num_sources = pc.sum(pc.equal(sides, "source")).as_py() if is_bipartite else None
    path = saved.network or saved.extra.get("network")
    return {
        "options": options,
        "model": saved.model.to(options.device),
        "tokenizer": saved.tokenizer,
        "nodes": NodeIndex(saved.node_names, num_sources),
        "label_names": list(saved.label_names),
        "results": dict(saved.extra.get("results", {})),
        "network_path": None if path is None else Path(path),
        "carries_network": saved.network is not None,
    }
