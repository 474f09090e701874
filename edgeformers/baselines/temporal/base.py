"""What time-aware link baselines share: reading edges as they arrive, recency, a grid of 12.

A baseline is fitted on training links. Under `full` it ranks as of the last training edge; under
`rolling` it reads every edge that arrives, and nothing is fitted again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from edgeformers.baselines.base import (
    GridTrial,
    Scores,
    ValidationRanking,
    best_setting,
    default_device,
    training_links,
)
from edgeformers.baselines.temporal.history import LinkHistory
from edgeformers.baselines.temporal.recent_popularity import DecayedCounts
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN
from edgeformers.data.types import Floats, Ids
from edgeformers.errors import InputError
from edgeformers.evaluation import metrics
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import RollingLinks

Config = TypeVar("Config")
SCALED_SOURCES = 256  # from whose scores the standard deviation is estimated


@dataclass(frozen=True)
class Recency:
    """How much the logarithm of recent popularity counts next to the score of a model."""

    weight: float = 0.0  # per standard deviation of the model's scores
    memory: float = 30.0  # days, see `DecayedCounts`


#: With two configurations of a model this makes 12 settings, as many as for every other row.
RECENCY = (
    Recency(),
    Recency(0.3, 90.0),
    Recency(1.0, 15.0),
    Recency(3.0, 2.0),
    Recency(3.0, 15.0),
    Recency(3.0, 90.0),
)
BUDGET = 12


class TemporalModel(Protocol):
    """A trained model and what it has read so far."""

    def observe(self, edges: Ids) -> None:
        """Read edges [m] that arrived, in time order."""
        ...

    def scores(self, sources: Ids) -> Scores:
        """Source nodes [q] -> scores of all candidates [q, C] from what was read."""
        ...


class TemporalBaseline(ABC, Generic[Config]):
    """A link baseline that reads edges in time order; settings are chosen on validation.

    The score is z + weight x log recent popularity, where z is the standardized score of the model;
    the weight may be 0. A source without links gets the candidates in order of recent popularity.
    """

    default_grid: ClassVar[Sequence[Any]]
    _state: "_BlendedModel"

    def __init__(
        self,
        grid: Sequence[Config] | None = None,
        recency: Sequence[Recency] = RECENCY,
        *,
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> None:
        self.grid: Sequence[Config] = self.default_grid if grid is None else grid
        if not self.grid or not recency:
            raise InputError("the grid of settings is empty; give at least one setting")
        self.recency, self.seed = recency, seed
        self.device = torch.device(device) if device else default_device()
        self.trials: list[GridTrial[tuple[Config, Recency]]] = []
        self.setting: dict[str, Any] = {}

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Train every configuration; choose by full-ranking MRR on validation."""
        ranking = ValidationRanking(graph, split)

        def mrr(model: _BlendedModel, count: int) -> Floats:
            def tables(queries: Ids, candidates: Ids) -> Iterator[Scores]:
                columns = candidates - self._first
                return (table[:, columns] for table in model.scores_each(queries))

            ranks = ranking.reciprocal_ranks_each(tables, count)
            return np.array([metrics.mean(row) for row in ranks])

        return self._fit(graph, split, mrr)

    def fit_rolling(self, graph: EdgeTextGraph, split: str) -> Self:
        """The same for the protocol `rolling`: choose by rolling MRR on validation."""
        links = RollingLinks(graph, split, "val")

        def mrr(model: _BlendedModel, count: int) -> Floats:
            reports = links.rank_each(
                model.observe, lambda sources, time: model.scores_each(sources), count
            )
            return np.array([report.metrics("rolling")["mrr"] for report in reports])

        return self._fit(graph, split, mrr)

    def observe(self, edges: Ids) -> None:
        """Read edges that arrived."""
        self._state.observe(edges)

    def restart(self) -> None:
        """Forget all edges that arrived after training."""
        self._state = _BlendedModel(self.history, self._start, self._chosen)

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Query nodes [q] and candidate nodes [c] -> scores [q, c] after the last edge read."""
        [table] = self._state.scores_each(np.asarray(queries, np.int64))
        return table[:, np.asarray(candidates, np.int64) - self._first]

    def scores_at(self, sources: Ids, time: int) -> Scores:
        """Source nodes [q] -> scores of all candidates [q, C]."""
        [table] = self._state.scores_each(sources)
        return table

    @abstractmethod
    def _train(self, config: Config) -> Callable[[LinkHistory], TemporalModel]:
        """Train on the links of `self.history`.

        Returns how a model starts from a history; the model adds what arrives to that history.
        """

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        """Compute what all configurations share."""

    def _fit(
        self,
        graph: EdgeTextGraph,
        split: str,
        mrr: Callable[["_BlendedModel", int], Floats],
    ) -> Self:
        training_links(graph, split)  # raises if there are none
        trained = np.flatnonzero(np.isin(graph.split(split), (TRAIN, PROFILE)))
        self.history, self._first = LinkHistory(graph, trained), int(candidate_nodes(graph)[0])
        self._prepare(graph, split)
        recency = self.recency if graph.times is not None else (Recency(),)
        self.trials, best = [], -np.inf
        for config in self.grid:
            start = self._train(config)
            values = mrr(_BlendedModel(self.history, start, recency), len(recency))
            own = [
                GridTrial(setting=(config, setting), score=float(value))
                for setting, value in zip(recency, values, strict=True)
            ]
            self.trials += own
            if np.isnan(values).any() or values.max() > best:
                chosen = best_setting(own)[1]
                best, kept, described = values.max(), start, self._describe(config, chosen)
            if np.isnan(values).any():
                break
        self.setting, self._start = described, kept
        self._chosen = [best_setting(self.trials)[1]]
        self.restart()
        return self

    def _describe(self, config: Config, recency: Recency) -> dict[str, Any]:
        own = asdict(config) if is_dataclass(config) else {}  # type: ignore[arg-type]
        return {**own, "recency_weight": recency.weight, "memory_days": recency.memory}


class _BlendedModel:
    """A model with several settings of recency, which reads edges once for all of them."""

    def __init__(
        self,
        history: LinkHistory,
        start: Callable[[LinkHistory], TemporalModel],
        recency: Sequence[Recency],
    ) -> None:
        self._history, self._recency = history.copy(), recency
        self._counts = {
            memory: DecayedCounts(history.num_candidates, memory)
            for memory in {setting.memory for setting in recency}
        }
        for counts in self._counts.values():
            counts.add(history.columns, history.times)
        self._model = start(self._history)
        linked = np.unique(history.sources)
        count = min(len(linked), SCALED_SOURCES)
        sample = linked[np.linspace(0, len(linked) - 1, count).astype(int)]
        table = self._model.scores(sample)
        self._mean, self._scale = float(table.mean()), float(table.std()) or 1.0

    def observe(self, edges: Ids) -> None:
        """Read edges that arrived."""
        if not len(edges):
            return
        start = len(self._history.edges)
        self._model.observe(edges)
        columns, times = self._history.columns[start:], self._history.times[start:]
        for counts in self._counts.values():
            counts.add(columns, times)

    def scores_each(self, sources: Ids) -> Iterator[Scores]:
        """Source nodes [q] -> scores [q, C] under each setting of recency."""
        has_links = self._history.degrees(sources) > 0
        own = np.zeros((len(sources), self._history.num_candidates), np.float32)
        if has_links.any():
            own[has_links] = (self._model.scores(sources[has_links]) - self._mean) / self._scale
        popularity = {memory: counts.finite() for memory, counts in self._counts.items()}
        for setting in self._recency:
            recent = popularity[setting.memory]
            table = own + np.float32(setting.weight) * recent
            table[~has_links] = recent
            yield table
