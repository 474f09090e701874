"""Fit the ensemble next to a trained link score, with weights chosen on validation."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.baselines.base import ValidationRanking, training_links
from edgeformers.baselines.collaborative.als import ALS, GRID, ALSConfig
from edgeformers.baselines.collaborative.ease import EASE, LAMBDAS, ItemWeights
from edgeformers.baselines.collaborative.lightgcn import LightGCN
from edgeformers.baselines.collaborative.pairwise import PairwiseConfig
from edgeformers.baselines.collaborative.reciprocity import can_reciprocate
from edgeformers.baselines.temporal.activity_profiles import activity_profiles, has_usable_times
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids
from edgeformers.evaluation import is_significant
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import can_roll
from edgeformers.inference.components import (
    ActivityComponent,
    ALSComponent,
    EASEComponent,
    LightGCNComponent,
    MeanComponent,
    ReciprocityComponent,
    ScoreComponent,
)
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.rolling_weights import with_rolling_weights
from edgeformers.inference.saved_components import GROUPS, Ensemble, degree_group

Weights = tuple[float, ...]

EASE_NODES = 500_000  # with three tables of 256 numbers per node: 1.5 GB
ALS_LINKS = 2_000_000
LIGHTGCN_LINKS = 30_000  # training links: every step visits all of them; about a minute
LIGHTGCN_LINKS_GPU = 2_000_000
EASE_RANK = 128  # rank of the approximation of the item-to-item weights
ALS_GRID = (
    *GRID,  # and two that are worse alone but add more to an ensemble
    *(ALSConfig(factors=factors, alpha=10.0, regularization=3.0) for factors in (8, 16)),
)
LIGHTGCN_GRID = (PairwiseConfig(l2=1e-2),)
FEW_LINKS = 100  # validation links below which a degree group gets the weights of all sources
MANY_LINKS = 1_000  # validation links above which any mean gain counts
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
ROUNDS = 2


class Standardized:
    """A component whose scores are divided by their standard deviation over candidates."""

    device = torch.device("cpu")  # where scores are computed
    _keys: tuple[Ids, Tensor] | None = None

    def __init__(
        self,
        component: ScoreComponent,
        graph: EdgeTextGraph,
        device: torch.device | str = "cpu",
        rows: int = 256,
    ) -> None:
        self.component, self.device = component, torch.device(device)
        sample = np.unique(np.linspace(0, graph.num_sources - 1, rows).astype(np.int64))
        self.scale = 1.0
        self.scale = 1 / (float(self.scores(sample, candidate_nodes(graph)).std()) or 1.0)

    def scores(self, queries: Ids, candidates: Ids) -> Tensor:
        """Scores [q, c]; the keys of the last candidates are kept on the device."""
        if self._keys is None or self._keys[0] is not candidates:
            self._keys = candidates, self.component.vectors(candidates, "target").to(self.device)
        query = self.component.vectors(queries, "source").to(self.device) * self.scale
        scores: Tensor = query @ self._keys[1].T
        bonus = self.component.bonus(queries, candidates)
        if bonus is not None:
            scores[bonus.queries, bonus.candidates] += self.scale
        return scores


def fit_ensemble(fitted: FittedLinkPredictor) -> Ensemble | None:
    """Fit collaborative components and choose all weights by full-ranking MRR on validation.

    Sources with few, some and many edges are weighted separately. The trained score may get
    weight 0 where links alone rank better. With one node type and directed edges, reciprocity is
    a component too; so are activity profiles if edges have times and validation shows a gain. If
    validation comes after training, there are also weights for a score that takes in edges, fitted
    as-of-time on validation links, with components of recent links.
    None if the trained score is best alone, or the network is too large for all components.
    """
    graph, split, seed = fitted.network.graph, fitted.network.split, fitted.config.train.seed
    is_directed, feasible = can_reciprocate(graph), feasible_components(graph, split)
    is_large, rolls = "ease" not in feasible and "als" not in feasible, can_roll(graph, split)
    if is_large and not is_directed and not rolls and not has_usable_times(graph, split):
        return None
    ranking = ValidationRanking(graph, split)
    scorer, candidates = fitted.scorer, fitted.scorer.candidates
    query = scorer.queries(np.arange(graph.num_sources)).vectors
    tables = _tables(query, scorer.keys(candidates), int(candidates[0]), graph.num_nodes)
    device = fitted.options.device
    chosen = [Standardized(MeanComponent(*tables), graph, device)]  # the trained score
    for family in collaborative_components(graph, split, seed=seed, device=device):
        options = (Standardized(component, graph, device) for component in family)
        chosen.append(max(options, key=lambda option: _value(option, chosen, ranking)))
    if (activity := _activity_if_better(graph, split, chosen, ranking)) is not None:
        chosen.append(activity)
    if is_directed:
        links = training_links(graph, split).train.transpose()
        tensors = map(torch.from_numpy, (links.indptr, links.candidates))
        chosen.append(Standardized(ReciprocityComponent(*tensors), graph, device))
    group = degree_group(graph.training_adjacency(split).degrees())
    weights = choose_group_weights(chosen, ranking, group[ranking.queries])
    weights *= [each.scale for each in chosen]
    ensemble = Ensemble(
        components=[each.component for each in chosen[1:]],
        weights=torch.from_numpy(weights).float(),
        group=torch.from_numpy(group),
    )
    if rolls:
        ensemble = with_rolling_weights(fitted, ensemble)
    return _without_unused(ensemble)


def _without_unused(ensemble: Ensemble) -> Ensemble | None:
    """The components with a weight; None if there are none."""
    both = [w for w in (ensemble.weights, ensemble.rolling_weights) if w is not None]
    used = [p for p in range(1, 1 + len(ensemble.components)) if any(w[:, p].any() for w in both)]
    if not used:
        return None
    weights, *rolling = (weights[:, [0, *used]] for weights in both)
    return Ensemble(
        components=[ensemble.components[place - 1] for place in used],
        weights=weights,
        group=ensemble.group,
        rolling_weights=rolling[0] if rolling else None,
    )


def collaborative_components(
    graph: EdgeTextGraph, split: str, *, seed: int, device: torch.device | str | None = None
) -> Iterator[Iterator[ScoreComponent]]:
    """LightGCN, ALS and EASE where the network is small enough, each with several settings.

    A setting is judged by what it adds to the components before it, so the family with a single
    setting comes first. Components are fitted one at a time: they hold vectors of all nodes.
    """
    size, feasible = graph.num_nodes, feasible_components(graph, split)
    if "lightgcn" in feasible:
        lightgcn = LightGCN(LIGHTGCN_GRID, seed=seed, device=device)
        yield (lightgcn_component(fit, size) for _, fit in lightgcn.fit_each(graph, split))
    if "als" in feasible:
        als = ALS(ALS_GRID, seed=seed, device=device)
        yield (als_component(fit, size) for _, fit in als.fit_each(graph, split))
    if "ease" in feasible:
        fits = EASE(LAMBDAS, device=device).fit_each(graph, split)
        yield (ease_component(fit, penalty, size, seed) for penalty, fit in fits)


def feasible_components(graph: EdgeTextGraph, split: str) -> list[str]:
    """The collaborative components that a network is small enough for, on this machine."""
    most = LIGHTGCN_LINKS_GPU if torch.cuda.is_available() else LIGHTGCN_LINKS
    links = training_links(graph, split).train.num_links
    is_small = {
        "ease": graph.num_nodes <= EASE_NODES,
        "als": links <= ALS_LINKS,
        "lightgcn": links <= most,
    }
    return [name for name, fits in is_small.items() if fits]


def choose_group_weights(
    components: Sequence[Any], ranking: ValidationRanking, group: Ids
) -> NDArray[np.float64]:
    """Weights [G, components] per degree group; `group` [n] is that of each validation link.

    A group with few validation links gets the weights of all sources together.
    """
    is_small = np.bincount(group, minlength=GROUPS) < FEW_LINKS
    overall = choose_weights(components, ranking) if is_small.any() else []
    return np.array(
        [
            overall if is_small[g] else choose_weights(components, ranking.subset(group == g))
            for g in range(GROUPS)
        ]
    )


def choose_weights(components: Sequence[Any], ranking: ValidationRanking) -> list[float]:
    """Weights with the best MRR; equal weights unless others are significantly better.

    Significant is a gain of more than two standard errors, computed over sources. Members are
    chosen first, then other weights are tried one at a time.
    """
    best, best_ranks = _choose_members(components, ranking)
    for _ in range(ROUNDS):
        before = best
        for at in range(len(components)):
            options = [(*best[:at], weight, *best[at + 1 :]) for weight in WEIGHTS]
            options = [weights for weights in options if weights != best and any(weights)]
            ranks = _reciprocal_ranks(components, ranking, options)
            for weights, own in zip(options, ranks, strict=True):
                if is_significant(own - best_ranks, ranking.queries):
                    best, best_ranks = weights, own
        if best == before:
            break
    return list(best)


def _choose_members(
    components: Sequence[Any], ranking: ValidationRanking
) -> tuple[Weights, NDArray[np.float64]]:
    """The largest subset, equally weighted, that is not significantly worse than the best one.

    Its MRR must also reach that of the best collaborative component alone.
    """
    subsets = [subset for subset in product((0.0, 1.0), repeat=len(components)) if any(subset)]
    ranks = dict(zip(subsets, _reciprocal_ranks(components, ranking, subsets), strict=True))
    mrr = {subset: float(ranks[subset].mean()) for subset in subsets}
    best = max(subsets, key=lambda subset: mrr[subset])
    least = max((mrr[s] for s in subsets if sum(s) == 1 and not s[0]), default=0.0)
    close = [
        subset
        for subset in subsets
        if mrr[subset] >= least and not is_significant(ranks[best] - ranks[subset], ranking.queries)
    ]
    chosen = max(close, key=lambda subset: (sum(subset), mrr[subset]))
    return chosen, ranks[chosen]


def _reciprocal_ranks(
    components: Sequence[Standardized],
    ranking: ValidationRanking,
    weights: Sequence[Weights],
) -> NDArray[np.float64]:
    """The reciprocal rank of each validation link under several weights of the components.

    In one pass over the links: [weights, n]. Each component is scored once.
    """
    table = torch.tensor(weights, dtype=torch.float32).reshape(-1, len(components))
    used = table.any(0).nonzero()[:, 0].tolist()

    def scores(queries: Ids, candidates: Ids) -> Iterator[Tensor]:
        parts = [components[at].scores(queries, candidates) for at in used]
        for row in table[:, used].tolist():
            total = torch.zeros_like(parts[0])
            for weight, part in zip(row, parts, strict=True):
                total.add_(part, alpha=weight)
            yield total

    return ranking.reciprocal_ranks_each(scores, len(table), tables=len(used) + 1)


def _value(
    component: Standardized, others: Sequence[Standardized], ranking: ValidationRanking
) -> float:
    """The MRR of a component, alone or with the others."""
    alone, together = (0.0,) * len(others) + (1.0,), (1.0,) * (len(others) + 1)
    ranks = _reciprocal_ranks([*others, component], ranking, [alone, together])
    return float(ranks.mean(1).max())


def lightgcn_component(model: LightGCN, num_nodes: int) -> LightGCNComponent:
    """The vectors of a LightGCN; those of sources without links were never trained."""
    rows, columns = model.factors()
    linked = rows * (model.links.known.degrees > 0)[:, None]
    return LightGCNComponent(*_tables(linked, columns, model.links.first_candidate, num_nodes))


def als_component(als: ALS, num_nodes: int) -> ALSComponent:
    """The factors of an ALS, and what solves for those of a new node."""
    tables = _tables(*als.factors(), als.links.first_candidate, num_nodes)
    return ALSComponent(*tables, torch.from_numpy(als.fitted.gram), als.fitted.alpha)


def ease_component(ease: EASE, penalty: float, num_nodes: int, seed: int) -> EASEComponent:
    """X B with B = U S V^T of low rank: a query is the sum of U S over its items."""
    links, (left, key) = ease.links, _low_rank(ease.fitted, seed)
    known, first = links.known, links.first_candidate
    query = torch.zeros(known.num_queries, left.size(1))
    query.index_add_(0, torch.from_numpy(known.queries), left[torch.from_numpy(known.candidates)])
    _, table = _tables(query, left, first, num_nodes)
    return EASEComponent(*_tables(query, key, first, num_nodes), table, penalty)


def _low_rank(weights: ItemWeights, seed: int) -> tuple[Tensor, Tensor]:
    """Factors [items, R] of the weights of EASE."""
    left = torch.from_numpy(weights.left)
    if weights.key is not None:
        return left, torch.from_numpy(weights.key)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        u, s, v = torch.svd_lowrank(left, q=min(EASE_RANK, len(left)), niter=4)
    return u * s, v


def _activity_if_better(
    graph: EdgeTextGraph, split: str, others: Sequence[Standardized], ranking: ValidationRanking
) -> Standardized | None:
    """Activity profiles with the best smoothing; None if they do not improve on the others.

    Links are informative unless validation says otherwise. Times may not be, so validation must
    show a gain: a significant one if it has few links.
    """
    if not has_usable_times(graph, split):
        return None
    profiles = (map(torch.from_numpy, pair) for pair in activity_profiles(graph, split))
    device = others[0].device
    options = (Standardized(ActivityComponent(*pair), graph, device) for pair in profiles)
    without, together = (1.0,) * len(others) + (0.0,), (1.0,) * (len(others) + 1)
    ranks = (
        (option, *_reciprocal_ranks([*others, option], ranking, [without, together]))
        for option in options
    )
    best, before, after = max(ranks, key=lambda option: float(option[2].mean()))
    gains = after - before
    if len(gains) >= MANY_LINKS:
        return best if gains.mean() > 0 else None
    return best if is_significant(gains, ranking.queries) else None


def _tables(
    query: Tensor | NDArray[Any], key: Tensor | NDArray[Any], first: int, num_nodes: int
) -> tuple[Tensor, Tensor]:
    """Vectors of the first nodes, and of nodes from `first`, in tables of all nodes."""
    queries, keys = (torch.zeros(num_nodes, vectors.shape[1]) for vectors in (query, key))
    queries[: len(query)] = torch.as_tensor(query)
    keys[first : first + len(key)] = torch.as_tensor(key)
    return queries, keys
