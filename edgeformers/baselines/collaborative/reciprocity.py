"""Reciprocity: who has written to you is whom you will write to."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import Links, Scores, positive_links
from edgeformers.data.graph import EdgeTextGraph


def has_returns(graph: EdgeTextGraph) -> bool:
    """Whether a node can be linked back by one it is linked to."""
    return not graph.is_bipartite and graph.is_directed


def links_back(links: Links) -> Links:
    """Who is linked to each node, of a network in which nodes can be linked back."""
    columns, rows, counts = links.transposed()
    return replace(links, rows=columns, columns=rows, counts=counts, with_profiles=None)


class Reciprocity:
    """Ranks those first that have a training link to the query, and all else by popularity.

    Where nothing can be linked back, popularity is all there is.
    """

    links: Links
    back: Links | None

    def __init__(self) -> None:
        self.setting: dict[str, Any] = {}  # nothing is chosen

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        self.links = positive_links(graph, split)
        self.back = links_back(self.links) if has_returns(graph) else None
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> [q, c]."""
        rows, columns = self.links.row_numbers(queries), self.links.column_numbers(candidates)
        table = np.tile(self.links.popularity.astype(np.float32), (len(rows), 1))
        if self.back is not None:
            table[self.back.cells_of(rows)] += 1 + table.max(initial=0)
        return table[:, columns]
