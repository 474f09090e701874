"""What factor models share: a link is scored by the inner product of two vectors."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from edgeformers.baselines.base import GridLinkBaseline, Scores, default_device
from edgeformers.data.types import Ids
from edgeformers.evaluation import InnerProductScorer

Config = TypeVar("Config")


@dataclass(frozen=True, kw_only=True)
class NodeFactors:
    """Vectors of all queries [Q, K] and candidates [C, K]."""

    queries: Scores
    candidates: Scores


FittedFactors = TypeVar("FittedFactors", bound=NodeFactors)


class FactorBaseline(GridLinkBaseline[Config, FittedFactors], ABC):
    """A link baseline that scores x_q . y_c, fitted on the GPU if there is one."""

    default_grid: ClassVar[Sequence[Any]]

    def __init__(
        self,
        grid: Sequence[Config] | None = None,
        *,
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(self.default_grid if grid is None else grid)
        self.seed = seed
        self.device = torch.device(device) if device else default_device()

    def factors(self) -> tuple[Scores, Scores]:
        """Vectors [Q, K] and [C, K] whose inner products are the scores."""
        return self.fitted.queries, self.fitted.candidates

    def node_vectors(self, nodes: ArrayLike) -> Scores:
        """Nodes [n] -> [n, K]; in a network with one node type, their vectors as queries."""
        return np.take(np.vstack(self.factors()), np.asarray(nodes), axis=0)

    def _score(self, fitted: FittedFactors, rows: Ids, columns: Ids) -> Scores:
        return fitted.queries[rows] @ fitted.candidates[columns].T

    def _validation_mrr(self, fitted: FittedFactors) -> float:
        """One more column gives queries without links the popularity of candidates."""
        is_unlinked = self.links.known.degrees == 0
        query = np.column_stack([fitted.queries * ~is_unlinked[:, None], is_unlinked])
        key = np.column_stack([fitted.candidates, self.links.popularity]).astype(np.float32)
        scorer = InnerProductScorer(query.astype(np.float32), torch.from_numpy(key).to(self.device))
        return self.ranking.mrr(lambda rows, _: scorer.scores(rows))
