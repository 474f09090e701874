"""Node ids alone, under logistic regression: what the two ends of an edge say without its text."""

from collections.abc import Sequence
from typing import Any

from edgeformers.baselines.text.edge_classifiers import MANY_EDGES, LogisticEdges, NodeColumns
from edgeformers.data.types import Ids

INVERSE_PENALTIES = (3.0, 1.0, 10.0, 30.0, 100.0)  # the C of scikit-learn: larger is freer


class NodeIds(LogisticEdges):
    """Logistic regression on the one-hot ids of both ends; an edge of two new nodes gets the
    shares of the classes. Seconds on one core.
    """

    def __init__(
        self,
        *,
        inverse_penalties: Sequence[float] = INVERSE_PENALTIES,
        many_edges: int = MANY_EDGES,
        seed: int = 0,
    ) -> None:
        super().__init__(inverse_penalties=inverse_penalties, many_edges=many_edges, seed=seed)

    def _learn(self, split: str, train: Ids) -> Any:
        self._nodes = NodeColumns(self.graph, split)
        return self._features(train)

    def _features(self, edges: Ids) -> Any:
        return self._nodes.of(edges)
