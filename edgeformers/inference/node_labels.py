"""Node labels from a table or a network, and node classification with a fitted model."""

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.readers.tables import read_nodes
from edgeformers.data.types import Ids, Side
from edgeformers.errors import InputError
from edgeformers.inference.node_classification import NodeReport, ProbeConfig, classify_nodes


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
    label_sets: dict[int, dict[str, None]] = {}
    for number, row in zip(numbers.tolist(), rows, strict=True):
        if number >= 0:
            label_sets.setdefault(number, {}).update(dict.fromkeys(row["labels"]))
    if not label_sets:
        example = f"its first node is '{rows[0]['id']}'" if rows else "it has no labels"
        raise InputError(
            f"{table.origin} labels no node of the network: {example}; an example of the network "
            f"is '{nodes.ids_of([0])[0]}'"
        )
    labels_of = {node: list(label_sets[node]) for node in sorted(label_sets)}
    return _encoded(labels_of, strangers=int((numbers < 0).sum()))


def network_node_labels(graph: EdgeTextGraph, *, side: Side | None = None) -> LabeledNodes:
    """The node labels that a network was prepared with, of one side or of all nodes."""
    if graph.node_labels is None:
        raise InputError(
            f"{graph.path} was prepared without node labels; prepare it again with --nodes FILE "
            "and --node-labels COLUMN, or pass a table with --labels FILE"
        )
    offsets, codes = graph.node_labels
    first, stop = 0, graph.num_nodes
    if graph.is_bipartite and side is not None:
        first, stop = (0, graph.num_sources) if side == "source" else (graph.num_sources, stop)
    labels_of = {
        node: [graph.node_label_names[code] for code in codes[offsets[node] : offsets[node + 1]]]
        for node in range(first, stop)
        if offsets[node] < offsets[node + 1]
    }
    if not labels_of:
        raise InputError(f"{graph.path} has no labeled {side} nodes; choose the other side")
    return _encoded(labels_of)


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
        raise InputError(f"repetitions must be at least 1 (got {repetitions})")
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
            "--node-side source or target"
        )
    return np.maximum(as_source, as_target)


def _encoded(labels_of: dict[int, list[str]], strangers: int = 0) -> LabeledNodes:
    """Labels as class numbers, or as a mask if any node has several."""
    names = sorted({label for labels in labels_of.values() for label in labels})
    codes = {name: code for code, name in enumerate(names)}
    mask = np.zeros((len(labels_of), len(names)), bool)
    for row, labels in enumerate(labels_of.values()):
        mask[row, [codes[label] for label in labels]] = True
    is_single = (mask.sum(axis=1) == 1).all()
    return LabeledNodes(
        nodes=np.fromiter(labels_of, np.int64, len(labels_of)),
        labels=mask.argmax(axis=1) if is_single else mask,
        names=names,
        strangers=strangers,
    )
