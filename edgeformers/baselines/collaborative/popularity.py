"""Popularity: recommend the candidates with the most training edges to everyone."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import Scores, TrainingLinks, training_links
from edgeformers.data.graph import EdgeTextGraph


class Popularity:
    """Scores a candidate by its number of positive training edges, whatever the query."""

    links: TrainingLinks

    def __init__(self) -> None:
        self.setting: dict[str, Any] = {}  # nothing to choose

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        self.links = training_links(graph, split)
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Query nodes [q] and candidate nodes [c] -> scores [q, c]."""
        counts = self.links.popularity[self.links.columns(candidates)].astype(np.float32)
        return np.tile(counts, (len(self.links.rows(queries)), 1))
