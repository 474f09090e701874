"""Recent popularity: candidates with many edges in the last days, weighted by their age."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import (
    GridTrial,
    Scores,
    ValidationRanking,
    best_setting,
    grid_search,
)
from edgeformers.baselines.temporal.history import timed_links
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN
from edgeformers.data.times import DAY
from edgeformers.data.types import Floats, Ids
from edgeformers.errors import InputError
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import RollingLinks

MEMORIES = (30.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 60.0, 90.0, 180.0, 365.0, 1_000.0)  # days


class DecayedCounts:
    """log sum_e exp(-age_e / memory) over the links e to each candidate; -inf without links.

    Logarithms rank as the sums do, and do not underflow for candidates that have long been quiet.
    """

    def __init__(self, num_candidates: int, memory: float) -> None:
        self.memory = memory  # days
        self._log_counts = np.full(num_candidates, -np.inf)  # at the time of the last link
        self._time = 0

    def add(self, columns: Ids, times: Ids) -> None:
        """Count links [m] in time order."""
        if not len(columns):
            return
        last = int(times[-1])
        self._log_counts -= (last - self._time) / DAY / self.memory
        self._time = last
        ages = (last - times.astype(np.int64)) / DAY
        np.logaddexp.at(self._log_counts, columns, -ages / self.memory)

    def now(self) -> Floats:
        """The values of all candidates [C] at the time of the last link."""
        return self._log_counts

    def finite(self) -> Scores:
        """The same, with candidates without links below all others."""
        is_known = np.isfinite(self._log_counts)
        least = self._log_counts[is_known].min() if is_known.any() else 0.0
        return np.where(is_known, self._log_counts, least - 1.0).astype(np.float32)

    def copy(self) -> "DecayedCounts":
        """The same counts, to which links are added independently."""
        other = copy(self)
        other._log_counts = self._log_counts.copy()
        return other


class RecentPopularity:
    """Scores a candidate by its edges, each weighted by exp(-age / memory), whatever the query.

    The memory is chosen on validation. `observe` counts edges that arrive after fitting.
    """

    counts: DecayedCounts

    def __init__(self, memories: Sequence[float] = MEMORIES) -> None:
        if any(memory <= 0 for memory in memories):
            raise InputError(f"every memory must be above 0 days (got {min(memories)})")
        self.memories = memories
        self.trials: list[GridTrial[float]] = []
        self.setting: dict[str, Any] = {}

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Count training links; choose the memory by full-ranking MRR on validation."""
        ranking = ValidationRanking(graph, split)

        def mrr(counts: DecayedCounts) -> float:
            self.counts = counts
            return ranking.mrr(lambda queries, nodes: self.scores(queries, nodes))

        return self._fit(graph, split, mrr)

    def fit_rolling(self, graph: EdgeTextGraph, split: str) -> Self:
        """The same for the protocol `rolling`: choose the memory by rolling MRR on validation."""
        links = RollingLinks(graph, split, "val")

        def mrr(counts: DecayedCounts) -> float:
            self.counts = counts.copy()
            return links.rank(self).metrics("rolling")["mrr"]

        return self._fit(graph, split, mrr)

    def observe(self, edges: Ids) -> None:
        """Count the links among edges that arrived."""
        links = timed_links(self._graph, edges)
        self.counts.add(links.columns, links.times)

    def restart(self) -> None:
        """Forget all edges that arrived after training."""
        self.counts = self._trained.copy()

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Query nodes [q] and candidate nodes [c] -> scores [q, c] after the last link."""
        row = self.counts.finite()[np.asarray(candidates, np.int64) - self._first]
        return np.tile(row, (len(np.asarray(queries)), 1))

    def scores_at(self, sources: Ids, time: int) -> Floats:
        """Source nodes [q] -> scores of all candidates [q, C]; time passes alike for all."""
        values = self.counts.now()
        return np.broadcast_to(values, (len(sources), len(values)))

    def _fit(self, graph: EdgeTextGraph, split: str, mrr: Callable[[DecayedCounts], float]) -> Self:
        if graph.times is None:
            raise InputError(f"{graph.path} has no times, which recent popularity needs")
        self._graph, candidates = graph, candidate_nodes(graph)
        self._first = int(candidates[0])
        trained = np.flatnonzero(np.isin(graph.split(split), (TRAIN, PROFILE)))
        links = timed_links(graph, trained)

        def count(memory: float) -> DecayedCounts:
            counts = DecayedCounts(len(candidates), memory)
            counts.add(links.columns, links.times)
            return counts

        self._trained, self.trials = grid_search(self.memories, count, mrr)
        self.restart()
        self.setting = {"memory_days": best_setting(self.trials)}
        return self
