"""Collaborative models set beside a trained one, all counted alike unless validation objects."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.baselines.base import TrainingLinks, ValidationRanking, training_links
from edgeformers.baselines.collaborative.als import ALS, GRID, ALSConfig
from edgeformers.baselines.collaborative.ease import EASE, LAMBDAS
from edgeformers.baselines.collaborative.lightgcn import LightGCN
from edgeformers.baselines.collaborative.pairwise import PairwiseConfig
from edgeformers.baselines.collaborative.reciprocity import can_reciprocate
from edgeformers.baselines.temporal.activity_profiles import activity_profiles, has_usable_times
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.evaluation import LinkTable, is_significant
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.inference.components import (
    GROUPS,
    Averaged,
    FoldIn,
    LinkEnsemble,
    Returned,
    Solved,
    Summed,
    edge_groups,
)
from edgeformers.training.link_objective import LinkObjective

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Weights = tuple[float, ...]

EASE_TARGETS = 5_000  # above, the inverse of a table of targets by targets takes too long
ALS_LINKS = 2_000_000  # above, the model's own node vectors have to do
LIGHTGCN_LINKS = 30_000  # of training: a step goes through all of them, for so many a minute
LIGHTGCN_LINKS_GPU = 500_000  # where a GPU takes the steps
EASE_RANK = 128  # of its table of weights: the score is a product of vectors of this width
ALS_GRID = (
    *GRID,  # and some that are worse alone but add more
    *(ALSConfig(factors=factors, alpha=10.0, regularization=3.0) for factors in (8, 16)),
)
LIGHTGCN_GRID = (PairwiseConfig(l2=1e-2),)
FEW_LINKS = 100  # of validation, of a group of sources: fewer tell nothing of it
MANY_LINKS = 1_000  # of validation: the mean over so many is not chance alone
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
ROUNDS = 2


class Part:
    """A score that is a product of vectors of nodes: query [N, R] and key [N, R].

    `new`, where there is one, gives what makes the query of a new source, at some scale.
    """

    def __init__(
        self,
        query: Floats,
        key: Floats,
        new: Callable[[float], FoldIn] | None = None,
        scale: float = 1.0,
    ) -> None:
        self.query, self.key, self.new, self.scale = query, key, new, scale

    def scores(self, queries: NDArray[np.int64], candidates: NDArray[np.int64]) -> Floats:
        return self.query[queries] @ self.key[candidates].T

    def scaled(self, factor: float) -> "Part":
        """The same score times `factor`."""
        return Part(self.query * np.float32(factor), self.key, self.new, self.scale * factor)

    def fold_in(self) -> FoldIn:
        """What makes the query of a new source."""
        assert self.new is not None
        return self.new(self.scale)


class ReturnedPart:
    """A score that is `scale` where a candidate has a training link to the query, and 0 elsewhere.

    Of a network with one kind of node and directed edges.
    """

    def __init__(self, links: LinkTable, scale: float = 1.0) -> None:
        self.links, self.scale = links, scale

    def scores(self, queries: NDArray[np.int64], candidates: NDArray[np.int64]) -> Floats:
        table = np.zeros((len(queries), len(candidates)), np.float32)
        table[self.links.among(queries, candidates)] = self.scale
        return table

    def scaled(self, factor: float) -> "ReturnedPart":
        """The same score times `factor`."""
        return ReturnedPart(self.links, self.scale * factor)

    def weighed(self, weights: Doubles) -> Returned:
        """As it stands beside a trained score, counted so for each group of sources [G]."""
        tables = (self.links.indptr, self.links.candidates, weights * self.scale)
        return Returned(*map(torch.from_numpy, tables))


AnyPart = Part | ReturnedPart


def fit_ensemble(
    objective: LinkObjective, graph: EdgeTextGraph, split: str, *, seed: int
) -> LinkEnsemble | None:
    """Fit collaborative models, and weigh all by full-ranking MRR on validation.

    Sources with few edges, with some and with many are weighed apart. The trained score may come
    out with weight 0, where the links of training alone rank better: then the text has nothing to
    add there. Where nodes are of one kind and edges directed, who is linked to a source counts
    too, and where edges have times and that helps, who is active at the same times. None where
    the trained score is best alone, or the network is too large for any of them.
    """
    can_return = can_reciprocate(graph)
    if not (fits_ease(graph) or fits_als(graph) or can_return or has_usable_times(graph, split)):
        return None
    own, ranking = _trained(objective, graph), ValidationRanking(graph, split)
    spread = _deviation(own, graph)
    scaled: list[AnyPart] = [own.scaled(1 / spread)]
    for family in collaborative_parts(graph, split, seed=seed):
        options = (part.scaled(1 / _deviation(part, graph)) for part in family)
        scaled.append(max(options, key=lambda part: _worth(part, scaled, ranking)))
    if (times := _times_that_help(graph, split, scaled, ranking)) is not None:
        scaled.append(times)
    if can_return:
        back = ReturnedPart(training_links(graph, split).train.transpose())
        scaled.append(back.scaled(1 / _deviation(back, graph)))
    edges = torch.from_numpy(graph.training_adjacency(split).degrees())
    group = edge_groups(edges)
    weights = weigh_groups(scaled, ranking, group.numpy()[ranking.queries])
    if not weights[:, 1:].any():
        return None
    weights[:, 0] /= spread
    return _assemble(scaled, weights, group)


def _assemble(parts: list[AnyPart], weights: Doubles, group: Tensor) -> LinkEnsemble:
    """What counts at all, the trained score first among `parts` and `weights` [G, parts]."""
    used = [(at, part) for at, part in enumerate(parts) if at and weights[:, at].any()]
    some = [(at, part) for at, part in used if isinstance(part, Part)]
    back = [part.weighed(weights[:, at]) for at, part in used if isinstance(part, ReturnedPart)]
    empty = np.empty((len(group), 0), np.float32)
    query, key = (
        np.hstack([empty, *(getattr(one, name) for _, one in some)]) for name in ("query", "key")
    )
    return LinkEnsemble(
        torch.from_numpy(query),
        torch.from_numpy(key),
        [part.fold_in() for _, part in some],
        weights=torch.from_numpy(weights[:, [0, *(at for at, _ in some)]]),
        group=group,
        returned=back[0] if back else None,
    )


def collaborative_parts(graph: EdgeTextGraph, split: str, *, seed: int) -> Iterator[Iterator[Part]]:
    """LightGCN, ALS and EASE, each where the network is not too large for it; some settings of it.

    Which setting is best alone does not decide: what counts is what it adds to those before, so
    the one with a single setting comes first. Each is made when it is asked for: tables of all
    nodes are large.
    """
    if fits_lightgcn(graph, split):
        learned = (LightGCN((one,), seed=seed).fit(graph, split) for one in LIGHTGCN_GRID)
        yield (_lightgcn_part(model, graph.num_nodes) for model in learned)
    if fits_als(graph):
        fitted = (ALS((config,), seed=seed).fit(graph, split) for config in ALS_GRID)
        yield (_als_part(als, graph.num_nodes) for als in fitted)
    if fits_ease(graph):
        solved = (EASE((value,)).fit(graph, split) for value in LAMBDAS)
        yield (_ease_part(ease.links, ease.weights, graph.num_nodes, seed) for ease in solved)


def weigh_groups(parts: Sequence[AnyPart], ranking: ValidationRanking, group: Ints) -> Doubles:
    """The weights of each group of sources [G, parts]; `group` [n] is that of validation links.

    A source with few edges is told by other things than one with many. A group of which
    validation has few links is weighed as all are.
    """
    is_small = np.bincount(group, minlength=GROUPS) < FEW_LINKS
    everyone = weigh(parts, ranking) if is_small.any() else []
    return np.array(
        [
            everyone if is_small[one] else weigh(parts, ranking.subset(group == one))
            for one in range(GROUPS)
        ]
    )


def weigh(parts: Sequence[AnyPart], ranking: ValidationRanking) -> list[float]:
    """The weight of each score: as many as possible, all alike, unless validation clearly objects.

    Clear is what ranks better by more than two standard errors of the difference, source by source:
    few links tell little, and many of one source hardly more. Members are chosen first, then
    other weights are tried one at a time.
    """
    best = _choose_members(parts, ranking)
    held = _reciprocals(parts, best, ranking)
    for _ in range(ROUNDS):
        before = best
        for at, weight in product(range(len(parts)), WEIGHTS):
            changed = (*best[:at], weight, *best[at + 1 :])
            if changed == best or not any(changed):
                continue
            found = _reciprocals(parts, changed, ranking)
            if is_significant(found - held, ranking.queries):
                best, held = changed, found
        if best == before:
            break
    return list(best)


def _choose_members(parts: Sequence[AnyPart], ranking: ValidationRanking) -> Weights:
    """The largest choice of scores, all alike, that is not clearly worse than the best choice.

    Nor may it rank worse than the best collaborative model alone, clearly or not: then there were
    no reason to have more than that.
    """
    every = [one for one in product((0.0, 1.0), repeat=len(parts)) if any(one)]
    found = {one: _reciprocals(parts, one, ranking) for one in every}
    mean = {one: float(found[one].mean()) for one in every}
    best = max(every, key=lambda one: mean[one])
    least = max((mean[one] for one in every if sum(one) == 1 and not one[0]), default=0.0)
    close = [
        one
        for one in every
        if mean[one] >= least and not is_significant(found[best] - found[one], ranking.queries)
    ]
    return max(close, key=lambda one: (sum(one), mean[one]))


def _reciprocals(
    parts: Sequence[AnyPart], weights: Weights, ranking: ValidationRanking
) -> NDArray[np.float64]:
    mixed = [part.scaled(w) for part, w in zip(parts, weights, strict=True) if w]
    return ranking.reciprocal_ranks(
        lambda q, c: np.asarray(sum(part.scores(q, c) for part in mixed))
    )


def fits_ease(graph: EdgeTextGraph) -> bool:
    """Whether a network is small enough for EASE."""
    return graph.num_targets <= EASE_TARGETS


def fits_als(graph: EdgeTextGraph) -> bool:
    """Whether a network is small enough for ALS."""
    return int(graph.is_positive.sum()) <= ALS_LINKS


def fits_lightgcn(graph: EdgeTextGraph, split: str) -> bool:
    """Whether a network is small enough for LightGCN, on this machine."""
    most = LIGHTGCN_LINKS_GPU if torch.cuda.is_available() else LIGHTGCN_LINKS
    return training_links(graph, split).train.num_links <= most


def _mrr(parts: Sequence[AnyPart], ranking: ValidationRanking) -> float:
    """The MRR of the sum of some scores."""
    return float(_reciprocals(parts, (1.0,) * len(parts), ranking).mean())


def _worth(part: Part, others: Sequence[AnyPart], ranking: ValidationRanking) -> float:
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


def _ease_part(links: TrainingLinks, weights: Floats, num_nodes: int, seed: int) -> Part:
    """X B with B of low rank, U S V^T: a query is the sum of U S over what it is linked to."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rank = min(EASE_RANK, len(weights))
        u, s, v = torch.svd_lowrank(torch.from_numpy(weights), q=rank, niter=4)
    left: Tensor = u * s
    query = torch.zeros(links.known.num_queries, left.size(1))
    known, first = links.known, links.first_candidate
    query.index_add_(0, torch.from_numpy(known.queries), left[torch.from_numpy(known.candidates)])
    return Part(
        _placed(query.numpy(), 0, num_nodes),
        _placed(v.numpy(), first, num_nodes),
        partial(Summed, torch.from_numpy(_placed(left.numpy(), first, num_nodes))),
    )


def _als_part(als: ALS, num_nodes: int) -> Part:
    rows, columns = als.factors()
    key, ridge = _placed(columns, als.links.first_candidate, num_nodes), als.fitted
    new = partial(Solved, torch.from_numpy(key), torch.from_numpy(ridge.gram), ridge.alpha)
    return Part(_placed(rows, 0, num_nodes), key, new)


def _lightgcn_part(model: LightGCN, num_nodes: int) -> Part:
    rows, columns = model.factors()
    is_linked = model.links.known.degrees > 0  # others are as random as they began
    key = _placed(columns, model.links.first_candidate, num_nodes)
    query = _placed(rows * is_linked[:, None], 0, num_nodes)
    return Part(query, key, partial(Averaged, torch.from_numpy(key)))


def _times_that_help(
    graph: EdgeTextGraph, split: str, others: Sequence[AnyPart], ranking: ValidationRanking
) -> Part | None:
    """Who is active when, smoothed as adds most; None where that adds nothing to the others.

    Models of links are worth having unless validation objects. Times may tell nothing at all, so
    validation has to speak for them: clearly, where it has few links.
    """
    if not has_usable_times(graph, split):
        return None
    parts = (
        Part(query, key, partial(Averaged, torch.from_numpy(key)))
        for query, key in activity_profiles(graph, split)
    )
    best = max(
        (part.scaled(1 / _deviation(part, graph)) for part in parts),
        key=lambda part: _mrr([*others, part], ranking),
    )
    without = _reciprocals(others, (1.0,) * len(others), ranking)
    gains = _reciprocals([*others, best], (1.0,) * (len(others) + 1), ranking) - without
    is_worth = (
        gains.mean() > 0 if len(gains) >= MANY_LINKS else is_significant(gains, ranking.queries)
    )
    return best if is_worth else None


def _deviation(part: AnyPart, graph: EdgeTextGraph, rows: int = 256) -> float:
    """How far scores differ among candidates, over some queries."""
    some = np.unique(np.linspace(0, graph.num_sources - 1, rows).astype(np.int64))
    return float(part.scores(some, candidate_nodes(graph)).std()) or 1.0


def _placed(vectors: NDArray[np.float64] | Floats, first: int, num_nodes: int) -> Floats:
    """Vectors of neighboring nodes as rows of a table of all nodes, zeros elsewhere."""
    table = np.zeros((num_nodes, vectors.shape[1]), np.float32)
    table[first : first + len(vectors)] = vectors
    return table
