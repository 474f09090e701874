"""The best scores that any method can reach, computed from the generating model.

Nothing is trained. For edge classification, each kind of evidence (text, nodes, both) groups the
edges into cells that it cannot tell apart. The model gives the exact probability of every cell and
class, and the best decision rule follows. "nodes" and "both" know the hidden node parameters;
"text" sums over them. For link prediction, targets are ranked by the true P(target | source).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from edgeformers.data.f1 import f1, f1_of_confusion
from edgeformers.data.simulate.config import PRODUCTS
from edgeformers.data.simulate.model import LEVELS, EdgeDraws, Model
from edgeformers.data.types import Floats, Ints, Mask
from edgeformers.errors import InputError

MIN_GAIN = 1e-12  # in Macro-F1; smaller gains are rounding errors
BLOCK = 1_000_000  # edges drawn at a time
TIE = 1e-9  # probabilities that differ by less, relatively, are equal


@dataclass(frozen=True)
class EdgeScore:
    """Macro-F1 and accuracy (which equals Micro-F1), as fractions of one."""

    macro_f1: float
    accuracy: float


@dataclass(frozen=True)
class BestScores:
    """The best score for each kind of evidence; prints as a small table in percent."""

    text: EdgeScore
    nodes: EdgeScore
    both: EdgeScore

    def __str__(self) -> str:
        scores = {"text": self.text, "nodes": self.nodes, "text + nodes": self.both}
        rows = ((name, score.macro_f1, score.accuracy) for name, score in scores.items())
        return _table("Macro-F1", "Micro-F1", rows)


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
        scores = {"taste": self.best, "popularity": self.popularity}
        return _table("MRR", "NDCG", ((name, s.mrr, s.ndcg) for name, s in scores.items()))


def _table(first: str, second: str, rows: Iterable[tuple[str, float, float]]) -> str:
    lines = [f"{name:<14}{100 * one:>9.2f}{100 * other:>10.2f}" for name, one, other in rows]
    return "\n".join([f"{'best possible':<14}{first:>9}{second:>10}", *lines])


class DecisionRules:
    """The best class for every cell of one kind of evidence, from P(cell, class) [cells, C]."""

    def __init__(self, joint: Floats) -> None:
        self.joint = joint.reshape(-1, joint.shape[-1])
        self.most_accurate = self.joint.argmax(axis=1)
        self.best_f1 = maximize_macro_f1(self.joint)

    def score(self, mass: Floats) -> EdgeScore:
        """The score on edges of which `mass` [cells, C] are in each cell and class."""
        hits = np.trace(rule_confusion(mass, self.most_accurate))
        return EdgeScore(rule_macro_f1(mass, self.best_f1), float(hits / mass.sum()))


class BestRules:
    """The best decision rules for each kind of evidence, by enumeration of all cells.

    Axes: s style, a temper, p product, q quality, k class, v and r sentiment of the two phrases.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        stars, sentiment = model.stars_table, model.sentiment_table  # [a, q, k], [s, k, v]
        topic_of_product = np.arange(model.config.topics * PRODUCTS) // PRODUCTS
        sources = source_mass(model)[:, :, topic_of_product]  # [s, a, p]
        targets = target_mass(model)  # [p, q]
        pairs = np.einsum("sap,pq->saq", sources, targets)
        reviews = np.einsum("sap,pq,aqk->psk", sources, targets, stars)
        phrases = (sentiment, sentiment)
        self.text = DecisionRules(np.einsum("psk,skv,skr->pvrk", reviews, *phrases))
        self.nodes = DecisionRules(np.einsum("saq,aqk->aqk", pairs, stars))
        self.both = DecisionRules(np.einsum("saq,aqk,skv,skr->saqvrk", pairs, stars, *phrases))

    def scores(self, draws: EdgeDraws | None = None) -> BestScores:
        """The scores on these edges, or in expectation over the model."""
        rules = (self.text, self.nodes, self.both)
        masses = [rule.joint for rule in rules]
        if draws is not None:
            masses = [np.zeros_like(mass) for mass in masses]
            for mass, cells in zip(masses, self.cells(draws), strict=True):
                np.add.at(mass, (cells, draws.stars), 1)
        return BestScores(*(rule.score(mass) for rule, mass in zip(rules, masses, strict=True)))

    def cells(self, draws: EdgeDraws) -> tuple[Ints, Ints, Ints]:
        """The cell of every edge, given its text, its nodes and both."""
        model, levels = self.model, self.model.config.sentiments
        phrases = draws.verdict * levels + draws.remark
        text = model.product[draws.target] * np.int64(levels**2) + phrases
        nodes = model.temper[draws.source] * np.int64(LEVELS) + model.quality[draws.target]
        both = (model.style[draws.source] * np.int64(LEVELS**2) + nodes) * levels**2 + phrases
        return text, nodes, both


def source_mass(model: Model) -> Floats:
    """P(style, temper, topic) of an edge [s, a, t]."""
    styles, topics = model.config.styles, model.config.topics
    groups = model.style * np.int64(LEVELS) + model.temper
    chance = model.source_chance()
    weights = chance[:, None] * model.taste(np.arange(len(chance)))  # [sources, t]
    columns = [np.bincount(groups, weight, styles * LEVELS) for weight in weights.T]
    mass: Floats = np.stack(columns, axis=1).astype(np.float64).reshape(styles, LEVELS, topics)
    return mass


def target_mass(model: Model) -> Floats:
    """P(product, quality | topic of the product) [p, q]."""
    products = model.config.topics * PRODUCTS
    groups = model.product * np.int64(LEVELS) + model.quality
    mass = np.bincount(groups, model.target_chance(), products * LEVELS)
    return mass.astype(np.float64).reshape(products, LEVELS)


def rule_confusion(joint: Floats, rule: Ints) -> Floats:
    """The confusion table [C true, C predicted] of a rule, in units of the mass [cells, C]."""
    classes = joint.shape[1]
    return np.stack([np.bincount(rule, joint[:, k], classes) for k in range(classes)])


def rule_macro_f1(joint: Floats, rule: Ints) -> float:
    """Macro-F1 of a rule, over the classes that occur as a label or as a prediction."""
    return float(np.nanmean(f1_of_confusion(rule_confusion(joint, rule))))


def maximize_macro_f1(joint: Floats) -> Ints:
    """The rule with the highest Macro-F1 that hill climbing from the Bayes rule reaches.

    The Bayes rule maximizes accuracy, not Macro-F1. Each step gives one cell the class that
    raises Macro-F1 most, until no change of a single cell raises it further.
    """
    rule: Ints = joint.argmax(axis=1)
    mass, cells = joint.sum(axis=1), np.arange(len(joint))
    table = rule_confusion(joint, rule)
    hits, size = np.diag(table).copy(), table.sum(axis=0) + table.sum(axis=1)
    while True:
        current = np.nan_to_num(f1(hits, size))
        without = np.nan_to_num(f1(hits[rule] - joint[cells, rule], size[rule] - mass))
        added = np.nan_to_num(f1(hits + joint, size + mass[:, None]))
        gain = (without - current[rule])[:, None] + added - current  # [cells, C]
        gain[cells, rule] = 0
        gain[:, joint.sum(axis=0) == 0] = 0  # a class that never occurs is never predicted
        cell, new = np.unravel_index(gain.argmax(), gain.shape)
        if gain[cell, new] < MIN_GAIN:
            return rule
        for k, sign in ((rule[cell], -1), (new, 1)):
            hits[k] += sign * joint[cell, k]
            size[k] += sign * mass[cell]
        rule[cell] = new


def best_link_scores(
    model: Model, draws: EdgeDraws, labels: Collection[str] | None, *, filtered: bool = False
) -> BestLinkScores:
    """The scores with every edge (with one of `labels`, if given) as a query for its target.

    Every source ranks the targets of one topic and quality by popularity. So one binary search
    per such group gives the rank of a target, without a source-by-target matrix. If `filtered`,
    the other links of the source are then removed from the ranking.
    """
    is_asked = np.ones(model.config.classes, dtype=bool)
    lift = np.ones((LEVELS, LEVELS))  # P(one of the labels | temper, quality)
    if labels is not None:
        known = [str(k + 1) for k in range(model.config.classes)]
        if unknown := sorted(set(labels) - set(known)):
            raise InputError(f"unknown label '{unknown[0]}'; available: {', '.join(known)}")
        is_asked = np.isin(known, list(labels))
        lift = model.stars_table @ is_asked
        draws = draws.where(is_asked[draws.stars])
    if not len(draws.source):
        raise InputError("no edge of the sample has one of these labels; use a larger sample")
    others = _other_links(model, draws, is_asked) if filtered else None
    taste = model.taste(draws.source)  # [n, topic]
    personal = taste[:, :, None] * lift[model.temper[draws.source], None, :]  # [n, topic, quality]
    common = np.einsum("sat,aq->tq", source_mass(model), lift)[None]  # [1, topic, quality]
    scores = (_score(model, draws, appeal, others) for appeal in (personal, common))
    return BestLinkScores(*scores)


def _other_links(model: Model, draws: EdgeDraws, is_asked: Mask) -> tuple[Ints, Ints]:
    """The other targets to which the source of each query links, as (query, target)."""
    size, total = model.config.target_count, model.config.num_edges
    is_source = np.zeros(model.config.source_count, dtype=bool)
    is_source[draws.source] = True
    keys = np.zeros(0, dtype=np.int64)
    for start in range(0, total, BLOCK):
        block = model.draw(np.arange(start, min(start + BLOCK, total)))
        block = block.where(is_source[block.source] & is_asked[block.stars])
        keys = np.union1d(keys, block.source * np.int64(size) + block.target)
    first, end = (np.searchsorted(keys, (draws.source + i) * np.int64(size)) for i in (0, 1))
    query = np.repeat(np.arange(len(first)), end - first)
    within = np.arange(len(query)) - np.repeat(np.cumsum(end - first) - (end - first), end - first)
    target = keys[first[query] + within] % size
    is_other = target != draws.target[query]
    return query[is_other], target[is_other]


def _score(
    model: Model, draws: EdgeDraws, appeal: Floats, others: tuple[Ints, Ints] | None
) -> LinkScore:
    """The score of ranking all targets by the appeal of their group times their popularity.

    The targets in `others`, (query, target), are removed from the ranking.
    """
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
    if others is not None:
        query, other = others
        value = appeal[row[query], model.topic[other], model.quality[other]] * chance[other]
        own = score[query]
        better -= np.bincount(query[value > own * (1 + TIE)], minlength=len(score))
        as_good -= np.bincount(query[value >= own * (1 - TIE)], minlength=len(score))
    rank = np.arange(1, model.config.target_count + 1)
    totals = [np.append(0.0, np.cumsum(gain)) for gain in (1 / rank, 1 / np.log2(1 + rank))]
    gains = ((total[as_good] - total[better]) / (as_good - better) for total in totals)
    return LinkScore(*(float(gain.mean()) for gain in gains))  # ties are broken at random
