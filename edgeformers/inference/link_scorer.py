"""LinkScorer: ranks, scores and explains links as a weighted sum of components."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.types import Floats, Ids, Mask
from edgeformers.evaluation import BonusScorer, InnerProductScorer, LinkTable, Scorer
from edgeformers.evaluation.scorers import JoinedScorer, to_numpy
from edgeformers.inference.components import ScoreComponent
from edgeformers.inference.edge_history import Departures, EdgeHistory, NewEdges
from edgeformers.inference.encode import Vectors
from edgeformers.inference.growing import GrowingArray
from edgeformers.inference.index import LinkIndex
from edgeformers.inference.saved_components import degree_group
from edgeformers.inference.vector_search import (
    Found,
    KeySearch,
    Wanted,
    best_first,
    best_of_all,
)

GPU_BYTES = 8 << 30  # largest table of vectors that is copied to a GPU
_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class Queries:
    """Sources as `LinkScorer` ranks for them.

    Shapes: n sources, R the width of all components together, P components.
    """

    nodes: Ids  # [n], -1 for a new source
    vectors: Vectors  # [n, R], weighted
    weights: Vectors  # [n, P]
    widths: Sequence[int]  # [P], of each component


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The best candidates of several sources, source by source and best first."""

    row: Ids  # [n], the position of the source
    rank: Ids  # [n], from 1
    node: Ids  # [n]
    score: Vectors  # [n]


class LinkScorer:
    """A fitted link score: components and, per degree group of sources, their weights."""

    def __init__(
        self,
        components: Sequence[ScoreComponent],
        *,
        weights: Tensor,  # [G, P]
        group: Tensor,  # [N]
        candidates: Ids,
        device: torch.device | str = "cpu",  # where scores are computed
        index: LinkIndex | None = None,
        is_hidden: Mask | None = None,  # [C], candidates without edges; by default none
    ) -> None:
        self.components, self._candidates = components, GrowingArray(candidates)
        self.num_trained = len(candidates)  # candidates that arrived later come after these
        hidden = np.zeros(len(candidates), bool) if is_hidden is None else is_hidden.copy()
        self._is_hidden = GrowingArray(hidden)
        self.device = torch.device(device)
        self.weights, self._group = (
            weights.float().cpu(),
            GrowingArray(group.cpu().long().clone().numpy()),
        )
        self._index = index

    @property
    def candidates(self) -> Ids:
        """The nodes [C] that can be recommended, sorted."""
        return self._candidates.rows

    @property
    def is_hidden(self) -> Mask:
        """Which candidates [C] have no edges, and are therefore not recommended."""
        return self._is_hidden.rows

    @property
    def group(self) -> Ids:
        """The degree group of each node."""
        return self._group.rows

    def linked(self, nodes: Sequence[Ids]) -> LinkTable:
        """The candidates that each of several sources is linked to, by position."""
        rows = np.repeat(np.arange(len(nodes)), [len(own) for own in nodes])
        columns = np.searchsorted(self.candidates, np.concatenate([_NOTHING, *nodes]))
        return LinkTable.from_pairs(rows, columns, len(nodes))

    def queries(self, sources: Ids) -> Queries:
        """Known sources; -1 is not allowed here, see `fold_in`."""
        parts = [component.vectors(sources, "source") for component in self.components]
        return self.weighted(sources, parts, torch.from_numpy(self.group[sources]))

    def fold_in_source(self, edges: NewEdges) -> Queries:
        """A source that is not in the network, from its edges."""
        return self.fold_in_sources([edges])

    def fold_in_sources(self, nodes: Sequence[NewEdges]) -> Queries:
        """Sources that are not in the network, each from its edges."""
        parts = [component.fold_in_each(nodes, "source") for component in self.components]
        group = torch.from_numpy(degree_group(np.array([len(edges) for edges in nodes])))
        return self.weighted(np.full(len(nodes), -1), parts, group)

    def fold_in_target(self, edges: NewEdges) -> Vectors:
        """The key [R] of a target that is not in the network, from its edges."""
        return _joined([component.fold_in(edges, "target") for component in self.components])

    def keys(self, nodes: Ids) -> Vectors:
        """Vectors [n, R] of known nodes; their products with query vectors are the scores."""
        return _joined([component.vectors(nodes, "target") for component in self.components])

    def cached_keys(self, targets: Ids) -> Vectors:
        """The `keys` of candidates, from those of all candidates once something was ranked."""
        if not self._has_keys:
            return self.keys(targets)
        place = np.searchsorted(self.candidates, targets)
        is_later = place >= self.num_trained
        keys: Vectors = self._candidate_keys[np.where(is_later, 0, place)]
        keys[is_later] = self._later_keys.rows[place[is_later] - self.num_trained]
        return keys

    def among(self, queries: Ids | Queries, candidates: Ids | None = None) -> Scorer:
        """The scores of sources and chosen or all candidates, as evaluation ranks them."""
        sources = self._as_queries(queries)
        keys = self._moved_keys if candidates is None else self._moved(self.keys(candidates))
        scorer: Scorer = InnerProductScorer(sources.vectors, keys)
        if candidates is None and len(self.candidates) > self.num_trained:
            later = InnerProductScorer(sources.vectors, self._later_keys.rows)
            scorer = JoinedScorer(scorer, later)
        targets = self.candidates if candidates is None else candidates
        for _, bonus, weights in self.bonuses(sources, targets):
            scorer = BonusScorer(scorer, bonus, weights)
        return scorer

    def scores(self, queries: Ids | Queries) -> Vectors:
        """The scores of all candidates [n, C]."""
        sources = queries.nodes if isinstance(queries, Queries) else queries
        return to_numpy(self.among(queries).scores(np.arange(len(sources))))

    def component_scores(self, queries: Ids | Queries) -> Vectors:
        """What each component adds to the scores of all candidates: [n, P, C]."""
        sources = self._as_queries(queries)
        # By torch, not NumPy: two pools of threads would compete for the same cores.
        parts = torch.from_numpy(sources.vectors).split(sources.widths, 1)
        blocks = []
        for keys in (self._candidate_keys, self._later_keys.rows):
            own = torch.from_numpy(keys).split(sources.widths, 1)
            blocks.append(torch.stack([q @ k.T for q, k in zip(parts, own, strict=True)], 1))
        tables: Vectors = torch.cat(blocks, 2).numpy()
        for at, bonus, weights in self.bonuses(sources, self.candidates):
            tables[bonus.queries, at, bonus.candidates] += weights[bonus.queries]
        return tables

    def rank(
        self,
        queries: Ids | Queries,
        k: int,
        *,
        exclude: LinkTable | None = None,
        allowed: Mask | None = None,
    ) -> Ranking:
        """The k best candidates of each source.

        `exclude` has the positions of those that are left out for a source, and `allowed` [C] says
        which ones are ranked at all.
        """
        sources = self._as_queries(queries)
        hidden = self._is_hidden.rows
        if hidden.any():
            allowed = ~hidden if allowed is None else allowed & ~hidden
        if self._search is not None:
            return self._find(self._search, sources, k, exclude, allowed)
        rows = np.arange(len(sources.nodes))
        scores = torch.as_tensor(self.among(sources).scores(rows))
        if exclude is not None:
            scores[exclude.of(rows)] = -torch.inf
        if allowed is not None:
            scores[:, torch.from_numpy(~allowed)] = -torch.inf
        values, best = map(to_numpy, scores.topk(min(k, scores.shape[1]), dim=1))
        row, place = np.nonzero(np.isfinite(values))
        node = self.candidates[best[row, place]]
        return Ranking(row=row, rank=place + 1, node=node, score=values[row, place])

    def explain(self, source: int, target: int) -> dict[str, float]:
        """What each component contributes to a score; the values sum to the score."""
        return self.shares(self.queries(np.array([source])), np.array([target]))[0]

    def shares(
        self, queries: Queries, targets: Ids, rows: Ids | None = None
    ) -> list[dict[str, float]]:
        """The contributions of the components to the score of each target [t].

        `rows` [t] are the positions of the targets' sources; by default there is one source.
        """
        own = np.zeros(len(targets), np.int64) if rows is None else rows
        table = self.products(queries, self.cached_keys(targets), own)
        for at, bonus, weights in self.bonuses(queries, targets):
            is_own = own[bonus.candidates] == bonus.queries
            table[bonus.candidates[is_own], at] += weights[bonus.queries[is_own]]
        names = [component.name for component in self.components]
        return [dict(zip(names, row, strict=True)) for row in table.tolist()]

    def products(self, queries: Queries, keys: Vectors, rows: Ids | int = 0) -> Floats:
        """What the components' vectors of sources add to their scores with keys [t, R]: [t, P]."""
        products = (queries.vectors[rows] * keys).astype(np.float64)
        return products @ np.repeat(np.eye(len(queries.widths)), queries.widths, axis=0)

    def mean_shares(self, query: Queries) -> dict[str, float]:
        """For one source, the contributions of the components to the mean score of candidates."""
        table = self.products(query, self.mean_key[None])
        for at, bonus, weights in self.bonuses(query, self.candidates):
            table[0, at] += weights[0] * len(bonus.candidates) / len(self.candidates)
        names = [component.name for component in self.components]
        return dict(zip(names, table[0].tolist(), strict=True))

    def history_shares(
        self, query: Queries, links: tuple[Ids, Ids], keys: Vectors
    ) -> dict[str, Vectors]:
        """What the links of one source add to its scores with keys [t, R], by component: [h, t].

        `links` are the linked nodes [h] and how often each is linked. A component that does not
        count for this source, or is not made from links, is left out. Parts that do not sum to a
        trained query are scaled to the closest multiple of their sum.
        """
        shares, stops = {}, np.cumsum(query.widths)
        for component, stop, width in zip(self.components, stops, query.widths, strict=True):
            own = slice(stop - width, stop)
            vector = query.vectors[0, own]
            source = int(query.nodes[0])
            parts = component.history_parts(*links, source) if vector.any() else None
            if parts is not None:
                total = parts.sum(0).numpy()
                scale = max(0.0, vector @ total / max(float(total @ total), 1e-12))
                shares[component.name] = scale * (parts.numpy() @ keys[:, own].T)
        return shares

    def bonuses(self, queries: Queries, targets: Ids) -> Iterator[tuple[int, LinkTable, Vectors]]:
        """The bonuses of components that have any: (component, pairs, weights of the sources)."""
        for at, component in enumerate(self.components):
            bonus = component.bonus(queries.nodes, targets)
            if bonus is not None:
                yield at, bonus, queries.weights[:, at]

    def update(self, edges: NewEdges, history: EdgeHistory) -> None:
        """Take in edges that arrived after fitting, in time order, and append them to `history`."""
        self.update_each([edges], history)

    def update_each(self, blocks: Iterable[NewEdges], history: EdgeHistory) -> None:
        """Take in several blocks of edges; nodes with new edges are read once, after the last."""
        before = [component.generation for component in self.components]
        ends = np.unique(np.concatenate([_NOTHING, *(self._add(own, history) for own in blocks)]))
        self._renew(ends)
        for at, component in enumerate(self.components):
            if component.generation != before[at]:
                self._renew_component(at)

    def _add(self, edges: NewEdges, history: EdgeHistory) -> Ids:
        """Take in edges; returns the nodes at their ends, whose vectors are still the old ones."""
        arrivals = history.add(edges)
        for component in self.components:
            component.update(arrivals)
        ends = np.unique(np.concatenate([edges.source, edges.target]))
        ends = ends[ends >= 0]
        self._group.append(np.zeros(max(0, int(ends.max(initial=0)) + 1 - len(self.group)), int))
        self.group[ends] = degree_group(history.degrees[ends])
        later = arrivals.new_nodes["target"]
        self._candidates.append(later[later > self.candidates[-1]])
        self._is_hidden.append(np.zeros(len(self.candidates) - len(self._is_hidden.rows), bool))
        self._is_hidden.rows[self._places(ends)] = False
        return ends

    def remove(self, departures: Departures) -> None:
        """Forget the edges of a node, which were removed from the history.

        A node without other edges is not recommended until it has an edge again.
        """
        history = departures.history
        for component in self.components:
            component.remove(departures)
        ends = np.append(departures.neighbors, departures.node)
        self.group[ends] = degree_group(history.degrees[ends])
        self._is_hidden.rows[self._places(ends[history.degrees[ends] == 0])] = True
        self.__dict__.pop("mean_key", None)
        self._renew(np.unique(ends))

    def _as_queries(self, sources: Ids | Queries) -> Queries:
        return sources if isinstance(sources, Queries) else self.queries(sources)

    def weighted(self, nodes: Ids, parts: Sequence[Tensor], group: Tensor) -> Queries:
        """Sources [n] of degree groups [n], from the query vectors of each component."""
        weights, widths = self.weights[group], [part.size(1) for part in parts]
        vectors = _joined(parts) * weights.repeat_interleave(torch.tensor(widths), dim=1).numpy()
        return Queries(nodes=nodes, vectors=vectors, weights=weights.numpy(), widths=widths)

    def _renew(self, nodes: Ids) -> None:
        """Compute everything that is stored of nodes again, since their edges have changed."""
        for component in self.components:
            component.renew(nodes)
        self._renew_keys(nodes)

    def _renew_component(self, at: int) -> None:
        """Compute the keys of all candidates for one component again."""
        if not self._has_keys:
            return
        first = self.candidates[:1]
        widths = [component.vectors(first, "target").size(1) for component in self.components]
        start = sum(widths[:at])
        own, keys = slice(start, start + widths[at]), self._candidate_keys
        new = self.components[at].vectors(self.candidates, "target").cpu()
        keys[:, own] = new[: self.num_trained].numpy()
        self._later_keys.rows[:, own] = new[self.num_trained :].numpy()
        if self._search is not None:
            self._search.renew(keys, np.arange(len(keys)))
        if isinstance(moved := self.__dict__.get("_moved_keys"), Tensor):
            moved[:, own] = new[: self.num_trained].to(moved)

    def _renew_keys(self, nodes: Ids) -> None:
        """Compute the keys of nodes again, if those of all candidates are stored."""
        if not self._has_keys:
            return
        rows = self._places(nodes)
        if not len(rows):
            return
        keys, is_later = self.keys(self.candidates[rows]), rows >= self.num_trained
        later, missing = rows[is_later] - self.num_trained, len(self.candidates) - self.num_trained
        missing -= len(self._later_keys.rows)
        self._later_keys.append(np.zeros((missing, keys.shape[1]), np.float32))
        self._later_keys.rows[later] = keys[is_later]
        rows, keys = rows[~is_later], keys[~is_later]
        self._candidate_keys[rows] = keys
        if self._search is not None:
            self._search.renew(self._candidate_keys, rows)
        if isinstance(moved := self.__dict__.get("_moved_keys"), Tensor):
            moved[torch.from_numpy(rows).to(moved.device)] = torch.from_numpy(keys).to(moved)

    def _places(self, nodes: Ids) -> Ids:
        """The positions of nodes that are candidates."""
        rows = np.searchsorted(self.candidates, nodes)
        found: Ids = rows[self.candidates[np.minimum(rows, len(self.candidates) - 1)] == nodes]
        return found

    def _find(
        self,
        search: KeySearch,
        sources: Queries,
        k: int,
        exclude: LinkTable | None,
        allowed: Mask | None,
    ) -> Ranking:
        """`rank` by the search of the index."""
        none = [_NOTHING] * len(sources.nodes)
        ends = none if exclude is None else np.split(exclude.candidates, exclude.indptr[1:-1])
        wanted = [Wanted(k=k, excluded=own) for own in ends]
        for _, table, weights in self.bonuses(sources, self.candidates):
            for row, place in zip(table.queries.tolist(), table.candidates.tolist(), strict=True):
                wanted[row].bonus[place] = wanted[row].bonus.get(place, 0.0) + float(weights[row])
        start = self.num_trained
        has_later = len(self.candidates) > start
        indexed = [one.before(start) for one in wanted] if has_later else wanted
        chosen = None if allowed is None else allowed[:start]
        found = search.best(self._candidate_keys, sources.vectors, indexed, chosen)
        if has_later:
            found = self._with_later(found, sources, wanted, allowed)
        counts = [len(positions) for positions, _ in found]
        return Ranking(
            row=np.repeat(np.arange(len(found)), counts),
            rank=np.concatenate([_NOTHING, *(np.arange(1, count + 1) for count in counts)]),
            node=self.candidates[np.concatenate([_NOTHING, *(place for place, _ in found)])],
            score=np.concatenate([np.empty(0, np.float32), *(score for _, score in found)]),
        )

    def _with_later(
        self, found: list[Found], sources: Queries, wanted: list[Wanted], allowed: Mask | None
    ) -> list[Found]:
        """The best of the candidates that were found and of those that arrived later."""
        start, merged = self.num_trained, []
        for query, one, own in zip(sources.vectors, wanted, found, strict=True):
            late = None if allowed is None else allowed[start:]
            place, score = best_of_all(self._later_keys.rows, query, one.after(start), late)
            places = np.concatenate([own[0], place + start])
            merged.append(best_first(places, np.concatenate([own[1], score]), one.k))
        return merged

    @cached_property
    def _search(self) -> KeySearch | None:
        on_gpu = self.device.type == "cuda"  # where all candidates are multiplied
        return None if self._index is None or on_gpu else self._index.search()

    @cached_property
    def mean_key(self) -> Vectors:
        """The mean [R] of the keys of all candidates, as of its first use."""
        mean: Vectors = self._candidate_keys.mean(0, dtype=np.float64).astype(np.float32)
        return mean

    @property
    def _has_keys(self) -> bool:
        """Whether the keys of all candidates are in the index, or have been computed."""
        return self._index is not None or "_candidate_keys" in self.__dict__

    @cached_property
    def _candidate_keys(self) -> Vectors:
        if self._index is not None:
            return self._index.keys()
        return self.keys(self.candidates[: self.num_trained])

    @cached_property
    def _later_keys(self) -> GrowingArray:
        return GrowingArray(self.keys(self.candidates[self.num_trained :]))

    @cached_property
    def _moved_keys(self) -> Vectors | Tensor:
        return self._moved(self._candidate_keys)

    def _moved(self, vectors: Vectors) -> Vectors | Tensor:
        """Vectors on the GPU if scores are computed there and they are not too many."""
        if self.device.type != "cuda" or vectors.nbytes > GPU_BYTES:
            return vectors
        return torch.from_numpy(vectors).to(self.device)


def _joined(parts: Sequence[Tensor]) -> Vectors:
    vectors: Vectors = torch.cat([part.float().cpu() for part in parts], dim=-1).numpy()
    return vectors
