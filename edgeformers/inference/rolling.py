"""RollingPredictor: a fitted link predictor that reads edges as they arrive, for `rolling`.

Nodes that training never saw are nodes that arrive with their first edge, as on a server.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN, VAL
from edgeformers.data.types import Ids, Mask, Side
from edgeformers.errors import InputError
from edgeformers.evaluation import LinkReport
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import RollingLinks, can_roll
from edgeformers.inference.components import ScoreComponent
from edgeformers.inference.edge_history import Arrivals, EdgeHistory, NewEdges
from edgeformers.inference.encode import Vectors
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.link_scorer import Queries
from edgeformers.inference.trained_components import TextComponent
from edgeformers.threads import one_thread

NOT_ARRIVED = -1
GROWTH = 1.25  # the texts of a node are read again when its edges have grown by this factor


def report_rolling(
    fitted: FittedLinkPredictor,
    part: str = "test",
    *,
    graph: EdgeTextGraph | None = None,
    split: str | None = None,
    show: bool = False,
) -> LinkReport:
    """The ranks of a part's links, each as of its own time.

    With `graph` or `split`, they are links of another network, such as one that has grown since, or
    of another split, as far as they are later than what the model was fitted on. Nodes are matched
    by id, and the model reads all edges that came after its training.
    """
    own = fitted.network
    graph, split = graph or own.graph, split or own.split
    if graph is own.graph and split == own.split:
        links, since = RollingLinks(graph, split, part), np.empty(0, np.int64)
        predictor = RollingPredictor(fitted)
    else:
        links = RollingLinks(graph, split, part, after=_last_time(fitted, part, graph))
        predictor = RollingPredictor(fitted, graph=graph)
        trained = np.flatnonzero(np.isin(graph.split(split), (TRAIN, PROFILE)))
        assert graph.times is not None
        since = trained[np.argsort(graph.times[trained], kind="stable")]
    with scoring_threads(fitted):
        predictor.observe(since)
        return links.rank(predictor, show=show)


def _last_time(fitted: FittedLinkPredictor, part: str, graph: EdgeTextGraph) -> int:
    """When the last edge came that a model was fitted on, or that its settings were chosen by."""
    before, split = fitted.network.graph, fitted.network.split
    if not any(can_roll(before, split, name) for name in ("val", "test")):
        raise InputError(
            f"the model of {before.path} was not trained on the past (its split is '{split}'), so "
            f"it cannot rank the {part} part of {graph.path} as of each link's time"
        )
    assert before.times is not None
    return int(before.times[np.isin(before.split(split), (TRAIN, PROFILE, VAL))].max())


def _unread_edges(fitted: FittedLinkPredictor, graph: EdgeTextGraph) -> Mask:
    """Which edges of another network came after the training of a model [E]."""
    before = fitted.network.graph
    trained = np.flatnonzero(np.isin(before.split(fitted.network.split), (TRAIN, PROFILE)))
    assert before.times is not None
    assert graph.times is not None
    last = int(before.times[trained].max())
    known = {*_pairs(before, trained[before.times[trained] == last])}
    is_unread = np.asarray(graph.times > last)
    tied = np.flatnonzero(graph.times == last)  # training may have ended within a day
    is_unread[tied] = [pair not in known for pair in _pairs(graph, tied)]
    return is_unread


def _pairs(graph: EdgeTextGraph, edges: Ids) -> Iterator[tuple[str, str]]:
    """The ids of the sources and targets of edges."""
    ends = (graph.node_names(nodes[edges].astype(np.int64)) for nodes in (graph.src, graph.dst))
    return zip(*ends, strict=True)


def scoring_threads(fitted: FittedLinkPredictor) -> AbstractContextManager[None]:
    """A single CPU thread if texts are encoded on a GPU: the rest is too small for several."""
    return one_thread() if fitted.device.type == "cuda" else nullcontext()


class RollingPredictor:
    """Ranks links as of their time; the fitted model itself stays as it is.

    Reading texts takes most of the time, so a node is read again only after a quarter more edges;
    `growth=1` reads it with every edge, as `update` does. `read` says how texts are read. With
    `graph`, edges are those of another network, whose nodes are matched by id.
    """

    def __init__(
        self,
        fitted: FittedLinkPredictor,
        *,
        graph: EdgeTextGraph | None = None,
        growth: float = GROWTH,
        read: "type[RarelyRead] | None" = None,
    ) -> None:
        network = fitted.network
        self._graph = graph or network.graph
        self._scorer = replace(fitted, index_folder=None).scorer  # an index would be updated too
        degrees = network.loader.source_sampler.adjacency.degrees()
        self._history = EdgeHistory(network.graph, network.split, degrees)
        text, *others = self._scorer.components
        assert isinstance(text, TextComponent)
        if growth > 1:
            self.texts = (read or RarelyRead)(text, self._history, growth)
            self._scorer.components = [self.texts, *others]
        numbers = np.arange(len(degrees))  # of the nodes of `graph`, as components have them
        self._is_unread: Mask | None = None
        if graph is not None:
            numbers = graph.node_index.numbers_in(fitted.nodes)
            self._is_unread = _unread_edges(fitted, graph)
        is_known = (numbers >= 0) & (degrees[numbers] > 0)
        self._number = np.where(is_known, numbers, NOT_ARRIVED)
        self._next = len(degrees)
        self._candidates = candidate_nodes(self._graph)

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
