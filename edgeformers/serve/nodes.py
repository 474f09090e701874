"""Nodes: finds the nodes of served runs, and lists their edges as they are now."""

from collections.abc import Sequence

import numpy as np

from edgeformers.data.types import Ids, Side
from edgeformers.errors import InputError
from edgeformers.serve.live_edges import LiveEdges
from edgeformers.serve.node_search import list_edges
from edgeformers.serve.schemas import NodeEdge, NodeEdges, NodeMatch, NodeMatches
from edgeformers.serve.versions import ServedModel, Versions

CURSOR_DIGITS = 18


class Nodes:
    """The nodes of all networks, with edges that have arrived and without removed ones."""

    def __init__(self, versions: Versions, live: LiveEdges) -> None:
        self._versions, self._live = versions, live

    def search(
        self, query: str, *, side: Side | None = None, limit: int = 20, model: str | None = None
    ) -> NodeMatches:
        """The nodes whose ids contain a text, whether in upper or lower case."""
        served = self._versions.find(name=model)
        found = served.node_search.find(query, side=side, limit=limit)
        later = self._live.find_nodes(served, query, side)
        return NodeMatches(
            **served.signature,
            nodes=[*self._counted(served, found.nodes), *later][:limit],
            total=found.total + len(later),
        )

    def find(self, node: str, side: Side | None = None, *, model: str | None = None) -> NodeMatch:
        """A node of the network; without a side, the source of this id or else the target."""
        served = self._versions.find(name=model)
        if later := self._live.find_nodes(served, node, side, is_exact=True):
            return later[0]
        found = served.node_search.describe(served.node_numbers([node], side))
        return self._counted(served, found)[0]

    def busiest(self, side: Side | None, limit: int) -> list[NodeMatch]:
        """The nodes with the most edges."""
        served = self._versions.find()
        return self._counted(served, served.node_search.busiest(side, limit))

    def _counted(self, served: ServedModel, nodes: Sequence[NodeMatch]) -> list[NodeMatch]:
        """Nodes of the network with the edges that they have now."""
        if not self._live.has_changes:
            return list(nodes)
        counts = [self.count_edges(served, node.id, node.side) for node in nodes]
        return [
            node.model_copy(update={"edges": count})
            for node, count in zip(nodes, counts, strict=True)
        ]

    def edges_of(
        self,
        node: str,
        *,
        side: Side | None = None,
        cursor: str | None = None,
        limit: int = 20,
        model: str | None = None,
    ) -> NodeEdges:
        """A page of the edges of a node, the last ones of the network first."""
        served = self._versions.find(name=model)
        if not (start := cursor or "0").isdecimal() or len(start) > CURSOR_DIGITS:
            raise InputError(f"`cursor` must be one that the server gave (got '{cursor}')")
        first, end = int(start), int(start) + limit
        later = self._live.edges_of(served.graph, node, side)
        edges = self._network_edges(served, node, side, may_be_new=bool(later))
        before = max(0, first - len(later)), max(0, end - len(later))
        return NodeEdges(
            **served.signature,
            edges=[
                *(
                    NodeEdge(**{n: getattr(each, n) for n in NodeEdge.model_fields})
                    for each in later[first:end]
                ),
                *list_edges(served.graph, edges[slice(*before)]),
            ],
            total=len(later) + len(edges),
            next=str(end) if end < len(later) + len(edges) else None,
        )

    def _network_edges(
        self, served: ServedModel, node: str, side: Side | None, *, may_be_new: bool
    ) -> Ids:
        """The edges of a node in the network that were not removed, the last ones first."""
        graph = served.graph
        (number,) = graph.node_index.numbers([node], side).tolist()
        if number < 0:
            if not may_be_new:
                served.node_numbers([node], side)  # raises
            return np.empty(0, np.int64)
        edges = np.sort(graph.adjacency.edges_of(number))[::-1].astype(np.int64)
        return edges[~self._live.is_removed(graph, edges)]

    def count_edges(self, served: ServedModel, node: str, side: Side | None) -> int:
        """The number of edges of a node on a side."""
        later = self._live.edges_of(served.graph, node, side)
        return len(later) + len(self._network_edges(served, node, side, may_be_new=True))
