"""Logistic regression on the ids of both nodes of an edge, without its text."""

from collections.abc import Sequence
from typing import Any

from edgeformers.baselines.text.edge_classifiers import (
    LBFGS_EDGES,
    LabeledEdges,
    LogisticEdgeBaseline,
    NodeOneHots,
)
from edgeformers.data.types import Ids

GRID = (3.0, 1.0, 10.0, 30.0, 100.0)


class NodeIds(LogisticEdgeBaseline):
    """Uses one-hot node ids; an edge of two new nodes gets the class frequencies.

    Takes seconds on one core.
    """

    def __init__(
        self, *, grid: Sequence[float] = GRID, lbfgs_edges: int = LBFGS_EDGES, seed: int = 0
    ) -> None:
        super().__init__(grid, lbfgs_edges=lbfgs_edges, seed=seed)

    def _train_features(self, split: str, edges: LabeledEdges) -> Any:
        self._nodes = NodeOneHots(self.graph, split)
        return self._features(edges.train)

    def _features(self, edges: Ids) -> Any:
        return self._nodes.of(edges)
