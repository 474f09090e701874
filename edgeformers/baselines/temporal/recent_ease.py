"""EASE with recency: a source is the links it has so far, recent ones counting more."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgeformers.baselines.base import Scores
from edgeformers.baselines.collaborative.ease import EASE, ItemWeights
from edgeformers.baselines.temporal.base import TemporalBaseline
from edgeformers.baselines.temporal.history import LinkHistory
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.times import DAY
from edgeformers.data.types import Ids


@dataclass(frozen=True, kw_only=True)
class RecentEASEConfig:
    """Settings of one model."""

    penalty: float = 200.0  # lambda of EASE
    history_memory: float | None = None  # days; None: all links of a source count alike


class RecentEASE(TemporalBaseline[RecentEASEConfig]):
    """Scores x_u B, where B is fitted by EASE on training links (see `EASE`).

    A link in x_u counts exp(-age / memory), where age is relative to the last link of the source.
    A candidate that training never saw gets 0.
    """

    default_grid = (RecentEASEConfig(), RecentEASEConfig(history_memory=365.0))

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        penalties = list(dict.fromkeys(config.penalty for config in self.grid))
        ease = EASE(penalties, device=self.device)
        self._weights = {value: model.fitted for value, model in ease.fit_each(graph, split)}

    def _train(self, config: RecentEASEConfig) -> Callable[[LinkHistory], "_HistoryEASE"]:
        weights = self._weights[config.penalty]
        return lambda history: _HistoryEASE(weights, history, config.history_memory)


class _HistoryEASE:
    """Weights of items and the links of every source so far."""

    def __init__(self, weights: ItemWeights, history: LinkHistory, memory: float | None) -> None:
        self._weights, self._history, self._memory = weights, history, memory

    def observe(self, edges: Ids) -> None:
        self._history.add(edges)

    def scores(self, sources: Ids) -> Scores:
        """Source nodes [q] -> scores of all candidates [q, C]."""
        scores = np.stack([self._row(source) for source in sources.tolist()])
        return scores if self._weights.key is None else scores @ self._weights.key.T

    def _row(self, source: int) -> Scores:
        links = self._history.of_source(source)
        rows = self._weights.left[self._history.columns[links]]
        if self._memory is None:
            return np.asarray(rows.sum(0))
        times = self._history.times[links]
        share = np.exp((times - times[-1]) / DAY / self._memory).astype(np.float32)
        return np.asarray(share @ rows)
