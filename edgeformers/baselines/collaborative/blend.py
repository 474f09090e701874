"""A weighted sum of link baselines."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from edgeformers.baselines.base import GridLinkBaseline, LinkBaseline, Scores
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids

Weights = tuple[float, ...]  # one per baseline

SHARES = (0.1, 0.0, 0.02, 0.05, 0.2, 0.3, 0.5)  # of the second of two baselines
LEVELS = (1.0, 0.0, 2.0)  # of the weights of three or more baselines
SCALED_QUERIES = 256  # from whose scores the standard deviation is estimated


class Blend(GridLinkBaseline[Weights, Weights]):
    """Scores sum_i w_i s_i, where each score s_i is divided by its standard deviation.

    The weights are chosen on validation. Fitting costs as much as all baselines together.
    """

    def __init__(self, *baselines: LinkBaseline, grid: Sequence[Weights] | None = None) -> None:
        super().__init__(_weights(len(baselines)) if grid is None else grid)
        self.baselines = baselines

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        linked = np.flatnonzero(self.links.train.degrees)
        count = min(len(linked), SCALED_QUERIES)
        sample = linked[np.linspace(0, len(linked) - 1, count).astype(int)]
        self.scales = [
            float(baseline.fit(graph, split).scores(sample, self.ranking.candidates).std()) or 1.0
            for baseline in self.baselines
        ]

    def _fit(self, setting: Weights) -> Weights:
        return setting

    def _score(self, fitted: Weights, rows: Ids, columns: Ids) -> Scores:
        candidates = columns + self.links.first_candidate
        total = np.zeros((len(rows), len(columns)), np.float32)
        for weight, scale, baseline in zip(fitted, self.scales, self.baselines, strict=True):
            if weight:
                total += np.float32(weight / scale) * baseline.scores(rows, candidates)
        return total

    def _describe(self, setting: Weights, fitted: Weights) -> dict[str, Any]:
        chosen = {type(baseline).__name__: baseline.setting for baseline in self.baselines}
        return {**chosen, "weights": setting}


def _weights(count: int) -> list[Weights]:
    if count == 2:
        return [(1 - share, share) for share in SHARES]
    return [weights for weights in product(LEVELS, repeat=count) if 1.0 in weights]
