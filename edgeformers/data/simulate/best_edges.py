"""The best edge classification that any method can reach, computed from the generating model.

Nothing is trained. Each kind of evidence (text, nodes, both) groups the edges into cells that it
cannot tell apart. The model gives the exact probability of every cell and class, and the best
decision rule follows. "nodes" and "both" know the hidden node parameters; "text" sums over them.
"""

from dataclasses import dataclass

import numpy as np

from edgeformers.data.f1 import f1, f1_of_confusion
from edgeformers.data.simulate.model import LEVELS, EdgeDraws, Model
from edgeformers.data.simulate.words import PRODUCTS
from edgeformers.data.types import Floats, Ints

MIN_GAIN = 1e-12  # in Macro-F1; smaller gains are rounding errors


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
        return "\n".join(
            [f"{'best possible':<14}{'Macro-F1':>9}{'Micro-F1':>10}"]
            + [
                f"{k:<14}{100 * s.macro_f1:>9.2f}{100 * s.accuracy:>10.2f}"
                for k, s in scores.items()
            ]
        )


class DecisionRules:
    """The best class for every cell of one kind of evidence, from P(cell, class) [cells, C]."""

    def __init__(self, joint: Floats) -> None:
        self.joint = joint.reshape(-1, joint.shape[-1])
        self.most_accurate = self.joint.argmax(axis=1)
        self.best_f1 = maximize_macro_f1(self.joint)

    def expected_score(self) -> EdgeScore:
        """The score in expectation over the model."""
        return self._score(self.joint)

    def score(self, cells: Ints, stars: Ints) -> EdgeScore:
        """The score on edges in these cells with these true classes."""
        counts = np.zeros_like(self.joint)
        np.add.at(counts, (cells, stars), 1)
        return self._score(counts)

    def _score(self, mass: Floats) -> EdgeScore:
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

    def expected_scores(self) -> BestScores:
        rules = (self.text, self.nodes, self.both)
        return BestScores(*(rule.expected_score() for rule in rules))

    def scores(self, draws: EdgeDraws) -> BestScores:
        rules = (self.text, self.nodes, self.both)
        pairs = zip(rules, self.cells(draws), strict=True)
        return BestScores(*(rule.score(cells, draws.stars) for rule, cells in pairs))

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
