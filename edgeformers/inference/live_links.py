"""LiveLinks: edges that arrive, or are removed, after a link predictor was fitted."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args

import numpy as np

from edgeformers.data.adjacency import Adjacency
from edgeformers.data.loader import EgoLoader
from edgeformers.data.node_index import GrowingNodeIndex
from edgeformers.data.times import Times, as_microseconds
from edgeformers.data.types import Ids, Side
from edgeformers.errors import InputError
from edgeformers.evaluation import LinkTable
from edgeformers.evaluation.links import index_blocks
from edgeformers.evaluation.network_links import seen_links
from edgeformers.inference.edge_history import EdgeHistory, NewEdges, unread_links
from edgeformers.inference.fitted import AttachedNetwork
from edgeformers.inference.link_scorer import LinkScorer
from edgeformers.inference.trained_components import TextComponent
from edgeformers.progress import progress_bar

READ_EDGES = 10_000  # later edges at a time


class LiveLinks:
    """Keeps the nodes, the history of edges and the link score of a predictor up to date."""

    def __init__(
        self,
        *,
        network: AttachedNetwork[EgoLoader],
        nodes: GrowingNodeIndex,
        text: TextComponent,
        scorer: LinkScorer,
    ) -> None:
        self.network, self.nodes, self.text, self.scorer = network, nodes, text, scorer
        self._history: EdgeHistory | None = None

    @property
    def history(self) -> EdgeHistory:
        """The edges known so far; it is made when it is first needed."""
        if self._history is None:
            graph, split = self.network.graph, self.network.split
            self._history = EdgeHistory(graph, split, self._adjacency.degrees())
        return self._history

    @property
    def _adjacency(self) -> Adjacency:
        return self.network.loader.source_sampler.adjacency

    def seen(self, sources: Ids) -> LinkTable:
        """The candidates that each source is linked to, by position; itself with one node type."""
        graph, history = self.network.graph, self._history
        rows = np.flatnonzero(sources < graph.num_nodes)
        seen = seen_links(graph, sources[rows])
        if history is None or not history.has_changed:
            return seen
        gone = [*history.removed_nodes]
        kept = ~np.isin(sources[rows][seen.queries], gone)
        kept &= ~np.isin(self.scorer.candidates[seen.candidates], gone)
        own = [history.later_targets(node) for node in sources.tolist()]
        if not graph.is_bipartite:
            own = [np.append(targets, node) for targets, node in zip(own, sources, strict=True)]
        later = self.scorer.linked(own)
        return LinkTable.from_pairs(
            np.concatenate([rows[seen.queries[kept]], later.queries]),
            np.concatenate([seen.candidates[kept], later.candidates]),
            len(sources),
        )

    def update(self, edges: Sequence[tuple[str, str, str | None]], times: Times | None) -> None:
        """Take in (source, target, text) edges in time order; unknown nodes are added."""
        _check_edges(edges)  # before any node is added
        stamps = None if times is None else as_microseconds(times, len(edges))
        add = self.nodes.add
        ends = [(add(source, "source"), add(target, "target")) for source, target, _ in edges]
        source, target = np.array(ends, np.int64).reshape(-1, 2).T
        texts = [text for _, _, text in edges]
        new = NewEdges(source=source, target=target, texts=texts, times=stamps)
        self.scorer.update(new, self.history)

    @property
    def has_read_later(self) -> bool:
        """Whether `read_all` has taken in any links."""
        return self._history is not None and len(self._history.later_edges) > 0

    @property
    def num_unread(self) -> int:
        """The links after training that `read_all` would take in, in a split by time."""
        is_by_time = self.network.graph.split_config(self.network.split).how == "chronological"
        return len(self._unread) if is_by_time else 0

    @property
    def _unread(self) -> Ids:
        """The later links of the network that were neither read nor removed, in time order."""
        later = unread_links(self.network.graph, self.network.split)
        if self._history is None:
            return later
        removed = np.fromiter(self._history.removed, np.int64)
        gone = np.concatenate([self._history.later_edges, removed])
        return later[~np.isin(later, gone)]

    def read_all(self, *, show: bool) -> int:
        """Take in the later links of the network; returns how many."""
        later, history = self._unread, self.history
        with progress_bar(len(later), desc="reading later edges", unit="edges", show=show) as bar:

            def blocks() -> Iterator[NewEdges]:
                for rows in index_blocks(len(later), READ_EDGES):
                    yield NewEdges.of(self.network.graph, later[rows])
                    bar.update(len(later[rows]))

            self.scorer.update_each(blocks(), history)
        history.later_edges = np.append(history.later_edges, later)
        return len(later)

    def remove(self, node: str, side: Side | None) -> int:
        """Forget all edges of a node on a side, or on both; returns how many."""
        one_type = not self.network.graph.is_bipartite
        sides: Sequence[Side] = ["source"] if one_type else [side] if side else get_args(Side)
        count, history = 0, self.history
        for each in sides:
            (number,) = self.nodes.numbers([node], each).tolist()
            if number >= 0:
                later = len(self.text.later_edges(number))
                gone = history.remove(number, self._adjacency)
                self.scorer.remove(gone)
                both = np.isin(gone.edges, history.later_edges).sum()
                count += len(gone.edges) + later - int(both)
                for other in [number, *gone.neighbors.tolist()]:
                    if history.degrees[other] == 0:
                        self.nodes.forget(other)
        return count


def _check_edges(edges: Sequence[Any]) -> None:
    for at, edge in enumerate(edges, 1):
        if not _is_edge(edge):
            raise InputError(
                f"edge {at:,}: {edge!r} is not (source, target, text); a text is a str or None"
            )


def _is_edge(edge: Any) -> bool:
    try:
        _, _, text = edge
    except (TypeError, ValueError):
        return False
    return isinstance(text, str | None)
