"""Collaborative models set beside a trained one, all counted alike unless validation objects."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.models.baselines.als import ALS, GRID, ALSConfig
from edgeformers.models.baselines.base import Links, ValidationRanking
from edgeformers.models.baselines.ease import EASE, LAMBDAS
from edgeformers.tasks.link_prediction import Beside
from edgeformers.train.link_objective import LinkObjective, candidate_nodes

Floats = NDArray[np.float32]
Weights = tuple[float, ...]

EASE_TARGETS = 5_000  # above, the inverse of a table of targets by targets takes too long
ALS_LINKS = 2_000_000  # above, the model's own node vectors have to do
EASE_RANK = 128  # of its table of weights: the score is a product of vectors of this width
ALS_GRID = (
    *GRID,  # and some that are worse alone but add more
    *(ALSConfig(factors=factors, alpha=10.0, regularization=3.0) for factors in (8, 16)),
)
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
ROUNDS = 2


class Part:
    """A score that is a product of vectors of nodes: query [N, R] and key [N, R].

    `left` [N, R], where there is one, describes a new source by what it is linked to.
    """

    def __init__(self, query: Floats, key: Floats, left: Floats | None = None) -> None:
        self.query, self.key = query, key
        self.left = np.zeros_like(query) if left is None else left

    def scores(self, queries: NDArray[np.int64], candidates: NDArray[np.int64]) -> Floats:
        return self.query[queries] @ self.key[candidates].T

    def scaled(self, factor: float) -> "Part":
        """The same score times `factor`."""
        return Part(self.query * np.float32(factor), self.key, self.left * np.float32(factor))


def fit_beside(
    objective: LinkObjective, graph: EdgeTextGraph, split: str, *, seed: int
) -> Beside | None:
    """Fit collaborative models, and weigh all by full-ranking MRR on validation.

    The trained score may come out with weight 0, where the links of training alone rank better:
    then the text has nothing to add here. None where the network is too large for any of them.
    """
    if not (_fits_ease(graph) or _fits_als(graph)):
        return None
    own, ranking = _trained(objective, graph), ValidationRanking(graph, split)
    spread = _deviation(own, graph)
    scaled = [own.scaled(1 / spread)]
    for family in collaborative_parts(graph, split, seed=seed):
        options = (part.scaled(1 / _deviation(part, graph)) for part in family)
        scaled.append(max(options, key=lambda part: _worth(part, scaled, ranking)))
    weights = weigh(scaled, ranking)
    others = [part.scaled(weight) for part, weight in zip(scaled[1:], weights[1:], strict=True)]
    tables = [
        torch.from_numpy(np.hstack([getattr(part, name) for part in others]))
        for name in ("query", "key", "left")
    ]
    return Beside(*tables, own=weights[0] / spread)


def collaborative_parts(graph: EdgeTextGraph, split: str, *, seed: int) -> Iterator[Iterator[Part]]:
    """EASE, then ALS, under several settings each, where the network is not too large for them.

    Which setting is best alone does not decide: what counts is what it adds to the others. Each
    is made when it is asked for: tables of all nodes are large.
    """
    if _fits_ease(graph):
        solved = (EASE((value,)).fit(graph, split) for value in LAMBDAS)
        yield (_ease_part(ease.links, ease.weights, graph.num_nodes, seed) for ease in solved)
    if _fits_als(graph):
        fitted = (ALS((config,), seed=seed).fit(graph, split) for config in ALS_GRID)
        yield (_als_part(als, graph.num_nodes) for als in fitted)


def weigh(parts: list[Part], ranking: ValidationRanking) -> list[float]:
    """The weight of each score: all alike, unless validation clearly says otherwise.

    One score alone, and other weights one at a time, are taken where they rank better by more
    than two standard errors of the difference, link by link: few links tell little.
    """
    count = len(parts)
    best: Weights = (1.0,) * count
    held = _reciprocals(parts, best, ranking)
    alone = [tuple(float(place == at) for place in range(count)) for at in range(count)]
    for at in [None, *range(count)] * ROUNDS:
        others = alone if at is None else [(*best[:at], w, *best[at + 1 :]) for w in WEIGHTS]
        for weights in others:
            found = _reciprocals(parts, weights, ranking) if any(weights) else held
            if _is_clear(found - held):
                best, held = weights, found
    return list(best)


def _reciprocals(
    parts: list[Part], weights: Weights, ranking: ValidationRanking
) -> NDArray[np.float64]:
    mixed = [part.scaled(w) for part, w in zip(parts, weights, strict=True) if w]
    return ranking.reciprocals(lambda q, c: np.asarray(sum(part.scores(q, c) for part in mixed)))


def _is_clear(gains: NDArray[np.float64]) -> bool:
    """Whether a mean gain is more than two of its standard errors."""
    return len(gains) > 1 and bool(gains.mean() > 2 * gains.std(ddof=1) / len(gains) ** 0.5)


def _fits_ease(graph: EdgeTextGraph) -> bool:
    return graph.num_targets <= EASE_TARGETS


def _fits_als(graph: EdgeTextGraph) -> bool:
    return int(graph.is_positive.sum()) <= ALS_LINKS


def _mrr(parts: list[Part], ranking: ValidationRanking) -> float:
    """The MRR of the sum of some scores."""
    return float(_reciprocals(parts, (1.0,) * len(parts), ranking).mean())


def _worth(part: Part, others: list[Part], ranking: ValidationRanking) -> float:
    """What a score is good for: alone, or with the others."""
    return max(_mrr([part], ranking), _mrr([*others, part], ranking))


def _trained(objective: LinkObjective, graph: EdgeTextGraph) -> Part:
    """The trained score as a part; nodes that are no candidates have no key."""
    sources = np.arange(graph.num_sources)
    candidates = candidate_nodes(graph)
    query = objective.factors("query", sources)
    key = objective.factors("key", candidates)
    return Part(
        _placed(query, 0, graph.num_nodes), _placed(key, int(candidates[0]), graph.num_nodes)
    )


def _ease_part(links: Links, weights: Floats, num_nodes: int, seed: int) -> Part:
    """X B with B of low rank, U S V^T: a query is the sum of U S over what it is linked to."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rank = min(EASE_RANK, len(weights))
        u, s, v = torch.svd_lowrank(torch.from_numpy(weights), q=rank, niter=4)
    left: Tensor = u * s
    query = torch.zeros(links.num_rows, left.size(1))
    query.index_add_(0, torch.from_numpy(links.rows), left[torch.from_numpy(links.columns)])
    first = links.first_column
    return Part(
        _placed(query.numpy(), 0, num_nodes),
        _placed(v.numpy(), first, num_nodes),
        _placed(left.numpy(), first, num_nodes),
    )


def _als_part(als: ALS, num_nodes: int) -> Part:
    rows, columns = als.factors()
    return Part(_placed(rows, 0, num_nodes), _placed(columns, als.links.first_column, num_nodes))


def _deviation(part: Part, graph: EdgeTextGraph, rows: int = 256) -> float:
    """How far scores differ among candidates, over some queries."""
    some = np.unique(np.linspace(0, graph.num_sources - 1, rows).astype(np.int64))
    return float(part.scores(some, candidate_nodes(graph)).std()) or 1.0


def _placed(vectors: NDArray[np.float64] | Floats, first: int, num_nodes: int) -> Floats:
    """Vectors of neighboring nodes as rows of a table of all nodes, zeros elsewhere."""
    table = np.zeros((num_nodes, vectors.shape[1]), np.float32)
    table[first : first + len(vectors)] = vectors
    return table
