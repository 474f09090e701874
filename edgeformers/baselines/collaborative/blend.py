"""Two link baselines as one: their scores on one scale, weighed against each other."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import (
    LinkBaseline,
    Scores,
    TrainingLinks,
    Trial,
    ValidationRanking,
    best_setting,
    choose,
    training_links,
)
from edgeformers.data.graph import EdgeTextGraph

WEIGHTS = (0.1, 0.0, 0.02, 0.05, 0.2, 0.3, 0.5)  # of the second
SCALED_ROWS = 256  # queries whose scores tell the scale of a baseline


class Blend:
    """Scores (1 - w) a / s_a + w b / s_b, with s the deviation of each baseline's scores.

    w is chosen by full-ranking MRR on validation; it may be 0. A query without a training link
    gets the candidates in the order of popularity. The cost is that of both.
    """

    def __init__(
        self, first: LinkBaseline, second: LinkBaseline, weights: Sequence[float] = WEIGHTS
    ) -> None:
        self.first, self.second = first, second
        self.weights = weights
        self.trials: list[Trial[float]] = []
        self.setting: dict[str, Any] = {}

    links: TrainingLinks

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Fit both; keep the best weight by full-ranking MRR on validation."""
        self.links = training_links(graph, split)
        self.first.fit(graph, split)
        self.second.fit(graph, split)
        self.scales = self._scale(self.first), self._scale(self.second)
        ranking = ValidationRanking(graph, split)
        self.weight, self.trials = choose(
            self.weights,
            lambda weight: weight,
            lambda weight: ranking.mrr(lambda q, c: self._scores(weight, q, c)),
        )
        best = best_setting(self.trials)
        self.setting = {**self.first.setting, **self.second.setting, "weight": best}
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> [q, c]."""
        return self._scores(self.weight, queries, candidates)

    def _scores(self, weight: float, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        rows, columns = self.links.rows(queries), self.links.columns(candidates)
        first, second = (one.scores(queries, candidates) for one in (self.first, self.second))
        shares = (1 - weight) / self.scales[0], weight / self.scales[1]
        table = np.asarray(shares[0] * first + shares[1] * second, np.float32)
        return self.links.fill_with_popularity(table, rows, columns)

    def _scale(self, baseline: LinkBaseline) -> float:
        """The deviation of scores over some queries that have links, and all candidates."""
        linked = np.flatnonzero(self.links.train.degrees)
        some = linked[np.linspace(0, len(linked) - 1, min(len(linked), SCALED_ROWS)).astype(int)]
        columns = np.arange(self.links.train.num_candidates) + self.links.first_candidate
        return float(baseline.scores(some, columns).std()) or 1.0
