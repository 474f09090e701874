"""What factor models share: a link is scored by the inner product of two vectors."""

from abc import ABC
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import GridLinkBaseline, Scores
from edgeformers.data.types import Ids

Config = TypeVar("Config")


@dataclass(frozen=True, kw_only=True)
class NodeFactors:
    """Vectors of all queries [Q, K] and candidates [C, K]."""

    queries: Scores
    candidates: Scores


FittedFactors = TypeVar("FittedFactors", bound=NodeFactors)


class FactorBaseline(GridLinkBaseline[Config, FittedFactors], ABC):
    """A link baseline that scores x_q . y_c."""

    def factors(self) -> tuple[Scores, Scores]:
        """Vectors [Q, K] and [C, K] whose inner products are the scores."""
        return self.fitted.queries, self.fitted.candidates

    def node_vectors(self, nodes: ArrayLike) -> Scores:
        """Nodes [n] -> [n, K]; in a network with one node type, their vectors as queries."""
        return np.take(np.vstack(self.factors()), np.asarray(nodes), axis=0)

    def _score(self, fitted: FittedFactors, rows: Ids, columns: Ids) -> Scores:
        return fitted.queries[rows] @ fitted.candidates[columns].T
