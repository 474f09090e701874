"""ALS: matrix factorization of implicit feedback (Hu, Koren and Volinsky, 2008).

Our own, since it is part of the shipped ensemble and runs on CPU or GPU without an extra
dependency. Tests compare it with `implicit`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.baselines.base import default_device
from edgeformers.baselines.collaborative.factors import FactorBaseline, NodeFactors
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError
from edgeformers.evaluation.links import LinkTable, index_blocks

BLOCK_NUMBERS = 1 << 24  # numbers in one tensor while solving: 64 MB


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
    their factors too. Runs on the GPU if there is one, unless `device` is given.
    """

    def __init__(
        self,
        grid: Sequence[ALSConfig] = GRID,
        *,
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(grid)
        self.seed = seed
        self.device = torch.device(device) if device else default_device()

    def _fit(self, setting: ALSConfig) -> ALSFactors:
        train, known = self.links.train, self.links.known
        random = np.random.default_rng(self.seed)
        drawn = 0.1 * random.standard_normal((train.num_candidates, setting.factors))
        candidates = torch.from_numpy(drawn).float().to(self.device)
        queries = candidates.new_zeros(train.num_queries, setting.factors)
        forward, backward = (
            self._blocks(links, np.arange(links.num_queries), setting.factors)
            for links in (train, train.transpose())
        )
        for _ in range(setting.iterations):
            queries = _solve(forward, candidates, setting, torch.zeros_like(queries))
            candidates = _solve(backward, queries, setting, torch.zeros_like(candidates))
        cold_queries = self._blocks(known, self.links.cold_queries, setting.factors)
        cold_candidates = self._blocks(
            known.transpose(), self.links.cold_candidates, setting.factors
        )
        return ALSFactors(
            queries=_solve(cold_queries, candidates, setting, queries.clone()).cpu().numpy(),
            candidates=_solve(cold_candidates, queries, setting, candidates.clone()).cpu().numpy(),
            gram=_gram(candidates.double(), setting).cpu().numpy(),
            alpha=setting.alpha,
        )

    def _blocks(self, links: LinkTable, rows: Ids, width: int) -> list[_Block]:
        """The linked rows among `rows`, in blocks that fit in memory.

        Degrees within a block differ by less than a factor of two, which bounds the padding.
        """
        rows = rows[links.degrees[rows] > 0]
        log_degree = np.ceil(np.log2(links.degrees[rows])).astype(np.int64)
        blocks = []
        for exponent in np.unique(log_degree).tolist():
            alike = rows[log_degree == exponent]
            size = max(1, BLOCK_NUMBERS // (width * max(2**exponent, width)))
            for part in index_blocks(len(alike), size):
                block = alike[part]
                place = np.arange(links.degrees[block].max())
                is_link = place < links.degrees[block, None]
                link = np.where(is_link, links.indptr[block, None] + place, 0)
                counts = (links.counts[link] * is_link).astype(np.float32)
                arrays = (block, links.candidates[link], counts)
                blocks.append(_Block(*(torch.from_numpy(a).to(self.device) for a in arrays)))
        return blocks

    def _describe(self, setting: ALSConfig, fitted: ALSFactors) -> dict[str, Any]:
        return asdict(setting)


def _gram(fixed: Tensor, config: ALSConfig) -> Tensor:
    identity = torch.eye(config.factors, dtype=fixed.dtype, device=fixed.device)
    return fixed.T @ fixed + config.regularization * identity


def _solve(blocks: Sequence[_Block], fixed: Tensor, config: ALSConfig, solution: Tensor) -> Tensor:
    """Write the factors of the blocks' rows, given those of the other side, into `solution`.

    x_u = (Y^T Y + reg I + alpha sum n_ui y_i y_i^T)^-1 sum (1 + alpha n_ui) y_i
    """
    gram = _gram(fixed, config)
    for block in blocks:
        y = fixed[block.linked]  # [n, L, F]
        weight = config.alpha * block.counts[..., None]  # [n, L, 1]
        left = gram + (y * weight).mT @ y  # [n, F, F]
        right = y.mT @ (weight + (block.counts > 0)[..., None])  # [n, F, 1]
        solution[block.rows] = torch.cholesky_solve(right, torch.linalg.cholesky(left))[..., 0]
    return solution
