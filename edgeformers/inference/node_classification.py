"""Node classification: logistic regression on frozen embeddings, as in the paper (Table 4).

Node labels come from a table or from the network.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.random import hash_keys
from edgeformers.data.readers.tables import read_nodes
from edgeformers.data.types import Ids, Side
from edgeformers.errors import ConfigError, InputError
from edgeformers.evaluation import SeedSummary, metrics, summarize_seeds
from edgeformers.models.edge_head import EdgeHead

TRAIN, VAL, TEST = 0, 1, 2

_SPLIT_STREAM = 0x70DE  # keeps these random draws independent of others with the same seed


@dataclass(frozen=True, kw_only=True)
class ProbeConfig:
    """Settings of the regression; Adam, 1e-3 and patience 10 follow the paper."""

    learning_rate: float = 1e-3
    patience: int = 10  # epochs without a lower validation loss before stopping
    max_epochs: int = 500
    batch_size: int = 256
    standardize: bool = False  # scale inputs to mean 0 and deviation 1 over training nodes
    fractions: tuple[float, float, float] = (0.7, 0.1, 0.2)  # train, validation, test

    def __post_init__(self) -> None:
        for name in ("patience", "max_epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"probe {name} must be at least 1 (got {getattr(self, name)})")
        if min(self.fractions) <= 0 or abs(sum(self.fractions) - 1) > 1e-6:
            raise ConfigError(
                f"probe fractions must be positive and sum to 1 (got {self.fractions})"
            )


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """The test metrics of every seed, and their mean and deviation."""

    runs: list[dict[str, float]]
    summary: dict[str, SeedSummary]


def classify_nodes(
    embeddings: ArrayLike | Tensor,
    labels: ArrayLike,
    *,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    config: ProbeConfig | None = None,
    parts: ArrayLike | None = None,
) -> NodeReport:
    """Fit and test a regression per seed: Macro-F1, Micro-F1 and PREC of the test nodes.

    `labels` are classes [N] (-1: unknown) or a mask of labels [N, C] (no label: unknown). A seed
    determines the split and the order of batches; `parts` [N] (0 train, 1 validation, 2 test)
    fixes the split for all seeds.
    """
    config = config or ProbeConfig()
    vectors = torch.as_tensor(embeddings).detach().cpu().float()
    truth = np.asarray(labels)
    if len(truth) != len(vectors):
        raise InputError(f"got {len(vectors)} embeddings but labels of {len(truth)} nodes")
    known = np.asarray(truth.any(1) if truth.ndim == 2 else truth >= 0)
    runs = []
    for seed in seeds:
        split = _draw_parts(known, config.fractions, seed) if parts is None else np.asarray(parts)
        split = np.where(known, split, -1)
        inputs = vectors
        if config.standardize:
            deviation, mean = torch.std_mean(vectors[split == TRAIN], 0, correction=0)
            inputs = (vectors - mean) / torch.where(deviation > 0, deviation, 1.0)
        head = fit_probe(inputs, truth, split, config=config, seed=seed)
        test = np.flatnonzero(split == TEST)
        with torch.no_grad():
            predicted = head.predict(inputs[test]).value.numpy()
        # The metrics of the paper's Table 4; precision is its PREC.
        functions = (metrics.macro_f1, metrics.micro_f1, metrics.precision)
        runs.append({metric.__name__: metric(truth[test], predicted) for metric in functions})
    return NodeReport(runs=runs, summary=summarize_seeds(runs))


def fit_probe(
    vectors: Tensor, labels: NDArray[Any], parts: ArrayLike, *, config: ProbeConfig, seed: int
) -> EdgeHead:
    """Train on part 0 with early stopping on part 1; returns the best regression.

    It starts at zero: the problem is convex.
    """
    split = np.asarray(parts)
    for part, name in enumerate(("training", "validation", "test")):
        if not (split == part).any():
            raise InputError(
                f"there are no labeled {name} nodes; label more nodes or change the fractions"
            )
    is_multi = labels.ndim == 2
    target = torch.from_numpy(labels.astype(np.float32 if is_multi else np.int64))
    train, val = (torch.from_numpy(np.flatnonzero(split == part)) for part in (TRAIN, VAL))
    num_classes = labels.shape[1] if is_multi else int(labels.max()) + 1
    probe = EdgeHead(vectors.size(1), num_classes, kind="multi" if is_multi else "class")
    for parameter in probe.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(probe.parameters(), lr=config.learning_rate)
    shuffle = torch.Generator().manual_seed(seed)
    best, best_loss, stale = probe, float("inf"), 0
    for _ in range(config.max_epochs):
        for rows in train[torch.randperm(len(train), generator=shuffle)].split(config.batch_size):
            optimizer.zero_grad()
            probe.loss(vectors[rows], target[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(probe.loss(vectors[val], target[val]))
        stale += 1
        if loss < best_loss:
            best, best_loss, stale = deepcopy(probe), loss, 0
        if stale >= config.patience:
            break
    return best


def _draw_parts(
    known: NDArray[np.bool_], fractions: tuple[float, float, float], seed: int
) -> NDArray[np.int64]:
    """A random part (0, 1 or 2) for each known node; -1 for the others."""
    nodes = np.flatnonzero(known)
    nodes = nodes[np.argsort(hash_keys(seed, _SPLIT_STREAM, nodes))]
    first, second = (int(len(nodes) * fraction + 1e-9) for fraction in np.cumsum(fractions)[:2])
    parts = np.full(len(known), -1)
    parts[nodes[:first]], parts[nodes[first:second]], parts[nodes[second:]] = TRAIN, VAL, TEST
    return parts


@dataclass(frozen=True, kw_only=True)
class LabeledNodes:
    """The labeled nodes of a network."""

    nodes: Ids  # [n], ascending
    labels: NDArray[Any]  # classes [n], or a mask [n, C] if nodes have several labels
    names: list[str]  # [C]
    strangers: int = 0  # rows of the table whose node is not in the network

    def __len__(self) -> int:
        return len(self.nodes)


def read_node_labels(
    nodes: NodeIndex,
    data: Any,
    *,
    id: str = "node",
    labels: str = "label",
    label_separator: str | None = None,
    side: Side | None = None,
    format: str | None = None,
) -> LabeledNodes:
    """Read node labels from a table with a column of node ids and one of labels.

    Empty labels are skipped. A node has several labels with a `label_separator`, a column of
    lists, or several rows. In a bipartite network, ids are looked up on `side`, by default on
    whichever side has them; an id that occurs on both is an InputError.
    """
    table = read_nodes(data, id=id, labels=labels, label_separator=label_separator, format=format)
    rows = table.to_arrow().select(["id", "labels"]).to_pylist()
    rows = [row for row in rows if row["labels"]]
    numbers = _find(nodes, [row["id"] for row in rows], side, table.origin)
    pairs = [
        (number, label)
        for number, row in zip(numbers.tolist(), rows, strict=True)
        for label in row["labels"]
        if number >= 0
    ]
    if not pairs:
        example = f"its first node is '{rows[0]['id']}'" if rows else "it has no labels"
        raise InputError(
            f"{table.origin} labels no node of the network: {example}; an example of the network "
            f"is '{nodes.ids_of([0])[0]}'"
        )
    own_nodes, own_labels = zip(*pairs, strict=True)
    return _encoded(own_nodes, own_labels, strangers=int((numbers < 0).sum()))


def network_node_labels(graph: EdgeTextGraph, *, side: Side | None = None) -> LabeledNodes:
    """The node labels that a network was prepared with, of one side or of all nodes."""
    if graph.node_labels is None:
        raise InputError(
            f"{graph.path} was prepared without node labels; prepare it again with `nodes=` and "
            "`labels=` of read_nodes, or pass a table of `labels=`"
        )
    offsets, codes = graph.node_labels
    own = graph.nodes_on(side)
    nodes = np.repeat(np.arange(own.start, own.stop), np.diff(offsets[own.start : own.stop + 1]))
    if not len(nodes):
        raise InputError(f"{graph.path} has no labeled {side} nodes; choose the other side")
    labels = codes[offsets[own.start] : offsets[own.stop]]
    return _encoded(nodes, np.array(graph.node_label_names)[labels])


def classify_labeled_nodes(
    predictor: Any,
    labeled: LabeledNodes,
    *,
    repetitions: int = 5,
    config: ProbeConfig | None = None,
) -> NodeReport:
    """Fit and test a logistic regression on frozen node vectors, once per seed.

    `predictor` is a LinkPredictor, or anything else with `embed_nodes`.
    """
    if repetitions < 1:
        raise InputError(f"`repetitions=` must be at least 1 (got {repetitions})")
    if len(labeled.names) < 2:
        raise InputError(f"all nodes have the same label, '{labeled.names[0]}'")
    vectors = predictor.embed_nodes(labeled.nodes)
    return classify_nodes(vectors, labeled.labels, seeds=range(repetitions), config=config)


def _find(nodes: NodeIndex, ids: list[str], side: Side | None, origin: str) -> Ids:
    """The number of each id; -1 if it is unknown."""
    if side is not None or nodes.num_sources is None:
        return nodes.numbers(ids, side or "source")
    as_source, as_target = (nodes.numbers(ids, end) for end in get_args(Side))
    both = (as_source >= 0) & (as_target >= 0)
    if both.any():
        raise InputError(
            f"{origin}: '{ids[int(both.argmax())]}' is both a source and a target; choose one with "
            "`side='source'` or `side='target'`"
        )
    return np.maximum(as_source, as_target)


def _encoded(nodes: ArrayLike, labels: ArrayLike, strangers: int = 0) -> LabeledNodes:
    """Labels of nodes, pair by pair, as class numbers, or as a mask if any node has several."""
    numbers, row = np.unique(nodes, return_inverse=True)
    names, code = np.unique(labels, return_inverse=True)
    mask = np.zeros((len(numbers), len(names)), bool)
    mask[row, code] = True
    is_single = (mask.sum(axis=1) == 1).all()
    return LabeledNodes(
        nodes=numbers.astype(np.int64),
        labels=mask.argmax(axis=1) if is_single else mask,
        names=names.tolist(),
        strangers=strangers,
    )
