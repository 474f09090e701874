"""EASE (Steck, 2019): a linear item-item model in closed form."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.baselines.base import GridLinkBaseline, Scores
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.evaluation.links import LinkTable

LARGEST = 20_000  # items; inverting a larger matrix takes minutes and more than 10 GB
LAMBDAS = (200.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 2000.0)


class EASE(GridLinkBaseline[float, Scores]):
    """Scores X B, where B predicts each item of a row from its other items (ridge penalty lambda).

    B = I - P diag(P)^-1 with P = (X^T X + lambda I)^-1, where X [rows, items] is the 0/1 matrix of
    links. A cold row is scored from its profile like any other row. A cold item is predicted by
    ridge regression on the rows that link to it in its profile.
    """

    def __init__(self, lambdas: Sequence[float] = LAMBDAS) -> None:
        if any(value <= 0 for value in lambdas):
            raise InputError(f"every lambda of EASE must be above 0 (got {min(lambdas)})")
        super().__init__(lambdas)

    @property
    def weights(self) -> Scores:
        """B [items, items]."""
        return self.fitted

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        if graph.num_targets > LARGEST:
            raise InputError(
                f"EASE inverts an item-by-item matrix and takes at most {LARGEST:,} items "
                f"(got {graph.num_targets:,}); use ALS"
            )
        train, self._known = _matrix(self.links.train), _matrix(self.links.known)
        self._gram = (train.T @ train).toarray().astype(np.float64)
        cold = self._known[:, self.links.cold_candidates]
        self._cold_targets: NDArray[np.float64] = (train.T @ cold).toarray()  # [items, cold]

    def _fit(self, setting: float) -> Scores:
        inverse = np.linalg.inv(self._gram + setting * np.eye(len(self._gram)))
        weights: Scores = (inverse / -np.diag(inverse)).astype(np.float32)
        np.fill_diagonal(weights, 0.0)
        weights[:, self.links.cold_candidates] = inverse @ self._cold_targets
        return weights

    def _score(self, fitted: Scores, rows: Ids, columns: Ids) -> Scores:
        return np.asarray((self._known[rows] @ fitted)[:, columns])

    def _describe(self, setting: float, fitted: Scores) -> dict[str, Any]:
        return {"lambda": setting}


def _matrix(links: LinkTable) -> Any:
    """Links as a sparse 0/1 matrix [rows, items]."""
    from scipy import sparse

    ones = np.ones(links.num_links, np.float32)
    shape = (links.num_queries, links.num_candidates)
    return sparse.csr_array((ones, links.candidates, links.indptr), shape=shape)
