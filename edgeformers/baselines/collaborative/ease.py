"""EASE (Steck, 2019): linear weights between recommended items, in closed form."""

from collections.abc import Sequence
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
from edgeformers.errors import InputError, require
from edgeformers.evaluation.links import LinkTable

LARGEST = 20_000  # items; the inverse of so many takes minutes and some 10 GB
LAMBDAS = (200.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 2000.0)


class EASE:
    """Scores X B: B predicts each item of a row from its other items, with ridge penalty lambda.

    B = I - P diag(P)^-1 with P = (X^T X + lambda I)^-1, where X [rows, items] tells which links
    there are. A row that is held out is answered from its profile as from any other links. An
    item that is held out is predicted by the regression on those who link to it in its profile.
    A query without any link has nothing to predict from and gets the items in the order of
    their popularity.
    """

    def __init__(self, lambdas: Sequence[float] = LAMBDAS) -> None:
        if any(value <= 0 for value in lambdas):
            raise InputError(f"every lambda of EASE must be above 0 (got {min(lambdas)})")
        self.lambdas = lambdas
        self.trials: list[Trial[float]] = []
        self.setting: dict[str, Any] = {}
        self.weights = np.zeros((0, 0), np.float32)  # B [items, items]

    links: TrainingLinks

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Solve for every lambda and keep the best by full-ranking MRR on validation."""
        if graph.num_targets > LARGEST:
            raise InputError(
                f"EASE inverts a table of items by items; {graph.num_targets:,} items are more "
                f"than the {LARGEST:,} it can take; use ALS"
            )
        self.links = training_links(graph, split)
        table, self._table = _table(self.links.train), _table(self.links.known)
        together = (table.T @ table).toarray().astype(np.float64)
        cold = self.links.cold_candidates
        new = (table.T @ self._table[:, cold]).toarray().astype(np.float64)  # [items, cold]
        ranking = ValidationRanking(graph, split)
        self.weights, self.trials = choose(
            self.lambdas,
            lambda value: _solve(together, value, cold, new),
            lambda weights: ranking.mrr(lambda q, c: self._scores(weights, q, c)),
        )
        self.setting = {"lambda": best_setting(self.trials)}
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> [q, c]."""
        return self._scores(self.weights, np.asarray(queries), np.asarray(candidates))

    def _scores(self, weights: Scores, queries: Ids, candidates: Ids) -> Scores:
        rows = self.links.rows(queries)
        columns = self.links.columns(candidates)
        table: Scores = (self._table[rows] @ weights)[:, columns]
        return self.links.fill_with_popularity(table, rows, columns)


def _table(links: LinkTable) -> Any:
    """Which links there are, as a sparse table of ones."""
    sparse = require("scipy.sparse", "baselines")
    ones = np.ones(links.num_links, np.float32)
    shape = (links.num_queries, links.num_candidates)
    return sparse.csr_array((ones, links.candidates, links.indptr), shape=shape)


def _solve(together: Floats, penalty: float, cold: Ids, new: Floats) -> Scores:
    """B from X^T X; an item never predicts itself.

    Cold items x are columns (X^T X + penalty I)^-1 X^T x, with X^T x in `new` [items, cold].
    """
    inverse = np.linalg.inv(together + penalty * np.eye(len(together)))
    weights = (inverse / -np.diag(inverse)).astype(np.float32)
    np.fill_diagonal(weights, 0.0)
    weights[:, cold] = inverse @ new
    return weights
