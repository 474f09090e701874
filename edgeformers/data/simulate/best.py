"""The best scores any method can reach on a simulated network, from the generating model itself.

Nothing is trained. A kind of evidence (text, nodes, both) divides the edges into cells that it
cannot tell apart; the model gives the exact mass of every cell and class, and from these the
best rule follows. Hidden parameters of the nodes are known to "nodes" and "both", summed out
for "text".
"""

from dataclasses import dataclass

import numpy as np

from edgeformers.data.f1 import f1, f1_of_confusion
from edgeformers.data.simulate.model import LEVELS, EdgeDraws, Floats, Ints, Model
from edgeformers.data.simulate.words import PRODUCTS

SMALLEST_GAIN = 1e-12  # of Macro-F1; below it is rounding


@dataclass(frozen=True)
class EdgeScore:
    """Macro-F1 and accuracy (which is Micro-F1), as fractions of one."""

    macro_f1: float
    accuracy: float


@dataclass(frozen=True)
class BestScores:
    """The best score of each kind of evidence; printing it gives a small table in percent."""

    text: EdgeScore
    nodes: EdgeScore
    both: EdgeScore

    def __str__(self) -> str:
        lines = [f"{'best possible':<14}{'Macro-F1':>9}{'Micro-F1':>10}"]
        for name, score in (
            ("text", self.text),
            ("nodes", self.nodes),
            ("text + nodes", self.both),
        ):
            lines.append(f"{name:<14}{100 * score.macro_f1:>9.2f}{100 * score.accuracy:>10.2f}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Evidence:
    """Mass of every cell and class, [cells, C], and the best rules: a class for every cell."""

    joint: Floats
    most_accurate: Ints
    best_f1: Ints

    @classmethod
    def of(cls, joint: Floats) -> "Evidence":
        flat = joint.reshape(-1, joint.shape[-1])
        return cls(flat, flat.argmax(axis=1), maximize_macro_f1(flat))

    def expected(self) -> EdgeScore:
        """The score of the best rules over the whole model."""
        return EdgeScore(
            macro_f1(self.joint, self.best_f1),
            accuracy(self.joint, self.most_accurate),
        )

    def measured(self, cells: Ints, stars: Ints) -> EdgeScore:
        """The score of the same rules on edges in these cells."""
        counts = np.zeros_like(self.joint)
        np.add.at(counts, (cells, stars), 1)
        return EdgeScore(
            macro_f1(counts, self.best_f1),
            accuracy(counts, self.most_accurate),
        )


class BestRules:
    """The best rule for each kind of evidence, by enumeration of everything it can see.

    Letters: s style, t topic, a temper, p product, q quality, k class, v and r the two rungs.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        stars, rung = model.stars_table, model.rung_table  # [a, q, k], [s, k, r]
        topic_of_product = np.arange(model.config.topics * PRODUCTS) // PRODUCTS
        sources = source_mass(model)[:, :, topic_of_product]  # [s, a, p]
        targets = target_mass(model)  # [p, q]
        pairs = np.einsum("sap,pq->saq", sources, targets)
        told = np.einsum("sap,pq,aqk->psk", sources, targets, stars)
        self.text = Evidence.of(np.einsum("psk,skv,skr->pvrk", told, rung, rung))
        self.nodes = Evidence.of(np.einsum("saq,aqk->aqk", pairs, stars))
        self.both = Evidence.of(np.einsum("saq,aqk,skv,skr->saqvrk", pairs, stars, rung, rung))

    def expected(self) -> BestScores:
        return BestScores(self.text.expected(), self.nodes.expected(), self.both.expected())

    def measured(self, draws: EdgeDraws) -> BestScores:
        text, nodes, both = self.cells(draws)
        return BestScores(
            self.text.measured(text, draws.stars),
            self.nodes.measured(nodes, draws.stars),
            self.both.measured(both, draws.stars),
        )

    def cells(self, draws: EdgeDraws) -> tuple[Ints, Ints, Ints]:
        """The cell of every edge as text, nodes and both see it."""
        model, rungs = self.model, self.model.config.rungs
        said = draws.verdict * rungs + draws.remark
        text = model.product[draws.target] * np.int64(rungs**2) + said
        nodes = model.temper[draws.source] * np.int64(LEVELS) + model.quality[draws.target]
        both = (model.style[draws.source] * np.int64(LEVELS**2) + nodes) * rungs**2 + said
        return text, nodes, both


def source_mass(model: Model) -> Floats:
    """P(style, temper, topic), [s, a, t]: who writes, and about what."""
    styles, topics = model.config.styles, model.config.topics
    groups = model.style * np.int64(LEVELS) + model.temper
    chance = model.source_chance()
    weights = chance[:, None] * model.taste(np.arange(len(chance)))  # [sources, t]
    mass = np.empty((styles * LEVELS, topics))
    for topic in range(topics):
        mass[:, topic] = np.bincount(groups, weights[:, topic], styles * LEVELS)
    return mass.reshape(styles, LEVELS, topics)


def target_mass(model: Model) -> Floats:
    """P(product, quality | topic of the product), [p, q]."""
    products = model.config.topics * PRODUCTS
    groups = model.product * np.int64(LEVELS) + model.quality
    mass = np.bincount(groups, model.target_chance(), products * LEVELS)
    return mass.astype(np.float64).reshape(products, LEVELS)


def confusion(joint: Floats, rule: Ints) -> Floats:
    """[C true, C predicted]: where the mass of every cell goes under a rule."""
    classes = joint.shape[1]
    return np.stack([np.bincount(rule, joint[:, k], classes) for k in range(classes)])


def accuracy(joint: Floats, rule: Ints) -> float:
    """Share of the mass that a rule classifies correctly."""
    return float(np.trace(confusion(joint, rule)) / joint.sum())


def macro_f1(joint: Floats, rule: Ints) -> float:
    """Macro-F1 of a rule, over the classes that occur as a label or as a prediction."""
    return float(np.nanmean(f1_of_confusion(confusion(joint, rule))))


def maximize_macro_f1(joint: Floats) -> Ints:
    """The rule of highest Macro-F1 that is reached from the most accurate one.

    The Bayes rule maximizes accuracy, not Macro-F1. From it the rule climbs: each step gives
    one cell the class that raises Macro-F1 most, until no cell can be given another one with
    profit. F1 of a class is 2 hits / size, its size being true plus predicted mass.
    """
    rule: Ints = joint.argmax(axis=1)
    mass, cells = joint.sum(axis=1), np.arange(len(joint))
    table = confusion(joint, rule)
    hits, size = np.diag(table).copy(), table.sum(axis=0) + table.sum(axis=1)
    while True:
        now = np.nan_to_num(f1(hits, size))
        without = np.nan_to_num(f1(hits[rule] - joint[cells, rule], size[rule] - mass))
        with_cell = np.nan_to_num(f1(hits + joint, size + mass[:, None]))
        gain = (without - now[rule])[:, None] + with_cell - now  # [cells, C]
        gain[cells, rule] = 0
        gain[:, joint.sum(axis=0) == 0] = 0  # a class that never occurs stays out
        cell, new = np.unravel_index(gain.argmax(), gain.shape)
        if gain[cell, new] < SMALLEST_GAIN:
            return rule
        for k, sign in ((rule[cell], -1), (new, 1)):
            hits[k] += sign * joint[cell, k]
            size[k] += sign * mass[cell]
        rule[cell] = new
