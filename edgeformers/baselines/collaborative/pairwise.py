"""Training with the pairwise ranking loss of BPR, which BPR and LightGCN share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from edgeformers.baselines.base import fold_in_means
from edgeformers.baselines.collaborative.factors import FactorBaseline, NodeFactors
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError
from edgeformers.evaluation.links import LinkTable
from edgeformers.progress import progress_bar

ATTEMPTS = 20  # to draw a negative; a query linked to nearly all candidates may have none
EVALUATE_EVERY = 5  # epochs
PATIENCE = 10  # evaluations without improvement before training stops
INITIAL_STD = 0.1
MAX_STEPS = 16  # of an epoch; with more than 32,768 links, batches grow instead

#: Tables of queries [Q, K] and candidates [C, K] -> the vectors that are compared.
Transform = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class PairwiseConfig:
    """Settings of one training run."""

    width: int = 64
    lr: float = 1e-2
    l2: float = 1e-2  # on the learned vectors of each triple, before any transformation
    batch: int = 2048  # at least; see MAX_STEPS
    epochs: int = 400  # at most; training stops early on validation

    def __post_init__(self) -> None:
        for name in ("width", "lr", "batch", "epochs"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0 (got {getattr(self, name)})")
        if self.l2 < 0:
            raise ConfigError(f"l2 must be 0 or more (got {self.l2})")


@dataclass(frozen=True, kw_only=True)
class TrainedFactors(NodeFactors):
    """Factors, and the epoch after which they were best."""

    epoch: int


class PairwiseBaseline(FactorBaseline[PairwiseConfig, TrainedFactors], ABC):
    """Vectors trained with Adam so that links score above non-links.

    Training stops early by full-ranking MRR on validation; without validation links it runs for
    all epochs. A cold node is the mean of the vectors that its profile links to.
    """

    def __init__(
        self,
        grid: Sequence[PairwiseConfig] | None = None,
        *,
        seed: int = 0,
        show: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(grid, seed=seed, device=device)
        self.show = show

    @abstractmethod
    def _transform(self) -> Transform:
        """How learned vectors become the vectors that are compared."""

    def _fit(self, setting: PairwiseConfig) -> TrainedFactors:
        train = self.links.train
        generator = torch.Generator().manual_seed(self.seed)
        queries, candidates = (
            (INITIAL_STD * torch.randn(size, setting.width, generator=generator))
            .to(self.device)
            .requires_grad_()
            for size in (train.num_queries, train.num_candidates)
        )
        transform = self._transform()
        best, best_mrr, stale = self._factors(transform, queries, candidates, 0), -np.inf, 0
        name = type(self).__name__
        with progress_bar(setting.epochs, desc=name, unit="epochs", show=self.show) as bar:
            for epoch in _epochs(train, queries, candidates, transform, setting, self.seed):
                bar.update()
                if epoch % EVALUATE_EVERY and epoch < setting.epochs:
                    continue
                factors = self._factors(transform, queries, candidates, epoch)
                mrr = self._validation_mrr(factors)
                if np.isnan(mrr) or mrr > best_mrr:
                    best, best_mrr, stale = factors, mrr, 0
                elif (stale := stale + 1) == PATIENCE:
                    break
        return best

    @torch.no_grad()
    def _factors(
        self, transform: Transform, queries: Tensor, candidates: Tensor, epoch: int
    ) -> TrainedFactors:
        learned = (table.cpu().numpy() for table in transform(queries, candidates))
        query_vectors, candidate_vectors = fold_in_means(self.links, *learned)
        return TrainedFactors(queries=query_vectors, candidates=candidate_vectors, epoch=epoch)

    def _describe(self, setting: PairwiseConfig, fitted: TrainedFactors) -> dict[str, Any]:
        return {**asdict(setting), "epochs": fitted.epoch}


def _epochs(
    links: LinkTable,
    queries: Tensor,
    candidates: Tensor,
    transform: Transform,
    config: PairwiseConfig,
    seed: int,
) -> Iterator[int]:
    """Train both tables in place; yields the number of each finished epoch."""
    optimizer = torch.optim.Adam([queries, candidates], lr=config.lr)
    random = np.random.default_rng(seed)
    batch = max(config.batch, math.ceil(links.num_links / MAX_STEPS))
    for epoch in range(1, config.epochs + 1):
        triples = torch.from_numpy(np.stack(draw_triples(links, random))).to(queries.device)
        for query, positive, negative in triples.split(batch, dim=1):
            x, y = transform(queries, candidates)
            loss = bpr_loss(x[query], y[positive], y[negative])
            used = queries[query], candidates[positive], candidates[negative]
            penalty = sum(vectors.square().sum() for vectors in used) / 2 / len(query)
            optimizer.zero_grad()
            (loss + config.l2 * penalty).backward()
            optimizer.step()
        yield epoch


def bpr_loss(query: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Mean of -ln sigma(x_u . y_i - x_u . y_j) (Rendle et al., 2009); arguments [b, K]."""
    return -F.logsigmoid((query * (positive - negative)).sum(1)).mean()


def draw_triples(links: LinkTable, random: np.random.Generator) -> tuple[Ids, Ids, Ids]:
    """Queries, positives and negatives: every link once, shuffled, with a uniform non-link.

    A link is left out if no negative was found for its query.
    """
    order = random.permutation(links.num_links)
    queries, positives = links.queries[order], links.candidates[order]
    negatives = random.integers(links.num_candidates, size=len(order))
    wrong = np.flatnonzero(links.contains(queries, negatives))
    for _ in range(ATTEMPTS):
        negatives[wrong] = random.integers(links.num_candidates, size=len(wrong))
        wrong = wrong[links.contains(queries[wrong], negatives[wrong])]
    kept = np.delete(np.arange(len(order)), wrong)
    return queries[kept], positives[kept], negatives[kept]
