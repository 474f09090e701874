"""What both forms of the data card say: its headline, and its tables as rows of words."""

from collections.abc import Sequence

from edgeformers.data.card.card import DataCard, Distribution, NamedCount, SplitSummary, TimeSummary
from edgeformers.data.card.phrasing import counted, percent
from edgeformers.report.text import Rows, number

LISTED = 20  # labels, types and the like that are shown before the rest is summed up


def headline(card: DataCard) -> str:
    """The network in one sentence."""
    counts = card.counts
    if card.is_bipartite:
        sources = counted(counts.sources, "source", "sources")
        nodes = f"from {sources} to {counted(counts.targets, 'target', 'targets')}"
    else:
        nodes = f"among {counted(counts.nodes, 'node', 'nodes')}"
    direction = "" if card.is_bipartite else ", directed" if card.is_directed else ", undirected"
    return f"{counted(counts.edges, 'edge', 'edges')} with text {nodes}{direction}."


def fact_rows(card: DataCard) -> Rows:
    """Counts worth a line of their own: name, number, what it means."""
    counts, texts = card.counts, card.texts
    facts = [
        ("distinct pairs", counts.pairs, "two nodes with at least one edge"),
        ("repeated pairs", counts.repeated_pairs, "pairs with several edges"),
        ("identical edges", counts.identical_edges, "same source, target and text as another"),
        ("self-loops", counts.self_loops, "edges from a node to itself"),
        ("isolated nodes", counts.isolated, "nodes without any edge"),
        ("distinct texts", texts.distinct, "empty ones not counted"),
        ("empty texts", texts.empty, "edges without words"),
        ("shared texts", texts.shared, "edges whose text stands elsewhere too"),
    ]
    if card.is_bipartite:
        facts = [fact for fact in facts if fact[0] != "self-loops"]
    return [[name, f"{count:,}", meaning] for name, count, meaning in facts]


def degree_rows(card: DataCard) -> Rows:
    """The degrees of each side in short."""
    head = ["", "nodes", "no edge", "one edge", "median", "mean", "95%", "max"]
    rows = [
        [
            side.name,
            f"{side.nodes:,}",
            f"{side.unused:,}",
            f"{side.single:,}",
            *in_short(side.degree),
        ]
        for side in card.sides
    ]
    return [head, *rows]


def counted_rows(items: Sequence[NamedCount], edges: int) -> Rows:
    """Names with their edges, and the share of all edges."""
    rows = [[item.name, f"{item.count:,}", percent(item.count / edges)] for item in items]
    return [["", "edges", "of all"], *rows]


def length_rows(card: DataCard) -> Rows:
    """The lengths of the texts in short."""
    head = ["", "shortest", "median", "mean", "95%", "longest"]
    kinds = (("characters", card.texts.characters), ("tokens", card.texts.tokens))
    rows = [[name, number(d.minimum), *in_short(d)] for name, d in kinds if d is not None]
    return [head, *rows]


def in_short(d: Distribution | None) -> list[str]:
    """Median, mean, 95% quantile and maximum."""
    if d is None:
        return ["–"] * 4
    return [number(d.median), f"{d.mean:,.1f}", number(d.quantiles["95"]), number(d.maximum)]


def split_rows(split: SplitSummary) -> Rows:
    """The size of each part, and how much of it is cold."""
    sides = list(split.parts[0].cold)
    head = ["", "edges", "share", *(f"cold {side}" for side in sides), "edges touching cold"]
    rows = []
    for part in split.parts:
        is_held = part.name in ("val", "test")
        cold = [f"{part.cold[s]:,} of {part.nodes[s]:,}" if is_held else "" for s in sides]
        touch = f"{part.cold_edges:,} ({percent(part.cold_edges / max(part.edges, 1))})"
        rows.append(
            [part.name, f"{part.edges:,}", percent(part.share), *cold, touch if is_held else ""]
        )
    return [head, *rows]


def overlap_rows(split: SplitSummary) -> Rows:
    """What the edges of a part share with training."""
    head = ["also in training", "same text", "same pair", "same edge"]
    rows = [
        [part.name, *(f"{o.edges:,} ({percent(o.share)})" if o else "" for o in overlaps)]
        for part in split.parts
        if part.name in ("val", "test")
        and (overlaps := (part.same_text, part.same_pair, part.same_edge))
    ]
    return [head, *rows]


def label_share_rows(split: SplitSummary) -> Rows:
    """How the labels are spread in each part, one column a part."""
    parts = [p for p in split.parts if p.edges and p.labels is not None and p.labels.balance]
    balances = [p.labels.balance for p in parts if p.labels is not None]
    if not balances or len(balances[0]) > LISTED:
        return []
    totals = [p.labels.labeled for p in parts if p.labels is not None]
    rows = []
    for label in zip(*balances, strict=True):
        shares = (one.count / max(total, 1) for one, total in zip(label, totals, strict=True))
        rows.append([label[0].name, *map(percent, shares)])
    return [["label", *(p.name for p in parts)], *rows]


def top(items: Sequence[NamedCount]) -> list[NamedCount]:
    """All in their order, or the largest and one line for the rest."""
    shown, rest = _divided(items)
    more = [NamedCount(f"{len(rest):,} more", sum(r.count for r in rest))] if rest else []
    return [*shown, *more]


def top_of_several(items: Sequence[NamedCount]) -> tuple[list[NamedCount], str]:
    """As `top`, where one thing may have several names and the rest cannot be summed up."""
    shown, rest = _divided(items)
    return shown, f"{counted(len(rest), 'label', 'labels')} more, each rarer" if rest else ""


def _divided(items: Sequence[NamedCount]) -> tuple[list[NamedCount], list[NamedCount]]:
    if len(items) <= LISTED:
        return list(items), []
    ordered = sorted(items, key=lambda item: -item.count)
    return ordered[:LISTED], ordered[LISTED:]


def time_words(times: TimeSummary) -> str:
    """From when to when the edges are, and which of them are not drawn."""
    first, last = _moment(times.first), _moment(times.last)
    words = f"All at {first}." if first == last else f"From {first} to {last}."
    if times.missing:
        words += f" {counted(times.missing, 'edge has', 'edges have')} no time."
    if times.far:
        far = counted(times.far, "edge far from all others is", "edges far from all others are")
        words += f" {far} not drawn."
    return words


def _moment(time: str) -> str:
    return time.replace("T", " ")


def skipped_words(card: DataCard, listed: int) -> str:
    """How many rows of the input are missing, before the first of them are listed."""
    which = "" if listed >= card.skipped else f"; the first {listed:,}"
    rows = counted(card.skipped, "row of the input is", "rows of the input are")
    return f"{rows} not in the network{which}:"
