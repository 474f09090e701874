"""The edges that a link score knows: those of training, those that arrived, those removed since."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.adjacency import Adjacency
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import NO_TIME, PROFILE, TRAIN
from edgeformers.data.types import Ids, IntArray, Side
from edgeformers.evaluation import LinkTable
from edgeformers.evaluation.rolling import later_edges


@dataclass(frozen=True, kw_only=True)
class NewEdges:
    """Edges that the model was not fitted on, in time order; an unknown node is -1."""

    source: Ids  # [m]
    target: Ids  # [m]
    texts: Sequence[str | None]  # [m]
    times: Ids | None = None  # [m], microseconds; None: now

    @classmethod
    def of(cls, graph: EdgeTextGraph, edges: Ids) -> "NewEdges":
        """Edges of a network, given in time order, as edges that arrive."""
        times = None if graph.times is None else graph.times[edges].astype(np.int64)
        return cls(
            source=graph.src[edges].astype(np.int64),
            target=graph.dst[edges].astype(np.int64),
            texts=graph.texts(edges),
            times=None if times is None or (times == NO_TIME).any() else times,
        )

    def __len__(self) -> int:
        return len(self.source)

    def neighbors(self, side: Side) -> Ids:
        """The nodes at the other ends of the edges of a node on `side`."""
        return self.target if side == "source" else self.source


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """New edges as links: an undirected edge links both its ends.

    Nodes that the model was not fitted on have numbers from N on, in the order of their arrival.
    """

    edges: NewEdges  # as they arrived
    source: Ids  # [n], of links between two nodes that the model was fitted on
    target: Ids  # [n]
    is_new: NDArray[np.bool_]  # [n], whether the two nodes were not linked before
    link_sources: Ids  # [l], the sources of all links, in the order of their edges
    link_targets: Ids  # [l], their targets
    link_edges: Ids  # [l], the positions of their edges
    new_nodes: Mapping[Side, Ids]  # from N on: sources and targets with new edges
    history: "EdgeHistory"  # with these edges


@dataclass(frozen=True, kw_only=True)
class Departures:
    """All edges of a node, which are removed, as links."""

    node: int
    edges: Ids  # [e], those in the network
    link_targets: Ids  # [k], the targets of those that the model was fitted on
    link_edges: Ids  # [k], the edges of these links
    neighbors: Ids  # [h], the nodes at the other ends, sorted
    #: Sources that the model was fitted on and that lose links: their targets [t], and the number
    #: of edges to each before and after.
    sources: Mapping[int, tuple[Ids, Ids, Ids]]
    lost: Mapping[int, int]  # target -> edges to it
    new_nodes: Mapping[Side, Ids]  # neighbors from N on, by side
    history: "EdgeHistory"  # without these edges


def unread_links(graph: EdgeTextGraph, split: str) -> Ids:
    """The links that a model of a split does not read unless asked to, in time order."""
    later = later_edges(graph, split)
    links: Ids = later[graph.is_positive[later]]
    return links


class EdgeHistory:
    """The edges known so far: those of training and of profiles, then all that arrived."""

    def __init__(self, graph: EdgeTextGraph, split: str, degrees: Ids) -> None:
        known = np.isin(graph.split(split), (TRAIN, PROFILE)) & graph.is_positive
        self.num_nodes = graph.num_nodes  # N; arrays have room for later nodes
        self._graph, self._known = graph, known
        self._is_bipartite, self._is_undirected = graph.is_bipartite, graph.is_undirected
        source, target, _ = self._links(graph.src[known], graph.dst[known])
        self._trained = LinkTable.from_pairs(source, target, graph.num_nodes)
        self._arrived: dict[int, Counter[int]] = defaultdict(Counter)  # source -> edges per target
        self._sources: dict[int, Counter[int]] = defaultdict(Counter)  # target -> edges per source
        self._lost: dict[int, Counter[int]] = defaultdict(Counter)  # source -> removed per target
        self.later_edges = np.empty(0, np.int64)  # of the network, read after fitting
        self.removed: set[int] = set()  # edges of the network
        self.removed_nodes: set[int] = set()  # whose edges in the network are removed
        self.num_links = self._trained.degrees.copy()  # [N], targets of each source
        self.popularity = np.bincount(target, minlength=graph.num_nodes)  # [N], edges to each node
        self.degrees = degrees.astype(np.int64)  # [N], edges of each node

    @property
    def has_changed(self) -> bool:
        """Whether any edge arrived or was removed."""
        return bool(self._arrived or self.removed_nodes)

    def targets_of(self, source: int) -> Ids:
        """The target of every edge of a source; a target occurs once per edge.

        Only targets that the model was fitted on, as those have vectors.
        """
        arrived = np.array([*self._arrived.get(source, Counter()).elements()], np.int64)
        arrived = arrived[arrived < self.num_nodes]
        if source >= self.num_nodes:
            return arrived
        start, stop = self._trained.indptr[source : source + 2]
        counts = self._trained.counts[start:stop].astype(np.int64)
        targets = self._trained.candidates[start:stop]
        if lost := self._lost.get(source):
            counts -= np.array([lost[target] for target in targets.tolist()], np.int64)
        return np.concatenate([np.repeat(targets, counts), arrived])

    def is_as_trained(self, source: int) -> bool:
        """Whether the links of a source, to targets with vectors, are those of training."""
        arrived = self._arrived.get(source, ())
        return source not in self._lost and all(target >= self.num_nodes for target in arrived)

    def later_targets(self, source: int) -> Ids:
        """The targets of the edges of a source that arrived."""
        return np.array([*self._arrived.get(source, ())], np.int64)

    def links_of(self, node: int, side: Side) -> tuple[Ids, Ids]:
        """The nodes that a new one is linked to and that have vectors, with counts of edges."""
        own = (self._arrived if side == "source" else self._sources).get(node, Counter())
        links = sorted((other, count) for other, count in own.items() if other < self.num_nodes)
        nodes, counts = np.array(links, np.int64).reshape(-1, 2).T
        return nodes, counts

    def newest_edges_to(self, target: int, count: int) -> Ids:
        """The last `count` training edges that link to a target."""
        graph = self._graph
        edges = np.sort(graph.adjacency.edges_of(target)).astype(np.int64)
        edges = edges[self._known[edges]]
        if not self._is_undirected:
            edges = edges[graph.dst[edges] == target]
        if graph.times is not None:
            edges = edges[np.argsort(graph.times[edges], kind="stable")]
        return edges[-count:]

    def texts(self, edges: Ids) -> list[str]:
        """The texts of edges of the network."""
        return self._graph.texts(edges)

    def add(self, edges: NewEdges) -> Arrivals:
        """Append edges in time order."""
        known = np.flatnonzero((edges.source >= 0) & (edges.target >= 0))
        source, target, at_edge = self._links(edges.source[known], edges.target[known])
        ends = np.concatenate([edges.source, edges.target])
        self._reserve(1 + int(ends.max(initial=0)))
        has_vectors = (source < self.num_nodes) & (target < self.num_nodes)
        is_new = has_vectors.copy()
        is_new[is_new] = ~self._trained.contains(source[is_new], target[is_new])
        for at, (node, other) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
            if node in self._lost and has_vectors[at]:
                is_new[at] = other not in self.targets_of(node)
            is_new[at] &= other not in self._arrived[node]
            self._arrived[node][other] += 1
            self._sources[other][node] += 1
        np.add.at(self.num_links, source[is_new], 1)
        np.add.at(self.popularity, target, 1)
        np.add.at(self.degrees, ends[ends >= 0], 1)
        return Arrivals(
            edges=edges,
            source=source[has_vectors],
            target=target[has_vectors],
            is_new=is_new[has_vectors],
            link_sources=source,
            link_targets=target,
            link_edges=known[at_edge],
            new_nodes=self._new_nodes(edges.source, edges.target),
            history=self,
        )

    def remove(self, node: int, adjacency: Adjacency) -> Departures:
        """Remove all edges of a node: those of the network, and those that arrived.

        `adjacency` has the edges of the network that count for the degrees.
        """
        edges, graph = np.empty(0, np.int64), self._graph
        if node < self.num_nodes:
            edges = np.setdiff1d(graph.adjacency.edges_of(node), list(self.removed))
            self.removed_nodes.add(node)
        known = edges[self._known[edges]]
        *ends, at_edge = self._links(graph.src[known], graph.dst[known])
        links = [*zip(*(end.tolist() for end in ends), strict=True)]
        out, into = (Counter(each.get(node, {})) for each in (self._arrived, self._sources))
        linking = [n for n in {node, *into, *ends[0].tolist()} if n < self.num_nodes]
        before = {n: np.unique(self.targets_of(n), return_counts=True) for n in linking}
        self._drop(node, links, out, into)
        lost = Counter(ends[1].tolist()) + out + Counter({node: into.total()})
        for target, count in lost.items():
            self.popularity[target] -= count
        self.removed.update(edges.tolist())
        others = np.concatenate([graph.src[edges], graph.dst[edges], [*out, *into]])
        neighbors = np.setdiff1d(others.astype(np.int64), [node])
        self._lower_degrees(node, neighbors, edges, out + into, adjacency)
        later = [np.array([*each], np.int64) for each in (into, out)]
        return Departures(
            node=node,
            edges=edges,
            link_targets=ends[1],
            link_edges=known[at_edge],
            neighbors=neighbors,
            sources={n: (*links, self._links_left(n, links[0])) for n, links in before.items()},
            lost=lost,
            new_nodes=self._new_nodes(*later),
            history=self,
        )

    def _drop(
        self,
        node: int,
        links: Sequence[tuple[int, int]],
        out: Counter[int],
        into: Counter[int],
    ) -> None:
        """Forget links of the network, and the edges from and to a node that arrived."""
        for source, target in links:
            self._lost[source][target] += 1
        for source in into:
            self._arrived[source].pop(node, None)
        for target in out:
            self._sources[target].pop(node, None)
        for arrived in (self._arrived, self._sources):
            arrived.pop(node, None)

    def _links_left(self, source: int, targets: Ids) -> Ids:
        """The number of edges of a source to each of its former targets; counts its links."""
        left, counts = np.unique(self.targets_of(source), return_counts=True)
        kept = np.zeros(len(targets), np.int64)
        kept[np.searchsorted(targets, left)] = counts
        self.num_links[source] = len(left)
        return kept

    def _lower_degrees(
        self, node: int, neighbors: Ids, edges: Ids, arrived: Counter[int], adjacency: Adjacency
    ) -> None:
        for other in neighbors.tolist():
            read = adjacency.edges_of(other) if other < self.num_nodes else edges[:0]
            times = 2 if self._is_undirected else 1  # an undirected edge is two links
            self.degrees[other] -= np.isin(read, edges).sum() + arrived[other] // times
        self.degrees[node] = 0

    def _new_nodes(self, source: Ids, target: Ids) -> dict[Side, Ids]:
        """The nodes without trained vectors; with one node type, each is on both sides."""
        ends: dict[Side, Ids] = {"source": source, "target": target}
        if not self._is_bipartite:
            both = np.concatenate([source, target])
            ends = {"source": both, "target": both}
        return {side: np.unique(nodes[nodes >= self.num_nodes]) for side, nodes in ends.items()}

    def _reserve(self, num_nodes: int) -> None:
        """Make room for new nodes; the time per node does not depend on how many there are."""
        for name in ("num_links", "popularity", "degrees"):
            array = getattr(self, name)
            if num_nodes > len(array):
                room = np.zeros(num_nodes + num_nodes // 2 - len(array), array.dtype)
                setattr(self, name, np.concatenate([array, room]))

    def _links(self, source: IntArray, target: IntArray) -> tuple[Ids, Ids, Ids]:
        """The sources and targets of edges [m] as links, and the position of each link's edge.

        An undirected edge is two links, one after the other.
        """
        ends, edges = np.stack([source, target]).astype(np.int64), np.arange(len(source))
        if self._is_undirected:
            ends, edges = np.stack([ends, ends[::-1]], 2).reshape(2, -1), np.repeat(edges, 2)
        return ends[0], ends[1], edges
