"""Time-aware weights of a link score that takes in edges as they arrive.

Each validation link is scored as of its own time. The weights maximize the likelihood of these
links: a link is drawn from all candidates of its moment in proportion to exp(score), as in a
conditional logit (McFadden, 1974). Many more components can be weighted this way than by a search
over ranks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from edgeformers.baselines.temporal.history import TimedLinks, timed_links
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN
from edgeformers.data.types import Ids, Mask
from edgeformers.errors import EdgeformersError
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.inference.audience import AudienceComponent, singular_vectors
from edgeformers.inference.components import (
    ALSComponent,
    EASEComponent,
    LightGCNComponent,
    ScoreComponent,
)
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.novelty_preference import NoveltyPreferenceComponent
from edgeformers.inference.rolling_validation import RollingValidation
from edgeformers.inference.saved_components import GROUPS, Ensemble
from edgeformers.inference.temporal_components import (
    DecayingComponent,
    FlatPopularityComponent,
    NoveltyComponent,
    RecentHistoryComponent,
    RecentPopularityComponent,
)
from edgeformers.inference.topics import TopicsComponent

HISTORY_MEMORY = 180.0  # days
HISTORY_POWER = 0.5
AUDIENCE_RANK = 32
AUDIENCE_LINKS = 2_000_000  # as many as ALS is fitted on
POPULARITY_MEMORIES = (1.0, 8.0, 64.0, 365.0)  # days
NOVELTY_MEMORIES = (8.0, 64.0, 365.0)
FIXED = frozenset({LightGCNComponent, ALSComponent, EASEComponent})  # and not their subclasses
RIDGE = 20.0  # of standardized weights, in units of the log-likelihood
ITERATIONS = 50
STEP_SIZES = tuple(0.5**halvings for halvings in range(20))
TOLERANCE = 1e-6  # of the log-likelihood of a link
BLOCK = 32  # links at a time, so that their scores stay in the cache


def with_rolling_weights(fitted: FittedLinkPredictor, ensemble: Ensemble) -> Ensemble:
    """The same with components of recent links and time-aware weights, if they can be fitted.

    All memories of a component are weighted first; then they are mixed, and degree groups get
    weights of their own, shrunk toward those of all sources. Collaborative components whose target
    vectors never change are replaced by recent histories, audiences and topics.
    """
    components, families = _rolling_components(fitted, ensemble)
    own = [component for component in components if type(component) not in FIXED]
    each = [component for family in families for component in family.each()]
    validation = RollingValidation(fitted, [*own, *each])
    if not len(validation):
        return ensemble
    sizes = [1] * (1 + len(own)) + [len(family.memory) for family in families]
    mixes, rolling = fit_mixed_weights(validation, sizes, fitted.device)
    if not rolling.any():  # no component tells candidates apart
        return ensemble
    mixed = zip(families, mixes[1 + len(own) :], strict=True)
    components += [family.mixed(mix) for family, mix in mixed]
    counted = torch.tensor([True, *(type(component) not in FIXED for component in components)])
    weights = torch.zeros(2, GROUPS, len(counted))
    weights[0, :, : 1 + len(ensemble.components)] = ensemble.weights
    weights[1][:, counted] = rolling.float()
    return Ensemble(
        components=components, weights=weights[0], group=ensemble.group, rolling_weights=weights[1]
    )


def _rolling_components(
    fitted: FittedLinkPredictor, ensemble: Ensemble
) -> tuple[list[ScoreComponent], list[DecayingComponent]]:
    """The components of an ensemble and of training links, and those with several memories."""
    graph = fitted.network.graph
    trained = np.flatnonzero(np.isin(graph.split(fitted.network.split), (TRAIN, PROFILE)))
    links = timed_links(graph, trained)
    targets = links.columns + int(candidate_nodes(graph)[0])
    components = [*ensemble.components, *_link_components(graph, ensemble, links, targets)]
    return components, _decaying_components(links, targets, graph.num_nodes)


def _link_components(
    graph: EdgeTextGraph, ensemble: Ensemble, links: TimedLinks, targets: Ids
) -> list[ScoreComponent]:
    """Recent histories with the weights of a fitted EASE, audiences, and topics of texts."""
    fitted = {type(one): one for one in ensemble.components}
    components: list[ScoreComponent] = []
    if isinstance(ease := fitted.get(EASEComponent), EASEComponent):
        recent = links.sources, targets, links.times, HISTORY_MEMORY, HISTORY_POWER
        components.append(RecentHistoryComponent.fit(ease, *recent))
    if len(links) > AUDIENCE_LINKS:
        return components
    if isinstance(lightgcn := fitted.get(LightGCNComponent), LightGCNComponent):
        item = lightgcn.key
    else:
        item = singular_vectors(links.sources, targets, graph.num_nodes, AUDIENCE_RANK)
    components.append(AudienceComponent.fit(links.sources, targets, item))
    topics = TopicsComponent.read(graph, links.sources, targets, links.edges)
    return components if topics is None else [*components, topics]


def _decaying_components(links: TimedLinks, targets: Ids, size: int) -> list[DecayingComponent]:
    """Recent popularity, novelty and preferences for novelty, each with several memories."""
    popularity = (RecentPopularityComponent, FlatPopularityComponent)
    novelty = NoveltyComponent.fit(targets, links.times, size, NOVELTY_MEMORIES)
    return [
        *(kind.fit(targets, links.times, size, POPULARITY_MEMORIES) for kind in popularity),
        novelty,
        NoveltyPreferenceComponent.of(novelty, links.sources, targets, links.times),
    ]


def fit_mixed_weights(
    validation: RollingValidation, sizes: Sequence[int], device: torch.device | str = "cpu"
) -> tuple[list[Tensor], Tensor]:
    """Columns of scores in families of the given sizes -> the mix of each family, and weights.

    Weights are [G, families]: of scores as components give them, in the mix if there are several.
    A family of one column may not count against a link; the mix of others may have any sign.
    """
    choices = Choices.of(validation, device)
    is_alone = np.repeat(np.array(sizes) == 1, sizes)
    overall = fit_weights(choices, torch.zeros(len(is_alone)), is_alone)
    columns = torch.eye(len(sizes)).repeat_interleave(torch.tensor(sizes), 0)  # [columns, families]
    mix = torch.where(torch.from_numpy(is_alone), torch.ones(len(is_alone)), overall)
    mixed = choices.combined(columns * mix[:, None])
    weights = torch.where(torch.tensor(sizes) == 1, columns.T @ overall, torch.ones(len(sizes)))
    scale = mixed.spread()  # of the families' scores
    mixed = mixed.combined(torch.diag(1 / scale))
    prior = weights * scale
    groups = [
        fit_weights(mixed.subset(validation.groups == group), prior, np.ones(len(sizes), bool))
        for group in range(GROUPS)
    ]
    raw = (mix * torch.from_numpy(validation.scales)).split(list(sizes))
    units = torch.stack([own[0] if len(own) == 1 else own.any().float() for own in raw])
    return list(raw), torch.stack(groups) / scale * units


@dataclass(frozen=True)
class Choices:
    """Links [n] among candidates [C] with scores of several columns [n, P, C]."""

    tables: Tensor
    columns: Tensor  # [n]
    is_other: Tensor  # [n, C]

    @classmethod
    def of(cls, validation: RollingValidation, device: torch.device | str = "cpu") -> "Choices":
        ends = torch.from_numpy(validation.columns), torch.from_numpy(validation.is_other)
        return cls(*(tensor.to(device) for tensor in (validation.tables, *ends)))

    def subset(self, chosen: Mask) -> "Choices":
        """Only the chosen links [n]."""
        rows = torch.from_numpy(np.flatnonzero(chosen)).to(self.tables.device)
        return Choices(self.tables[rows], self.columns[rows], self.is_other[rows])

    def combined(self, matrix: Tensor) -> "Choices":
        """Columns in the combinations [P, Q] instead."""
        combined = matrix.float().T.to(self.tables.device) @ self.tables
        return Choices(combined, self.columns, self.is_other)

    def spread(self) -> Tensor:
        """The standard deviation of each column among the other candidates; 1 if constant."""
        own = (self.tables[:, p][self.is_other] for p in range(self.tables.size(1)))
        each = [float(scores.std(correction=0)) for scores in own]
        return torch.tensor([std if std > 0 else 1.0 for std in each])


def fit_weights(choices: Choices, prior: Tensor, is_positive: Mask) -> Tensor:
    """The weights [P] of a conditional logit, shrunk toward a prior by a ridge penalty.

    Of the columns that must be positive, those that would not be are left out. Without links the
    weights are the prior.
    """
    weights = prior.clone()
    if not len(choices.columns):
        return weights
    used = torch.ones(len(prior), dtype=torch.bool)
    while used.any():
        tables = choices.tables if used.all() else choices.tables[:, used.to(choices.tables.device)]
        found = _maximum(tables, choices, prior[used], start=weights[used])
        weights = torch.zeros_like(prior)
        weights[used] = found
        wrong = (weights < 0) & torch.from_numpy(is_positive)
        if not wrong.any():
            break
        used &= ~wrong
    return weights.clamp(min=0.0).where(torch.from_numpy(is_positive), weights)


def _maximum(tables: Tensor, choices: Choices, prior: Tensor, start: Tensor) -> Tensor:
    """Where the penalized likelihood, a concave function, is highest: by Newton's method."""
    excluded = ~choices.is_other
    excluded[torch.arange(len(excluded), device=excluded.device), choices.columns] = False
    weights = start.double()
    point = _Point.at(weights, tables, choices.columns, excluded, prior)
    if not math.isfinite(point.loss):
        raise EdgeformersError(
            "some scores of validation links are NaN or infinite, so they cannot be weighted; "
            "links.ensemble=false trains without weights"
        )
    for _ in range(ITERATIONS):
        step = torch.linalg.solve(point.hessian, point.gradient)
        if float(point.gradient @ step) / 2 < TOLERANCE * len(tables):
            break  # what is left to gain
        for scale in STEP_SIZES:
            tried = _Point.at(weights - scale * step, tables, choices.columns, excluded, prior)
            if tried.loss < point.loss:
                break
        else:
            break
        weights, point = weights - scale * step, tried
    return weights.float()


@dataclass(frozen=True)
class _Point:
    """The negative log-likelihood with its penalty at some weights [P], and its derivatives."""

    loss: float
    gradient: Tensor  # [P]
    hessian: Tensor  # [P, P]

    @classmethod
    def at(
        cls, weights: Tensor, tables: Tensor, columns: Tensor, excluded: Tensor, prior: Tensor
    ) -> "_Point":
        moved = weights - prior
        own = weights.float().to(tables.device)
        likelihood = own.new_zeros((), dtype=torch.float64)
        gradient = own.new_zeros(len(own), dtype=torch.float64)
        hessian = own.new_zeros(len(own), len(own), dtype=torch.float64)
        for start in range(0, len(tables), BLOCK):
            rows = slice(start, start + BLOCK)
            table, linked = tables[rows], columns[rows]
            scores = (own @ table).masked_fill(excluded[rows], -torch.inf)
            log_probs = scores.log_softmax(1)  # [n, C]
            at = torch.arange(len(table), device=table.device)
            weighted = table * log_probs.exp()[:, None]  # [n, P, C]
            mean = weighted.sum(2)  # [n, P]
            likelihood += log_probs[at, linked].double().sum()
            gradient += (mean - table[at, :, linked]).double().sum(0)
            second = (weighted @ table.mT).sum(0)
            hessian += (second - mean.T @ mean).double()
        loss = RIDGE * float(moved.square().sum()) - float(likelihood)
        gradient = 2 * RIDGE * moved + gradient.cpu()
        return cls(loss, gradient, hessian.cpu() + 2 * RIDGE * torch.eye(len(weights)).double())
