"""The best ranking of targets any method can reach: by the true P(target | source)."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from edgeformers.data.simulate.best import source_mass
from edgeformers.data.simulate.model import LEVELS, EdgeDraws, Floats, Ints, Model, taste_table
from edgeformers.errors import InputError

TIE = 1e-9  # chances closer than this, relatively, are one and the same


@dataclass(frozen=True)
class LinkScore:
    """Mean reciprocal rank and NDCG among all targets, as fractions of one."""

    mrr: float
    ndcg: float


@dataclass(frozen=True)
class BestLinkScores:
    """What knowing each source's taste can reach, and what popularity alone can."""

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
    """Every edge (of these labels, where given) asks for its target among all targets.

    Within a group of targets of one topic and quality, the order is that of popularity for
    every source. So the rank of a target is found by one binary search per group, and no
    source-by-target matrix is made.
    """
    lift = label_chance(model, labels)  # [temper, quality]
    if labels is not None:
        draws = draws.where(np.isin(draws.stars, [int(label) - 1 for label in labels]))
    if not len(draws.source):
        raise InputError("no edge in the sample has one of these labels; take a larger sample")
    taste = model.taste(draws.source)  # [n, topic]
    own = taste[:, :, None] * lift[model.temper[draws.source], None, :]  # [n, topic, quality]
    common = np.einsum("sat,aq->tq", source_mass(model), lift)[None]  # [1, topic, quality]
    return BestLinkScores(_score(model, draws, own), _score(model, draws, common))


def label_chance(model: Model, labels: Collection[str] | None) -> Floats:
    """P(one of the labels | temper, quality); 1 where all labels count."""
    if labels is None:
        return np.ones((LEVELS, LEVELS))
    known = [str(k + 1) for k in range(model.config.classes)]
    if unknown := sorted(set(labels) - set(known)):
        raise InputError(f"no label '{unknown[0]}' here; the labels are {', '.join(known)}")
    wanted = np.isin(known, list(labels))  # [C]
    return model.stars_table @ wanted


def taste_given_topics(model: Model, counts: Ints) -> Floats:
    """P(topic of a further edge | topics of some edges of its source), [n, topics].

    `counts` [n, topics] says how many of the edges that are known of each source have each topic.
    Every text tells its topic, and nothing else in it tells of taste: so this ranks targets as
    well as any reader of these texts can, where `Model.taste` needs to know the source itself.
    """
    topics = model.config.topics
    pairs = np.stack(np.divmod(np.arange(topics**2), topics), axis=1)
    tastes = taste_table(model.config, pairs[(pairs[:, 0] != pairs[:, 1]) | (topics == 1)])
    logs = counts @ np.log(np.maximum(tastes, np.finfo(float).tiny)).T  # [n, pairs of favorites]
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    told: Floats = likely @ tastes / likely.sum(axis=1, keepdims=True)
    return told


def _score(model: Model, draws: EdgeDraws, appeal: Floats) -> LinkScore:
    """Ranks by appeal of the target's group times its popularity, all targets in one list."""
    chance = model.target_chance()
    topic, quality = model.topic[draws.target], model.quality[draws.target]
    row = np.arange(len(topic)) if len(appeal) > 1 else np.zeros(len(topic), dtype=np.int64)
    score = appeal[row, topic, quality] * chance[draws.target]
    better, as_good = np.zeros(len(score), np.int64), np.zeros(len(score), np.int64)
    for t, q in np.ndindex(appeal.shape[1:]):
        group = np.sort(chance[(model.topic == t) & (model.quality == q)])
        with np.errstate(divide="ignore"):  # no appeal: no target of the group is as good
            needed = score / appeal[row, t, q]
        better += len(group) - np.searchsorted(group, needed * (1 + TIE), side="right")
        as_good += len(group) - np.searchsorted(group, needed * (1 - TIE), side="left")
    place = np.arange(1, model.config.target_count + 1)
    gains = (1 / place, 1 / np.log2(1 + place))
    return LinkScore(*(_mean_gain(gain, better, as_good) for gain in gains))


def _mean_gain(gain: Floats, better: Ints, as_good: Ints) -> float:
    """Mean gain where a target is equally likely to be at any place among those as good."""
    total = np.concatenate([[0.0], np.cumsum(gain)])
    return float(((total[as_good] - total[better]) / (as_good - better)).mean())
