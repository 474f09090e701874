"""What simple baselines share: their interfaces, a grid search on validation, training links.

An edge baseline predicts the class of edges; a link baseline scores pairs of nodes. Both learn
from the training part of a split and choose their settings from a small grid on the validation
part, so that a model is compared with each of them at its best.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN, VAL
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.evaluation import LinkTable, metrics
from edgeformers.evaluation.network_links import candidate_nodes, known_links, positive_links
from edgeformers.evaluation.ranking import block_rows, rank_full_each
from edgeformers.evaluation.scorers import Table, as_table

Scores = NDArray[np.float32]
PairScores = Callable[[Ids, Ids], Table]  # query nodes [q], candidate nodes [c] -> [q, c]

VALIDATION_LINKS = 10_000

Setting = TypeVar("Setting")
Fitted = TypeVar("Fitted")


@runtime_checkable
class EdgeBaseline(Protocol):
    """Predicts the class of edges; classes are numbered as in `graph.label_names`."""

    @property
    def setting(self) -> dict[str, Any]:
        """What was chosen on validation; empty before `fit`."""
        ...

    def fit(self, graph: EdgeTextGraph, split: str) -> Self: ...

    def predict_proba(self, edge_ids: ArrayLike) -> NDArray[np.float64]:
        """The probability of every class for each edge [n, C]."""
        ...

    def predict(self, edge_ids: ArrayLike) -> Ids:
        """The most probable class of each edge [n]."""
        ...


@runtime_checkable
class LinkBaseline(Protocol):
    """Scores how likely a query links to a candidate; learns from positive training edges."""

    @property
    def setting(self) -> dict[str, Any]:
        """What was chosen on validation; empty before `fit`."""
        ...

    def fit(self, graph: EdgeTextGraph, split: str) -> Self: ...

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Query nodes [q] and candidate nodes [c] -> scores [q, c]; higher is more likely."""
        ...


@dataclass(frozen=True, kw_only=True)
class GridTrial(Generic[Setting]):
    """A setting of the grid and its validation score; NaN if there are no validation examples."""

    setting: Setting
    score: float


def grid_search(
    grid: Sequence[Setting], fit: Callable[[Setting], Fitted], score: Callable[[Fitted], float]
) -> tuple[Fitted, list[GridTrial[Setting]]]:
    """Fit every setting; return the best model and all trials.

    Without validation examples only the first setting is fitted.
    """
    if not grid:
        raise InputError("the grid of settings is empty; give at least one setting")
    best: tuple[Fitted, float] | None = None
    trials = []
    for setting in grid:
        fitted = fit(setting)
        value = score(fitted)
        trials.append(GridTrial(setting=setting, score=value))
        if best is None or value > best[1]:
            best = fitted, value
        if np.isnan(value):
            break
    assert best is not None
    return best[0], trials


def best_setting(trials: Sequence[GridTrial[Setting]]) -> Setting:
    """The setting of the model that `grid_search` returned."""
    return max(trials, key=lambda trial: trial.score).setting


def default_device() -> torch.device:
    """The GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


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
    return TrainingLinks(train=train, known=known, first_candidate=graph.nodes_on("target").start)


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
        ranks = self.reciprocal_ranks_each(lambda rows, nodes: [score(rows, nodes)], 1)
        return np.asarray(ranks[0])

    def reciprocal_ranks_each(
        self, scores: Callable[[Ids, Ids], Iterable[Table]], count: int, tables: int = 1
    ) -> NDArray[np.float64]:
        """The reciprocal ranks [count, n] under each of several scores, in one pass.

        `tables` is how many tables of scores are in memory at once.
        """
        ranks = rank_full_each(
            lambda rows: map(as_table, scores(rows, self.candidates)),
            self.queries,
            self.positives,
            self.known,
            block_rows(len(self.candidates), tables),
            count,
        )
        return metrics.reciprocal_ranks(ranks)


class GridLinkBaseline(ABC, Generic[Setting, Fitted]):
    """A link baseline whose setting is chosen from a grid by full-ranking MRR on validation.

    A query without any link gets the candidates in order of popularity.
    """

    links: TrainingLinks
    ranking: ValidationRanking
    fitted: Fitted

    def __init__(self, grid: Sequence[Setting]) -> None:
        self.grid = grid
        self.trials: list[GridTrial[Setting]] = []
        self.setting: dict[str, Any] = {}

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Fit every setting of the grid and keep the best on validation."""
        self._read(graph, split)
        self.fitted, self.trials = grid_search(self.grid, self._fit, self._validation_mrr)
        self.setting = self._describe(best_setting(self.trials), self.fitted)
        return self

    def fit_each(self, graph: EdgeTextGraph, split: str) -> Iterator[tuple[Setting, Self]]:
        """Every setting of the grid with a baseline fitted with it; none is chosen."""
        self._read(graph, split)
        for setting in self.grid:
            fitted = copy(self)
            fitted.fitted = self._fit(setting)
            yield setting, fitted

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Query nodes [q] and candidate nodes [c] -> scores [q, c]."""
        return self._scores(self.fitted, queries, candidates)

    def _read(self, graph: EdgeTextGraph, split: str) -> None:
        self.links = training_links(graph, split)
        self.ranking = ValidationRanking(graph, split)
        self._prepare(graph, split)

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        """Compute what all settings share."""

    @abstractmethod
    def _fit(self, setting: Setting) -> Fitted:
        """Fit one setting."""

    @abstractmethod
    def _score(self, fitted: Fitted, rows: Ids, columns: Ids) -> Scores:
        """Scores [q, c] of row and column numbers."""

    @abstractmethod
    def _describe(self, setting: Setting, fitted: Fitted) -> dict[str, Any]:
        """The chosen setting by name."""

    def _scores(self, fitted: Fitted, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        rows, columns = self.links.rows(queries), self.links.columns(candidates)
        scores = self._score(fitted, rows, columns)
        return self.links.fill_with_popularity(scores, rows, columns)

    def _validation_mrr(self, fitted: Fitted) -> float:
        return self.ranking.mrr(lambda queries, c: self._scores(fitted, queries, c))


def _in_range(nodes: ArrayLike, first: int, count: int, what: str) -> Ids:
    numbers = np.asarray(nodes, np.int64) - first
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise InputError(
            f"{what} must be nodes {first:,} to {first + count - 1:,} "
            f"(got {numbers.min() + first:,} to {numbers.max() + first:,})"
        )
    return numbers
