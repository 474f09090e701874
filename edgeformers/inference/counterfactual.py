"""Scores without some edges of a source or a target, recomputed through every component.

Removing edges undoes `update`: texts are encoded without them, components folded in without them,
a target is less popular, and a source may get the weights of one with fewer edges. Node vectors and
the fitted keys of targets stay as they were learned.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.batch import UNKNOWN
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Floats, Ids, Mask
from edgeformers.evaluation import LinkTable
from edgeformers.inference.components import ScoreComponent
from edgeformers.inference.edge_history import EdgeHistory, NewEdges
from edgeformers.inference.encode import Vectors
from edgeformers.inference.link_scorer import LinkScorer, Queries, Ranking
from edgeformers.inference.saved_components import degree_group
from edgeformers.inference.trained_components import EdgeNumbers, TextComponent


@dataclass(frozen=True, kw_only=True)
class OwnEdges:
    """The edges of one source: those of the network, then later ones."""

    number: Ids  # [m]; ~i for the i-th later one
    neighbor: Ids  # [m]; -1 if unknown
    is_out: Mask  # [m], whether it leads to the neighbor
    is_link: Mask  # [m], whether components count it as a link of the source
    later_texts: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.number)

    def text(self, position: int) -> int | str:
        """The number of an edge, or its text if it is a later one."""
        number = int(self.number[position])
        return number if number >= 0 else self.later_texts[~number] or ""


@dataclass(frozen=True, kw_only=True)
class _Links:
    """Links to a target that loses some of its edges."""

    kept: NewEdges  # of those that arrived
    lost: int


@dataclass(frozen=True, kw_only=True)
class Counterfactual:
    """Recomputes the scores of one source, known or new, without some edges.

    Shapes: m edges of the source, c removals, t targets, R the width of all components.
    """

    scorer: LinkScorer  # its first component is `text`
    text: TextComponent
    graph: EdgeTextGraph
    history: Callable[[], EdgeHistory]

    def own_edges(self, source: int, new: NewEdges | None) -> OwnEdges:
        """The edges that the model may read of a source."""
        later = self.text.later_edges(source, new)
        adjacency, graph = self.text.loader.source_sampler.adjacency, self.graph
        is_known = new is None and source < graph.num_nodes
        number = adjacency.edges_of(source) if is_known else np.empty(0, np.int64)
        number = np.setdiff1d(number, [*self.text.removed_from(source)]).astype(np.int64)
        ends = np.stack([graph.src[number], graph.dst[number]]).astype(np.int64)
        is_out = np.concatenate([ends[0] == source, np.array([e[2] for e in later], bool)])
        neighbor = np.where(ends[0] == source, ends[1], ends[0])
        neighbor = np.concatenate([neighbor, np.array([e[0] for e in later], np.int64)])
        positive = np.concatenate([graph.is_positive[number], np.ones(len(later), bool)])
        has_vector = (neighbor >= 0) & (neighbor < graph.num_nodes)
        return OwnEdges(
            number=np.concatenate([number, ~np.arange(len(later))]),
            neighbor=neighbor,
            is_out=is_out,
            is_link=positive & (is_out | graph.is_undirected) & has_vector,
            later_texts=[text for _, text, *_ in later],
        )

    def scores(
        self, source: int, new: NewEdges | None, nodes: Ids, targets: Ids
    ) -> tuple[Floats, Queries]:
        """The scores [c, t] without all edges between the source and each node [c].

        With them, the source as it is scored without the edges.
        """
        own = self.own_edges(source, new)
        removals = [own.neighbor == node for node in nodes.tolist()]
        queries = self.queries(source, new, own, removals)
        scores = queries.vectors.astype(np.float64) @ self.scorer.cached_keys(targets).T
        for _, bonus, weights in self.scorer.bonuses(queries, targets):
            scores[bonus.queries, bonus.candidates] += weights[bonus.queries]
        rows, columns = np.nonzero(nodes[:, None] == targets)
        if new is None and len(rows):  # these targets lose edges too, and with them any bonus
            keys = self._keys_apart(source, nodes[rows])
            scores[rows, columns] = (queries.vectors[rows].astype(np.float64) * keys).sum(1)
        return scores, queries

    def rank(
        self, source: int, nodes: Ids, k: int, seen: LinkTable | None
    ) -> tuple[Ranking, list[dict[str, float]]]:
        """The k best targets of a known source without its edges with some nodes.

        `seen` has the positions of targets that are left out, except for these nodes. With the
        ranking, the contributions of the components to each score.
        """
        own, scorer = self.own_edges(source, None), self.scorer
        query = self.queries(source, None, own, [np.isin(own.neighbor, nodes)])
        columns = np.searchsorted(scorer.candidates, nodes)
        if seen is not None:
            columns = np.concatenate([columns, seen.candidates])
        exclude = LinkTable.from_pairs(np.zeros(len(columns), np.int64), columns, 1)
        others = scorer.rank(query, k, exclude=exclude)
        apart = scorer.products(query, self._keys_apart(source, nodes))  # [c, P]; without bonuses
        node = np.concatenate([others.node, nodes])
        score = np.concatenate([others.score, apart.sum(1).astype(np.float32)])
        best = np.argsort(-score, kind="stable")[:k]
        names = [component.name for component in scorer.components]
        shares = scorer.shares(query, others.node)
        shares += [dict(zip(names, row, strict=True)) for row in apart.tolist()]
        rank = np.arange(1, len(best) + 1)
        ranking = Ranking(row=np.zeros_like(best), rank=rank, node=node[best], score=score[best])
        return ranking, [shares[at] for at in best.tolist()]

    def queries(
        self, source: int, new: NewEdges | None, own: OwnEdges, removals: Sequence[Mask]
    ) -> Queries:
        """The source without the edges [m] of each removal [c]."""
        removed = [frozenset(own.number[gone].tolist()) for gone in removals]
        group = degree_group(np.array([len(own) - gone.sum() for gone in removals], np.int64))
        linked = own.neighbor[own.is_link]
        if new is None:
            linked = self.history().targets_of(source)
        nodes, counts = np.unique(linked, return_counts=True)
        kept = [counts - _counts(nodes, own.neighbor[own.is_link & gone]) for gone in removals]
        parts = [self._text_queries(source, new, removed, group)]
        known = source if new is None else UNKNOWN
        for component in self.scorer.components[1:]:
            query = (
                component.vectors(np.array([source]), "source")[0]
                if new is None
                else component.fold_in(new, "source")
            ).cpu()
            rows = [component.query_without(query, nodes, counts, left, known) for left in kept]
            parts.append(torch.stack(rows) if rows else query.new_empty(0, len(query)))
        return self.scorer.weighted(np.full(len(group), source), parts, torch.from_numpy(group))

    def keys(self, targets: Ids, removed: Sequence[EdgeNumbers]) -> Vectors:
        """The keys [c, R] of targets, each without some of its edges."""
        text = self.text.vectors_without(targets.tolist(), removed, "target")
        rows = [text.new_empty(0, self.scorer.mean_key.size)]
        for target, gone, vector in zip(targets.tolist(), removed, text, strict=True):
            links = self._links_to(target, gone)
            parts = [
                self._key(component, target, links) for component in self.scorer.components[1:]
            ]
            rows.append(torch.cat([vector, *parts])[None])
        keys: Vectors = torch.cat(rows).numpy()
        return keys

    def _key(self, component: ScoreComponent, target: int, links: "_Links") -> Tensor:
        """The key [R] of a target with only some of its edges."""
        if target >= self.graph.num_nodes:  # folded in
            return component.fold_in(links.kept, "target").float()
        edges = int(self.history().popularity[target])
        key = component.vectors(np.array([target]), "target")[0].float().cpu()
        return component.key_without(key, edges, edges - links.lost)

    def _text_queries(
        self, source: int, new: NewEdges | None, removed: Sequence[EdgeNumbers], group: Ids
    ) -> Tensor:
        if not self.scorer.weights[group, 0].any():
            return torch.zeros(len(removed), self.text.width)
        return self.text.vectors_without([source] * len(removed), removed, "source", new)

    def _keys_apart(self, source: int, nodes: Ids) -> Vectors:
        """The keys [c, R] of nodes without their edges with the source."""
        removed = []
        for node in nodes.tolist():
            own = self.own_edges(node, None)
            removed.append(frozenset(own.number[own.neighbor == source].tolist()))
        return self.keys(nodes, removed)

    def _links_to(self, target: int, removed: EdgeNumbers) -> "_Links":
        """The links to a target: those that arrived and are kept, and how many are lost."""
        numbers = np.array([number for number in removed if number >= 0], np.int64)
        graph = self.graph
        leads_there = (graph.dst[numbers] == target) | graph.is_undirected
        lost = np.count_nonzero(graph.is_positive[numbers] & leads_there)
        later = self.text.later_edges(target)
        later = [edge for edge in later if edge[0] >= 0 and (graph.is_undirected or not edge[2])]
        kept = [neighbor for neighbor, *_, number in later if number not in removed]
        return _Links(
            kept=NewEdges(
                source=np.array(kept, np.int64),
                target=np.full(len(kept), -1),
                texts=[None] * len(kept),
            ),
            lost=int(lost) + len(later) - len(kept),
        )


def _counts(nodes: Ids, linked: Ids) -> Ids:
    """How often each of the sorted nodes [h] occurs."""
    return np.bincount(np.searchsorted(nodes, linked), minlength=len(nodes))[: len(nodes)]
