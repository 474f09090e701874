"""What simple baselines are, and what they share: training links, and a grid tried on validation.

An edge baseline tells the class of edges, a link baseline scores pairs of nodes. Both learn from
the training part of a split and choose their settings, from a grid written beside each, on its
validation part: they are to be beaten at their best.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN, VAL
from edgeformers.errors import InputError

Ints = NDArray[np.int64]
Scores = NDArray[np.float32]
Scorer = Callable[[Ints, Ints], Scores]  # query nodes [q], candidate nodes [c] -> [q, c]

VALIDATION_LINKS = 10_000  # validation links that are ranked at most, evenly spaced
RANKED_CELLS = 1 << 24  # scores held at once while ranking: 64 MB

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

    def predict(self, edge_ids: ArrayLike) -> Ints:
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
class Links:
    """Distinct links as a sparse table of rows (who asks) and columns (what is recommended).

    In a bipartite network rows are sources and columns targets; otherwise both are all nodes,
    and an undirected edge stands both ways. Sorted by row, then column.

    Nodes that training has not met may have a profile. Nothing is learned from it; a fitted
    baseline folds it in: it describes `cold_rows` and `cold_columns` by their links in `known`.
    """

    rows: Ints
    columns: Ints
    counts: NDArray[np.float64]  # edges that make the link
    num_rows: int
    num_columns: int
    first_column: int  # the node that column 0 is
    with_profiles: "Links | None" = None  # these and the links of profiles, where there are any

    @property
    def known(self) -> "Links":
        """All that a query may be answered from: these links, and those of profiles."""
        return self.with_profiles or self

    @cached_property
    def cold_rows(self) -> Ints:
        """Rows that have a profile and no link here."""
        return np.setdiff1d(self.known.rows, self.rows)

    @cached_property
    def cold_columns(self) -> Ints:
        """Columns that have a profile and no link here."""
        return np.setdiff1d(self.known.columns, self.columns)

    @cached_property
    def indptr(self) -> Ints:
        """The links of row r are `indptr[r] : indptr[r + 1]`."""
        return np.searchsorted(self.rows, np.arange(self.num_rows + 1))

    @cached_property
    def popularity(self) -> NDArray[np.float64]:
        """How many edges lead to each column; to a cold one, how many of its profile."""
        edges = np.bincount(self.columns, self.counts, self.num_columns).astype(np.float64)
        if len(self.cold_columns):
            edges[self.cold_columns] = self.known.popularity[self.cold_columns]
        return edges

    def row_numbers(self, queries: ArrayLike) -> Ints:
        return _within(queries, 0, self.num_rows, "queries")

    def column_numbers(self, candidates: ArrayLike) -> Ints:
        return _within(candidates, self.first_column, self.num_columns, "candidates")

    def cells_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """(place in `rows`, column) of every link of these rows."""
        sizes = self.indptr[rows + 1] - self.indptr[rows]
        place = np.repeat(np.arange(len(rows)), sizes)
        before = np.cumsum(sizes) - sizes
        link = np.arange(len(place)) - before[place] + self.indptr[rows][place]
        return place, self.columns[link]

    def fill_with_popularity(self, table: Scores, rows: Ints, columns: Ints) -> Scores:
        """Scores [q, c] in which rows without any link get the popularity of the columns."""
        is_cold = self.known.indptr[rows] == self.known.indptr[rows + 1]
        table[is_cold] = self.popularity[columns]
        return table

    def transposed(self) -> tuple[Ints, Ints, NDArray[np.float64]]:
        """(columns, rows, counts), sorted by column."""
        order = np.argsort(self.columns, kind="stable")
        return self.columns[order], self.rows[order], self.counts[order]


def positive_links(graph: EdgeTextGraph, split: str, parts: Sequence[int] = (TRAIN,)) -> Links:
    """The positive edges of some parts of a split as links; training must have some.

    Those of training alone come with what is known of nodes that training has not met.
    """
    graph.verify()
    chosen = np.isin(graph.split(split), parts) & graph.is_positive
    if TRAIN in parts and not chosen.any():
        raise InputError(
            f"{graph.path} has no positive training edge in the split '{split}'; "
            "prepare it with other positive labels or another split"
        )
    rows, columns = graph.src[chosen].astype(np.int64), graph.dst[chosen].astype(np.int64)
    if not graph.is_bipartite and not graph.is_directed:
        rows, columns = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    first = graph.num_sources if graph.is_bipartite else 0
    pairs, counts = np.unique(rows * graph.num_nodes + columns, return_counts=True)
    links = Links(
        rows=pairs // graph.num_nodes,
        columns=pairs % graph.num_nodes - first,
        counts=counts.astype(np.float64),
        num_rows=graph.num_sources,
        num_columns=graph.num_targets,
        first_column=first,
    )
    if tuple(parts) == (TRAIN,) and (graph.split(split) == PROFILE).any():
        return replace(links, with_profiles=positive_links(graph, split, (TRAIN, PROFILE)))
    return links


def fold_means(links: Links, rows: Scores, columns: Scores) -> tuple[Scores, Scores]:
    """Vectors [R, K] and [C, K] with those of nodes that were held out made anew.

    Each is the mean of what its profile links to, the other side as it was learned.
    """
    known, (new_rows, new_columns) = links.known, (rows.copy(), columns.copy())
    for own, cold, mine, others, theirs in (
        (new_rows, links.cold_rows, known.rows, known.columns, columns),
        (new_columns, links.cold_columns, known.columns, known.rows, rows),
    ):
        chosen = np.isin(mine, cold)
        own[cold] = 0.0
        np.add.at(own, mine[chosen], theirs[others[chosen]])
        own[cold] /= np.bincount(mine[chosen], minlength=len(own))[cold, None]
    return new_rows, new_columns


class ValidationRanking:
    """Full-ranking MRR on validation: each link among all candidates, known ones left out.

    Known are the query's other links in training, validation and profiles and, among nodes of
    one kind, the query itself. Of equal scores the middle place counts.
    """

    def __init__(self, graph: EdgeTextGraph, split: str) -> None:
        links = positive_links(graph, split, (VAL,))
        few = np.unique(np.linspace(0, len(links.rows) - 1, VALIDATION_LINKS).round())
        chosen = few.astype(np.int64) if len(links.rows) else np.empty(0, np.int64)
        self.rows, self.columns = links.rows[chosen], links.columns[chosen]
        self.known = positive_links(graph, split, (TRAIN, VAL, PROFILE))
        self.candidates = np.arange(links.num_columns) + links.first_column
        self.is_bipartite = graph.is_bipartite

    def where(self, chosen: NDArray[np.bool_]) -> Self:
        """The same of some of the links [n] alone."""
        some = copy(self)
        some.rows, some.columns = self.rows[chosen], self.columns[chosen]
        return some

    def mrr(self, scorer: Scorer) -> float:
        """The mean reciprocal rank; nan without validation links."""
        found = self.reciprocals(scorer)
        return float(found.mean()) if len(found) else float("nan")

    def reciprocals(self, scorer: Scorer) -> NDArray[np.float64]:
        """The reciprocal rank of each validation link."""
        size = max(1, RANKED_CELLS // max(1, len(self.candidates)))
        starts = range(0, len(self.rows), size)
        parts = [self._reciprocal(scorer, slice(start, start + size)) for start in starts]
        return np.concatenate([np.empty(0), *parts])

    def _reciprocal(self, scorer: Scorer, block: slice) -> NDArray[np.float64]:
        rows, columns = self.rows[block], self.columns[block]
        table = scorer(rows, self.candidates).astype(np.float32, copy=True)
        own = table[np.arange(len(rows)), columns][:, None].copy()
        table[self.known.cells_of(rows)] = -np.inf  # the link itself too: it is not its own rival
        if not self.is_bipartite:
            table[np.arange(len(rows)), rows] = -np.inf
        ahead = np.count_nonzero(table > own, axis=1)
        equal = np.count_nonzero(table == own, axis=1)
        reciprocal: NDArray[np.float64] = 1.0 / (1.0 + ahead + equal / 2)
        return reciprocal


def _within(nodes: ArrayLike, first: int, count: int, what: str) -> Ints:
    numbers = np.asarray(nodes, np.int64) - first
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise InputError(
            f"{what} must be nodes {first:,} to {first + count - 1:,} "
            f"(got {numbers.min() + first:,} to {numbers.max() + first:,})"
        )
    return numbers
