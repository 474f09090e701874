"""The tables of the data card."""

from collections.abc import Sequence

from edgeformers.data.card.card import DataCard, Distribution, NamedCount, SplitSummary
from edgeformers.data.card.phrasing import percent
from edgeformers.report.formatting import format_number
from edgeformers.report.page import Table

MAX_LISTED = 20  # labels, types and so on that are listed one by one
HELD_OUT = ("val", "test")


def count_table(card: DataCard) -> Table:
    """Counts with their meaning."""
    counts, texts = card.counts, card.texts
    facts = [
        ("distinct pairs", counts.pairs, "pairs of nodes with at least one edge"),
        ("repeated pairs", counts.repeated_pairs, "pairs with several edges"),
        ("identical edges", counts.identical_edges, "same source, target and text as another edge"),
        ("self-loops", counts.self_loops, "edges from a node to itself"),
        ("isolated nodes", counts.isolated, "nodes without edges"),
        ("distinct texts", texts.distinct, "not counting empty texts"),
        ("empty texts", texts.empty, "edges without words"),
        ("shared texts", texts.shared, "edges whose text occurs on other edges too"),
    ]
    shown = [fact for fact in facts if not (card.is_bipartite and fact[0] == "self-loops")]
    return Table([[name, f"{count:,}", meaning] for name, count, meaning in shown], header=False)


def degree_table(card: DataCard) -> Table:
    """The degrees on each side."""
    head = ["", "nodes", "no edge", "one edge", "median", "mean", "95%", "max"]
    rows = [
        [
            side.name,
            f"{side.nodes:,}",
            f"{side.unused:,}",
            f"{side.single:,}",
            *_statistics(side.degree),
        ]
        for side in card.sides
    ]
    return Table([head, *rows])


def named_count_table(items: Sequence[NamedCount], edges: int) -> Table:
    """Names with their number and share of edges."""
    rows = [[item.name, f"{item.count:,}", percent(item.count / edges)] for item in items]
    return Table([["", "edges", "of all"], *rows])


def length_table(card: DataCard) -> Table:
    """Text lengths."""
    units = (("characters", card.texts.characters), ("tokens", card.texts.tokens))
    rows = [[unit, format_number(d.minimum), *_statistics(d)] for unit, d in units if d is not None]
    return Table([["", "shortest", "median", "mean", "95%", "longest"], *rows])


def distribution_table(data: Distribution) -> Table:
    """The statistics of numeric labels or weights."""
    head = ["edges", "lowest", "median", "mean", "95%", "highest"]
    return Table([head, [f"{data.count:,}", format_number(data.minimum), *_statistics(data)]])


def _statistics(d: Distribution | None) -> list[str]:
    """Median, mean, 95% quantile and maximum."""
    if d is None:
        return ["–"] * 4
    quantile = format_number(d.quantiles["95"])
    return [format_number(d.median), f"{d.mean:,.1f}", quantile, format_number(d.maximum)]


def split_table(split: SplitSummary) -> Table:
    """The size of each part and its cold nodes."""
    sides = list(split.parts[0].cold)
    rows = [["", "edges", "share", *(f"cold {side}" for side in sides), "edges touching cold"]]
    for part in split.parts:
        cold = [f"{part.cold[side]:,} of {part.nodes[side]:,}" for side in sides]
        cold.append(f"{part.cold_edges:,} ({percent(part.cold_edges / max(part.edges, 1))})")
        shown = cold if part.name in HELD_OUT else [""] * len(cold)
        rows.append([part.name, f"{part.edges:,}", percent(part.share), *shown])
    return Table(rows)


def overlap_table(split: SplitSummary) -> Table:
    """What the held-out parts share with the training part."""
    rows = [["also in training", "same text", "same pair", "same edge"]]
    for part in split.parts:
        if part.name in HELD_OUT:
            overlaps = (part.same_text, part.same_pair, part.same_edge)
            shown = [f"{o.edges:,} ({percent(o.share)})" if o else "" for o in overlaps]
            rows.append([part.name, *shown])
    return Table(rows)


def label_share_table(split: SplitSummary) -> Table | None:
    """The share of each label in each part; None if there are no labels, or too many."""
    labels = {part.name: part.labels for part in split.parts if part.edges and part.labels}
    labels = {name: summary for name, summary in labels.items() if summary.balance}
    names = [item.name for item in next(iter(labels.values())).balance] if labels else []
    if not names or len(names) > MAX_LISTED:
        return None
    rows = [
        [
            name,
            *(percent(part.balance[i].count / max(part.labeled, 1)) for part in labels.values()),
        ]
        for i, name in enumerate(names)
    ]
    return Table([["label", *labels], *rows])


def largest_items(items: Sequence[NamedCount], *, sum_others: bool = True) -> list[NamedCount]:
    """All items in their order or, of many, the largest ones and the sum of the others."""
    if len(items) <= MAX_LISTED:
        return list(items)
    ordered = sorted(items, key=lambda item: -item.count)
    shown, others = ordered[:MAX_LISTED], ordered[MAX_LISTED:]
    total = NamedCount(f"{len(others):,} more", sum(item.count for item in others))
    return [*shown, total] if sum_others else shown
