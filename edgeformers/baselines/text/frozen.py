"""Frozen sentence vectors under logistic regression: a text encoder without any training."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from edgeformers.baselines.text.edge_classifiers import MANY_EDGES, LogisticEdges
from edgeformers.baselines.text.frozen_vectors import BACKBONE, MAX_TOKENS, text_vectors
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids

INVERSE_PENALTIES = (30.0, 3.0, 10.0, 100.0, 300.0)  # the C of scikit-learn: larger is freer


class Frozen(LogisticEdges):
    """Logistic regression on the text vectors of a backbone: the text alone.

    The cost is that of reading every text once (see `text_vectors`); the regression takes half
    a minute for 35,000 edges on one core.
    """

    def __init__(
        self,
        backbone: str = BACKBONE,
        *,
        max_tokens: int = MAX_TOKENS,
        inverse_penalties: Sequence[float] = INVERSE_PENALTIES,
        many_edges: int = MANY_EDGES,
        seed: int = 0,
        show: bool = False,
    ) -> None:
        super().__init__(inverse_penalties=inverse_penalties, many_edges=many_edges, seed=seed)
        self.backbone = backbone
        self.max_tokens = max_tokens
        self.show = show

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Learn from the training edges that have a label."""
        super().fit(graph, split)
        self.setting |= {"backbone": self.backbone, "max_tokens": self.max_tokens}
        return self

    def _learn(self, split: str, train: Ids) -> Any:
        self._vectors = text_vectors(
            self.graph, self.backbone, max_tokens=self.max_tokens, show=self.show
        )
        return self._features(train)

    def _features(self, edges: Ids) -> Any:
        return self._vectors[edges].astype(np.float32)
