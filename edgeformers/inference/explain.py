"""Explain recommendations: what the history of a source and each component add to a score."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.types import Ids, Mask
from edgeformers.inference.components import NewEdges, ReciprocityComponent
from edgeformers.inference.encode import Vectors
from edgeformers.inference.link_scorer import LinkScorer, Queries, Ranking
from edgeformers.inference.trained_components import EdgeVectors, TextComponent

Shares = NDArray[np.float64]
#: Kinds of reasons, next to the components.
HISTORY, OTHER_HISTORY, QUOTE, REST = "history", "other_history", "quote", "rest"


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A summand of a score, or a quote.

    `kind` is "history" for the edges between the source and `node`, shown with the text and the
    label of one of them; "other_history" for all other edges of the source; the name of a component
    that is not divided among edges; or "rest". `components` divides the weight of the first two. A
    "quote" is a text about the recommended node, written by `node`.
    """

    text: str = ""
    node: str = ""
    weight: float
    kind: str = HISTORY
    label: str = ""
    components: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """A recommended node, its score, and what the score consists of.

    The values of `components` sum to the score. So do the weights of `because`: the history of the
    source, the strongest first, then other components and the rest. `quotes` are the texts about
    the recommended node that add most to the score.
    """

    node: str
    score: float
    because: list[Reason] = field(default_factory=list)
    components: dict[str, float] = field(default_factory=dict)
    quotes: list[Reason] = field(default_factory=list)


#: A reason without its text, and the edge that has the text, or the text itself.
_Draft = tuple[Reason, int | str]


@dataclass(frozen=True, kw_only=True)
class _OwnEdges:
    """The edges of a source: those of the network by number, then later ones."""

    number: Ids  # [m]; -1 for later ones
    neighbor: Ids  # [m]; -1 if unknown
    is_out: Mask  # [m], whether it leads to the neighbor
    is_link: Mask  # [m], whether components count it as a link of the source
    is_negative: Mask  # [m]
    later_texts: Sequence[str | None]

    def text(self, position: int) -> int | str:
        """The number of an edge, or its text if it is a later one."""
        number = int(self.number[position])
        later = position - len(self.number) + len(self.later_texts)
        return number if number >= 0 else self.later_texts[later] or ""


@dataclass(frozen=True, kw_only=True)
class _History:
    """What the nodes that a source has edges with add to the scores of targets."""

    nodes: Ids  # [h]; -1 stands for all unknown ones
    shares: Mapping[str, Shares]  # component -> [h, t]
    text_shares: Shares  # [m, t], of the source's edges


@dataclass(frozen=True, kw_only=True)
class Explainer:
    """Explains the recommendations to one source.

    Shapes: m edges of the source, h nodes at their other ends, t targets.
    """

    scorer: LinkScorer  # its first component is `text`
    text: TextComponent
    graph: EdgeTextGraph
    nodes: NodeIndex

    def explain(
        self, query: Queries, new: NewEdges | None, ranking: Ranking, count: int
    ) -> list[tuple[list[Reason], list[Reason]]]:
        """The reasons for each target, with `count` nodes of the history, and as many quotes.

        An edge that is known to be negative is neither named nor quoted.
        """
        targets = ranking.node
        own = self._own_edges(int(query.nodes[0]), new)
        history = self._history(query, new, own, targets)
        components = self.scorer.shares(query, targets)
        drafts: list[list[_Draft]] = [[] for _ in targets]
        for at, shares in enumerate(components):
            drafts[at] += self._named_history(own, history, at, count)
            drafts[at] += self._undivided(own, history, shares, int(targets[at]))
            rest = float(ranking.score[at]) - sum(reason.weight for reason, _ in drafts[at])
            drafts[at].append((Reason(kind=REST, weight=rest), ""))
        quotes = self._quotes(query, targets, count)
        because = self._with_texts([*drafts, *quotes])
        return list(zip(because[: len(targets)], because[len(targets) :], strict=True))

    def _own_edges(self, source: int, new: NewEdges | None) -> _OwnEdges:
        later = self.text.later_edges(source, new)
        adjacency, graph = self.text.loader.source_sampler.adjacency, self.graph
        is_known = new is None and source < graph.num_nodes
        number = adjacency.edges_of(source) if is_known else np.empty(0, np.int64)
        number = np.sort(number).astype(np.int64)
        ends = np.stack([graph.src[number], graph.dst[number]]).astype(np.int64)
        is_out = np.concatenate([ends[0] == source, np.array([e[2] for e in later], bool)])
        neighbor = np.where(ends[0] == source, ends[1], ends[0])
        neighbor = np.concatenate([neighbor, np.array([e[0] for e in later], np.int64)])
        is_undirected = not graph.is_bipartite and not graph.is_directed
        positive = np.concatenate([graph.is_positive[number], np.ones(len(later), bool)])
        negative = np.concatenate([is_negative(graph, number), np.zeros(len(later), bool)])
        return _OwnEdges(
            number=np.concatenate([number, np.full(len(later), -1)]),
            neighbor=neighbor,
            is_out=is_out,
            is_link=positive
            & (is_out | is_undirected)
            & (neighbor >= 0)
            & (neighbor < graph.num_nodes),
            is_negative=negative,
            later_texts=[text for _, text, *_ in later],
        )

    def _history(
        self, query: Queries, new: NewEdges | None, own: _OwnEdges, targets: Ids
    ) -> _History:
        nodes = np.unique(own.neighbor)
        linked, counts = np.unique(own.neighbor[own.is_link], return_counts=True)
        shares: dict[str, Shares] = {}
        links = self.scorer.history_shares(query, (linked, counts), targets)
        for name, values in links.items():
            shares[name] = np.zeros((len(nodes), len(targets)))
            shares[name][np.searchsorted(nodes, linked)] = values
        text_shares = np.zeros((len(own.number), len(targets)))
        weight, width = float(query.weights[0, 0]), query.widths[0]
        read = self.text.source_edge_vectors(int(query.nodes[0]), new) if weight else None
        if read is not None:
            place = np.searchsorted(own.number[: len(own.number) - len(own.later_texts)], read.edge)
            is_later = read.edge < 0
            place[is_later] = len(own.number) - len(own.later_texts) + np.arange(is_later.sum())
            keys = self.scorer.cached_keys(targets)[:, :width]
            text_shares[place] = weight * read.vectors @ keys.T
            shares["text"] = np.zeros((len(nodes), len(targets)))
            np.add.at(shares["text"], np.searchsorted(nodes, own.neighbor), text_shares)
        return _History(nodes=nodes, shares=shares, text_shares=text_shares)

    def _named_history(
        self, own: _OwnEdges, history: _History, at: int, count: int
    ) -> Iterator[_Draft]:
        """The nodes of the history that add most to a target, and the others together.

        A node comes with the edge whose text adds most, or else the last one.
        """
        sums = (shares[:, at] for shares in history.shares.values())
        weights: Shares = sum(sums, np.zeros(len(history.nodes)))
        usable = np.isin(history.nodes, own.neighbor[~own.is_negative]) & (weights > 0)
        rows = [row for row in np.argsort(-weights, kind="stable").tolist() if usable[row]][:count]
        for row in rows:
            node, weight = history.nodes[row], float(weights[row])
            edges = np.flatnonzero((own.neighbor == node) & ~own.is_negative)[::-1]
            edge = edges[np.argmax(history.text_shares[edges, at])]
            parts = {name: float(shares[row, at]) for name, shares in history.shares.items()}
            (name,) = self.nodes.ids_of([node]) if node >= 0 else [""]
            yield Reason(node=name, weight=weight, components=parts), own.text(edge)
        others = np.delete(np.arange(len(weights)), rows)
        if weights[others].any():
            parts = {
                name: float(shares[others, at].sum()) for name, shares in history.shares.items()
            }
            yield Reason(kind=OTHER_HISTORY, weight=sum(parts.values()), components=parts), ""

    def _undivided(
        self, own: _OwnEdges, history: _History, shares: Mapping[str, float], target: int
    ) -> Iterator[_Draft]:
        """The components that are not divided among edges; reciprocity with the edge it rewards."""
        for name, weight in shares.items():
            if not weight or name in history.shares:
                continue
            node = ""
            text: int | str = ""
            if name == ReciprocityComponent.name:
                is_back = (own.neighbor == target) & ~own.is_out & ~own.is_negative
                edges = np.flatnonzero(is_back)
                (node,) = self.nodes.ids_of([target])
                text = own.text(edges[-1]) if len(edges) else ""
            yield Reason(kind=name, node=node, weight=weight), text

    def _quotes(self, query: Queries, targets: Ids, count: int) -> list[list[_Draft]]:
        """The texts of the targets' edges that add most to their scores."""
        vector = query.vectors[0, : query.widths[0]]
        if not vector.any():
            return [[] for _ in targets]
        return [
            self._quotes_of(edges, edges.vectors @ vector, int(query.nodes[0]), count)
            if edges is not None
            else []
            for edges in self.text.target_edge_vectors(targets)
        ]

    def _quotes_of(
        self, edges: EdgeVectors, weights: Vectors, source: int, count: int
    ) -> list[_Draft]:
        """The texts with the largest weights, except those of the source and negative ones."""
        usable = (weights > 0) & (edges.neighbor != source) & ~is_negative(self.graph, edges.edge)
        usable &= self.graph.text_lengths[edges.edge] > 0
        best = [edge for edge in np.argsort(-weights).tolist() if usable[edge]][:count]
        names = self.nodes.ids_of(edges.neighbor[best])
        return [
            (Reason(kind=QUOTE, node=name, weight=float(weights[edge])), int(edges.edge[edge]))
            for edge, name in zip(best, names, strict=True)
        ]

    def _with_texts(self, drafts: Sequence[Sequence[_Draft]]) -> list[list[Reason]]:
        """Reasons with the texts and labels of their edges, all of which are read at once."""
        numbers = sorted({text for own in drafts for _, text in own if isinstance(text, int)})
        texts = dict(zip(numbers, self.graph.texts(numbers) if numbers else [], strict=True))

        def filled(reason: Reason, text: int | str) -> Reason:
            if isinstance(text, str):
                return replace(reason, text=text)
            return replace(reason, text=texts[text], label=label_name(self.graph, text))

        return [[filled(reason, text) for reason, text in own] for own in drafts]


def is_negative(graph: EdgeTextGraph, edges: Ids) -> Mask:
    """Whether each edge [m] is known to be negative: by positive labels, else by its rating.

    Without positive labels, labels that are all numbers are ratings; low is below the middle.
    """
    if graph.meta.positive_labels:
        return ~graph.is_positive[edges]
    try:
        ratings = np.array([float(name) for name in graph.label_names])
    except ValueError:
        ratings = np.empty(0)
    if graph.labels is None or graph.label_kind != "class" or not len(ratings):
        return np.zeros(len(edges), bool)
    codes, is_low = graph.labels[edges], ratings < (ratings.min() + ratings.max()) / 2
    return np.asarray((codes >= 0) & is_low[codes])


def label_name(graph: EdgeTextGraph, edge: int) -> str:
    """The class of an edge; empty if it has none."""
    if graph.labels is None or graph.label_kind != "class":
        return ""
    code = int(graph.labels[edge])
    return graph.label_names[code] if code >= 0 else ""
