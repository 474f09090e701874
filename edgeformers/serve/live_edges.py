"""LiveEdges: edges that arrive while the server runs, stored on disk and taken in by the models."""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from edgeformers.data.edge_store import Appended, EdgeStore, StoredEdge
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids, IntArray, Mask, Side
from edgeformers.serve.schemas import NodeMatch
from edgeformers.serve.versions import ServedModel

SUFFIX = ".edges.sqlite"  # of the store next to a run


def default_store(run: Path) -> Path:
    """The store next to a run folder; one that is replaced by a new version leaves it alone."""
    folder = run.expanduser().resolve()
    return folder.with_name(folder.name + SUFFIX)


class LiveEdges:
    """The store of a server, and which of its changes each model has taken in.

    The file is made when the first edge arrives.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()
        self._opening = Lock()
        self._store = EdgeStore(self.path) if self.path.exists() else None
        self._taken_in: WeakKeyDictionary[ServedModel, int] = WeakKeyDictionary()

    @property
    def has_changes(self) -> bool:
        """Whether an edge has arrived, or was removed, with this store."""
        return self._store is not None

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def append(self, edges: Sequence[StoredEdge], key: str | None) -> Appended:
        """Store edges; returns once they are on disk."""
        return self._opened().append(edges, key)

    def remove(self, node: str, side: Side | None) -> int:
        """Remove the edges of a node; returns how many were stored."""
        return self._opened().remove(node, side)

    def catch_up(self, model: ServedModel) -> None:
        """Let a model take in what is new; only the thread that uses the model may call it.

        Link models read edges that have arrived. No model reads removed ones.
        """
        if self._store is None:
            return
        last = self._taken_in.get(model, self._merged(model.graph))
        while changes := self._store.changes_after(last):
            edges: list[StoredEdge] = []
            for change in changes:
                if isinstance(change, StoredEdge):
                    edges.append(change)
                else:
                    _take_in(model, edges)
                    model.fitted.remove_edges(change.node, change.side)
                    edges = []
            _take_in(model, edges)
            last = self._taken_in[model] = changes[-1].sequence

    def edges_of(self, graph: EdgeTextGraph, node: str, side: Side | None) -> list[StoredEdge]:
        """The stored edges of a node that its network does not have, the newest first."""
        if self._store is None:
            return []
        side = side if graph.is_bipartite else None
        return self._store.edges_of(node, side, after=self._merged(graph))[::-1]

    def is_removed(self, graph: EdgeTextGraph, edges: Ids) -> Mask:
        """Whether the edges of either end of each edge [m] of a network were removed."""
        removed = np.zeros(len(edges), bool)
        if self._store is None:
            return removed
        merged = self._merged(graph)
        recent = [each for each in self._store.removals() if each.sequence > merged]
        ends: dict[Side, IntArray] = {"source": graph.src, "target": graph.dst}
        for side, nodes in ends.items():
            any_side = not graph.is_bipartite
            ids = [each.node for each in recent if any_side or each.side in (None, side)]
            removed |= np.isin(nodes[edges], graph.node_index.numbers(ids, side))
        return removed

    def last_removal(self) -> int:
        """The sequence number of the latest removal; 0 if there is none."""
        removals = [] if self._store is None else self._store.removals()
        return removals[-1].sequence if removals else 0

    def find_nodes(
        self, model: ServedModel, query: str, side: Side | None, *, is_exact: bool = False
    ) -> list[NodeMatch]:
        """The nodes that the network does not have and whose ids contain a text, or are it."""
        if model.task != "link-prediction":
            return []
        text = query.lower()
        return [
            NodeMatch(id=name, side=own, edges=len(self.edges_of(model.graph, name, own)))
            for own, name in model.links.live_nodes.later()
            if (name == query if is_exact else text in name.lower()) and side in (None, own or side)
        ]

    def _merged(self, graph: EdgeTextGraph) -> int:
        """The last change that `prepare --add` has merged into a network."""
        assert self._store is not None
        known = [each["sequence"] for each in graph.meta.stores if each["id"] == self._store.id]
        return max(known, default=0)

    def _opened(self) -> EdgeStore:
        with self._opening:
            if self._store is None:
                self._store = EdgeStore(self.path)
            return self._store


def _take_in(model: ServedModel, edges: Sequence[StoredEdge]) -> None:
    """Let a link model read edges; one without a time came when it was received."""
    if model.task != "link-prediction":
        return
    times = [edge.received if edge.time is None else edge.time for edge in edges]
    ends = [(edge.source, edge.target, edge.text) for edge in edges]
    model.links.update(ends, times=np.array(times, np.int64))
