"""Last neighbors: what sources that share the source's most recent links have linked to."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgeformers.baselines.base import Scores
from edgeformers.baselines.temporal.base import TemporalBaseline
from edgeformers.baselines.temporal.history import LinkHistory
from edgeformers.data.types import Ids

MOST_NEIGHBORS = 100  # most recent sources of a candidate, and links of a source, that are read


@dataclass(frozen=True, kw_only=True)
class LastNeighborsConfig:
    """How far back the heuristic looks."""

    last: int = 10  # most recent links of the source


class LastNeighbors(TemporalBaseline[LastNeighborsConfig]):
    """Scores a candidate by its co-occurrence with the source's last links.

    For each of the source's `last` candidates i, the sources that linked to i most recently are
    looked up, and everything they linked to counts 1 / sqrt(links of the candidate). Nothing is
    learned. The cost of a query depends on `last` and on 100 x 100 links at most.
    """

    default_grid = (LastNeighborsConfig(), LastNeighborsConfig(last=1))

    def _train(self, config: LastNeighborsConfig) -> Callable[[LinkHistory], "_CoOccurrence"]:
        return lambda history: _CoOccurrence(history, config.last)


class _CoOccurrence:
    def __init__(self, history: LinkHistory, last: int) -> None:
        self._history, self._last = history, last
        self._degrees = np.bincount(history.columns, minlength=history.num_candidates).astype(float)

    def observe(self, edges: Ids) -> None:
        links = self._history.add(edges)
        np.add.at(self._degrees, links.columns, 1.0)

    def scores(self, sources: Ids) -> Scores:
        """Source nodes [q] -> scores of all candidates [q, C]."""
        norm = np.sqrt(np.maximum(self._degrees, 1.0))
        rows = [self._counts(source) / norm for source in sources.tolist()]
        return np.stack(rows).astype(np.float32)

    def _counts(self, source: int) -> Scores:
        history = self._history
        columns = history.columns[history.of_source(source)[-self._last :]]
        around = [
            history.of_source(other)[-MOST_NEIGHBORS:]
            for column in columns.tolist()
            for other in self._recent_sources(column)
        ]
        linked = history.columns[np.concatenate(around)]
        return np.bincount(linked, minlength=history.num_candidates).astype(np.float32)

    def _recent_sources(self, column: int) -> list[int]:
        links = self._history.of_column(column)[-MOST_NEIGHBORS:]
        return list(dict.fromkeys(self._history.sources[links].tolist()))
