"""Reciprocity: who has written to you is whom you will write to."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import Scores, TrainingLinks, training_links
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.evaluation import LinkTable


def has_returns(graph: EdgeTextGraph) -> bool:
    """Whether a node can be linked back by one it is linked to."""
    return not graph.is_bipartite and graph.is_directed


class Reciprocity:
    """Ranks those first that have a training link to the query, and all else by popularity.

    Where nothing can be linked back, popularity is all there is.
    """

    links: TrainingLinks
    back: LinkTable | None

    def __init__(self) -> None:
        self.setting: dict[str, Any] = {}  # nothing is chosen

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        self.links = training_links(graph, split)
        self.back = self.links.train.transpose() if has_returns(graph) else None
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> [q, c]."""
        rows, columns = self.links.rows(queries), self.links.columns(candidates)
        table = np.tile(self.links.popularity.astype(np.float32), (len(rows), 1))
        if self.back is not None:
            table[self.back.of(rows)] += 1 + table.max(initial=0)
        return table[:, columns]
