"""ALS: matrix factorization of implicit feedback (Hu, Koren and Volinsky, 2008), in numpy."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import (
    Scores,
    TrainingLinks,
    Trial,
    ValidationRanking,
    best_setting,
    choose,
    training_links,
)
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Floats, Ids
from edgeformers.errors import ConfigError
from edgeformers.evaluation.links import LinkTable

BLOCK_NUMBERS = 1 << 24  # numbers in one array while solving: 128 MB


@dataclass(frozen=True, kw_only=True)
class ALSConfig:
    """Settings of one factorization."""

    factors: int = 16
    alpha: float = 10.0  # a link made by n edges counts 1 + alpha n, an absent one 1
    regularization: float = 30.0
    iterations: int = 15

    def __post_init__(self) -> None:
        for name in ("factors", "iterations", "alpha", "regularization"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"ALS {name} must be above 0 (got {getattr(self, name)})")


GRID = tuple(
    ALSConfig(factors=factors, alpha=alpha, regularization=regularization)
    for factors in (16, 8, 32, 64)
    for alpha, regularization in ((10.0, 30.0), (3.0, 10.0), (1.0, 10.0))
)


@dataclass(frozen=True, kw_only=True)
class Ridge:
    """What solves for the factors of a new row: Y^T Y + penalty I [F, F], and alpha."""

    gram: Floats
    alpha: float


@dataclass(frozen=True, kw_only=True)
class _Factors:
    rows: Floats  # [rows, F]
    columns: Floats  # [columns, F]
    ridge: Ridge


@dataclass(frozen=True, kw_only=True)
class _Side:
    """The links of each node of one side: rows `starts[v] : starts[v] + sizes[v]` of the rest."""

    starts: Ids
    sizes: Ids
    other: Ids
    counts: Floats


class ALS:
    """Scores x_q . y_c, with x and y least-squares factors of the table of links.

    Every cell of the table counts: a link as 1 with confidence 1 + alpha n, an absent one as 0
    with confidence 1. With one side held fixed the other has a closed form, row by row; so nodes
    that are held out get theirs from their profiles. A query without any link has no factors
    and gets the candidates in the order of popularity.
    """

    def __init__(self, grid: Sequence[ALSConfig] = GRID, *, seed: int = 0) -> None:
        self.grid = grid
        self.seed = seed
        self.trials: list[Trial[ALSConfig]] = []
        self.setting: dict[str, Any] = {}

    links: TrainingLinks

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Factorize with every setting; keep the best by full-ranking MRR on validation."""
        self.links = training_links(graph, split)
        ranking = ValidationRanking(graph, split)
        self._factors, self.trials = choose(
            self.grid,
            lambda config: _factorize(self.links, config, self.seed),
            lambda factors: ranking.mrr(lambda q, c: self._scores(factors, q, c)),
        )
        self.setting = asdict(best_setting(self.trials))
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> [q, c]."""
        return self._scores(self._factors, np.asarray(queries), np.asarray(candidates))

    def node_vectors(self, nodes: ArrayLike) -> Floats:
        """Node numbers [n] -> [n, F]; where all nodes are of one kind, those of a query."""
        table: Floats = np.vstack([self._factors.rows, self._factors.columns])
        return np.take(table, np.asarray(nodes), axis=0)

    def factors(self) -> tuple[Floats, Floats]:
        """Vectors [rows, F] and [columns, F] whose products are the scores."""
        return self._factors.rows, self._factors.columns

    def ridge(self) -> Ridge:
        """What solves for the factors of a new row, given what it is linked to."""
        return self._factors.ridge

    def _scores(self, factors: _Factors, queries: Ids, candidates: Ids) -> Scores:
        rows = self.links.rows(queries)
        columns = self.links.columns(candidates)
        left, right = factors.rows[rows], factors.columns[columns]
        table: Scores = left.astype(np.float32) @ right.astype(np.float32).T
        return self.links.fill_with_popularity(table, rows, columns)


def _factorize(links: TrainingLinks, config: ALSConfig, seed: int) -> _Factors:
    """Alternate between the two sides, from small random columns."""
    random = np.random.default_rng(seed)
    columns = 0.1 * random.standard_normal((links.train.num_candidates, config.factors))
    rows = np.zeros((links.train.num_queries, config.factors))
    forward = _side(links.train)
    backward = _side(links.train.transpose())
    for _ in range(config.iterations):
        rows = _solve(forward, columns, config)
        columns = _solve(backward, rows, config)
    ridge = Ridge(gram=_gram(columns, config), alpha=config.alpha)
    rows, columns = _fold_in(links, rows, columns, config)
    return _Factors(rows=rows, columns=columns, ridge=ridge)


def _fold_in(
    links: TrainingLinks, rows: Floats, columns: Floats, config: ALSConfig
) -> tuple[Floats, Floats]:
    """The factors with those of nodes that were held out, the other side as it was learned."""
    known, (found_rows, found_columns) = links.known, (rows.copy(), columns.copy())
    if len(links.cold_queries):
        side = _side(known)
        found_rows[links.cold_queries] = _solve(side, columns, config)[links.cold_queries]
    if len(links.cold_candidates):
        side = _side(known.transpose())
        found_columns[links.cold_candidates] = _solve(side, rows, config)[links.cold_candidates]
    return found_rows, found_columns


def _gram(fixed: Floats, config: ALSConfig) -> Floats:
    return np.asarray(fixed.T @ fixed + config.regularization * np.eye(config.factors))


def _side(links: LinkTable) -> _Side:
    """The links of each query."""
    return _Side(
        starts=links.indptr[:-1],
        sizes=links.degrees,
        other=links.candidates,
        counts=links.counts,
    )


def _solve(side: _Side, fixed: Floats, config: ALSConfig) -> Floats:
    """The factors of one side, given the other's; who has no link keeps the zero vector.

    Nodes of about the same number of links are solved together, as many as memory allows.
    """
    shared = _gram(fixed, config)
    solved = np.zeros((len(side.sizes), config.factors))
    padded = 2 ** np.ceil(np.log2(np.maximum(side.sizes, 1))).astype(np.int64)
    for length in np.unique(padded[side.sizes > 0]).tolist():
        alike = np.flatnonzero((padded == length) & (side.sizes > 0))
        step = max(1, BLOCK_NUMBERS // (config.factors * max(length, config.factors)))
        for first in range(0, len(alike), step):
            nodes = alike[first : first + step]
            solved[nodes] = _solve_block(side, nodes, length, fixed, shared, config.alpha)
    return solved


def _solve_block(
    side: _Side, nodes: Ids, length: int, fixed: Floats, shared: Floats, alpha: float
) -> Floats:
    """x_u = (Y^T Y + reg I + alpha sum n_ui y_i y_i^T)^-1 sum (1 + alpha n_ui) y_i for each node.

    `length` is the largest number of links among them; missing ones weigh nothing.
    """
    place = np.arange(length)
    is_real = place < side.sizes[nodes, None]  # [u, length]
    link = np.where(is_real, side.starts[nodes, None] + place, 0)
    y = fixed[side.other[link]]  # [u, length, F]
    weight = alpha * side.counts[link] * is_real
    left = shared + (y * weight[..., None]).transpose(0, 2, 1) @ y  # [u, F, F]
    right = y.transpose(0, 2, 1) @ (weight + is_real)[..., None]  # [u, F, 1]
    return np.asarray(np.linalg.solve(left, right)[..., 0], np.float64)
