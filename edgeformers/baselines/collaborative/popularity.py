"""Popularity: what most training links lead to is recommended to everyone."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import Scores, TrainingLinks, training_links
from edgeformers.data.graph import EdgeTextGraph


class Popularity:
    """Scores a candidate by its positive training edges, whoever asks."""

    links: TrainingLinks

    def __init__(self) -> None:
        self.setting: dict[str, Any] = {}  # nothing is chosen

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        self.links = training_links(graph, split)
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> [q, c]."""
        rows = self.links.rows(queries)
        counts = self.links.popularity[self.links.columns(candidates)]
        return np.broadcast_to(counts.astype(np.float32), (len(rows), len(counts))).copy()
