"""ALS: matrix factorization of implicit feedback (Hu, Koren and Volinsky, 2008).

Our own, since it is part of the shipped ensemble and runs on CPU or GPU without an extra
dependency. Tests compare it with `implicit`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.baselines.collaborative.factors import FactorBaseline, NodeFactors
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError
from edgeformers.evaluation.links import LinkTable, index_blocks

BLOCK_NUMBERS = 1 << 21  # numbers in one tensor while solving: 8 MB


@dataclass(frozen=True, kw_only=True)
class ALSConfig:
    """Settings of one factorization."""

    factors: int = 16
    alpha: float = 10.0  # a link of n edges has confidence 1 + alpha n, an absent link 1
    regularization: float = 30.0
    iterations: int = 15

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value <= 0:
                raise ConfigError(f"ALS {name} must be above 0 (got {value})")


GRID = tuple(
    ALSConfig(factors=factors, alpha=alpha, regularization=regularization)
    for factors in (16, 8, 32, 64)
    for alpha, regularization in ((10.0, 30.0), (3.0, 10.0), (1.0, 10.0))
)


@dataclass(frozen=True, kw_only=True)
class ALSFactors(NodeFactors):
    """Factors, and what solves for those of a new query."""

    gram: NDArray[np.float64]  # Y^T Y + regularization I [F, F]
    alpha: float


@dataclass(frozen=True)
class _Block:
    """Rows of similar degree and their links, padded with links of count 0."""

    rows: Tensor  # [n]
    linked: Tensor  # [n, L]
    counts: Tensor  # [n, L]


class ALS(FactorBaseline[ALSConfig, ALSFactors]):
    """Scores x_q . y_c, where x and y are least-squares factors of the link matrix.

    Every cell counts: a link of n edges is a 1 with confidence 1 + alpha n, an absent link a 0
    with confidence 1. With one side fixed, the other has a closed form, from which cold nodes get
    their factors too.
    """

    default_grid = GRID

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        """Group the links into blocks that fit in memory with the most factors of the grid."""
        train, known = self.links.train, self.links.known
        width = max((setting.factors for setting in self.grid), default=1)

        def blocks(links: LinkTable, rows: Ids | None = None) -> list[_Block]:
            return list(_blocks(links, rows, width, self.device))

        self._queries, self._candidates = blocks(train), blocks(train.transpose())
        self._cold_queries = blocks(known, self.links.cold_queries)
        self._cold_candidates = blocks(known.transpose(), self.links.cold_candidates)

    def _fit(self, setting: ALSConfig) -> ALSFactors:
        train = self.links.train
        random = np.random.default_rng(self.seed)
        drawn = 0.1 * random.standard_normal((train.num_candidates, setting.factors))
        candidates = torch.from_numpy(drawn).float().to(self.device)
        queries = candidates.new_zeros(train.num_queries, setting.factors)
        for _ in range(setting.iterations):
            queries = _solve(self._queries, candidates, setting, torch.zeros_like(queries))
            candidates = _solve(self._candidates, queries, setting, torch.zeros_like(candidates))
        folded = (
            _solve(self._cold_queries, candidates, setting, queries.clone()),
            _solve(self._cold_candidates, queries, setting, candidates.clone()),
        )
        return ALSFactors(
            queries=folded[0].cpu().numpy(),
            candidates=folded[1].cpu().numpy(),
            gram=_gram(candidates.double(), setting).cpu().numpy(),
            alpha=setting.alpha,
        )

    def _describe(self, setting: ALSConfig, fitted: ALSFactors) -> dict[str, Any]:
        return asdict(setting)


def _blocks(
    links: LinkTable, rows: Ids | None, width: int, device: torch.device
) -> Iterator[_Block]:
    """The given rows that have links, by default all, in blocks that fit in memory.

    Degrees within a block differ by less than a factor of two, which bounds the padding.
    """
    rows = np.arange(links.num_queries) if rows is None else rows
    rows = rows[links.degrees[rows] > 0]
    log_degree = np.ceil(np.log2(links.degrees[rows])).astype(np.int64)
    for exponent in np.unique(log_degree).tolist():
        alike = rows[log_degree == exponent]
        for part in index_blocks(len(alike), max(1, BLOCK_NUMBERS // (width * 2**exponent))):
            block = alike[part]
            place = np.arange(links.degrees[block].max())
            is_link = place < links.degrees[block, None]
            link = np.where(is_link, links.indptr[block, None] + place, 0)
            counts = (links.counts[link] * is_link).astype(np.float32)
            arrays = (block, links.candidates[link], counts)
            yield _Block(*(torch.from_numpy(array).to(device) for array in arrays))


def _gram(fixed: Tensor, config: ALSConfig) -> Tensor:
    identity = torch.eye(config.factors, dtype=fixed.dtype, device=fixed.device)
    return fixed.T @ fixed + config.regularization * identity


def _solve(blocks: Sequence[_Block], fixed: Tensor, config: ALSConfig, solution: Tensor) -> Tensor:
    """Write the factors of the blocks' rows, given those of the other side, into `solution`.

    x_u = (G + sum_i alpha n_ui y_i y_i^T)^-1 sum_i (1 + alpha n_ui) y_i,  G = Y^T Y + reg I

    With G = R R^T, c_i = alpha n_ui, rows a_i = sqrt(c_i) R^-1 y_i and e_i = (1 + c_i) / sqrt(c_i):

    x_u = R^-T (I + A^T A)^-1 A^T e = R^-T A^T (I + A A^T)^-1 e

    The first matrix has a row for each factor, the second for each link; the smaller is factorized.
    """
    root = torch.linalg.cholesky(_gram(fixed, config))
    scaled = torch.linalg.solve_triangular(root.T, fixed, upper=True, left=False)
    for block in blocks:
        weight = config.alpha * block.counts[..., None]  # [n, L, 1]
        a = F.embedding(block.linked, scaled).mul_(weight.sqrt())  # [n, L, F]
        e = torch.where(weight > 0, (1 + weight) * weight.rsqrt(), 0.0)
        if a.size(1) < a.size(2):
            x = a.mT @ _solve_shifted(a @ a.mT, e)
        else:
            x = _solve_shifted(a.mT @ a, a.mT @ e)  # [n, F, 1]
        x = torch.linalg.solve_triangular(root, x[..., 0], upper=False, left=False)
        solution[block.rows] = x
    return solution


def _solve_shifted(matrix: Tensor, right: Tensor) -> Tensor:
    """(I + matrix)^-1 right for positive semidefinite matrices [n, m, m]; overwrites them."""
    matrix.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrix))
