"""LightGCN with recency: learned vectors, propagated over all links that have arrived."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from edgeformers.baselines.base import Scores
from edgeformers.baselines.collaborative.lightgcn import (
    LightGCN,
    normalized_adjacency,
    propagate,
)
from edgeformers.baselines.collaborative.pairwise import (
    PairwiseConfig,
    TrainedFactors,
    Transform,
)
from edgeformers.baselines.temporal.base import TemporalBaseline
from edgeformers.baselines.temporal.history import LinkHistory
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids
from edgeformers.evaluation import LinkTable

LAYERS = 3


class RecentLightGCN(TemporalBaseline[PairwiseConfig]):
    """Scores e_q . e_c as LightGCN does, where e is propagated over the links so far.

    Nodes that training never saw have no learned vector; they are what their links propagate to
    them. Training stops early by full-ranking MRR on validation, as for `LightGCN`.
    """

    default_grid = LightGCN.default_grid

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        model = _KeepsTables(self.grid, layers=LAYERS, seed=self.seed, device=self.device)
        self._tables: dict[PairwiseConfig, Tensor] = {}
        for config, fitted in model.fit_each(graph, split):
            assert isinstance(fitted.fitted, _LearnedFactors)
            self._tables[config] = fitted.fitted.tables

    def _train(self, config: PairwiseConfig) -> Callable[[LinkHistory], "PropagatedModel"]:
        table = self._tables[config]
        return lambda history: PropagatedModel(history, lambda: table, LAYERS)


class PropagatedModel:
    """Vectors of all nodes, propagated over the links so far when links have arrived."""

    def __init__(
        self,
        history: LinkHistory,
        vectors: Callable[[], Tensor],
        layers: int,
        *,
        cosine: bool = False,
    ) -> None:
        self.history, self._vectors, self._layers, self._cosine = history, vectors, layers, cosine
        self._table: Tensor | None = None  # [Q + C, K]

    def observe(self, edges: Ids) -> None:
        self.history.add(edges)
        self._table = None

    @torch.inference_mode()
    def scores(self, sources: Ids) -> Scores:
        """Source nodes [q] -> scores of all candidates [q, C]."""
        if self._table is None:
            vectors = self._vectors()
            adjacency = normalized_adjacency(link_table(self.history)).to(vectors.device)
            table = propagate(vectors, adjacency, self._layers)
            self._table = F.normalize(table, dim=1) if self._cosine else table
        rows = torch.from_numpy(sources).to(self._table.device)
        scores = self._table[rows] @ self._table[self.history.num_sources :].T
        return np.asarray(scores.cpu().numpy())


def link_table(history: LinkHistory) -> LinkTable:
    """The distinct links so far."""
    size = history.num_sources, history.num_candidates
    return LinkTable.from_pairs(history.sources, history.columns, *size)


@dataclass(frozen=True, kw_only=True)
class _LearnedFactors(TrainedFactors):
    tables: Tensor  # learned vectors of queries and then candidates [Q + C, K]


class _KeepsTables(LightGCN):
    """LightGCN that also keeps its vectors from before propagation; zeros if not learned."""

    def _factors(
        self, transform: Transform, queries: Tensor, candidates: Tensor, epoch: int
    ) -> _LearnedFactors:
        train = self.links.train
        learned = np.concatenate([train.degrees > 0, train.popularity > 0])
        tables = torch.cat([queries, candidates]).detach()
        tables = tables * torch.from_numpy(learned).to(tables)[:, None]
        trained = super()._factors(transform, queries, candidates, epoch)
        return _LearnedFactors(**vars(trained), tables=tables)
