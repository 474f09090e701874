"""The network that a fitted model reads, with the split, tokens and samplers of its settings."""

import hashlib
import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

from tokenizers import Tokenizer

from edgeformers import distributed
from edgeformers.config import DataSettings, RunConfig, Task
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EdgeLoader, EgoLoader
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.tokenize import add_tokens
from edgeformers.data.tokens import TOKENIZER, TokenStore
from edgeformers.data.types import Ids
from edgeformers.errors import InputError, suggest
from edgeformers.evaluation.network_labels import labeled_edge_parts
from edgeformers.evaluation.network_links import link_parts

DEFAULT_SPLITS: dict[Task, str] = {"edge-classification": "edge", "link-prediction": "link"}

Loader = TypeVar("Loader", EdgeLoader, EgoLoader)


@dataclass(frozen=True, kw_only=True)
class AttachedNetwork(Generic[Loader]):
    """A network with the split, the batches and the examples that a model uses."""

    graph: EdgeTextGraph
    split: str
    loader: Loader
    parts: dict[str, Ids]  # the edges to predict in "train", "val" and "test"

    def part(self, name: str) -> Ids:
        """The edges of a part, which must not be empty."""
        if name not in self.parts:
            raise InputError(f"a split has no part '{name}'; {suggest(name, self.parts)}")
        if not len(self.parts[name]):
            others = ", ".join(part for part, edges in self.parts.items() if len(edges))
            raise InputError(f"the split has no edges in '{name}'; parts with edges: {others}")
        return self.parts[name]


def attach_edges(
    config: RunConfig, graph: EdgeTextGraph, tokens: TokenStore, *, context: bool
) -> AttachedNetwork[EdgeLoader]:
    """A network for an edge model; with `context` it also reads the edges around both ends."""
    split = choose_split(config, graph)
    samplers = make_samplers(config, graph, split) if context else {}
    return AttachedNetwork(
        graph=graph,
        split=split,
        loader=EdgeLoader(
            graph=graph, tokens=tokens, max_tokens=config.data.max_tokens, **samplers
        ),
        parts=labeled_edge_parts(graph, split),
    )


def attach_links(
    config: RunConfig, graph: EdgeTextGraph, tokens: TokenStore, *, reads_text: bool
) -> AttachedNetwork[EgoLoader]:
    """A network for a node model; without `reads_text`, texts are only their special tokens."""
    split = choose_split(config, graph)
    samplers = make_samplers(config, graph, split)
    max_tokens = config.data.max_tokens if reads_text else max(1, tokens.num_special)
    return AttachedNetwork(
        graph=graph,
        split=split,
        loader=EgoLoader(graph=graph, tokens=tokens, max_tokens=max_tokens, **samplers),
        parts=link_parts(graph, split),
    )


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


def tokenize_network(graph: EdgeTextGraph, tokenizer: Tokenizer, *, show: bool) -> TokenStore:
    """The network's texts in the tokens of a fitted model."""
    with TemporaryDirectory(prefix="edgeformers-") as folder, distributed.main_first():
        tokenizer.save(str(Path(folder) / TOKENIZER))
        return add_tokens(graph, folder, progress=show)


def make_samplers(config: RunConfig, graph: EdgeTextGraph, split: str) -> dict[str, EgoSampler]:
    """Samplers of training edges around sources and targets, by the loaders' argument names."""
    data: DataSettings = config.data
    adjacency = graph.training_adjacency(split, strata=data.strata)
    sizes = {"source": data.source_neighbors, "target": data.target_neighbors}
    return {
        f"{side}_sampler": EgoSampler(
            adjacency, _per_stratum(numbers, adjacency.num_strata), seed=config.train.seed
        )
        for side, numbers in sizes.items()
    }


def _per_stratum(sizes: list[int], strata: int) -> list[int]:
    """One number per stratum; a single number is divided among them."""
    if len(sizes) == strata:
        return sizes
    if len(sizes) == 1:
        return [max(1, sizes[0] // strata)] * strata
    raise InputError(
        f"source_neighbors and target_neighbors have {len(sizes)} numbers, but the network has "
        f"{strata} strata: {sizes}"
    )


def network_fingerprint(graph: EdgeTextGraph) -> str:
    """SHA-256 over the checksums of a network's files."""
    return hashlib.sha256(json.dumps(graph.meta.files, sort_keys=True).encode()).hexdigest()
