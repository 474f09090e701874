"""CandidateFilter: which targets may be recommended, by id and by node label."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.types import Ids, Mask
from edgeformers.errors import InputError, suggest


@dataclass(frozen=True, kw_only=True)
class CandidateFilter:
    """Targets that may be recommended: those that pass all three conditions.

    `allow` lists the only ids that may be recommended, and `deny` ids that may not. With `labels`,
    a target must have at least one of these node labels of the network.
    """

    allow: Collection[str] | None = None
    deny: Collection[str] = ()
    labels: Collection[str] = ()

    def __post_init__(self) -> None:
        for name in ("allow", "deny", "labels"):
            if isinstance(value := getattr(self, name), str):
                raise InputError(f"`{name}=` must be a list (got '{value}')")

    def mask(self, candidates: Ids, nodes: NodeIndex, graph: EdgeTextGraph) -> Mask:
        """Which of the candidates [C], sorted node numbers, pass; unknown ids are an InputError."""
        passes = np.ones(len(candidates), bool)
        if self.allow is not None:
            passes = _among(candidates, nodes, self.allow)
        if self.deny:
            passes &= ~_among(candidates, nodes, self.deny)
        if self.labels:
            passes &= _labeled(candidates, graph, self.labels)
        return passes


def _among(candidates: Ids, nodes: NodeIndex, names: Collection[str]) -> Mask:
    return np.isin(candidates, nodes.known_numbers(list(names), "target"))


def _labeled(candidates: Ids, graph: EdgeTextGraph, labels: Collection[str]) -> Mask:
    known = list(graph.node_label_names)
    for label in labels:
        if label not in known:
            hint = suggest(label, known) if known else "prepare it with `nodes=`"
            raise InputError(f"the network has no node label '{label}'; {hint}")
    assert graph.node_labels is not None
    offsets, codes = graph.node_labels
    wanted = np.isin(codes, [known.index(label) for label in labels])
    counts = np.concatenate([[0], np.cumsum(wanted)])[offsets]
    has_label = np.append(np.diff(counts) > 0, False)  # nodes that arrived later have none
    return np.asarray(has_label[np.minimum(candidates, graph.num_nodes)])
