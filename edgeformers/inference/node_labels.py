"""Labels of nodes, from a table or as a network has them, and how well node vectors tell them."""

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
    """The nodes of a network whose labels are known."""

    nodes: Ids  # [n], ascending
    labels: NDArray[Any]  # classes [n], or truths [n, C] where a node has several
    names: list[str]  # [C]
    strangers: int = 0  # labeled rows of the table whose node the network does not have

    def __len__(self) -> int:
        return len(self.nodes)


def read_node_labels(
    names: NodeIndex,
    data: Any,
    *,
    id: str = "node",
    labels: str = "label",
    label_separator: str | None = None,
    side: Side | None = None,
    format: str | None = None,
) -> LabeledNodes:
    """Labels from a table with a column of node ids and one of labels; empty ones are left out.

    A `label_separator` (or a column of lists) gives a node several labels, as do several rows of
    it. In a bipartite network ids are looked for on one `side`, by default on the one that knows
    them; an id that both know is refused.
    """
    table = read_nodes(data, id=id, labels=labels, label_separator=label_separator, format=format)
    rows = table.to_arrow().select(["id", "labels"]).to_pylist()
    rows = [row for row in rows if row["labels"]]
    numbers = _find(names, [row["id"] for row in rows], side, table.origin)
    found: dict[int, dict[str, None]] = {}
    for number, row in zip(numbers.tolist(), rows, strict=True):
        if number >= 0:
            found.setdefault(number, {}).update(dict.fromkeys(row["labels"]))
    if not found:
        why = f"the first is '{rows[0]['id']}'" if rows else "it has no label at all"
        raise InputError(
            f"{table.origin} labels no node of the network; {why}, and the network has "
            f"'{names.ids_of([0])[0]}', for one"
        )
    given = {node: list(found[node]) for node in sorted(found)}
    return _coded(given, strangers=int((numbers < 0).sum()))


def network_node_labels(graph: EdgeTextGraph, *, side: Side | None = None) -> LabeledNodes:
    """The labels that a network was prepared with, of one side or of all its nodes."""
    if graph.node_labels is None:
        raise InputError(
            f"{graph.path} was prepared without labels of nodes; give a table: --labels FILE"
        )
    offsets, codes = graph.node_labels
    first, stop = 0, graph.num_nodes
    if graph.is_bipartite and side is not None:
        first, stop = (0, graph.num_sources) if side == "source" else (graph.num_sources, stop)
    given = {
        node: [graph.node_label_names[code] for code in codes[offsets[node] : offsets[node + 1]]]
        for node in range(first, stop)
        if offsets[node] < offsets[node + 1]
    }
    if not given:
        raise InputError(f"{graph.path} has no labels of {side} nodes; choose the other side")
    return _coded(given)


def classify_labeled_nodes(
    predictor: Any,
    labeled: LabeledNodes,
    *,
    repetitions: int = 5,
    config: ProbeConfig | None = None,
) -> NodeReport:
    """Logistic regression on the frozen vectors of labeled nodes, once per seed."""
    if repetitions < 1:
        raise InputError(f"there must be at least 1 repetition (got {repetitions})")
    if len(labeled.names) < 2:
        raise InputError(f"all nodes have the label '{labeled.names[0]}'; there is nothing to tell")
    vectors = predictor.embed_nodes(labeled.nodes)
    return classify_nodes(vectors, labeled.labels, seeds=range(repetitions), config=config)


def _find(names: NodeIndex, ids: list[str], side: Side | None, origin: str) -> Ids:
    """The number of each id, -1 where there is none."""
    if side is not None or names.num_sources is None:
        return names.numbers(ids, side or "source")
    as_source, as_target = (names.numbers(ids, one) for one in get_args(Side))
    both = (as_source >= 0) & (as_target >= 0)
    if both.any():
        raise InputError(
            f"{origin}: '{ids[int(both.argmax())]}' is a source and a target of the network; say "
            "whose labels these are: --node-side source or target"
        )
    return np.maximum(as_source, as_target)


def _coded(given: dict[int, list[str]], strangers: int = 0) -> LabeledNodes:
    """Labels as numbers: a class each, or a table where any node has several."""
    names = sorted({label for several in given.values() for label in several})
    code = {name: place for place, name in enumerate(names)}
    truths = np.zeros((len(given), len(names)), bool)
    for row, several in enumerate(given.values()):
        truths[row, [code[label] for label in several]] = True
    is_single = (truths.sum(axis=1) == 1).all()
    return LabeledNodes(
        nodes=np.fromiter(given, np.int64, len(given)),
        labels=truths.argmax(axis=1) if is_single else truths,
        names=names,
        strangers=strangers,
    )
