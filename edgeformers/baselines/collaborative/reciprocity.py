"""Reciprocity: recommend the nodes that have linked to the query."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import Scores, TrainingLinks, training_links
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.evaluation import LinkTable


def can_reciprocate(graph: EdgeTextGraph) -> bool:
    """Whether a link can be returned: one node type and directed edges."""
    return not graph.is_bipartite and graph.is_directed


class Reciprocity:
    """Ranks nodes with a training link to the query first, and the others by popularity.

    In a network where no link can be returned, it ranks by popularity alone.
    """

    links: TrainingLinks
    incoming: LinkTable | None

    def __init__(self) -> None:
        self.setting: dict[str, Any] = {}  # nothing to choose

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        self.links = training_links(graph, split)
        self.incoming = self.links.train.transpose() if can_reciprocate(graph) else None
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Query nodes [q] and candidate nodes [c] -> scores [q, c]."""
        rows, columns = self.links.rows(queries), self.links.columns(candidates)
        scores = np.tile(self.links.popularity.astype(np.float32), (len(rows), 1))
        if self.incoming is not None:
            scores[self.incoming.of(rows)] += 1 + scores.max(initial=0)
        return scores[:, columns]
