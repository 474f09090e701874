"""Links in time order, by source and by candidate, which grow as edges arrive."""

from copy import copy
from dataclasses import dataclass

import numpy as np

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import NO_TIME
from edgeformers.data.types import Ids
from edgeformers.evaluation.network_links import candidate_nodes


@dataclass(frozen=True)
class TimedLinks:
    """Links [m] in time order; an undirected edge is a link in both directions."""

    sources: Ids
    columns: Ids  # of candidates
    times: Ids  # microseconds
    edges: Ids

    def __len__(self) -> int:
        return len(self.edges)


def timed_links(graph: EdgeTextGraph, edges: Ids) -> TimedLinks:
    """The positive edges among `edges` as links; without times, in the order of the network."""
    links = np.asarray(edges)[graph.is_positive[edges]]
    times = np.zeros(len(links), np.int64) if graph.times is None else graph.times[links]
    known = times[times != NO_TIME]
    times = np.where(times == NO_TIME, known.min() if len(known) else 0, times)
    order = np.argsort(times, kind="stable")
    links, times = links[order].astype(np.int64), times[order].astype(np.int64)
    sources, targets = graph.src[links].astype(np.int64), graph.dst[links].astype(np.int64)
    if graph.is_undirected:
        sources, targets = (
            np.stack(ends, 1).ravel() for ends in ((sources, targets), (targets, sources))
        )
        links, times = np.repeat(links, 2), np.repeat(times, 2)
    return TimedLinks(sources, targets - candidate_nodes(graph)[0], times, links)


class LinkHistory:
    """Which links each source and each candidate has so far; a copy grows independently.

    A link is a position in `sources`, `columns`, `times` and `edges`.
    """

    def __init__(self, graph: EdgeTextGraph, edges: Ids) -> None:
        self.graph = graph
        self.num_sources, self.num_candidates = graph.num_sources, len(candidate_nodes(graph))
        links = timed_links(graph, edges)
        self._size = len(links)
        self._links = np.empty((4, graph.num_edges * (1 + graph.is_undirected)), np.int64)
        self._links[:, : self._size] = links.sources, links.columns, links.times, links.edges
        self._of_source = _Groups(links.sources, graph.num_nodes)
        self._of_column = _Groups(links.columns, self.num_candidates)

    def copy(self) -> "LinkHistory":
        """The same history, to which edges are added independently."""
        other = copy(self)
        other._links = self._links.copy()
        other._of_source, other._of_column = self._of_source.copy(), self._of_column.copy()
        return other

    def add(self, edges: Ids) -> TimedLinks:
        """Add edges that arrived; returns their links."""
        links = timed_links(self.graph, edges)
        start, self._size = self._size, self._size + len(links)
        added = links.sources, links.columns, links.times, links.edges
        self._links[:, start : self._size] = added
        self._of_source.add(links.sources, start)
        self._of_column.add(links.columns, start)
        return links

    @property
    def capacity(self) -> int:
        """The number of links if every edge of the network has arrived and is positive."""
        return self._links.shape[1]

    @property
    def sources(self) -> Ids:
        return self._links[0, : self._size]

    @property
    def columns(self) -> Ids:
        return self._links[1, : self._size]

    @property
    def times(self) -> Ids:
        return self._links[2, : self._size]

    @property
    def edges(self) -> Ids:
        return self._links[3, : self._size]

    @property
    def now(self) -> int:
        """The time of the last link."""
        return int(self.times[-1]) if self._size else 0

    def of_source(self, source: int) -> Ids:
        """The links of a source, oldest first."""
        return self._of_source.of(source)

    def of_column(self, column: int) -> Ids:
        """The links to a candidate, oldest first."""
        return self._of_column.of(column)

    def degrees(self, sources: Ids) -> Ids:
        """The number of links of each source."""
        return self._of_source.sizes[sources]


class _Groups:
    """Positions by group: sorted at first, then appended one by one."""

    def __init__(self, groups: Ids, count: int) -> None:
        self._order = np.argsort(groups, kind="stable")
        self._indptr = np.searchsorted(groups, np.arange(count + 1), sorter=self._order)
        self._added: dict[int, list[int]] = {}
        self.sizes = np.diff(self._indptr)

    def copy(self) -> "_Groups":
        """The same groups, to which positions are added independently."""
        other = copy(self)
        other._added = {group: list(own) for group, own in self._added.items()}
        other.sizes = self.sizes.copy()
        return other

    def add(self, groups: Ids, start: int) -> None:
        for position, group in enumerate(groups.tolist(), start):
            self._added.setdefault(group, []).append(position)
        np.add.at(self.sizes, groups, 1)

    def of(self, group: int) -> Ids:
        first = self._order[self._indptr[group] : self._indptr[group + 1]]
        added = self._added.get(group)
        return first if added is None else np.concatenate([first, added])
