"""RollingPredictor: a fitted link predictor that reads edges as they arrive, for `rolling`.

Nodes that training never saw are nodes that arrive with their first edge, as on a server.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN, VAL
from edgeformers.data.types import Ids, Mask, Side
from edgeformers.errors import InputError
from edgeformers.evaluation import LinkReport
from edgeformers.evaluation.links import index_blocks
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import RollingLinks, can_roll
from edgeformers.inference.components import ScoreComponent
from edgeformers.inference.edge_history import Arrivals, EdgeHistory, NewEdges
from edgeformers.inference.encode import Vectors
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.link_scorer import Queries
from edgeformers.inference.live_links import READ_EDGES
from edgeformers.inference.trained_components import TextComponent
from edgeformers.threads import one_thread

NOT_ARRIVED = -1
GROWTH = 1.25  # the texts of a node are read again when its edges have grown by this factor
Reader = TypeVar("Reader", bound="RarelyRead")


def report_rolling(
    fitted: FittedLinkPredictor, part: str = "test", *, show: bool = False
) -> LinkReport:
    """The ranks of a part's links, each as of its own time."""
    links = RollingLinks(fitted.network.graph, fitted.network.split, part)
    with scoring_threads(fitted):
        return links.rank(RollingPredictor(fitted), show=show)


def compare_rolling(
    fitted: FittedLinkPredictor,
    other: FittedLinkPredictor,
    part: str = "test",
    *,
    own: LinkReport | None = None,
    show: bool = False,
) -> tuple[LinkReport, LinkReport]:
    """The ranks that a model and another one, such as last night's, give the same links.

    They are links of the first model's network, those that came after everything that either model
    was fitted or validated on. Nodes are matched by id, and the other model reads all edges of this
    network that came after its training. `own` may be what `report_rolling` returned.
    """
    check_comparable(fitted, other)
    graph, split = fitted.network.graph, fitted.network.split
    last = max(_last_time(model, TRAIN, PROFILE, VAL) for model in (fitted, other))
    predictor = RollingPredictor(other, graph=graph)
    with scoring_threads(other):
        predictor.catch_up(split)
        theirs = RollingLinks(graph, split, part, after=last).rank(predictor, show=show)
    own = report_rolling(fitted, part, show=show) if own is None else own
    assert theirs.edges is not None
    return own.among(theirs.edges), theirs


def check_comparable(fitted: FittedLinkPredictor, other: FittedLinkPredictor) -> None:
    """Raise an InputError if two models cannot rank the same links as of the time of each."""
    graph, before = fitted.network.graph, other.network.graph
    for model in (fitted, other):
        own, split = model.network.graph, model.network.split
        if not any(can_roll(own, split, part) for part in ("val", "test")):
            raise InputError(
                f"the model of {own.path} was not trained on the past (its split is '{split}'), so "
                "links cannot be ranked as of their time; train it with a chronological split"
            )
    kinds = [(own.is_bipartite, own.is_directed) for own in (graph, before)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"{graph.path} and {before.path} differ in their node types or in whether edges have a "
            "direction; compare runs on networks of the same kind"
        )
    if not (graph.node_index.numbers_in(before.node_index) >= 0).any():
        raise InputError(
            f"no node of {graph.path} is in {before.path}; compare runs on networks with the same "
            "node ids"
        )
    assert graph.times is not None
    if not (graph.times <= _last_time(other, TRAIN, PROFILE)).any():
        raise InputError(
            f"all edges of {graph.path} are later than those that the model of {before.path} was "
            "trained on; compare runs on networks that overlap in time, with times in the same unit"
        )


def _last_time(fitted: FittedLinkPredictor, *codes: int) -> int:
    """When the last edge of some parts came."""
    graph, split = fitted.network.graph, fitted.network.split
    assert graph.times is not None
    return int(graph.times[np.isin(graph.split(split), codes)].max())


def _unread_edges(fitted: FittedLinkPredictor, graph: EdgeTextGraph, numbers: Ids) -> Mask:
    """Which edges of another network came after the training of a model [E].

    `numbers` are those that the model has of its nodes, -1 for others.
    """
    before = fitted.network.graph
    assert before.times is not None
    assert graph.times is not None
    last = _last_time(fitted, TRAIN, PROFILE)
    is_trained = np.isin(before.split(fitted.network.split), (TRAIN, PROFILE))
    read = np.flatnonzero(is_trained & (before.times == last))
    tied = np.flatnonzero(graph.times == last)  # training may have ended within a day
    ends = np.stack([before.src[read], before.dst[read]]).astype(np.int64)
    tied_ends = np.stack([numbers[graph.src[tied]], numbers[graph.dst[tied]]])
    if graph.is_undirected:
        ends, tied_ends = np.sort(ends, axis=0), np.sort(tied_ends, axis=0)
    pairs, tied_pairs = (one * before.num_nodes + two for one, two in (ends, tied_ends))
    is_unread = np.asarray(graph.times > last)
    is_unread[tied] = (tied_ends < 0).any(0) | ~np.isin(tied_pairs, pairs)
    return is_unread


def scoring_threads(fitted: FittedLinkPredictor) -> AbstractContextManager[None]:
    """A single CPU thread if texts are encoded on a GPU: the rest is too small for several."""
    return one_thread() if fitted.device.type == "cuda" else nullcontext()


class RollingPredictor:
    """Ranks links as of their time; the fitted model itself stays as it is.

    Reading texts takes most of the time, so a node is read again only after a quarter more edges;
    `growth=1` reads it with every edge, as `update` does. With `graph`, edges are those of another
    network, whose nodes are matched by id.
    """

    def __init__(
        self,
        fitted: FittedLinkPredictor,
        *,
        graph: EdgeTextGraph | None = None,
        growth: float = GROWTH,
    ) -> None:
        network = fitted.network
        self._graph = graph or network.graph
        self._scorer = replace(fitted, index_folder=None).scorer  # an index would be updated too
        degrees = network.loader.source_sampler.adjacency.degrees()
        self._history = EdgeHistory(network.graph, network.split, degrees)
        self.read_texts(RarelyRead, growth)
        numbers = np.arange(len(degrees))  # of the nodes of `graph`, as components have them
        self._is_unread: Mask | None = None
        if graph is not None:
            numbers = graph.node_index.numbers_in(fitted.nodes)
            self._is_unread = _unread_edges(fitted, graph, numbers)
        is_known = (numbers >= 0) & (degrees[numbers] > 0)
        self._number = np.where(is_known, numbers, NOT_ARRIVED)
        self._next = len(degrees)
        self._candidates = candidate_nodes(self._graph)

    def read_texts(self, how: type[Reader], growth: float = GROWTH) -> Reader:
        """Let another component read texts, before anything has been read; returns it."""
        first, *others = self._scorer.components
        text = first.text if isinstance(first, RarelyRead) else first
        assert isinstance(text, TextComponent)
        reader = how(text, self._history, growth)
        self._scorer.components = [reader, *others]
        return reader

    def catch_up(self, split: str) -> None:
        """Read the training edges of another network that came after the model's own training."""
        trained = np.isin(self._graph.split(split), (TRAIN, PROFILE))
        edges = np.flatnonzero(trained if self._is_unread is None else trained & self._is_unread)
        assert self._graph.times is not None
        edges = edges[np.argsort(self._graph.times[edges], kind="stable")]
        for rows in index_blocks(len(edges), READ_EDGES):
            self.observe(edges[rows])

    def observe(self, edges: Ids) -> None:
        """Read the edges of the network that are links and that training did not read."""
        edges = edges[self._graph.is_positive[edges]]
        if self._is_unread is not None:
            edges = edges[self._is_unread[edges]]
        if not len(edges):
            return
        ends = np.stack([self._graph.src[edges], self._graph.dst[edges]]).astype(np.int64)
        for node in ends.T[self._number[ends.T] == NOT_ARRIVED].tolist():
            if self._number[node] == NOT_ARRIVED:
                self._number[node], self._next = self._next, self._next + 1
        source, target = self._number[ends]
        new = replace(NewEdges.of(self._graph, edges), source=source, target=target)
        self._scorer.update(new, self._history)

    def scores_at(self, sources: Ids, time: int) -> Vectors:
        """Source nodes [q] -> scores of all candidates [q, C]; -inf for those without a link."""
        return self._table(sources, self._scorer.scores, -np.inf)

    def component_scores_at(self, sources: Ids, time: int) -> Vectors:
        """The same for each component [q, P, C]; 0 for candidates without a link."""
        return self._table(sources, self._scorer.component_scores, 0.0)

    @property
    def has_arrived(self) -> Mask:
        """Which candidates have had an edge [C]; others have no score."""
        return np.asarray(self._number[self._candidates] != NOT_ARRIVED)

    def numbers(self, nodes: Ids) -> Ids:
        """The numbers that components have of nodes [n]; `NOT_ARRIVED` without edges so far."""
        return np.asarray(self._number[nodes])

    def groups(self, sources: Ids) -> Ids:
        """The degree group of each source [q]."""
        numbers = self._number[sources]
        return np.where(numbers == NOT_ARRIVED, 0, self._scorer.group[np.maximum(numbers, 0)])

    def _table(
        self, sources: Ids, score: Callable[[Ids | Queries], Vectors], missing: float
    ) -> Vectors:
        """What `score` returns for all candidates, in the order of the network."""
        numbers = self._number[sources]
        has_edges = numbers != NOT_ARRIVED
        arrived = np.flatnonzero(self.has_arrived)
        columns = np.searchsorted(self._scorer.candidates, self._number[self._candidates[arrived]])
        nothing = NewEdges(source=numbers[:0], target=numbers[:0], texts=[])
        asked: list[tuple[Ids, Ids | Queries]] = []
        if has_edges.any():
            asked.append((np.flatnonzero(has_edges), numbers[has_edges]))
        if not has_edges.all():
            new = self._scorer.fold_in_source(nothing)
            asked.append((np.flatnonzero(~has_edges), new))
        tables = [(rows, score(query)[..., columns]) for rows, query in asked]
        shape = (len(sources), *tables[0][1].shape[1:-1], len(self._candidates))
        scores = np.full(shape, missing, np.float32)
        for rows, table in tables:
            block = np.full((len(rows), *shape[1:]), missing, np.float32)
            block[..., arrived] = table
            scores[rows] = block
        return scores


class RarelyRead(ScoreComponent):
    """A text component that reads a node again only when its edges have grown by a factor."""

    name = TextComponent.name

    def __init__(self, text: TextComponent, history: EdgeHistory, growth: float) -> None:
        self.text, self.history, self.growth = text, history, growth
        self._last: dict[tuple[int, Side], tuple[int, Tensor]] = {}  # edges when read, and vector

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        degrees = self.history.degrees[nodes].tolist()
        numbers = nodes.tolist()
        stale = [
            (node, degree)
            for node, degree in dict(zip(numbers, degrees, strict=True)).items()
            if (node, side) not in self._last or degree > self.growth * self._last[node, side][0]
        ]
        if stale:
            vectors = self.read(np.array([node for node, _ in stale]), side)
            for (node, degree), vector in zip(stale, vectors, strict=True):
                self._last[node, side] = degree, vector
        rows = [self._last[node, side][1] for node in numbers]
        return torch.stack(rows) if rows else self.read(nodes, side)

    def read(self, nodes: Ids, side: Side) -> Tensor:
        """The vectors [n, R] of nodes with their edges so far."""
        return self.text.vectors(nodes, side).cpu()

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return self.text.fold_in(edges, side)

    def update(self, arrivals: Arrivals) -> None:
        self.text.update(arrivals)
