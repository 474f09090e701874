"""Explain recommendations: what the history of a source and each component add to a score."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.types import Ids, Mask
from edgeformers.inference.components import ReciprocityComponent
from edgeformers.inference.counterfactual import Counterfactual, OwnEdges
from edgeformers.inference.edge_history import NewEdges
from edgeformers.inference.encode import Vectors
from edgeformers.inference.link_scorer import Queries, Ranking
from edgeformers.inference.trained_components import EdgeVectors

Shares = NDArray[np.float64]
#: Kinds of reasons, next to the components.
HISTORY, OTHER_HISTORY, QUOTE, REST = "history", "other_history", "quote", "rest"
#: What can decide a recommendation, in words, and the components that belong to it.
DECIDERS: Mapping[str, str] = {
    "text": "the texts",
    "collaborative": "people with a similar history",
    "popularity": "popularity",
    "times": "the times of the edges",
    "reciprocity": "an edge in the other direction",
}
_DECIDER_OF = {
    "topics": "text",
    "node_vectors": "collaborative",
    "lightgcn": "collaborative",
    "als": "collaborative",
    "ease": "collaborative",
    "recent_history": "collaborative",
    "audience": "collaborative",
    "activity_profiles": "times",
    "novelty": "times",
    "novelty_preference": "times",
    "recent_popularity": "popularity",
    "flat_popularity": "popularity",
}
SHORT_QUOTE = 20  # characters; a shorter text ("ok", "canceled") says nothing about a node
SPARE = 1  # further nodes of the history whose removal is tried for each target
MEAN_SOURCES = 32  # whose mean text vector stands for that of all sources


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A summand of a score, or a quote.

    `kind` is "history" for the edges between the source and `node`, shown with the text and the
    label of one of them; "other_history" for all other edges of the source; the name of a component
    that is not divided among edges; or "rest". `components` divides the weight of the first two. A
    "quote" is a text about the recommended node, written by `node`.

    `effect` is how much lower the score is, computed again, without the edges between the source
    and `node`, or without the quoted edge. It differs from the weight because other edges count for
    more when one is gone.
    """

    text: str = ""
    node: str = ""
    weight: float
    kind: str = HISTORY
    label: str = ""
    components: dict[str, float] = field(default_factory=dict)
    effect: float | None = None


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """A recommended node, its score, and what the score consists of.

    The values of `components` sum to the score. So do the weights of `because`: the history of the
    source, then other components and the rest. What is specific to the recommended node comes
    first: reasons are ordered by their effect on this score beyond that on the average candidate.
    `quotes` are texts about the recommended node; first those that add more than for the average
    source.

    `above_average` is what texts, people with a similar history ("collaborative"), popularity,
    times and reciprocity add beyond the average candidate; `decided_by` is the largest of them.
    """

    node: str
    score: float
    because: list[Reason] = field(default_factory=list)
    components: dict[str, float] = field(default_factory=dict)
    quotes: list[Reason] = field(default_factory=list)
    decided_by: str = ""
    above_average: dict[str, float] = field(default_factory=dict)

    @property
    def decision(self) -> str:
        """What decided, in a sentence, with the shares of all that raised the score."""
        raised = {name: value for name, value in self.above_average.items() if value > 0}
        if not raised:
            return ""
        shares = {name: value / sum(raised.values()) for name, value in raised.items()}
        first, *others = sorted(shares, key=lambda name: -shares[name])
        words = [f"{DECIDERS[name]} {shares[name]:.0%}" for name in others if shares[name] >= 0.005]
        if first != "text" and "text" in self.above_average and "text" not in others:
            words.append("not the texts")
        return f"decided by {DECIDERS[first]} ({', '.join([f'{shares[first]:.0%}', *words])})"


#: A reason without its text, and the edge that has the text, or the text itself.
_Draft = tuple[Reason, int | str]


@dataclass(frozen=True, kw_only=True)
class _History:
    """What the nodes that a source has edges with add to the scores of targets.

    The last column is the average candidate.
    """

    nodes: Ids  # [h]; -1 stands for all unknown ones
    shares: Mapping[str, Shares]  # component -> [h, t + 1]
    text_shares: Shares  # [m, t + 1], of the source's edges

    @cached_property
    def weights(self) -> Shares:
        """Of all components together: [h, t + 1]."""
        none = np.zeros((len(self.nodes), self.text_shares.shape[1]))
        sums: Shares = sum(self.shares.values(), none)
        return sums


@dataclass(frozen=True, kw_only=True)
class _Effects:
    """How much lower scores are without the edges between a source and each of some nodes."""

    nodes: Ids  # [c], sorted
    values: Shares  # [c, t + 1]; the last column is the average candidate

    def of(self, node: int, at: int) -> float:
        return float(self.values[np.searchsorted(self.nodes, node), at])

    def specific(self, node: int, at: int) -> float:
        """The effect beyond that on the average candidate."""
        return self.of(node, at) - self.of(node, -1)


@dataclass(frozen=True, kw_only=True)
class Explainer:
    """Explains the recommendations to one source.

    Shapes: m edges of the source, h nodes at their other ends, t targets.
    """

    counterfactual: Counterfactual
    graph: EdgeTextGraph
    nodes: NodeIndex

    def explain(
        self,
        query: Queries,
        new: NewEdges | None,
        ranking: Ranking,
        recommendations: Sequence[Recommendation],
        count: int,
    ) -> list[Recommendation]:
        """Recommendations with reasons: `count` nodes of the history, and as many quotes.

        An edge that is known not to be favorable is neither named nor quoted.
        """
        targets = ranking.node
        own = self.counterfactual.own_edges(int(query.nodes[0]), new)
        history = self._history(query, new, own, targets)
        chosen = self._shortlists(own, history, count + SPARE)
        effects = self._effects(query, new, own, ranking, chosen)
        drafts: list[list[_Draft]] = [[] for _ in targets]
        for at, (one, nodes) in enumerate(zip(recommendations, chosen, strict=True)):
            named = [node for node in nodes if effects.of(node, at) > 0]
            named = sorted(named, key=lambda node: -effects.specific(node, at))[:count]
            drafts[at] += self._named_history(own, history, effects, at, named)
            components = {n: w for n, w in one.components.items() if n not in history.shares}
            drafts[at] += self._undivided(own, effects, at, int(targets[at]), components)
            rest = one.score - sum(reason.weight for reason, _ in drafts[at])
            drafts[at].append((Reason(kind=REST, weight=rest), ""))
        filled = self._with_texts([*drafts, *self._quotes(query, targets, count)])
        mean = self.counterfactual.scorer.mean_shares(query)
        return [
            replace(one, because=because, quotes=quotes, above_average=above, decided_by=decider)
            for one, because, quotes, (decider, above) in zip(
                recommendations,
                filled[: len(targets)],
                filled[len(targets) :],
                (decision(one.components, mean) for one in recommendations),
                strict=True,
            )
        ]

    def _history(
        self, query: Queries, new: NewEdges | None, own: OwnEdges, targets: Ids
    ) -> _History:
        scorer, text = self.counterfactual.scorer, self.counterfactual.text
        keys = np.vstack([scorer.cached_keys(targets), scorer.mean_key])
        nodes = np.unique(own.neighbor)
        linked, counts = np.unique(own.neighbor[own.is_link], return_counts=True)
        shares: dict[str, Shares] = {}
        for name, values in scorer.history_shares(query, (linked, counts), keys).items():
            shares[name] = np.zeros((len(nodes), len(keys)))
            shares[name][np.searchsorted(nodes, linked)] = values
        text_shares = np.zeros((len(own), len(keys)))
        weight, width = float(query.weights[0, 0]), query.widths[0]
        read = text.source_edge_vectors(int(query.nodes[0]), new) if weight else None
        if read is not None:
            order = np.argsort(own.number)
            place = order[np.searchsorted(own.number, read.edge, sorter=order)]
            text_shares[place] = weight * read.vectors @ keys[:, :width].T
            shares["text"] = np.zeros((len(nodes), len(keys)))
            np.add.at(shares["text"], np.searchsorted(nodes, own.neighbor), text_shares)
        return _History(nodes=nodes, shares=shares, text_shares=text_shares)

    def _shortlists(self, own: OwnEdges, history: _History, count: int) -> list[list[int]]:
        """For each target, the nodes that add most to it beyond the average candidate."""
        weights, usable = history.weights, own.neighbor[self._usable(own)]
        may_be_named = np.isin(history.nodes, usable)[:, None] & (weights > 0)
        specific = np.where(may_be_named, weights - weights[:, -1:], -np.inf)[:, :-1]  # [h, t]
        order = np.argsort(-specific, axis=0, kind="stable")[:count]
        return [
            [int(history.nodes[row]) for row in rows if specific[row, at] > -np.inf]
            for at, rows in enumerate(order.T)
        ]

    def _effects(
        self,
        query: Queries,
        new: NewEdges | None,
        own: OwnEdges,
        ranking: Ranking,
        chosen: Sequence[Sequence[int]],
    ) -> _Effects:
        """The effects of the chosen nodes, and of targets that have edges with the source."""
        back = ranking.node[np.isin(ranking.node, own.neighbor)].tolist()
        nodes = np.unique([*back, *(node for each in chosen for node in each)]).astype(np.int64)
        source, scorer = int(query.nodes[0]), self.counterfactual.scorer
        without, queries = self.counterfactual.scores(source, new, nodes, ranking.node)
        mean = (query.vectors - queries.vectors).astype(np.float64) @ scorer.mean_key
        values = np.column_stack([ranking.score.astype(np.float64) - without, mean])
        return _Effects(nodes=nodes, values=values)

    def _named_history(
        self, own: OwnEdges, history: _History, effects: _Effects, at: int, named: Sequence[int]
    ) -> Iterator[_Draft]:
        """The named nodes, and the others together.

        A node comes with the edge whose text adds most, or else the last one.
        """
        usable, rows = self._usable(own), np.searchsorted(history.nodes, named)
        for row, node in zip(rows.tolist(), named, strict=True):
            edges = np.flatnonzero((own.neighbor == node) & usable)[::-1]
            edge = edges[np.argmax(history.text_shares[edges, at])]
            parts = {name: float(shares[row, at]) for name, shares in history.shares.items()}
            (name,) = self.nodes.ids_of([node]) if node >= 0 else [""]
            weight, effect = float(history.weights[row, at]), effects.of(node, at)
            yield Reason(node=name, weight=weight, components=parts, effect=effect), own.text(edge)
        others = np.delete(np.arange(len(history.nodes)), rows)
        if history.weights[others, at].any():
            parts = {
                name: float(shares[others, at].sum()) for name, shares in history.shares.items()
            }
            yield Reason(kind=OTHER_HISTORY, weight=sum(parts.values()), components=parts), ""

    def _undivided(
        self,
        own: OwnEdges,
        effects: _Effects,
        at: int,
        target: int,
        components: Mapping[str, float],
    ) -> Iterator[_Draft]:
        """The components that are not divided among edges; reciprocity with the edge it rewards."""
        for name, weight in components.items():
            reason = Reason(kind=name, weight=weight)
            text: int | str = ""
            if weight and name == ReciprocityComponent.name:
                edges = np.flatnonzero((own.neighbor == target) & ~own.is_out & self._usable(own))
                (node,) = self.nodes.ids_of([target])
                reason = replace(reason, node=node, effect=effects.of(target, at))
                text = own.text(edges[-1]) if len(edges) else ""
            if weight:
                yield reason, text

    def _usable(self, own: OwnEdges) -> Mask:
        """Whether each edge of the source [m] may be named."""
        later = np.zeros(len(own.later_texts), bool)
        return ~np.concatenate([is_unfavorable(self.graph, own.number[own.number >= 0]), later])

    def _quotes(self, query: Queries, targets: Ids, count: int) -> list[list[_Draft]]:
        """The texts of the targets' edges that add most beyond the average source."""
        quotes: list[list[_Draft]] = [[] for _ in targets]
        vector, source = query.vectors[0, : query.widths[0]], int(query.nodes[0])
        if not vector.any():
            return quotes
        personal = vector - float(query.weights[0, 0]) * self._mean_text_query
        read = self.counterfactual.text.target_edge_vectors(targets)
        found = [
            (at, edges, row)
            for at, edges in enumerate(read)
            if edges is not None
            for row in self._quotable(edges, vector, personal, source)[: count + SPARE]
        ]
        owners = targets[[at for at, *_ in found]]
        removed = [frozenset([int(edges.edge[row])]) for _, edges, row in found]
        lost = self.counterfactual.scorer.cached_keys(owners).astype(np.float64)
        lost -= self.counterfactual.keys(owners, removed)
        for (at, edges, row), effect in zip(found, (lost @ query.vectors[0]).tolist(), strict=True):
            if effect <= 0 or len(quotes[at]) == count:  # the score is no lower without it
                continue
            (node,) = self.nodes.ids_of(edges.neighbor[[row]]) if edges.neighbor[row] >= 0 else [""]
            weight, number = float(edges.vectors[row] @ vector), int(edges.edge[row])
            later = self.counterfactual.text.later_edges(int(targets[at]))
            text = number if number >= 0 else later[~number][1] or ""
            quotes[at].append((Reason(kind=QUOTE, node=node, weight=weight, effect=effect), text))
        return quotes

    def _quotable(
        self, edges: EdgeVectors, vector: Vectors, personal: Vectors, source: int
    ) -> list[int]:
        """The edges of a target that may be quoted to a source, the most personal first."""
        known = edges.edge.clip(min=0)
        usable = (edges.vectors @ vector > 0) & (edges.neighbor != source)
        usable &= (edges.edge < 0) | (
            ~is_unfavorable(self.graph, known)
            & (self.graph.text_lengths[known] >= self._least_quote)
        )
        order = np.argsort(-(edges.vectors @ personal), kind="stable")
        return [row for row in order.tolist() if usable[row]]

    @cached_property
    def _least_quote(self) -> float:
        """The number of characters of a quote; fewer where most texts are short."""
        typical = float(np.median(self.graph.text_lengths))
        return max(1.0, min(SHORT_QUOTE, typical / 2))

    @cached_property
    def _mean_text_query(self) -> Vectors:
        """The mean text vector of some sources."""
        last = self.graph.num_sources - 1
        some = np.unique(np.linspace(0, last, MEAN_SOURCES).astype(np.int64))
        vectors = self.counterfactual.text.vectors(some, "source")
        mean: Vectors = vectors.mean(0).cpu().numpy()
        return mean

    def _with_texts(self, drafts: Sequence[Sequence[_Draft]]) -> list[list[Reason]]:
        """Reasons with the texts and labels of their edges, all of which are read at once."""
        numbers = sorted({text for own in drafts for _, text in own if isinstance(text, int)})
        texts = dict(zip(numbers, self.graph.texts(numbers) if numbers else [], strict=True))

        def filled(reason: Reason, text: int | str) -> Reason:
            if isinstance(text, str):
                return replace(reason, text=text)
            return replace(reason, text=texts[text], label=label_name(self.graph, text))

        return [[filled(reason, text) for reason, text in own] for own in drafts]


def decision(
    components: Mapping[str, float], mean: Mapping[str, float]
) -> tuple[str, dict[str, float]]:
    """What adds most beyond the average candidate, and what each part adds."""
    above: dict[str, float] = {}
    for name, value in components.items():
        part = _DECIDER_OF.get(name, name)
        above[part] = above.get(part, 0.0) + value - mean[name]
    first = max(above, key=lambda part: above[part])
    return (first if above[first] > 0 else "", above)


def knows_favorable(graph: EdgeTextGraph) -> bool:
    """Whether a network says which of its edges are favorable."""
    return bool(graph.meta.positive_labels) or _ratings(graph) is not None


def is_unfavorable(graph: EdgeTextGraph, edges: Ids) -> Mask:
    """Whether each edge [m] is known not to be favorable: by positive labels, else by its rating.

    Without positive labels, labels that are all numbers are ratings; favorable is above the middle.
    """
    if graph.meta.positive_labels:
        return ~graph.is_positive[edges]
    ratings = _ratings(graph)
    if ratings is None or graph.labels is None:
        return np.zeros(len(edges), bool)
    codes, is_low = graph.labels[edges], ratings <= (ratings.min() + ratings.max()) / 2
    return np.asarray((codes >= 0) & is_low[codes])


def _ratings(graph: EdgeTextGraph) -> NDArray[np.float64] | None:
    """The classes of a network as numbers; None if they are not, or all alike."""
    try:
        ratings = np.array([float(name) for name in graph.label_names])
    except ValueError:
        return None
    is_class = graph.labels is not None and graph.label_kind == "class"
    return ratings if is_class and len(np.unique(ratings)) > 1 else None


def label_name(graph: EdgeTextGraph, edge: int) -> str:
    """The class of an edge; empty if it has none."""
    if graph.labels is None or graph.label_kind != "class":
        return ""
    code = int(graph.labels[edge])
    return graph.label_names[code] if code >= 0 else ""
