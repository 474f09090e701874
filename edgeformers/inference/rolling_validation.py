"""Validation as of each moment: what every component says about links when they come."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.types import Floats, Mask
from edgeformers.evaluation.metrics import expected_rank, reciprocal_ranks
from edgeformers.evaluation.rolling import RollingLinks
from edgeformers.inference.components import ScoreComponent
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.rolling import RollingPredictor
from edgeformers.inference.saved_components import GROUPS, Ensemble, degree_group

TABLE_BYTES = 1 << 29  # scores of all components that are kept
BLOCK = 256  # links ranked at a time


class RollingValidation:
    """Scores of the trained score and of other components for validation links [n], in time order.

    Each link is scored with strictly earlier edges only. Of many links, evenly spaced ones are
    kept. Scores of a component are divided by their standard deviation, 1 / `scales`.

    Shapes: P components after the trained score, C candidates.
    """

    def __init__(self, fitted: FittedLinkPredictor, components: Sequence[ScoreComponent]) -> None:
        network, count = fitted.network, 1 + len(components)
        group = degree_group(network.loader.source_sampler.adjacency.degrees())
        weights = torch.ones(GROUPS, count)
        options = Ensemble(components=components, weights=weights, group=torch.from_numpy(group))
        predictor = RollingPredictor(replace(fitted, ensemble=options))
        links = RollingLinks(network.graph, network.split, "val")
        step = 1 + count * 4 * links.num_candidates * len(links.arriving) // TABLE_BYTES
        queries, tables, columns, others, groups = [], [], [], [], []
        ranked = 0
        for block in links.blocks(predictor.observe):
            kept = np.flatnonzero((ranked + np.arange(len(block.links))) % step == 0)
            ranked += len(block.links)
            if not len(kept):
                continue
            sources = block.sources[kept]
            scores = predictor.component_scores_at(sources, block.time)
            trained = scores.shape[1] - len(components)  # parts of the trained score
            total = scores[:, :trained].sum(1, keepdims=True)
            tables.append(np.concatenate([total, scores[:, trained:]], 1))
            queries.append(sources)
            columns.append(block.columns[kept])
            others.append(block.is_other[kept])
            groups.append(predictor.groups(sources))
        self.queries = np.concatenate([np.empty(0, np.int64), *queries])
        self.groups = np.concatenate([np.empty(0, np.int64), *groups])  # degree groups [n]
        self._columns = np.concatenate([np.empty(0, np.int64), *columns])
        empty = np.empty((0, links.num_candidates), bool)
        self._is_other: Mask = np.concatenate([empty, *others])
        empty_tables = np.empty((0, count, links.num_candidates), np.float32)
        self._tables = torch.from_numpy(np.concatenate([empty_tables, *tables]))
        spread = [self._tables[:, at][self._is_other].std().item() for at in range(count)]
        self.scales = np.array([1 / std if std > 0 else 1.0 for std in spread])
        self._tables *= torch.from_numpy(self.scales).float()[:, None]

    def __len__(self) -> int:
        return len(self.queries)

    def subset(self, chosen: Mask) -> Self:
        """Only the chosen links [n]."""
        subset = copy(self)
        subset.queries, subset.groups = self.queries[chosen], self.groups[chosen]
        subset._columns, subset._is_other = self._columns[chosen], self._is_other[chosen]
        subset._tables = self._tables[torch.from_numpy(chosen)]
        return subset

    def of(self, components: Sequence[int]) -> Self:
        """Only the trained score and the given components, counted from 1."""
        subset = copy(self)
        subset._tables = self._tables[:, [0, *components]]
        subset.scales = self.scales[[0, *components]]
        return subset

    def reciprocal_ranks_each(self, weights: Sequence[Sequence[float]]) -> Floats:
        """The reciprocal rank of each link under several weights of the components: [w, n]."""
        table = torch.tensor(weights, dtype=torch.float32)  # [w, 1 + P]
        ranks = np.empty((len(table), len(self)))
        for start in range(0, len(self), BLOCK):
            rows = slice(start, start + BLOCK)
            is_other = torch.from_numpy(self._is_other[rows])
            columns = torch.from_numpy(self._columns[rows])[:, None]
            for at, row in enumerate(table):
                ranks[at, rows] = _ranks(row @ self._tables[rows], columns, is_other)
        return reciprocal_ranks(ranks)


def _ranks(scores: Tensor, columns: Tensor, is_other: Tensor) -> Floats:
    """Ranks [q] of the links to some columns [q, 1], from scores [q, C]."""
    own = scores.gather(1, columns)
    ahead = (~(scores <= own) & is_other).sum(1)
    return expected_rank(ahead.numpy(), ((scores == own) & is_other).sum(1).numpy())
