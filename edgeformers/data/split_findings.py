"""What is to know about the splits of a network: leaks, cold nodes, labels never trained on.

A finding that several splits share is told once, with the numbers of each.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edgeformers.data.card import DataCard, Finding, Overlap, Part, Severity
from edgeformers.data.wording import counted, finding, listed, of_all, percent, quoted

# Shares of the held-out edges from which a note becomes a warning.
MANY_SAME_TEXTS = 0.05
MANY_COLD_EDGES = 0.05

#: How edges of pairs that training has are kept out of validation and test.
NEW_PAIRS = "prepare with --split link=per-source+new-pairs"


@dataclass(frozen=True)
class _Held:
    """What a split trains on, and the part its scores come from: test, or else validation."""

    split: str
    train: Part
    part: Part


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
        yield from _cold_findings(alike)
        yield from _unseen_label_findings(alike)


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
            f"For link prediction {NEW_PAIRS} (in Python SplitConfig(new_pairs=True)), which drops "
            "validation and test edges of pairs that training has. For edge classification this is "
            "only good to know.",
        )


def _cold_findings(held: list[_Held]) -> Iterator[Finding]:
    met = [_Met(one, one.part.cold_edges, _cold_nodes(one)) for one in held if one.part.cold_edges]
    if met:
        worst = _worst(met)
        where = f"in {worst.held.split} " if len({one.example for one in met}) > 1 else ""
        yield _of_splits(
            "warning" if worst.share >= MANY_COLD_EDGES else "note",
            "cold nodes",
            met,
            f"touch a node without a training edge ({where}{worst.example}): its embedding is "
            "never trained.",
            "Report their scores apart, or leave them out, as the paper does for link prediction: "
            "prepare with --split link=per-source+drop.",
        )


def _cold_nodes(held: _Held) -> str:
    """'3 of 20 sources and 1 of 40 targets'."""
    nodes, cold = held.part.nodes, held.part.cold
    return listed([f"{cold[side]:,} of {nodes[side]:,} {side}" for side in cold if cold[side]])


def _unseen_label_findings(held: list[_Held]) -> Iterator[Finding]:
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
                "Split again with another seed, such as --split edge=random+seed-1, or leave "
                "these labels out.",
                [one.held.split for one in met],
                labels=len(names),
                count=_worst(met).count,
            )


def _overlaps(held: list[_Held], pick: Callable[[Part], Overlap | None]) -> list[_Met]:
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
