"""A weighted sum of two link baselines."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgeformers.baselines.base import GridLinkBaseline, LinkBaseline, Scores
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids

WEIGHTS = (0.1, 0.0, 0.02, 0.05, 0.2, 0.3, 0.5)  # of the second baseline
SCALED_QUERIES = 256  # from whose scores the standard deviation is estimated


class Blend(GridLinkBaseline[float, float]):
    """Scores (1 - w) a / s_a + w b / s_b, where s is the standard deviation of each score.

    The weight w is chosen on validation and may be 0. Fitting costs as much as both baselines.
    """

    def __init__(
        self, first: LinkBaseline, second: LinkBaseline, weights: Sequence[float] = WEIGHTS
    ) -> None:
        super().__init__(weights)
        self.first, self.second = first, second

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        linked = np.flatnonzero(self.links.train.degrees)
        count = min(len(linked), SCALED_QUERIES)
        sample = linked[np.linspace(0, len(linked) - 1, count).astype(int)]
        self.scales = [
            float(baseline.fit(graph, split).scores(sample, self.ranking.candidates).std()) or 1.0
            for baseline in (self.first, self.second)
        ]

    def _fit(self, setting: float) -> float:
        return setting

    def _score(self, fitted: float, rows: Ids, columns: Ids) -> Scores:
        candidates = columns + self.links.first_candidate
        first = (1 - fitted) / self.scales[0] * self.first.scores(rows, candidates)
        second = fitted / self.scales[1] * self.second.scores(rows, candidates)
        return np.asarray(first + second, np.float32)

    def _describe(self, setting: float, fitted: float) -> dict[str, Any]:
        return {**self.first.setting, **self.second.setting, "weight": setting}
