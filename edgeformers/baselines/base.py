"""What simple baselines share: their interfaces, a grid search on validation, training links.

An edge baseline predicts the class of edges; a link baseline scores pairs of nodes. Both learn
from the training part of a split and choose their settings from a small grid on the validation
part, so that a model is compared with each of them at its best.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN, VAL
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.evaluation import FunctionScorer, LinkTable, metrics, rank_full
from edgeformers.evaluation.network_links import candidate_nodes, known_links, positive_links

Scores = NDArray[np.float32]
PairScores = Callable[[Ids, Ids], Scores]  # query nodes [q], candidate nodes [c] -> [q, c]

VALIDATION_LINKS = 10_000

Setting = TypeVar("Setting")
Fitted = TypeVar("Fitted")


@runtime_checkable
class EdgeBaseline(Protocol):
    """Tells the class of an edge; classes are numbered as in `graph.label_names`."""

    @property
    def setting(self) -> dict[str, Any]:
        """What was chosen on validation; nothing before `fit`."""
        ...

    def fit(self, graph: EdgeTextGraph, split: str) -> Self: ...

    def predict_proba(self, edge_ids: ArrayLike) -> NDArray[np.float64]:
        """The probability of every class for each edge [n, C]."""
        ...

    def predict(self, edge_ids: ArrayLike) -> Ids:
        """The likeliest class of each edge [n]."""
        ...


@runtime_checkable
class LinkBaseline(Protocol):
    """Scores how likely a query links to a candidate; learns from positive training edges."""

    @property
    def setting(self) -> dict[str, Any]:
        """What was chosen on validation; nothing before `fit`."""
        ...

    def fit(self, graph: EdgeTextGraph, split: str) -> Self: ...

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> scores [q, c]; higher is likelier."""
        ...


@dataclass(frozen=True, kw_only=True)
class Trial(Generic[Setting]):
    """A setting of the grid and what it reached on validation (nan: there is nothing to try on)."""

    setting: Setting
    score: float


def choose(
    grid: Sequence[Setting], fit: Callable[[Setting], Fitted], score: Callable[[Fitted], float]
) -> tuple[Fitted, list[Trial[Setting]]]:
    """The fit that scores best, and all trials; with nothing to score, the first of the grid."""
    if not grid:
        raise InputError("the grid of settings is empty; name at least one")
    best = fit(grid[0])
    trials = [Trial(setting=grid[0], score=score(best))]
    if np.isnan(trials[0].score):
        return best, trials
    for setting in grid[1:]:
        fitted = fit(setting)
        trials.append(Trial(setting=setting, score=score(fitted)))
        if trials[-1].score > max(trial.score for trial in trials[:-1]):
            best = fitted
    return best, trials


def best_setting(trials: Sequence[Trial[Setting]]) -> Setting:
    """The setting that `choose` kept."""
    return max(trials, key=lambda trial: trial.score).setting


@dataclass(frozen=True, kw_only=True)
class TrainingLinks:
    """Positive training links, and the links of profiles with which cold nodes are folded in.

    Queries are the sources and candidates the targets of a bipartite network; otherwise both are
    all nodes. A cold node has no training link but may have a profile: edges that a fitted
    baseline uses to represent the node, but does not learn from.
    """

    train: LinkTable
    known: LinkTable  # training and profile links
    first_candidate: int  # the node in column 0

    @cached_property
    def cold_queries(self) -> Ids:
        """Queries with a profile but without a training link."""
        return np.flatnonzero((self.train.degrees == 0) & (self.known.degrees > 0))

    @cached_property
    def cold_candidates(self) -> Ids:
        """Candidates with a profile but without a training link."""
        return np.setdiff1d(self.known.candidates, self.train.candidates)

    @cached_property
    def popularity(self) -> NDArray[np.float64]:
        """Training edges to each candidate; profile edges for a cold candidate."""
        trained, known = self.train.popularity, self.known.popularity
        return np.where(trained > 0, trained, known)

    def rows(self, queries: ArrayLike) -> Ids:
        """Row numbers of query nodes."""
        return _in_range(queries, 0, self.train.num_queries, "queries")

    def columns(self, candidates: ArrayLike) -> Ids:
        """Column numbers of candidate nodes."""
        return _in_range(candidates, self.first_candidate, self.train.num_candidates, "candidates")

    def fill_with_popularity(self, scores: Scores, rows: Ids, columns: Ids) -> Scores:
        """Replace the scores [q, c] of queries without any known link by candidate popularity."""
        scores[self.known.degrees[rows] == 0] = self.popularity[columns]
        return scores


def training_links(graph: EdgeTextGraph, split: str) -> TrainingLinks:
    """The links that link baselines learn from and fold in."""
    train = positive_links(graph, split, [TRAIN])
    if not train.num_links:
        raise InputError(
            f"{graph.path} has no positive training edge in the split '{split}'; "
            "prepare it with other positive labels or another split"
        )
    has_profiles = (graph.split(split) == PROFILE).any()
    known = positive_links(graph, split, [TRAIN, PROFILE]) if has_profiles else train
    first = graph.num_sources if graph.is_bipartite else 0
    return TrainingLinks(train=train, known=known, first_candidate=first)


def fold_in_means(
    links: TrainingLinks, queries: Scores, candidates: Scores
) -> tuple[Scores, Scores]:
    """Vectors [Q, K] and [C, K] in which a cold node is the mean of what its profile links to."""
    known, back = links.known, links.known.transpose()
    return (
        _with_means(queries, links.cold_queries, known, candidates),
        _with_means(candidates, links.cold_candidates, back, queries),
    )


def _with_means(vectors: Scores, cold: Ids, links: LinkTable, others: Scores) -> Scores:
    vectors = vectors.copy()
    position, linked = links.of(cold)
    sums = np.zeros((len(cold), vectors.shape[1]), vectors.dtype)
    np.add.at(sums, position, others[linked])
    vectors[cold] = sums / links.degrees[cold, None]
    return vectors


class ValidationRanking:
    """Full-ranking MRR on at most 10,000 evenly spaced validation links.

    Candidates that the query is linked to in training, validation or a profile are excluded.
    """

    def __init__(self, graph: EdgeTextGraph, split: str) -> None:
        links = positive_links(graph, split, [VAL])
        spaced = np.linspace(0, links.num_links - 1, VALIDATION_LINKS).round()
        chosen = np.unique(spaced).astype(np.int64) if links.num_links else links.candidates
        self.queries, self.positives = links.queries[chosen], links.candidates[chosen]
        usable = np.isin(graph.split(split), (TRAIN, VAL, PROFILE)) & graph.is_positive
        sources = np.arange(graph.num_sources)
        self.known = known_links(graph, sources, np.flatnonzero(usable))
        self.candidates = candidate_nodes(graph)

    def subset(self, chosen: NDArray[np.bool_]) -> Self:
        """The same ranking of only the chosen links [n]."""
        subset = copy(self)
        subset.queries, subset.positives = self.queries[chosen], self.positives[chosen]
        return subset

    def mrr(self, score: PairScores) -> float:
        """The mean reciprocal rank; NaN without validation links."""
        return metrics.mean(self.reciprocal_ranks(score))

    def reciprocal_ranks(self, score: PairScores) -> NDArray[np.float64]:
        """The reciprocal rank of each validation link."""
        scorer = FunctionScorer(lambda rows: score(rows, self.candidates), len(self.candidates))
        ranks = rank_full(scorer, self.positives, queries=self.queries, known=self.known)
        return metrics.reciprocal_ranks(ranks)


def _in_range(nodes: ArrayLike, first: int, count: int, what: str) -> Ids:
    numbers = np.asarray(nodes, np.int64) - first
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise InputError(
            f"{what} must be nodes {first:,} to {first + count - 1:,} "
            f"(got {numbers.min() + first:,} to {numbers.max() + first:,})"
        )
    return numbers
