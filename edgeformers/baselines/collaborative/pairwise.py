"""What BPR and LightGCN share: links against non-links, their loss, and when to stop."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor
from tqdm.auto import tqdm

from edgeformers.baselines.base import (
    Scores,
    TrainingLinks,
    Trial,
    ValidationRanking,
    best_setting,
    choose,
    fold_in_means,
    training_links,
)
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError
from edgeformers.evaluation.links import LinkTable

ATTEMPTS = 20  # draws of a non-link; a row that is linked to nearly all columns may have none
EVERY = 5  # epochs between two looks at validation
PATIENCE = 10  # looks without gain after which training stops
SPREAD = 0.1  # deviation of the first vectors

#: Vectors of rows [R, K] and columns [C, K] -> those that are compared, of the same shapes.
Represent = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class PairwiseConfig:
    """Settings of one training."""

    width: int = 64
    lr: float = 1e-2
    l2: float = 1e-2  # on the vectors of a triple before they are propagated
    batch: int = 2048
    epochs: int = 400  # at most; validation stops it earlier

    def __post_init__(self) -> None:
        for name in ("width", "lr", "batch", "epochs"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0 (got {getattr(self, name)})")
        if self.l2 < 0:
            raise ConfigError(f"l2 must be 0 or more (got {self.l2})")


@dataclass(frozen=True, kw_only=True)
class PairFactors:
    """What was learned: the score of a pair is the product of its two vectors."""

    rows: Scores  # [R, K]
    columns: Scores  # [C, K]
    epoch: int

    def scores(self, links: TrainingLinks, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> [q, c]; who has no link gets what is popular."""
        rows, columns = links.rows(queries), links.columns(candidates)
        return links.fill_with_popularity(self.rows[rows] @ self.columns[columns].T, rows, columns)


class PairwiseLinks(ABC):
    """Vectors of rows and columns, learned so that links score above what is not linked.

    A node that is held out is the mean of the vectors of what its profile links it to.

    Mini-batches with Adam, on the GPU where there is one, stopped by full-ranking MRR on
    validation; without validation links, all epochs of the first setting.
    """

    links: TrainingLinks

    def __init__(self, grid: Sequence[PairwiseConfig], *, seed: int, show: bool) -> None:
        self.grid = grid
        self.seed = seed
        self.show = show
        self.trials: list[Trial[PairwiseConfig]] = []
        self.setting: dict[str, Any] = {}

    @abstractmethod
    def _representation(self, device: torch.device) -> Represent:
        """What is made of the vectors before they are compared."""

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Learn with every setting; keep the best by full-ranking MRR on validation."""
        self.links = training_links(graph, split)
        ranking = ValidationRanking(graph, split)

        def score(factors: PairFactors) -> float:
            return ranking.mrr(lambda q, c: factors.scores(self.links, q, c))

        self._factors, self.trials = choose(
            self.grid, lambda config: self._learn(config, score), score
        )
        self.setting = asdict(best_setting(self.trials)) | {"epochs": self._factors.epoch}
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> [q, c]."""
        return self._factors.scores(self.links, queries, candidates)

    def node_vectors(self, nodes: ArrayLike) -> Scores:
        """Node numbers [n] -> [n, K]; where all nodes are of one kind, those of a query."""
        table: Scores = np.vstack([self._factors.rows, self._factors.columns])
        return np.take(table, np.asarray(nodes), axis=0)

    def factors(self) -> tuple[Scores, Scores]:
        """Vectors [rows, K] and [columns, K] whose products are the scores."""
        return self._factors.rows, self._factors.columns

    def _learn(self, config: PairwiseConfig, score: Callable[[PairFactors], float]) -> PairFactors:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        generator = torch.Generator().manual_seed(self.seed)
        sizes = self.links.train.num_queries, self.links.train.num_candidates
        drawn = (torch.randn(size, config.width, generator=generator) for size in sizes)
        rows, columns = ((SPREAD * one).to(device).requires_grad_() for one in drawn)
        represent = self._representation(device)
        best, reached, idle = _factors(represent, rows, columns, 0), float("-inf"), 0
        best = fold_in(self.links, best)
        with tqdm(total=config.epochs, desc=type(self).__name__, disable=not self.show) as bar:
            for epoch in _train(self.links.train, rows, columns, represent, config, self.seed):
                bar.update()
                if epoch % EVERY and epoch < config.epochs:
                    continue
                factors = fold_in(self.links, _factors(represent, rows, columns, epoch))
                value = score(factors)
                idle = 0 if np.isnan(value) or value > reached else idle + 1
                best, reached = (factors, value) if idle == 0 else (best, reached)
                if idle == PATIENCE:
                    break
        return best


def _train(
    links: LinkTable,
    rows: Tensor,
    columns: Tensor,
    represent: Represent,
    config: PairwiseConfig,
    seed: int,
) -> Iterator[int]:
    """Change the two tables epoch after epoch; gives the number of each when it is done."""
    optimizer = torch.optim.Adam([rows, columns], lr=config.lr)
    random = np.random.default_rng(seed)
    for epoch in range(1, config.epochs + 1):
        triples = torch.from_numpy(np.stack(draw_triples(links, random))).to(rows.device)
        for row, linked, other in triples.split(config.batch, dim=1):
            x, y = represent(rows, columns)
            loss = pairwise_loss(x[row], y[linked], y[other])
            penalty = sum(
                part.square().sum() for part in (rows[row], columns[linked], columns[other])
            )
            optimizer.zero_grad()
            (loss + config.l2 * penalty / 2 / len(row)).backward()
            optimizer.step()
        yield epoch


def fold_in(links: TrainingLinks, factors: PairFactors) -> PairFactors:
    """Vectors of nodes that were held out, the other side as it was learned."""
    rows, columns = fold_in_means(links, factors.rows, factors.columns)
    return replace(factors, rows=rows, columns=columns)


def pairwise_loss(own: Tensor, linked: Tensor, other: Tensor) -> Tensor:
    """-ln sigma(x_u . y_i - x_u . y_j) (Rendle et al., 2009): three times [b, K] -> their mean."""
    return -F.logsigmoid((own * (linked - other)).sum(1)).mean()


def draw_triples(links: LinkTable, random: np.random.Generator) -> tuple[Ids, Ids, Ids]:
    """Every link once, in random order, beside a column drawn evenly from those not linked.

    Gives rows, linked columns, other columns. A link is left out where no other was found.
    """
    order = random.permutation(links.num_links)
    rows, linked = links.queries[order], links.candidates[order]
    other = random.integers(links.num_candidates, size=len(rows))
    for _ in range(ATTEMPTS):
        wrong = np.flatnonzero(links.contains(rows, other))
        other[wrong] = random.integers(links.num_candidates, size=len(wrong))
    kept = ~links.contains(rows, other)
    return rows[kept], linked[kept], other[kept]


@torch.no_grad()
def _factors(represent: Represent, rows: Tensor, columns: Tensor, epoch: int) -> PairFactors:
    x, y = (table.cpu().numpy().copy() for table in represent(rows, columns))
    return PairFactors(rows=x, columns=y, epoch=epoch)
