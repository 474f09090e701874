"""What is to know about the splits of a network: leaks, cold nodes, labels never trained on.

A finding that several splits share is told once, with the numbers of each.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edgeformers.data.card.card import (
    DataCard,
    Finding,
    Overlap,
    PartSummary,
    Severity,
    SideSummary,
)
from edgeformers.data.card.phrasing import counted, finding, listed, of_all, percent, quoted
from edgeformers.data.card.split_advice import (
    link_options,
    own_columns,
    split_configs,
    split_options,
)
from edgeformers.data.splits import SplitConfig

# Shares of the held-out edges from which a note becomes a warning.
MANY_SAME_TEXTS = 0.05
MANY_COLD_EDGES = 0.05
MANY_SINGLE_EDGES = 0.3  # of the nodes on the side that a split cuts node by node


@dataclass(frozen=True)
class _Held:
    """What a split trains on, and the part its scores come from: test, or else validation."""

    split: str
    train: PartSummary
    part: PartSummary


@dataclass(frozen=True)
class _Met:
    """How many held-out edges of a split something is true of."""

    held: _Held
    count: int
    example: str = ""

    @property
    def total(self) -> int:
        return self.held.part.edges

    @property
    def share(self) -> float:
        return self.count / self.total


def split_findings(card: DataCard) -> Iterator[Finding]:
    """Every finding about any split, once."""
    held = []
    lacking: dict[str, list[str]] = {}
    for split in card.splits:
        train, tests = split.part("train"), (split.part("test"), split.part("val"))
        part = next((one for one in tests if one and one.edges), None)
        if train is None or not train.edges:
            lacking.setdefault("training", []).append(split.name)
        elif part is None:
            lacking.setdefault("validation or test", []).append(split.name)
        else:
            held.append(_Held(split.name, train, part))
    for what, splits in lacking.items():
        yield _empty_finding(what, splits)
    for part_name in ("test", "val"):
        alike = [one for one in held if one.part.name == part_name]
        yield from _leak_findings(card, alike)
        yield from _cold_findings(card, alike)
        yield from _unseen_label_findings(card, alike)
    for one in split_configs(card):
        yield from _single_edge_findings(card, one)


def _empty_finding(lacking: str, splits: list[str]) -> Finding:
    names = listed([quoted(name) for name in splits])
    which = f"The split {names} has" if len(splits) == 1 else f"The splits {names} have"
    return finding(
        "warning",
        "empty part",
        f"{which} no {lacking} edges.",
        "Use another split, or check the values of the split column.",
        splits,
    )


def _leak_findings(card: DataCard, held: list[_Held]) -> Iterator[Finding]:
    if met := _overlaps(held, lambda part: part.same_edge):
        yield _of_splits(
            "warning",
            "leak: identical edge",
            met,
            f"are also in training, with the same nodes and text, such as “{_worst(met).example}”: "
            "the answer can be looked up.",
            "Drop identical edges and split again.",
        )
    if met := _overlaps(held, lambda part: part.same_text):
        yield _of_splits(
            "warning" if _worst(met).share >= MANY_SAME_TEXTS else "note",
            "leak: same text",
            met,
            f"have a text that is also in training, such as “{_worst(met).example}”.",
            "A few short phrases are normal; longer texts should stand in one part only: keep "
            "equal texts together, with a split column of your own.",
        )
    if met := _overlaps(held, lambda part: part.same_pair):
        yield _of_splits(
            "warning" if card.labels is None else "note",
            "leak: same pair",
            met,
            "join two nodes that an edge in training joins already, such as "
            f"{_worst(met).example}: link prediction can look the answer up.",
            _pair_advice(card, [one.held.split for one in met]),
        )


def _pair_advice(card: DataCard, splits: Sequence[str]) -> str:
    options = link_options(card, splits, new_pairs=True)
    column = own_columns(card, splits)
    return (
        f"For link prediction {options}, which drops validation and test edges "
        "of pairs that training has (in Python SplitConfig(new_pairs=True))"
        + (f"; or give all edges of a pair one part in {column}" if column else "")
        + ". For edge classification this is only good to know."
    )


def _cold_findings(card: DataCard, held: list[_Held]) -> Iterator[Finding]:
    meant = {one.name for one in split_configs(card) if one.is_cold}
    met = [
        _Met(one, one.part.cold_edges, _cold_nodes(one))
        for one in held
        if one.part.cold_edges and one.split not in meant
    ]
    if met:
        worst = _worst(met)
        where = f"in {worst.held.split} " if len({one.example for one in met}) > 1 else ""
        yield _of_splits(
            "warning" if worst.share >= MANY_COLD_EDGES else "note",
            "cold nodes",
            met,
            f"touch a node without a training edge ({where}{worst.example}): its embedding is "
            "never trained.",
            _cold_advice(card, [one.held.split for one in met]),
        )


def _cold_advice(card: DataCard, splits: Sequence[str]) -> str:
    options = link_options(card, splits, unseen="drop")
    column = own_columns(card, splits)
    return (
        "Report their scores apart, or leave them out, as the paper does for link prediction: "
        + options
        + (f"; or put an edge of each node into training in {column}" if column else "")
        + "."
    )


def _single_edge_findings(card: DataCard, config: SplitConfig) -> Iterator[Finding]:
    """A split of each node's edges has nothing to cut where a node has one edge."""
    side = _cut_side(card, config)
    used = side.nodes - side.unused if side else 0
    share, first = config.fractions[0], config.fractions[0] + config.fractions[1]
    if side is None or side.single < max(1, MANY_SINGLE_EDGES * used) or int(first):
        return
    end = "source" if config.how.endswith("source") else "target"
    options = split_options(card, [config.name], unseen="drop")
    yield finding(
        "note",
        "single edges in test",
        f"{of_all(side.single, used, f'{end}s')} have one edge only, and it is a test edge: of one "
        f"edge int({share:g} × 1) = 0 train.",
        f"Keep {end}s with more edges, or drop these from the test: {options}.",
        [config.name],
        count=side.single,
        share=side.single / used,
    )


def _cut_side(card: DataCard, config: SplitConfig) -> SideSummary | None:
    """The side whose nodes' edges are cut one node at a time and kept, however cold."""
    if not config.how.endswith(("per_source", "per_target")) or config.unseen == "drop":
        return None
    end = config.how.rpartition("_")[2]
    if config.unseen == f"drop_{end}":
        return None
    names = {"source": ("sources", "outgoing"), "target": ("targets", "incoming")}[end]
    return next((side for side in card.sides if side.name in names), None)


def _cold_nodes(held: _Held) -> str:
    """'3 of 20 sources and 1 of 40 targets'."""
    nodes, cold = held.part.nodes, held.part.cold
    return listed([f"{cold[side]:,} of {nodes[side]:,} {side}" for side in cold if cold[side]])


def _unseen_label_findings(card: DataCard, held: list[_Held]) -> Iterator[Finding]:
    alike: dict[tuple[str, ...], list[_Met]] = {}  # the labels -> where they are unseen
    for one in held:
        here, there = one.train.labels, one.part.labels
        if here is not None and there is not None:
            both = zip(here.balance, there.balance, strict=True)
            unseen = [label for trained, label in both if label.count and not trained.count]
            names = tuple(label.name for label in unseen)
            edges = sum(label.count for label in unseen)
            alike.setdefault(names, []).append(_Met(one, edges))
    for names, met in alike.items():
        if names:
            yield finding(
                "warning",
                "unseen labels",
                f"{counted(len(names), 'label occurs', 'labels occur')} in "
                f"{met[0].held.part.name} but never in training, such as {quoted(names[0])}: "
                "these edges cannot be answered.",
                _unseen_label_advice(card, [one.held.split for one in met]),
                [one.held.split for one in met],
                labels=len(names),
                count=_worst(met).count,
            )


def _unseen_label_advice(card: DataCard, splits: Sequence[str]) -> str:
    """Another draw, where a draw decided."""
    configs = [one for one in split_configs(card) if one.name in splits]
    if all(one.how in ("random", "per_source", "per_target") for one in configs):
        seed = 1 + max((one.seed for one in configs), default=0)
        again = split_options(card, splits or ["edge"], seed=seed)
        return f"Draw the split again ({again}), or leave these labels out."
    return "Put some of their edges into training, or leave these labels out."


def _overlaps(held: list[_Held], pick: Callable[[PartSummary], Overlap | None]) -> list[_Met]:
    """Where a split's held-out edges share something with training."""
    picked = ((one, pick(one.part)) for one in held)
    return [_Met(one, same.edges, same.example) for one, same in picked if same and same.edges]


def _worst(met: Sequence[_Met]) -> _Met:
    return max(met, key=lambda one: one.share)


def _of_splits(
    severity: Severity, about: str, met: list[_Met], sentence: str, advice: str
) -> Finding:
    """One finding for all its splits; its numbers are those of the worst."""
    worst = _worst(met)
    return finding(
        severity,
        about,
        f"{_of_each(met)} {sentence}",
        advice,
        [one.held.split for one in met],
        count=worst.count,
        share=worst.share,
    )


def _of_each(met: list[_Met]) -> str:
    """'12% of the test edges (1,204)', or '12% and 9% of the test edges (1,204 and 871)'."""
    things = f"{met[0].held.part.name} edges"
    if len({(one.count, one.total) for one in met}) == 1:
        return of_all(met[0].count, met[0].total, things)
    shares, counts = [percent(one.share) for one in met], [f"{one.count:,}" for one in met]
    share = shares[0] if len(set(shares)) == 1 else listed(shares)
    return f"{share} of the {things} ({listed(counts)})"
