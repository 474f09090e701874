"""The best link prediction that any method can reach: ranking by the true P(target | source)."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from edgeformers.data.simulate.best_edges import source_mass
from edgeformers.data.simulate.model import LEVELS, EdgeDraws, Model, taste_table
from edgeformers.data.types import Floats, Ints
from edgeformers.errors import InputError

TIE = 1e-9  # probabilities that differ by less, relatively, are equal


@dataclass(frozen=True)
class LinkScore:
    """Mean reciprocal rank and NDCG among all targets, as fractions of one."""

    mrr: float
    ndcg: float


@dataclass(frozen=True)
class BestLinkScores:
    """The scores of ranking by each source's true taste, and by popularity alone."""

    best: LinkScore
    popularity: LinkScore

    def __str__(self) -> str:
        lines = [f"{'best possible':<14}{'MRR':>9}{'NDCG':>10}"]
        for name, score in (("taste", self.best), ("popularity", self.popularity)):
            lines.append(f"{name:<14}{100 * score.mrr:>9.2f}{100 * score.ndcg:>10.2f}")
        return "\n".join(lines)


def best_link_scores(
    model: Model, draws: EdgeDraws, labels: Collection[str] | None
) -> BestLinkScores:
    """The scores with every edge (with one of `labels`, if given) as a query for its target.

    Every source ranks the targets of one topic and quality by popularity. So one binary search
    per such group gives the rank of a target, without a source-by-target matrix.
    """
    lift = label_chance(model, labels)  # [temper, quality]
    if labels is not None:
        draws = draws.where(np.isin(draws.stars, [int(label) - 1 for label in labels]))
    if not len(draws.source):
        raise InputError("no edge of the sample has one of these labels; use a larger sample")
    taste = model.taste(draws.source)  # [n, topic]
    personal = taste[:, :, None] * lift[model.temper[draws.source], None, :]  # [n, topic, quality]
    common = np.einsum("sat,aq->tq", source_mass(model), lift)[None]  # [1, topic, quality]
    return BestLinkScores(_score(model, draws, personal), _score(model, draws, common))


def label_chance(model: Model, labels: Collection[str] | None) -> Floats:
    """P(one of the labels | temper, quality) [temper, quality]; 1 if `labels` is None."""
    if labels is None:
        return np.ones((LEVELS, LEVELS))
    known = [str(k + 1) for k in range(model.config.classes)]
    if unknown := sorted(set(labels) - set(known)):
        raise InputError(f"unknown label '{unknown[0]}'; available: {', '.join(known)}")
    return model.stars_table @ np.isin(known, list(labels))


def taste_given_topics(model: Model, counts: Ints) -> Floats:
    """P(topic of the next edge | topics of known edges of its source) [n, topics].

    `counts` [n, topics] are the topics of each source's known edges. A text reveals its topic
    and nothing else about the source's taste, so this is the best prediction from texts;
    `Model.taste` knows the source itself.
    """
    topics = model.config.topics
    pairs = np.stack(np.divmod(np.arange(topics**2), topics), axis=1)
    tastes = taste_table(model.config, pairs[(pairs[:, 0] != pairs[:, 1]) | (topics == 1)])
    logs = counts @ np.log(np.maximum(tastes, np.finfo(float).tiny)).T  # [n, pairs of favorites]
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    posterior: Floats = likelihood @ tastes / likelihood.sum(axis=1, keepdims=True)
    return posterior


def _score(model: Model, draws: EdgeDraws, appeal: Floats) -> LinkScore:
    """The score of ranking all targets by the appeal of their group times their popularity."""
    chance = model.target_chance()
    topic, quality = model.topic[draws.target], model.quality[draws.target]
    row = np.arange(len(topic)) if len(appeal) > 1 else np.zeros(len(topic), dtype=np.int64)
    score = appeal[row, topic, quality] * chance[draws.target]
    better, as_good = np.zeros(len(score), np.int64), np.zeros(len(score), np.int64)
    for t, q in np.ndindex(appeal.shape[1:]):
        group = np.sort(chance[(model.topic == t) & (model.quality == q)])
        with np.errstate(divide="ignore"):  # without appeal, no target of the group is as good
            threshold = score / appeal[row, t, q]
        better += len(group) - np.searchsorted(group, threshold * (1 + TIE), side="right")
        as_good += len(group) - np.searchsorted(group, threshold * (1 - TIE), side="left")
    rank = np.arange(1, model.config.target_count + 1)
    gains = (1 / rank, 1 / np.log2(1 + rank))
    return LinkScore(*(_mean_gain(gain, better, as_good) for gain in gains))


def _mean_gain(gain: Floats, better: Ints, as_good: Ints) -> float:
    """The mean gain if ties are broken at random."""
    total = np.concatenate([[0.0], np.cumsum(gain)])
    return float(((total[as_good] - total[better]) / (as_good - better)).mean())
