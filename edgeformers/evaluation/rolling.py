"""Protocol `rolling`: links in time order, each ranked from strictly earlier edges only.

A model is fitted on training edges. All later edges then arrive in time order. At each moment the
model first ranks the links of that moment, and then reads its edges; nothing is fitted again.
Candidates are the nodes that had a link by then, also nodes that training never saw.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.scratch import rows_where
from edgeformers.data.splits import NO_TIME, NONE, PROFILE, TEST, TRAIN, VAL
from edgeformers.data.types import Floats, Ids, IntArray, Mask
from edgeformers.errors import InputError
from edgeformers.evaluation.links import LinkTable, index_blocks
from edgeformers.evaluation.metrics import expected_rank
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.ranking import block_rows
from edgeformers.evaluation.report import ROLLING, LinkReport
from edgeformers.evaluation.scorers import Table, to_numpy
from edgeformers.progress import progress_bar

#: Links by what training knew; a link may be of a new source and to a new target.
ROLLING_GROUPS = ("new source", "new target", "both known")
_CODES = {"val": VAL, "test": TEST}


class RollingScorer(Protocol):
    """A fitted model that reads edges of the network as they arrive."""

    def observe(self, edges: Ids) -> None:
        """Read edges [m], in time order and later than all that were observed before."""
        ...

    def scores_at(self, sources: Ids, time: int) -> Table:
        """Source nodes [q] -> scores [q, C] of all candidates at a time, from what was observed."""
        ...


@dataclass(frozen=True)
class RollingBlock:
    """Links of one moment, to be ranked among the other candidates."""

    links: Ids  # [q]
    sources: Ids  # [q]
    columns: Ids  # [q], the candidates that they lead to
    is_seen: Mask  # [q, C], the candidates that had a link, except the source itself
    is_linked: Mask  # [q, C], those that had an edge with the source
    is_current: Mask  # [q, C], those that have one at this moment
    time: int

    @property
    def is_other(self) -> Mask:
        """The candidates to rank the links among [q, C]."""
        others = self.is_seen & ~self.is_linked
        others[np.arange(len(self.links)), self.columns] = False
        return others

    @property
    def is_new(self) -> Mask:
        """Whether the pair of each link had no edge [q]."""
        return ~self.is_linked[np.arange(len(self.links)), self.columns]

    def ranks(self, scores: Floats) -> Floats:
        """The rank of each link, from scores [q, C]."""
        return ranks_among(scores, self.columns, self.is_other)


def ranks_among(scores: Floats, columns: Ids, is_other: Mask) -> Floats:
    """The rank of one column of each row [q] among others, from scores and a mask [q, C]."""
    own = scores[np.arange(len(columns)), columns][:, None]
    ahead = (~(scores <= own) & is_other).sum(1)  # NaN never wins
    return expected_rank(ahead, ((scores == own) & is_other).sum(1))


class RollingLinks:
    """The links of a part that `rolling` ranks, and what was known when each of them came.

    A link is a positive edge. It is left out if its pair had an edge before, or if its target had
    no link: nobody could have ranked it. Later edges that are in no part of the split arrive too,
    but are not ranked. With `limit`, only so many edges arrive, the first ones. With `after`, only
    links later than that time are ranked.
    """

    def __init__(
        self,
        graph: EdgeTextGraph,
        split: str,
        part: str = "test",
        *,
        limit: int | None = None,
        after: int = NO_TIME,
    ) -> None:
        if part not in _CODES:
            raise InputError(f"`rolling` ranks the part 'val' or 'test' (got '{part}')")
        self.graph, self.num_candidates = graph, len(candidate_nodes(graph))
        codes, times = graph.split(split), _checked_times(graph, split, part)
        trained, later = _edges_of(graph, split, TRAIN, PROFILE), later_edges(graph, split)
        if part == "val":
            own, before_test = codes[later], times[later] < _first_time(graph, split, TEST)
            later = later[(own == VAL) | ((own == NONE) & before_test)]
        start = int(np.searchsorted(times[later], _first_time(graph, split, _CODES[part])))
        self.earlier, self.arriving = later[:start], later[start:][:limit]
        self._in_training = np.zeros(graph.num_nodes, bool)
        self._in_training[graph.src[trained]] = self._in_training[graph.dst[trained]] = True
        self._known = _KnownPairs(graph, trained)
        is_query = codes[self.arriving] == _CODES[part]
        is_query &= times[self.arriving] > max(int(times[trained].max()), after)
        self._is_query = is_query & graph.is_positive[self.arriving]
        is_seen, is_new = self._known.before(times, later[: start + len(self.arriving)])
        self._is_query &= is_seen[start:]
        self._is_new = is_new[start:]

    def rank(self, scorer: RollingScorer, *, show: bool = False) -> LinkReport:
        """The ranks of all links, with the groups `new source`, `new target` and `both known`."""
        total = len(self.earlier) + len(self.arriving)
        with progress_bar(total, desc="ranking over time", unit="edges", show=show) as bar:

            def observe(edges: Ids) -> None:
                scorer.observe(edges)
                bar.update(len(edges))

            return self.rank_each(observe, lambda *query: [scorer.scores_at(*query)], 1)[0]

    def rank_each(
        self,
        observe: Callable[[Ids], None],
        scores_at: Callable[[Ids, int], Iterable[Table]],
        count: int,
    ) -> list[LinkReport]:
        """The same under each of `count` scores, which `scores_at` returns, in one pass."""
        ranked, ranks = [np.empty(0, np.int64)], [np.empty((count, 0))]
        for block in self.blocks(observe):
            ranked.append(block.links)
            tables = scores_at(block.sources, block.time)
            ranks.append(np.stack([block.ranks(to_numpy(table)) for table in tables]))
        links, table = np.concatenate(ranked), np.concatenate(ranks, axis=1)
        return [self.report(links, row) for row in table]

    def blocks(
        self, observe: Callable[[Ids], None], *, repeated: bool = False, every: int = 1
    ) -> "Iterator[RollingBlock]":
        """The links to rank in time order; the edges of their moment are observed after them.

        With `repeated`, they include links whose pair had an edge before. With `every`, only one
        in so many is ranked, and the edges in between are observed together.
        """
        assert self.graph.times is not None
        observe(self.earlier)
        observed, ranked = 0, 0  # arriving edges, and links so far
        known = self._known.copy()
        known.add(self.earlier)
        is_ranked = self._is_query if repeated else self._is_query & self._is_new
        for moment in self._moments():
            edges = self.arriving[moment]
            links = edges[is_ranked[moment]]
            chosen = links[(ranked + np.arange(len(links))) % every == 0]
            ranked += len(links)
            if len(chosen):
                observe(self.arriving[observed : moment.start])
                observed = moment.start
            current = known.by_source(edges) if len(chosen) else {}
            for at in index_blocks(len(chosen), block_rows(self.num_candidates)):
                own = chosen[at]
                sources, columns = known.pairs(own)
                time = int(self.graph.times[own[0]])
                masks = known.candidates(sources, current)
                yield RollingBlock(own, sources, columns, *masks, time)
            known.add(edges)
        observe(self.arriving[observed:])

    @property
    def num_links(self) -> int:
        """How many links are ranked."""
        return int((self._is_query & self._is_new).sum())

    def is_inductive(self, links: Ids) -> Mask:
        """Whether training did not have the source or the target of each link."""
        return ~np.logical_and(*self._known_ends(links))

    def _known_ends(self, links: Ids) -> tuple[Mask, Mask]:
        """Whether training had the source and the target of each link."""
        sources, targets = self.graph.src[links], self.graph.dst[links]
        return self._in_training[sources], self._in_training[targets]

    def _moments(self) -> Iterator[slice]:
        """The arriving edges in groups of equal times."""
        assert self.graph.times is not None
        times = self.graph.times[self.arriving]
        starts = np.flatnonzero(np.diff(times, prepend=times[:1] - 1)).tolist()
        for start, stop in zip(starts, [*starts[1:], len(times)], strict=True):
            yield slice(start, stop)

    def report(self, links: Ids, ranks: Floats) -> LinkReport:
        """The ranks [n] of links, grouped by what training knew."""
        old_source, old_target = self._known_ends(links)
        chosen = ~old_source, ~old_target, old_source & old_target
        groups = dict(zip(ROLLING_GROUPS, chosen, strict=True))
        queries = np.asarray(self.graph.src[links], np.int64)
        return LinkReport(ranks={ROLLING: ranks}, groups=groups, queries=queries, edges=links)


class _KnownPairs:
    """Which candidates have had a link, and which each source had an edge with."""

    def __init__(self, graph: EdgeTextGraph, trained: Ids) -> None:
        self.graph, self._first = graph, int(candidate_nodes(graph)[0])
        self._is_undirected = graph.is_undirected
        size = (graph.num_nodes, graph.num_nodes - self._first)
        self._trained = LinkTable.from_pairs(*self._links(trained), *size)
        self._arrived: dict[int, list[int]] = {}  # source -> columns
        self._seen = np.zeros(size[1], bool)
        self._mark_seen(trained)

    def copy(self) -> "_KnownPairs":
        """The same, to which edges are added independently."""
        other = copy(self)
        other._arrived, other._seen = {}, self._seen.copy()
        return other

    def add(self, edges: Ids) -> None:
        """Add edges that arrived."""
        for source, columns in self.by_source(edges).items():
            self._arrived.setdefault(source, []).extend(columns)
        self._mark_seen(edges)

    def by_source(self, edges: Ids) -> dict[int, list[int]]:
        """The candidate columns that edges lead to, by source."""
        columns_of: dict[int, list[int]] = {}
        sources, columns = self._links(edges)
        for source, column in zip(sources.tolist(), columns.tolist(), strict=True):
            columns_of.setdefault(source, []).append(column)
        return columns_of

    def pairs(self, edges: Ids) -> tuple[Ids, Ids]:
        """The source nodes and the candidate columns of edges."""
        sources, targets = self.graph.src[edges], self.graph.dst[edges]
        return sources.astype(np.int64), targets.astype(np.int64) - self._first

    def before(self, times: IntArray, later: Ids) -> tuple[Mask, Mask]:
        """Whether the target of each later edge [m] had a link, and whether its pair had no edge.

        Only training edges and strictly earlier ones of `later` count.
        """
        own, (sources, columns) = times[later].astype(np.int64), self.pairs(later)
        never = np.iinfo(np.int64).max
        seen = np.where(self._seen, np.iinfo(np.int64).min, never)  # since when, by column
        is_link = self.graph.is_positive[later]
        for nodes in (columns,) if self.graph.is_bipartite else (columns, sources):
            np.minimum.at(seen, nodes[is_link], own[is_link])
        ends = np.stack([sources, columns])
        one, other = np.sort(ends, axis=0) if self._is_undirected else ends
        _, pair = np.unique(one * len(seen) + other, return_inverse=True)
        first = np.full(len(later), never)
        np.minimum.at(first, pair, own)
        is_new = (first[pair] == own) & ~self._trained.contains(sources, columns)
        return seen[columns] < own, is_new

    def candidates(self, sources: Ids, current: Mapping[int, list[int]]) -> tuple[Mask, Mask, Mask]:
        """The masks `is_seen`, `is_linked` and `is_current` of a `RollingBlock` of sources [q]."""
        is_seen = np.tile(self._seen, (len(sources), 1))
        is_linked, is_current = np.zeros_like(is_seen), np.zeros_like(is_seen)
        is_linked[self._trained.of(sources)] = True
        for row, source in enumerate(sources.tolist()):
            is_linked[row, self._arrived.get(source, [])] = True
            is_current[row, current.get(source, [])] = True
            if not self.graph.is_bipartite:
                is_seen[row, source] = False
        return is_seen, is_linked, is_current

    def _links(self, edges: Ids) -> tuple[Ids, Ids]:
        """The links of edges; an undirected edge is a link in both directions."""
        sources, columns = self.pairs(edges)
        if not self._is_undirected:
            return sources, columns
        return np.concatenate([sources, columns]), np.concatenate([columns, sources])

    def _mark_seen(self, edges: Ids) -> None:
        sources, columns = self.pairs(edges[self.graph.is_positive[edges]])
        self._seen[columns] = True
        if not self.graph.is_bipartite:
            self._seen[sources] = True


def later_edges(graph: EdgeTextGraph, split: str) -> Ids:
    """The edges that arrive after training, in time order.

    They are those of validation and test, and those of no part unless they are older than the end
    of training.
    """
    later = _edges_of(graph, split, VAL, TEST, NONE)
    times = graph.times
    if times is None or (times[later] == NO_TIME).any():
        return later
    trained = _edges_of(graph, split, TRAIN, PROFILE)
    codes, end = graph.split(split)[later], times[trained].max(initial=np.iinfo(np.int64).min)
    later = later[(codes != NONE) | (times[later] >= end)]
    ordered: Ids = later[np.argsort(times[later], kind="stable")]
    return ordered


def _edges_of(graph: EdgeTextGraph, split: str, *parts: int) -> Ids:
    """The edges in some parts of a split."""
    codes = graph.split(split)
    return rows_where(lambda rows: np.isin(codes[rows], parts), len(codes))


def can_roll(graph: EdgeTextGraph, split: str, part: str = "val") -> bool:
    """Whether edges have times, and there is such a part, which comes after training."""
    try:
        _checked_times(graph, split, part)
    except InputError:
        return False
    return True


def _remedy(graph: EdgeTextGraph) -> str:
    """How to get a chronological split."""
    names = [name for name, config in graph.split_configs.items() if config.how == "chronological"]
    if names:
        return f"train with the split '{names[0]}'"
    return "prepare the network with a split such as link=chronological"


def _first_time(graph: EdgeTextGraph, split: str, part: int) -> int:
    """When a part begins; if it is empty, never."""
    assert graph.times is not None
    return int(graph.times[_edges_of(graph, split, part)].min(initial=np.iinfo(np.int64).max))


def _checked_times(graph: EdgeTextGraph, split: str, ranked: str) -> IntArray:
    """The times of edges, if there is such a part, and the parts follow each other."""
    times = graph.times
    if times is None or (np.asarray(times) == NO_TIME).any():
        raise InputError(f"{graph.path}: `rolling` needs a time for every edge")
    ends: list[int] = []
    for name, part in (("train", (TRAIN, PROFILE)), ("val", (VAL,)), ("test", (TEST,))):
        own = times[_edges_of(graph, split, *part)]
        if not len(own) and name not in ("train", ranked):
            continue
        if not len(own):
            raise InputError(f"{graph.path}: the part '{name}' of the split '{split}' has no edges")
        if ends and own.min() < ends[-1]:
            raise InputError(
                f"{graph.path}: `rolling` needs a chronological split, but '{split}' tests edges "
                f"that are older than edges it trains on; {_remedy(graph)}"
            )
        ends.append(int(own.max()))
    return times
