"""RollingPredictor: a fitted link predictor that reads edges as they come, as `rolling` asks.

Nodes that training never saw are nodes that arrive with their first edge, as on a server.
"""

from dataclasses import replace

import numpy as np

from edgeformers.data.types import Ids
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.inference.components import EdgeHistory, NewEdges
from edgeformers.inference.encode import Vectors
from edgeformers.inference.fitted_links import FittedLinkPredictor

NOT_ARRIVED = -1


class RollingPredictor:
    """Ranks as of each moment; the fitted model itself stays as it is."""

    def __init__(self, fitted: FittedLinkPredictor) -> None:
        network = fitted.network
        self._graph, self._scorer = network.graph, replace(fitted).scorer
        degrees = network.loader.source_sampler.adjacency.degrees()
        self._history = EdgeHistory(network.graph, network.split, degrees)
        is_known = degrees > 0
        self._number = np.where(
            is_known, np.arange(len(degrees)), NOT_ARRIVED
        )  # as components have
        self._next = len(degrees)
        self._candidates = candidate_nodes(network.graph)

    def observe(self, edges: Ids) -> None:
        """Read edges of the network."""
        if not len(edges):
            return
        ends = np.stack([self._graph.src[edges], self._graph.dst[edges]]).astype(np.int64)
        for node in ends.T[self._number[ends.T] == NOT_ARRIVED].tolist():
            if self._number[node] == NOT_ARRIVED:
                self._number[node], self._next = self._next, self._next + 1
        source, target = self._number[ends]
        texts = self._graph.texts(edges)
        self._scorer.update(NewEdges(source=source, target=target, texts=texts), self._history)

    def scores_at(self, sources: Ids, time: int) -> Vectors:
        """Source nodes [q] -> scores of all candidates [q, C]; -inf for those without an edge."""
        numbers = self._number[sources]
        has_edges = numbers != NOT_ARRIVED
        scores = np.full((len(sources), len(self._candidates)), -np.inf, np.float32)
        arrived = np.flatnonzero(self._number[self._candidates] != NOT_ARRIVED)
        columns = np.searchsorted(self._scorer.candidates, self._number[self._candidates[arrived]])
        if has_edges.any():
            known = self._scorer.scores(numbers[has_edges])
            scores[np.ix_(has_edges, arrived)] = known[:, columns]
        if not has_edges.all():
            nothing = NewEdges(source=numbers[:0], target=numbers[:0], texts=[])
            new = self._scorer.scores(self._scorer.fold_in_source(nothing))
            scores[np.ix_(~has_edges, arrived)] = new[:, columns]
        return scores
