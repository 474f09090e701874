"""FittedLinkPredictor: ranks, scores, recommends, explains and embeds nodes."""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.config import LinkSettings
from edgeformers.data.batch import UNKNOWN
from edgeformers.data.loader import EgoLoader
from edgeformers.data.node_index import GrowingNodeIndex
from edgeformers.data.splits import PROFILE
from edgeformers.data.times import Times
from edgeformers.data.types import Ids, Mask, Side
from edgeformers.errors import InputError
from edgeformers.evaluation import PROTOCOLS, LinkProtocol, LinkReport, LinkTable
from edgeformers.evaluation.beyond_accuracy import recommendation_metrics
from edgeformers.evaluation.links import node_positions
from edgeformers.evaluation.network_links import candidate_nodes, known_links, rank_links
from edgeformers.inference.candidate_filter import CandidateFilter
from edgeformers.inference.components import ScoreComponent
from edgeformers.inference.counterfactual import Counterfactual
from edgeformers.inference.edge_history import EdgeHistory, NewEdges
from edgeformers.inference.explain import Explainer, Recommendation
from edgeformers.inference.fitted import FittedModel
from edgeformers.inference.index import LinkIndex
from edgeformers.inference.link_scorer import LinkScorer, Queries, Ranking
from edgeformers.inference.live_links import LiveLinks
from edgeformers.inference.saved_components import GROUPS, Ensemble
from edgeformers.inference.trained_components import (
    NodeVectorComponent,
    PopularityComponent,
    TextComponent,
)
from edgeformers.inference.vector_search import highest
from edgeformers.inference.word_attention import AttendedText
from edgeformers.models.link_head import LinkHead

RECOMMENDED = 10  # candidates per source that are judged
JUDGED_SOURCES = 10_000
EdgeTexts = Sequence[tuple[str, str]]  # of a new node: (the node at the other end, the text)


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The recommendations to a source with all its edges, and without some of them."""

    before: list[Recommendation]
    after: list[Recommendation]


@dataclass(frozen=True, kw_only=True)
class SimilarNode:
    """A node and the cosine of its vector with that of another."""

    node: str
    score: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FittedLinkPredictor(FittedModel[EgoLoader]):
    """A node model with a link score: the trained components and, optionally, an ensemble.

    Shapes: n nodes, D width.
    """

    head: LinkHead
    ensemble: Ensemble | None = None
    index_folder: Path | None = None  # of a run with an index

    def head_tensors(self) -> dict[str, Tensor]:
        return {**self.head.state_dict(), **(self.ensemble.tensors() if self.ensemble else {})}

    @property
    def select_metric(self) -> str:
        """The validation metric by which epochs and settings are chosen."""
        return self.config.train.select_metric or "full/mrr"

    @cached_property
    def index(self) -> LinkIndex | None:
        """The index that `edgeformers index` built; that of another model is an InputError."""
        return None if self.index_folder is None else LinkIndex.open(self.index_folder, self)

    @cached_property
    def text(self) -> TextComponent:
        """The component that reads texts; with an index, its vectors are stored."""
        loader = self.network.loader
        text = TextComponent(self.head, self.model, loader, self.options, self.pack)
        text.cache = self.network.vectors
        text.stored = None if self.index is None else self.index.text_vectors()
        return text

    @cached_property
    def scorer(self) -> LinkScorer:
        """The link score of this model: parts as `LinkHead.factors` has them, and the ensemble.

        If weights were chosen for a score that takes in edges as they come, these are used.
        """
        return self._make_scorer(rolling=True)

    @cached_property
    def _static_scorer(self) -> LinkScorer:
        """The same with weights for a test part that is ranked without reading any later edge."""
        if self.ensemble is None or self.ensemble.rolling_weights is None:
            return self.scorer
        return self._make_scorer(rolling=False)

    def _make_scorer(self, *, rolling: bool) -> LinkScorer:
        trained: list[ScoreComponent] = [self.text]
        if self.head.is_collaborative:
            trained.append(
                NodeVectorComponent(self.head, self.model.get_submodule("nodes"), len(self.nodes))
            )
        if self.head.bias is not None:
            trained.append(PopularityComponent(self.head))
        alone = torch.ones(GROUPS, 1)
        ensemble = self.ensemble or Ensemble(
            components=[], weights=alone, group=torch.zeros(len(self.nodes))
        )
        ensemble = ensemble.used(rolling=rolling)
        shared = ensemble.weights[:, :1].expand(-1, len(trained))  # one weight for all of these
        candidates = candidate_nodes(self.network.graph)
        graph, split = self.network.graph, self.network.split
        has_edges, profiles = graph.seen_in_training(split).copy(), graph.split(split) == PROFILE
        has_edges[graph.src[profiles]] = has_edges[graph.dst[profiles]] = True
        return LinkScorer(
            [*trained, *map(copy, ensemble.components)],  # `update` changes only the copies
            weights=torch.cat([shared, ensemble.weights[:, 1:]], 1),
            group=ensemble.group,
            candidates=candidates,
            device=self.options.device,
            index=self.index if rolling else None,
            is_hidden=~has_edges[candidates],
        )

    def evaluate(
        self, part: str = "test", *, protocols: Sequence[LinkProtocol] = PROTOCOLS
    ) -> dict[str, Any]:
        """Ranking metrics of a part under each protocol, by degree, with 95 % intervals of MRR.

        With `full`, also what the ten best candidates of its sources are like (`recommendations`).
        """
        pairs = self.network.part(part)
        report = self.report(pairs, protocols=protocols)
        results = report.results(self.config.train.seed)
        if "full" in protocols:
            results["recommendations"] = self.recommendation_metrics(pairs)
        self.results[part] = results
        return results

    def report(self, pairs: Ids, *, protocols: Sequence[LinkProtocol] = PROTOCOLS) -> LinkReport:
        """The ranks of links, given as edges of the network, under each protocol."""
        if self._live.has_read_later:
            raise InputError(
                "links cannot be evaluated after `read_all_edges`: scores already include them; "
                "load the model again"
            )
        network = self.network
        return rank_links(
            network.graph,
            network.parts,
            pairs,
            self._static_scorer.among,
            adjacency=network.loader.source_sampler.adjacency,
            protocols=tuple(protocols),
            seed=self.config.train.seed,
        )

    def recommendation_metrics(self, pairs: Ids, k: int = RECOMMENDED) -> dict[str, float]:
        """Coverage, novelty, popularity lift and diversity of k recommendations to each source.

        The sources are those of the given edges, at most 10,000 of them; what they link to in
        training is not recommended. Diversity compares the model's vectors of candidates,
        relative to their mean, since those of a language model all point in similar directions.
        """
        graph, candidates = self.network.graph, candidate_nodes(self.network.graph)
        sources = np.unique(graph.src[pairs]).astype(np.int64)
        spaced = np.linspace(0, len(sources) - 1, min(len(sources), JUDGED_SOURCES))
        sources = sources[spaced.round().astype(np.int64)]
        trained = known_links(graph, sources, self.network.parts["train"])
        popularity = np.bincount(graph.dst[self.network.parts["train"]], minlength=graph.num_nodes)
        popularity = popularity[candidates]
        own = np.bincount(trained.queries, popularity[trained.candidates], len(sources))
        known = trained.degrees > 0
        ranking = self.scorer.rank(sources, k, exclude=trained)
        listed = ~self.scorer.is_hidden[: len(candidates)]  # others are never recommended
        vectors = self.embed_nodes(candidates[listed], side="target")
        return recommendation_metrics(
            ranking.row,
            node_positions(ranking.node, candidates[listed]),
            popularity[listed],
            vectors=vectors - vectors.mean(0),
            own_popularity=own[known] / trained.degrees[known],
        )

    def embed_nodes(
        self, nodes: Sequence[str] | Ids | None = None, *, side: Side = "source"
    ) -> NDArray[np.float32]:
        """node_repr [n, D] of nodes given by id (on one side) or number; by default of all."""
        return self.text.encode(self._numbers(nodes, side), side)

    def embed_new_nodes(
        self, nodes: Sequence[EdgeTexts], *, side: Side = "source"
    ) -> NDArray[np.float32]:
        """node_repr [n, D] of nodes that are not in the network.

        Each is given by its edges: (the node at the other end, the text).
        """
        new = [self.new_edges(edges, side) for edges in nodes]
        return self.text.encode_new(new, side).cpu().numpy()

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """The scores of (source, target) pairs; higher means a likelier link."""
        src = self.live_nodes.known_numbers([source for source, _ in pairs], "source")
        dst = self.live_nodes.known_numbers([target for _, target in pairs], "target")
        sources, rows = np.unique(src, return_inverse=True)
        targets, columns = np.unique(dst, return_inverse=True)
        scores = self.scorer.among(sources, targets).pick(rows, columns[:, None])
        return np.asarray(scores[:, 0], np.float32)

    def explain(self, source: str, target: str) -> dict[str, float]:
        """What each component contributes to the score of a pair; the values sum to the score."""
        (query,) = self.live_nodes.known_numbers([source], "source").tolist()
        (key,) = self.live_nodes.known_numbers([target], "target").tolist()
        return self.scorer.explain(query, key)

    def recommend(
        self,
        node: str | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        edges: EdgeTexts | None = None,
        explain: int = 0,
        candidates: CandidateFilter | None = None,
    ) -> list[Recommendation]:
        """The k targets with the highest scores for a source, best first.

        `edges` describes a source that is not in the network, instead of `node`. `exclude_seen`
        leaves out targets that the source is already linked to. `explain` adds what the scores
        consist of: that many nodes of the source's history and texts of each recommended node.
        `candidates` limits which targets are recommended.
        """
        if k < 1:
            raise InputError(f"k must be at least 1 (got {k})")
        query, new, seen = self._source(node, edges)
        ranking = self.scorer.rank(
            query, k, exclude=seen if exclude_seen else None, allowed=self.allowed(candidates)
        )
        found = self._recommendations(ranking, self.scorer.shares(query, ranking.node))
        return self._explainer.explain(query, new, ranking, found, explain) if explain else found

    def recommend_many(
        self,
        nodes: Sequence[str] | Ids,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        candidates: CandidateFilter | None = None,
    ) -> list[list[Recommendation]]:
        """`recommend` for several sources, ids or numbers, which are scored together."""
        numbers = self._numbers(nodes, "source")
        exclude = self.seen(numbers) if exclude_seen else None
        return self._rank_each(self.scorer.queries(numbers), k, exclude, candidates)

    def recommend_new(
        self,
        nodes: Sequence[EdgeTexts],
        k: int = 10,
        *,
        exclude_seen: bool = True,
        candidates: CandidateFilter | None = None,
    ) -> list[list[Recommendation]]:
        """`recommend` for several new sources, each given by its edges, encoded together."""
        queries, _, seen = self._new_sources(nodes)
        return self._rank_each(queries, k, seen if exclude_seen else None, candidates)

    def allowed(self, candidates: CandidateFilter | None) -> Mask | None:
        """Which candidates pass a filter; None if all do."""
        if candidates is None:
            return None
        return candidates.mask(self.scorer.candidates, self.live_nodes, self.network.graph)

    def similar(self, node: str, k: int = 10, *, side: Side = "source") -> list[SimilarNode]:
        """The k nodes on the same side whose node_repr has the highest cosine with that of a node.

        Nodes that arrived after fitting are not among them. Without an index, the first call
        encodes all nodes.
        """
        return self.similar_to_each([node], k, side=side)[0]

    def similar_to_each(
        self, nodes: Sequence[str], k: int = 10, *, side: Side = "source"
    ) -> list[list[SimilarNode]]:
        """`similar` for several nodes, which are compared together."""
        if k < 1:
            raise InputError(f"k must be at least 1 (got {k})")
        numbers, listed = self._numbers(list(nodes), side), self.network.graph.nodes_on(side)
        first, stop = listed.start, listed.stop
        table, norms = (stored[first:stop] for stored in self.text.store(side))
        queries = self.text.encode(numbers, side)
        lengths = np.linalg.norm(queries, axis=1)[:, None]
        cosines = queries @ table.T / np.maximum(lengths * norms, 1e-12)
        found = []
        for number, own in zip(numbers.tolist(), cosines, strict=True):
            if number in listed:
                own[number - first] = -np.inf
            place, score = highest(own, k)
            names = self.live_nodes.ids_of(place + first)
            pairs = zip(names, score.tolist(), strict=True)
            found.append([SimilarNode(node=name, score=value) for name, value in pairs])
        return found

    def what_if(
        self,
        node: str | None = None,
        k: int = 10,
        *,
        without: Sequence[str],
        exclude_seen: bool = True,
        edges: EdgeTexts | None = None,
    ) -> WhatIf:
        """The k best targets of a source before and after it loses its edges with some nodes.

        The source is given as for `recommend`. Scores are computed again without the edges, as
        `inference/counterfactual.py` describes; then their nodes may be recommended too.
        """
        before = self.recommend(node, k, exclude_seen=exclude_seen, edges=edges)
        if edges is not None:
            kept = [edge for edge in edges if edge[0] not in without]
            after = self.recommend(k=k, exclude_seen=exclude_seen, edges=kept)
            return WhatIf(before=before, after=after)
        sources = self.live_nodes.known_numbers([node], "source")
        removed = np.unique(self.live_nodes.known_numbers(list(without), "target"))
        own = self._counterfactual.own_edges(int(sources[0]), None)
        if len(unread := np.setdiff1d(removed, own.neighbor)):
            raise InputError(
                f"'{node}' has no edge with '{self.live_nodes.ids_of(unread)[0]}' that the model "
                "reads; edges after training are read only after `read_all_edges`"
            )
        seen = self.seen(sources) if exclude_seen else None
        ranking, shares = self._counterfactual.rank(int(sources[0]), removed, k, seen)
        return WhatIf(before=before, after=self._recommendations(ranking, shares))

    def word_attention(
        self, node: str | None = None, *, side: Side = "source", edges: EdgeTexts | None = None
    ) -> list[AttendedText]:
        """Where the model looked in the texts that it reads of a node, each among the others.

        `edges` describes a source that is not in the network, instead of `node`.
        """
        _check_one(node, edges)
        new = None if edges is None else self.new_edges(edges, "source")
        number = UNKNOWN if node is None else int(self._numbers([node], side)[0])
        batch, read = self.text.ego(number, side, new)
        names = [self.live_nodes.ids_of([n])[0] if n >= 0 else "" for n, *_ in read]
        if edges is not None:
            names = [name for name, _ in edges]
        return self._attended(batch, [(n, e[1] or "") for n, e in zip(names, read, strict=True)])

    def _source(
        self, node: str | None, edges: EdgeTexts | None
    ) -> tuple[Queries, NewEdges | None, LinkTable]:
        """A known or a new source, the edges of a new one, and the targets it is linked to."""
        _check_one(node, edges)
        if edges is None:
            remedy = "describe a new source by its edges with `edges=`"
            numbers = self.live_nodes.known_numbers([node], "source", remedy=remedy)
            return self.scorer.queries(numbers), None, self.seen(numbers)
        queries, (new,), seen = self._new_sources([edges])
        return queries, new, seen

    def _new_sources(self, nodes: Sequence[EdgeTexts]) -> tuple[Queries, list[NewEdges], LinkTable]:
        """New sources, their edges, and the targets that each is linked to."""
        new = [self.new_edges(edges, "source") for edges in nodes]
        seen = self.scorer.linked([own.target[own.target >= 0] for own in new])
        return self.scorer.fold_in_sources(new), new, seen

    def _rank_each(
        self,
        queries: Queries,
        k: int,
        exclude: LinkTable | None,
        candidates: CandidateFilter | None,
    ) -> list[list[Recommendation]]:
        """The recommendations to each of several sources, which are scored together."""
        if k < 1:
            raise InputError(f"k must be at least 1 (got {k})")
        ranking = self.scorer.rank(queries, k, exclude=exclude, allowed=self.allowed(candidates))
        shares = self.scorer.shares(queries, ranking.node, ranking.row)
        found = self._recommendations(ranking, shares)
        ends = np.searchsorted(ranking.row, np.arange(len(queries.nodes) + 1)).tolist()
        return [found[first:end] for first, end in pairwise(ends)]

    def _recommendations(
        self, ranking: Ranking, shares: Sequence[dict[str, float]]
    ) -> list[Recommendation]:
        names, scores = self.live_nodes.ids_of(ranking.node), ranking.score.tolist()
        return [
            Recommendation(node=name, score=score, components=parts)
            for name, score, parts in zip(names, scores, shares, strict=True)
        ]

    @cached_property
    def _counterfactual(self) -> Counterfactual:
        return Counterfactual(
            scorer=self.scorer,
            text=self.text,
            graph=self.network.graph,
            history=lambda: self._history,
        )

    @cached_property
    def _explainer(self) -> Explainer:
        return Explainer(
            counterfactual=self._counterfactual, graph=self.network.graph, nodes=self.live_nodes
        )

    def seen(self, sources: Ids) -> LinkTable:
        """The candidates that each source is linked to, by position; itself with one node type."""
        return self._live.seen(sources)

    def new_edges(self, edges: EdgeTexts, side: Side) -> NewEdges:
        """The edges of a new node on `side`."""
        other: Side = "target" if side == "source" else "source"
        known = self.live_nodes.numbers([name for name, _ in edges], other)
        unknown, texts = np.full(len(known), -1), [text for _, text in edges]
        ends = (unknown, known) if side == "source" else (known, unknown)
        return NewEdges(source=ends[0], target=ends[1], texts=texts)

    def update(
        self, edges: Sequence[tuple[str, str, str | None]], times: Times | None = None
    ) -> None:
        """Take in (source, target, text) edges that arrived after fitting, in time order.

        `times` are integers (microseconds since 1970), datetimes or numpy datetime64, in UTC unless
        they have a time zone; edges without are as late as the latest known. Edges and times that
        cannot be used change nothing. What has been learned stays; nodes are read, scored and
        grouped with their new edges. A node that the network does not have is known from then on:
        a source gets recommendations, a target is recommended, both from their edges. Only this
        object takes edges in: `save` writes the model as it was fitted. No other thread may use the
        object meanwhile.
        """
        self._live.update(edges, times)

    @property
    def num_unread(self) -> int:
        """The links after training that `read_all_edges` would read, in a split by time."""
        return self._live.num_unread

    def read_all_edges(self, *, show: bool = False) -> int:
        """Take in the later links of the network, as `update` does; returns how many.

        These are the links of validation and test, and those of no part that came after training.
        Recommendations are then as of the last edge. These parts can no longer be evaluated.
        """
        return self._live.read_all(show=show)

    def remove_edges(self, node: str, side: Side | None = None) -> int:
        """Forget all edges of a node on a side (by default on both); returns how many.

        Their texts are no longer read, quoted or used for any vector, neither of the node nor of
        its neighbors, and the links are not counted. Parameters that were learned from them
        stay until the next training. A node that is known from these edges only becomes unknown.
        An unknown node has no edges. No other thread may use the object meanwhile.
        """
        count = self._live.remove(node, side)
        self.__dict__.pop("_explainer", None)  # which has a mean of vectors
        return count

    @cached_property
    def live_nodes(self) -> GrowingNodeIndex:
        """The nodes of the network and those that `update` has added."""
        return GrowingNodeIndex(self.nodes)

    @cached_property
    def _live(self) -> LiveLinks:
        return LiveLinks(
            network=self.network, nodes=self.live_nodes, text=self.text, scorer=self.scorer
        )

    @property
    def _history(self) -> EdgeHistory:
        return self._live.history

    def _numbers(self, nodes: Sequence[str] | Ids | None, side: Side) -> Ids:
        if nodes is None:
            return np.arange(len(self.nodes), dtype=np.int64)
        if isinstance(nodes, np.ndarray) and nodes.dtype.kind in "iu":
            return nodes.astype(np.int64)
        if isinstance(nodes, str):
            raise InputError(f"nodes must be a list of ids (got '{nodes}')")
        return self.live_nodes.known_numbers(list(nodes), side)


def _check_one(node: str | None, edges: EdgeTexts | None) -> None:
    if (node is None) == (edges is None):
        raise InputError("give either a node of the network or the edges of a new node")


def make_link_head(settings: LinkSettings, num_nodes: int) -> LinkHead:
    """The link head that settings describe."""
    head = LinkHead(
        temperature="learned" if settings.learn_temperature else settings.temperature,
        normalize=settings.normalize,
        logq=settings.logq,
        mask_false_negatives=settings.mask_false_negatives,
        uniform_negatives=settings.uniform_negatives,
        collaborative=settings.collaborative,
        popularity_bias=settings.popularity_bias,
        num_nodes=num_nodes,
    )
    if head.log_scale is not None and settings.temperature is not None:  # its initial value
        torch.nn.init.constant_(head.log_scale, -math.log(settings.temperature))
    return head
