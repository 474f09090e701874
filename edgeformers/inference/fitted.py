"""FittedModel: what `fit` produces and `load` restores, complete for use and for saving."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.baselines.graph.node_texts import NodeTextReader
from edgeformers.config import RunConfig, Task
from edgeformers.data.adjacency import Adjacency
from edgeformers.data.batch import EdgeBatch, EgoBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EdgeLoader, EgoLoader
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.splits import NO_TIME
from edgeformers.data.tokenize import add_tokens
from edgeformers.data.tokens import TOKEN_LIMIT, TokenStore
from edgeformers.data.types import Ids, Side
from edgeformers.errors import InputError, suggest
from edgeformers.evaluation.network_labels import labeled_edge_parts
from edgeformers.evaluation.network_links import link_parts
from edgeformers.files import json_values
from edgeformers.hub import upload_folder
from edgeformers.inference.encode import EncodeOptions, choose_device, make_autocast
from edgeformers.inference.saved_model import SavedModel, gather_tensors, save_model
from edgeformers.inference.vector_cache import VectorCache
from edgeformers.inference.word_attention import AttendedText, attended_texts
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from edgeformers.progress import print_message
from edgeformers.registry import ModelEntry, find_entry, model_name

DEFAULT_SPLITS: dict[Task, str] = {"edge-classification": "edge", "link-prediction": "link"}

Loader = TypeVar("Loader", EdgeLoader, EgoLoader)
Model = TypeVar("Model", bound="FittedModel[Any]")


@dataclass(frozen=True, kw_only=True)
class AttachedNetwork(Generic[Loader]):
    """A network with the split, the batches and the examples that a model uses."""

    graph: EdgeTextGraph
    split: str
    loader: Loader
    parts: dict[str, Ids]  # the edges to predict in "train", "val" and "test"
    #: What the model encoded of this network through this loader; None while it is trained.
    vectors: VectorCache | None = field(default=None, init=False)

    def remembered(self) -> "AttachedNetwork[Loader]":
        """The same for a model that is not trained any more: its vectors are kept."""
        network = replace(self)
        object.__setattr__(network, "vectors", VectorCache())
        return network

    def part(self, name: str) -> Ids:
        """The edges of a part, which must not be empty."""
        if name not in self.parts:
            raise InputError(f"a split has no part '{name}'; {suggest(name, self.parts)}")
        if not len(self.parts[name]):
            others = ", ".join(part for part, edges in self.parts.items() if len(edges))
            raise InputError(f"the split has no edges in '{name}'; parts with edges: {others}")
        return self.parts[name]


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
    network_facts: dict[str, Any] = field(default_factory=dict)  # of a loaded model's network
    attached: AttachedNetwork[Loader] | None = None
    network_path: Path | None = None  # where the network was when the model was saved
    carries_network: bool = False  # fitted on a data frame: the network is saved with the model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.model.backbone!r}, {len(self.nodes):,} nodes)"

    @property
    def device(self) -> torch.device:
        return self.options.device

    @property
    def entry(self) -> ModelEntry:
        """The model in the registry."""
        return find_entry(model_name(self.model))

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
        with distributed.main_first():
            tokens = add_tokens(graph, self.tokenizer, progress=self.options.show)
        attached = attach_network(self.config, self.model, graph, tokens).remembered()
        carries = network is None and self.carries_network
        return replace(self, attached=attached, carries_network=carries)

    @abstractmethod
    def head_tensors(self) -> dict[str, Tensor]:
        """The tensors of the head, to be saved."""

    def save(self, folder: str | PathLike[str], *, include_network: bool | None = None) -> Path:
        """Write a folder that `edgeformers.load` reads, in place of an earlier one.

        The network is copied into it with `include_network`, by default if the model was fitted on
        a data frame. Otherwise its path is recorded, and a message names it: the loaded model reads
        it there to evaluate, and to score and recommend links.
        """
        if include_network is None and not self.carries_network:
            print_message(self._network_notice(), show=self.options.show)
        carries = self.carries_network if include_network is None else include_network
        graph = None if self.attached is None else self.attached.graph
        network = self.network_path if graph is None else graph.path
        if carries and graph is None:
            network = self._find_network()
        extra = self.extra()
        if network is not None and not carries:
            extra["network"] = str(network.resolve())
        path = Path(folder).expanduser()
        distributed.run_on_main(lambda: path.parent.mkdir(parents=True, exist_ok=True))
        saved = SavedModel(
            model=self.model,
            tensors=gather_tensors(self.model, path.parent),
            tokenizer=self.tokenizer,
            nodes=self.nodes,
            label_names=self.label_names,
            head=self.head_tensors(),
            extra=extra,
            network=network if carries else None,
        )
        distributed.run_on_main(lambda: save_model(saved, path))
        return path

    def save_pretrained(
        self,
        folder: str | PathLike[str],
        *,
        include_network: bool = False,
        push_to_hub: str | None = None,
        private: bool = True,
    ) -> Path:
        """Write a folder to share, which `from_pretrained` reads, with a model card.

        It contains no path of this machine, and the edges it was trained on with their texts only
        with `include_network`. `push_to_hub` is the name of a model on the Hugging Face Hub, such
        as "user/model", to which the folder is uploaded.
        """
        parent = Path(self.config.train.start_from).name
        shared = replace(self, config=self.config.with_settings({"train.start_from": parent}))
        if not include_network:
            facts = self._network_facts()
            shared = replace(shared, attached=None, network_path=None, network_facts=facts)
        path = shared.save(folder, include_network=include_network)
        if push_to_hub is not None:
            distributed.run_on_main(lambda: upload_folder(path, push_to_hub, private=private))
        return path

    def _network_notice(self) -> str:
        network = self.network_path if self.attached is None else self.attached.graph.path
        uses = "evaluate" if self.config.task == "edge-classification" else "recommend and evaluate"
        return (
            f"the saved model reads {network} to {uses}; keep it there, or save with "
            "include_network=True"
        )

    def pack(self, texts: Sequence[str | None], *, full: bool = False) -> PackedText:
        """Tokenize texts as the model's are; `full`, cut only as a network cuts them."""
        for text in texts:
            if not isinstance(text, str | None):
                raise InputError(f"the text of an edge must be a string (got {text!r})")
        tokenizer = self._full_tokenizer if full else self._short_tokenizer
        encoded = tokenizer.encode_batch_fast([text or "" for text in texts])
        return PackedText.from_lists(text.ids for text in encoded)

    def embed_texts(self, texts: Sequence[str | None]) -> NDArray[np.float32]:
        """Vectors [n, D] of texts alone: the state of the first token, without node tokens.

        A model exported to sentence-transformers or transformers gives the same.
        """
        encoder = self.model.encoder
        if not isinstance(encoder, TextEncoder):
            raise InputError(f"a {type(self.model).__name__} has no language model to read texts")
        size = self.options.batch
        parts = [np.empty((0, self.width), np.float32)]
        for at in range(0, len(texts), size):
            vectors = self.options.encode(encoder.encode, self.pack(texts[at : at + size]))
            parts.append(vectors.cpu().numpy())
        return np.concatenate(parts)

    def _attended(
        self, batch: EdgeBatch | EgoBatch, edges: Sequence[tuple[str, str]]
    ) -> list[AttendedText]:
        """The attention to the texts of a batch; `edges` are the other ends and the texts."""
        encodings = self._short_tokenizer.encode_batch([text for _, text in edges])
        return attended_texts(self.model, batch, self.options, encodings, edges)

    @cached_property
    def _short_tokenizer(self) -> Tokenizer:
        return _truncating(self.tokenizer, self.config.data.max_tokens)

    @cached_property
    def _full_tokenizer(self) -> Tokenizer:
        special = self.tokenizer.num_special_tokens_to_add(is_pair=False)
        return _truncating(self.tokenizer, TOKEN_LIMIT + special)

    def _find_network(self) -> Path:
        if self.network_path is not None and self.network_path.is_dir():
            return self.network_path
        where = f"is no longer at '{self.network_path}'" if self.network_path else "is unknown"
        raise InputError(
            f"the network this model was trained on {where}; load the model with `network=NETWORK`"
        )

    def extra(self) -> dict[str, Any]:
        """Plain values saved with the model."""
        return {
            "task": self.config.task,
            "config": self.config.to_dict(),
            "results": json_values(self.results),
            "network_facts": self._network_facts(),
        }

    def _network_facts(self) -> dict[str, Any]:
        """What the model card says about the network."""
        if self.attached is None:
            return self.network_facts
        graph, parts = self.attached.graph, self.attached.parts
        times = None if graph.times is None else graph.times[parts["train"]]
        last = NO_TIME if times is None else int(times.max(initial=NO_TIME))
        return {
            "name": graph.name,
            "origin": graph.origin,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "split": self.attached.split,
            "split_by_time": graph.split_config(self.attached.split).how == "chronological",
            "parts": {part: len(edges) for part, edges in parts.items()},
            **({} if last == NO_TIME else {"last_training_time": last}),  # microseconds since 1970
        }


def _truncating(tokenizer: Tokenizer, limit: int) -> Tokenizer:
    """A copy that cuts texts to so many tokens."""
    copied = Tokenizer.from_str(tokenizer.to_str())
    copied.enable_truncation(limit)
    return copied


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


def attach_network(
    config: RunConfig, model: nn.Module, graph: EdgeTextGraph, tokens: TokenStore
) -> AttachedNetwork[Any]:
    """A network for a model; one that reads no text gets only the special tokens of texts."""
    split, is_links = choose_split(config, graph), config.task == "link-prediction"
    entry = find_entry(model_name(model))
    max_tokens = max(1, tokens.num_special) if entry.text == "none" else config.data.max_tokens
    loader: type[EdgeLoader | EgoLoader] = EgoLoader if is_links else EdgeLoader
    more: dict[str, Any] = {}
    if is_links or entry.context:
        more |= make_samplers(config, graph, split)
    if isinstance(model, NodeTextReader):
        more["node_tokens"] = model.node_tokens
    return AttachedNetwork(
        graph=graph,
        split=split,
        loader=loader(graph=graph, tokens=tokens, max_tokens=max_tokens, **more),
        parts=task_parts(config.task, graph, split),
    )


def task_parts(task: Task, graph: EdgeTextGraph, split: str) -> dict[str, Ids]:
    """The edges that a task learns and predicts, in each part of a split."""
    parts = link_parts if task == "link-prediction" else labeled_edge_parts
    return parts(graph, split)


def choose_split(config: RunConfig, graph: EdgeTextGraph) -> str:
    """The split named in the settings, the default of the task, or the only one there is."""
    name = config.data.split or DEFAULT_SPLITS[config.task]
    if not config.data.split and name not in graph.splits and len(graph.splits) == 1:
        name = next(iter(graph.splits))
    graph.split(name)  # raises if the network has no such split
    return name


def open_network(network: EdgeTextGraph | str | PathLike[str]) -> EdgeTextGraph:
    """A prepared network, or the one in a folder, with its checksums verified."""
    graph = network if isinstance(network, EdgeTextGraph) else EdgeTextGraph.open(network)
    graph.verify()
    return graph


def make_samplers(config: RunConfig, graph: EdgeTextGraph, split: str) -> dict[str, EgoSampler]:
    """Samplers of training edges around sources and targets, by the loaders' argument names.

    The adjacency that they share is built when one of them is used: not for stored vectors.
    """

    @cache
    def adjacency() -> Adjacency:
        return graph.training_adjacency(split, strata=config.data.strata)

    strata, samplers = graph.num_strata(config.data.strata), {}
    for side in get_args(Side):
        sizes: list[int] = getattr(config.data, f"{side}_neighbors")
        if len(sizes) == 1 < strata:  # divided among the strata
            sizes = [max(1, sizes[0] // strata)] * strata
        if len(sizes) != strata:
            raise InputError(
                f"{side}_neighbors has {len(sizes)} numbers, but the network has {strata} strata: "
                f"{sizes}"
            )
        samplers[f"{side}_sampler"] = EgoSampler(adjacency, sizes, seed=config.train.seed)
    return samplers


def network_fingerprint(graph: EdgeTextGraph) -> str:
    """SHA-256 over the checksums of a network's files."""
    return hashlib.sha256(json.dumps(graph.meta.files, sort_keys=True).encode()).hexdigest()
