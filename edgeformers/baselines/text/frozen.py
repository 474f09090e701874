"""Logistic regression on the text vectors of a frozen encoder."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgeformers.baselines.text.edge_classifiers import (
    LBFGS_EDGES,
    LabeledEdges,
    LogisticEdgeBaseline,
)
from edgeformers.baselines.text.frozen_vectors import BACKBONE, MAX_TOKENS, text_vectors
from edgeformers.data.types import Ids

GRID = (30.0, 3.0, 10.0, 100.0, 300.0)


class Frozen(LogisticEdgeBaseline):
    """Uses only the text.

    The cost is that of encoding every text once (see `text_vectors`); the regression takes half a
    minute for 35,000 edges on one core.
    """

    def __init__(
        self,
        backbone: str = BACKBONE,
        *,
        max_tokens: int = MAX_TOKENS,
        grid: Sequence[float] = GRID,
        lbfgs_edges: int = LBFGS_EDGES,
        seed: int = 0,
        show: bool = False,
    ) -> None:
        super().__init__(grid, lbfgs_edges=lbfgs_edges, seed=seed)
        self.backbone, self.max_tokens, self.show = backbone, max_tokens, show

    def _train_features(self, split: str, edges: LabeledEdges) -> Any:
        self._vectors = text_vectors(
            self.graph, self.backbone, max_tokens=self.max_tokens, show=self.show
        )
        return self._features(edges.train)

    def _features(self, edges: Ids) -> Any:
        return self._vectors[edges].astype(np.float32)

    def _describe(self, setting: float, num_edges: int) -> dict[str, Any]:
        regression = super()._describe(setting, num_edges)
        return {**regression, "backbone": self.backbone, "max_tokens": self.max_tokens}
