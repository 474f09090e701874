"""Findings about splits: leaks, cold nodes, labels without training edges.

Splits with the same problem share one finding, which gives the numbers of each.
"""

from collections.abc import Callable
from dataclasses import dataclass

from edgeformers.data.card.card import DataCard, Overlap, PartSummary, Severity
from edgeformers.data.card.collector import FindingCollector
from edgeformers.data.card.phrasing import counted, listed, percent, quoted
from edgeformers.data.splits import SplitConfig

# Shares of the held-out edges from which a note becomes a warning.
MANY_SAME_TEXTS = 0.05
MANY_COLD_EDGES = 0.05
MANY_SINGLE_EDGES = 0.3  # of the nodes on the side whose edges are divided


@dataclass(frozen=True)
class _HeldOut:
    """The part on which models of a split are scored: test, or validation if test is empty."""

    split: str
    train: PartSummary
    part: PartSummary


@dataclass(frozen=True)
class _Affected:
    """The held-out edges of a split that a finding is about."""

    split: str
    part: PartSummary
    count: int
    example: str = ""

    @property
    def share(self) -> float:
        return self.count / self.part.edges


def add_split_findings(card: DataCard, collector: FindingCollector) -> None:
    """Add all findings about the splits of a network."""
    held_out = []
    lacking: dict[str, list[str]] = {}
    for split in card.splits:
        train, parts = split.part("train"), (split.part("test"), split.part("val"))
        part = next((part for part in parts if part and part.edges), None)
        if train is None or not train.edges:
            lacking.setdefault("training", []).append(split.name)
        elif part is None:
            lacking.setdefault("validation or test", []).append(split.name)
        else:
            held_out.append(_HeldOut(split.name, train, part))
    for name, splits in lacking.items():
        quotes = listed([quoted(split) for split in splits])
        subject = f"The split {quotes} has" if len(splits) == 1 else f"The splits {quotes} have"
        collector.add("empty part", "warning", splits=splits, subject=subject, part=name)
    for part_name in ("test", "val"):
        comparable = [each for each in held_out if each.part.name == part_name]
        _add_leaks(card, comparable, collector)
        _add_cold_nodes(comparable, collector)
        _add_unseen_labels(comparable, collector)
    for config in collector.configs.values():
        _add_single_edges(card, config, collector)


def _add_leaks(card: DataCard, held_out: list[_HeldOut], collector: FindingCollector) -> None:
    if affected := _overlaps(held_out, lambda part: part.same_edge):
        _add(collector, "leak: identical edge", "warning", affected)
    if affected := _overlaps(held_out, lambda part: part.same_text):
        many = _worst(affected).share >= MANY_SAME_TEXTS
        _add(collector, "leak: same text", "warning" if many else "note", affected)
    if affected := _overlaps(held_out, lambda part: part.same_pair):
        collector.change_splits([each.split for each in affected], links_only=True, new_pairs=True)
        _add(collector, "leak: same pair", "note" if card.labels else "warning", affected)


def _add_cold_nodes(held_out: list[_HeldOut], collector: FindingCollector) -> None:
    intended = {config.name for config in collector.configs.values() if config.is_cold}
    affected = [
        _Affected(each.split, each.part, each.part.cold_edges, _cold_counts(each.part))
        for each in held_out
        if each.part.cold_edges and each.split not in intended
    ]
    if affected:
        collector.change_splits([each.split for each in affected], links_only=True, unseen="drop")
        worst = _worst(affected)
        where = f"in {worst.split} " if len({each.example for each in affected}) > 1 else ""
        severity: Severity = "warning" if worst.share >= MANY_COLD_EDGES else "note"
        _add(collector, "cold nodes", severity, affected, example=where + worst.example)


def _cold_counts(part: PartSummary) -> str:
    """'3 of 20 sources and 1 of 40 targets'."""
    cold = {side: count for side, count in part.cold.items() if count}
    return listed([f"{count:,} of {part.nodes[side]:,} {side}" for side, count in cold.items()])


def _add_unseen_labels(held_out: list[_HeldOut], collector: FindingCollector) -> None:
    splits_by_labels: dict[tuple[str, ...], list[_Affected]] = {}
    for each in held_out:
        if each.train.labels is not None and each.part.labels is not None:
            pairs = zip(each.train.labels.balance, each.part.labels.balance, strict=True)
            unseen = [label for trained, label in pairs if label.count and not trained.count]
            edges = sum(label.count for label in unseen)
            affected = _Affected(each.split, each.part, edges)
            splits_by_labels.setdefault(tuple(u.name for u in unseen), []).append(affected)
    splits_by_labels.pop((), None)
    for labels, group in splits_by_labels.items():
        splits = [each.split for each in group]
        configs = [config for name, config in collector.configs.items() if name in splits]
        is_drawn = all(c.how in ("random", "per_source", "per_target") for c in configs)
        if is_drawn:
            seed = 1 + max((config.seed for config in configs), default=0)
            collector.change_splits(splits, seed=seed)
        collector.add(
            "unseen labels",
            "warning",
            numbers={"labels": len(labels), "count": _worst(group).count},
            splits=splits,
            advice="advice" if is_drawn else "advice_column",
            labels=counted(len(labels), "label occurs", "labels occur"),
            part=group[0].part.name,
            label=quoted(labels[0]),
        )


def _add_single_edges(card: DataCard, config: SplitConfig, collector: FindingCollector) -> None:
    """A split that divides the edges of each node cannot divide a single edge."""
    strategy, _, end = config.how.rpartition("_")
    is_dropped = config.unseen in ("drop", f"drop_{end}")
    in_test = not int(config.fractions[0] + config.fractions[1])
    if not strategy.endswith("per") or is_dropped or not in_test:
        return
    names = {"source": ("sources", "outgoing"), "target": ("targets", "incoming")}[end]
    for side in card.sides:
        used = side.nodes - side.unused
        if side.name in names and side.single >= max(1, MANY_SINGLE_EDGES * used):
            collector.change_splits([config.name], unseen="drop")
            collector.add_share(
                "single edges in test", side.single, used, f"{end}s", splits=[config.name]
            )


def _overlaps(
    held_out: list[_HeldOut], overlap: Callable[[PartSummary], Overlap | None]
) -> list[_Affected]:
    overlaps = ((each, overlap(each.part)) for each in held_out)
    return [
        _Affected(each.split, each.part, same.edges, same.example)
        for each, same in overlaps
        if same is not None and same.edges
    ]


def _worst(affected: list[_Affected]) -> _Affected:
    return max(affected, key=lambda each: each.share)


def _add(
    collector: FindingCollector,
    name: str,
    severity: Severity,
    affected: list[_Affected],
    example: str = "",
) -> None:
    """Add one finding for all affected splits, with the numbers of the worst."""
    worst, splits = _worst(affected), [each.split for each in affected]
    configs = [config for split, config in collector.configs.items() if split in splits]
    columns = [config.column for config in configs if config.how == "column"]
    collector.add(
        name,
        severity,
        numbers={"count": worst.count, "share": worst.share},
        splits=splits,
        advice="advice_column" if columns else "advice",
        subject=_shares(affected),
        example=example or worst.example,
        column=listed([_column(column) for column in columns]),
    )


def _column(name: str) -> str:
    return "the split column" if name == "split" else f"the column {quoted(name)}"


def _shares(affected: list[_Affected]) -> str:
    """'12% of the test edges (1,204)', or '12% and 9% of the test edges (1,204 and 871)'."""
    shares = [percent(each.share) for each in affected]
    counts = [f"{each.count:,}" for each in affected]
    if len(set(shares)) == 1:
        shares = shares[:1]
        counts = counts[:1] if len(set(counts)) == 1 else counts
    return f"{listed(shares)} of the {affected[0].part.name} edges ({listed(counts)})"
