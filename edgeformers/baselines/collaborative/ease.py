"""EASE (Steck, 2019): a linear item-item model in closed form."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.baselines.base import GridLinkBaseline, Scores, default_device
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.evaluation.links import LinkTable

EXACT_ITEMS = 5_000  # above, the item-by-item matrix is approximated
RANK = 256  # of the approximation
SUBSPACE_STEPS = 4
LAMBDAS = (200.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 2000.0)


@dataclass(frozen=True)
class ItemWeights:
    """B = left key^T; without `key`, `left` is B itself."""

    left: Scores  # [items, R]
    key: Scores | None = None  # [items, R]


class EASE(GridLinkBaseline[float, ItemWeights]):
    """Scores X B, where B predicts each item of a row from its other items (ridge penalty lambda).

    B = I - P diag(P)^-1 with P = (X^T X + lambda I)^-1, where X [rows, items] is the 0/1 matrix of
    links. A cold row is scored from its profile like any other row. A cold item is predicted by
    ridge regression on the rows that link to it in its profile.

    With more than 5,000 items, X^T X is approximated by its 256 largest eigenvalues and the rest of
    its diagonal, in time and memory that grow with items and links. Such a B has entries on its
    diagonal, which only affect items that a row already has.
    """

    def __init__(
        self, lambdas: Sequence[float] = LAMBDAS, *, device: torch.device | str | None = None
    ) -> None:
        if any(value <= 0 for value in lambdas):
            raise InputError(f"every lambda of EASE must be above 0 (got {min(lambdas)})")
        super().__init__(lambdas)
        self.device = torch.device(device) if device else default_device()

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        self._train, self._known = _matrix(self.links.train), _matrix(self.links.known)
        self._cold = self._known[:, self.links.cold_candidates]  # [rows, cold]
        if self._is_exact:
            self._gram = (self._train.T @ self._train).toarray().astype(np.float64)
            self._cold_targets: NDArray[np.float64] = (self._train.T @ self._cold).toarray()
        else:
            self._factor = _gram_factor(self.links.train, self.device)

    @property
    def _is_exact(self) -> bool:
        return self.links.train.num_candidates <= EXACT_ITEMS

    def _fit(self, setting: float) -> ItemWeights:
        if not self._is_exact:
            return self._fit_low_rank(setting)
        inverse = np.linalg.inv(self._gram + setting * np.eye(len(self._gram)))
        weights: Scores = (inverse / -np.diag(inverse)).astype(np.float32)
        np.fill_diagonal(weights, 0.0)
        weights[:, self.links.cold_candidates] = inverse @ self._cold_targets
        return ItemWeights(weights)

    def _fit_low_rank(self, penalty: float) -> ItemWeights:
        """With X^T X = A A^T + D and S = D + lambda I, P = S^-1 - L L^T by Woodbury's identity.

        L = S^-1 A C^-T with C C^T = I + A^T S^-1 A, so B = L L^T diag(P)^-1 off its diagonal.
        """
        factor, train = self._factor, self.links.train
        counts = torch.from_numpy(np.bincount(train.candidates, minlength=train.num_candidates))
        rest = counts.to(factor) - factor.square().sum(1)
        scale = penalty + rest.clamp(min=0)
        scaled = factor / scale[:, None]
        inner = torch.eye(factor.size(1), device=factor.device) + factor.T @ scaled
        root = torch.linalg.cholesky(inner)
        left = torch.linalg.solve_triangular(root.T, scaled, upper=True, left=False)
        key = left / (1 / scale - left.square().sum(1))[:, None]
        weights = ItemWeights(left.cpu().numpy(), key.cpu().numpy())
        self._regress_cold(weights, penalty)
        return weights

    def _regress_cold(self, weights: ItemWeights, penalty: float) -> None:
        """Write the keys of cold items: the ridge regression of their links on the rows."""
        assert weights.key is not None
        left, rows = weights.left, self._train @ weights.left
        gram = rows.T @ rows + penalty * left.T @ left
        targets = (self._cold.T @ rows).T
        weights.key[self.links.cold_candidates] = np.linalg.lstsq(gram, targets)[0].T

    def _score(self, fitted: ItemWeights, rows: Ids, columns: Ids) -> Scores:
        scores = self._known[rows] @ fitted.left
        if fitted.key is None:
            return np.asarray(scores[:, columns])
        return np.asarray(scores @ fitted.key[columns].T)

    def _describe(self, setting: float, fitted: ItemWeights) -> dict[str, Any]:
        return {"lambda": setting}


def _gram_factor(links: LinkTable, device: torch.device) -> Tensor:
    """A [items, R] such that A A^T is the best approximation of X^T X, by subspace iteration."""
    x, transposed = (_tensor(table).to(device) for table in (links, links.transpose()))
    rank = min(RANK, *x.shape)
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(x.shape[1], rank, generator=generator).to(device)
    for _ in range(SUBSPACE_STEPS):
        basis = torch.linalg.qr(transposed @ (x @ basis)).Q
    rows = x @ basis
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    factor: Tensor = basis @ (vectors * values.clamp(min=0).sqrt())
    return factor


def _tensor(links: LinkTable) -> Tensor:
    """Links as a sparse 0/1 tensor [rows, items]."""
    indptr, items = torch.from_numpy(links.indptr), torch.from_numpy(links.candidates)
    shape = (links.num_queries, links.num_candidates)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # CSR is in beta, but twice as fast
        return torch.sparse_csr_tensor(
            indptr, items, torch.ones(len(items)), size=shape, check_invariants=False
        )


def _matrix(links: LinkTable) -> Any:
    """Links as a sparse 0/1 matrix [rows, items]."""
    from scipy import sparse

    ones = np.ones(links.num_links, np.float32)
    shape = (links.num_queries, links.num_candidates)
    return sparse.csr_array((ones, links.candidates, links.indptr), shape=shape)
