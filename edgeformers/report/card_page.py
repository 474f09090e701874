"""The data card as a page, and the files card.html and card.json."""

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from edgeformers.data.card.card import (
    CUTS,
    DataCard,
    Distribution,
    LabelSummary,
    NamedCount,
    SplitSummary,
)
from edgeformers.data.card.describe import describe
from edgeformers.data.card.phrasing import counted, percent
from edgeformers.files import write_atomic
from edgeformers.report.figures import histogram_chart, survival_chart, timeline_chart
from edgeformers.report.formatting import format_number
from edgeformers.report.page import (
    Bar,
    Block,
    Bullets,
    CommandLine,
    Details,
    Findings,
    Page,
    Paragraph,
    Plot,
    Section,
    SideBySide,
    StackedBar,
    Table,
    TableCell,
    Tiles,
    render_html,
)
from edgeformers.report.terminal import sparkline

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph

FOOTER = "Made by edgeformers. Every number counts all edges; nothing is sampled."
DEGREE_TITLES = {"outgoing": "Edges out of a node", "incoming": "Edges into a node"}
BRIEF = 5  # skipped rows listed in a terminal
MAX_LISTED = 20  # labels, types and so on that are listed one by one
HELD_OUT = ("val", "test")
NEW_NODES = {
    "neither": "both nodes known",
    "source": "new source",
    "target": "new target",
    "both": "both nodes new",
}
FUTURE_NOTE = "The edges of each part by which of their nodes appear in training."


def write_card(graph_or_card: "EdgeTextGraph | DataCard", folder: str | PathLike[str]) -> Path:
    """Write card.json and card.html to a folder; returns the path of card.html."""
    card = graph_or_card if isinstance(graph_or_card, DataCard) else describe(graph_or_card)
    path = Path(folder)
    write_atomic(path / "card.json", card.to_json() + "\n")
    write_atomic(path / "card.html", render_html(card_page(card)))
    return path / "card.html"


def card_page(card: DataCard) -> Page:
    """The whole card."""
    return Page(
        kind="Data card",
        title=card.name,
        lead=[summary_sentence(card)],
        origin=card.origin,
        tiles=_tiles(card),
        sections=[_findings(card), *_sections(card)],
        footer=FOOTER,
    )


def card_blocks(card: DataCard) -> list[Block]:
    """The card as part of another page, folded except for its findings."""
    return [
        Paragraph(summary_sentence(card)),
        Tiles(_tiles(card)),
        _findings(card),
        Details("Full data card", list(_sections(card))),
    ]


def summary_sentence(card: DataCard) -> str:
    """The size and kind of the network in one sentence."""
    counts = card.counts
    if card.is_bipartite:
        sources = counted(counts.sources, "source", "sources")
        nodes = f"from {sources} to {counted(counts.targets, 'target', 'targets')}"
    else:
        direction = "directed" if card.is_directed else "undirected"
        nodes = f"among {counted(counts.nodes, 'node', 'nodes')}, {direction}"
    return f"{counted(counts.edges, 'edge', 'edges')} with text {nodes}."


def _tiles(card: DataCard) -> list[tuple[str, str]]:
    counts, texts = card.counts, card.texts
    nodes = {"sources": counts.sources, "targets": counts.targets}
    tiles = {"edges": counts.edges, **(nodes if card.is_bipartite else {"nodes": counts.nodes})}
    tiles["distinct texts"] = texts.distinct
    shown = [(name, f"{number:,}") for name, number in tiles.items()]
    length = texts.tokens or texts.characters
    if length is not None:
        unit = "tokens" if texts.tokens is not None else "characters"
        shown.append((f"median {unit}", format_number(length.median)))
    if card.labels is not None and card.labels.balance:
        shown.append(("labels", f"{len(card.labels.balance):,}"))
    return shown


def _findings(card: DataCard) -> Section:
    blocks: list[Block] = []
    if card.prepare_options:
        blocks.append(Paragraph("Prepare it again with the same command, but these options:"))
        blocks.append(CommandLine(card.prepare_options))
    findings = Findings(card.findings) if card.findings else Paragraph("No problems found.")
    return Section("Before you train", [*blocks, findings])


def _sections(card: DataCard) -> Iterator[Section]:
    yield Section("Network", _network(card))
    yield Section("Texts", _texts(card))
    if card.labels is not None:
        yield Section("Labels", _labels(card.labels))
    if card.node_labels is not None:
        total, balance = card.node_labels.labeled, card.node_labels.balance
        head = f"{counted(total, 'node has', 'nodes have')} labels; a node may have several."
        blocks = bar_tables(balance, total, "labeled nodes", overlap=True)
        yield Section("Node labels", [Paragraph(head), *blocks])
    if card.edge_types:
        yield Section("Edge types", bar_tables(card.edge_types, card.counts.edges, "all edges"))
    if card.weights is not None and card.weights.values is not None:
        yield Section("Weights", _distribution("Edge weights", card.weights.values))
    yield Section("Time", list(_time(card)))
    for split in card.splits:
        yield Section(f"Split: {split.name}", _split(split))
    yield Section("Preparation", list(_preparation(card)))


def _network(card: DataCard) -> list[Block]:
    hubs = [
        Section(f"Most edges: {side.name}", [named_count_table(side.hubs[:5], card.counts.edges)])
        for side in card.sides
        if side.hubs
    ]
    return [
        SideBySide(list(_degree_plots(card))),
        degree_table(card),
        SideBySide(hubs),
        Section("Counts", [count_table(card)]),
    ]


def _degree_plots(card: DataCard) -> Iterator[Plot]:
    for side in card.sides:
        degree = side.degree
        if degree is None or degree.maximum < 1:
            continue
        things = side.name if side.name in ("sources", "targets") else "nodes"
        title = DEGREE_TITLES.get(side.name, f"Edges per {side.name.removesuffix('s')}")
        largest_degree = format_number(degree.maximum)
        label = (
            f"{title}: number of {things} with at least x edges, on logarithmic axes; "
            f"median {format_number(degree.median)}, largest {largest_degree}"
        )
        yield Plot(
            title,
            survival_chart(degree.histogram, label, things),
            f"{things} with at least this many edges, log-log",
            f"{side.name}: degree 1 {sparkline(degree.histogram.counts)} {largest_degree}",
        )


def _texts(card: DataCard) -> list[Block]:
    texts = card.texts
    blocks: list[Block] = [SideBySide(list(_length_plots(card)))]
    if texts.cut:
        cuts = ", ".join(f"{percent(share)} at {limit}" for limit, share in texts.cut.items())
        blocks.append(
            Paragraph(
                f"Texts that would be truncated: {cuts} tokens. Counted with the tokenizer "
                f"{texts.tokenizer or ''} ({texts.vocab_size or 0:,} tokens in its vocabulary), "
                "including special tokens."
            )
        )
    units = (("characters", texts.characters), ("tokens", texts.tokens))
    rows = [[unit, format_number(d.minimum), *_statistics(d)] for unit, d in units if d is not None]
    blocks.append(Table([["", "shortest", "median", "mean", "95%", "longest"], *rows]))
    if texts.most_repeated:
        table = named_count_table(texts.most_repeated, card.counts.edges)
        blocks.append(Section("Most repeated texts", [table]))
    return blocks


def _length_plots(card: DataCard) -> Iterator[Plot]:
    for unit, data in (("tokens", card.texts.tokens), ("characters", card.texts.characters)):
        if data is not None:
            median, histogram = format_number(data.median), data.histogram
            label = f"Text length in {unit}: median {median}, longest {data.maximum:,.0f}"
            mark = (float(CUTS[0]), f"{CUTS[0]} tokens") if unit == "tokens" else None
            last = format_number(histogram.borders[-2]) + ("+" if histogram.is_open else "")
            yield Plot(
                f"Length in {unit}",
                histogram_chart(histogram, label, unit, "texts", mark),
                "texts per length",
                f"{unit}: 0 {sparkline(histogram.counts)} {last}",
            )


def _labels(labels: LabelSummary) -> list[Block]:
    several = " An edge may have several." if labels.kind == "multi" else ""
    counts = counted(labels.labeled, "edge has", "edges have")
    head = Paragraph(f"{counts} a label, {labels.unlabeled:,} have none.{several}")
    if labels.numbers is not None:
        return [head, *_distribution("Numeric labels", labels.numbers)]
    overlap = labels.kind == "multi"
    return [head, *bar_tables(labels.balance, labels.labeled, "labeled edges", overlap=overlap)]


def _distribution(title: str, data: Distribution) -> list[Block]:
    low, high = format_number(data.minimum), format_number(data.maximum)
    chart = histogram_chart(data.histogram, f"{title}: from {low} to {high}", "", "edges")
    text = f"{low} {sparkline(data.histogram.counts)} {high}"
    head = ["edges", "lowest", "median", "mean", "95%", "highest"]
    return [
        Plot(title, chart, text=text),
        Table([head, [f"{data.count:,}", low, *_statistics(data)]]),
    ]


def _time(card: DataCard) -> Iterator[Block]:
    times = card.times
    if times is None or not times.counts:
        return
    first, last = (time.replace("T", " ") for time in (times.first, times.last))
    words = f"All at {first}." if first == last else f"From {first} to {last}."
    if times.missing:
        words += f" {counted(times.missing, 'edge has', 'edges have')} no time."
    if times.far:
        words += f" {counted(times.far, 'outlier is', 'outliers are')} not drawn."
    yield Paragraph(words)
    if len(times.counts) > 1:
        title = f"Edges per {times.period}"
        chart = timeline_chart(times.starts, times.counts, times.period, f"{title}. {words}")
        yield Plot(title, chart, text=f"{title.lower()}: {sparkline(times.counts)}")


def _split(split: SplitSummary) -> list[Block]:
    sizes = ", ".join(f"{part.name} {part.edges:,}" for part in split.parts)
    total = sum(part.edges for part in split.parts) or 1
    parts = [
        (
            part.name,
            part.edges / total,
            f"{part.name} {percent(part.share)}",
            part.cold_edges / max(part.edges, 1) if part.name in ("val", "test") else 0.0,
        )
        for part in split.parts
    ]
    shares = label_share_table(split)
    is_future = split.is_chronological and any(part.new_ends for part in split.parts)
    future: list[Block] = [Paragraph(FUTURE_NOTE, muted=True)] if is_future else []
    future += [future_table(split)] if is_future else []
    return [
        StackedBar(f"Split {split.name}: {sizes} edges", parts, "touches a cold node"),
        Paragraph("A node is cold if it has no training edge.", muted=True),
        split_table(split),
        Section("What of the future is known", future),
        Section("Shared with training", [overlap_table(split)]),
        Section("Labels in each part", [shares] if shares else []),
    ]


def _preparation(card: DataCard) -> Iterator[Block]:
    if card.notes:
        yield Paragraph("Decisions made while preparing the network:")
        yield Bullets(card.notes)
    if card.skipped_examples:
        rows = counted(
            card.skipped, "row of the input was skipped", "rows of the input were skipped"
        )
        yield Paragraph(f"{rows}{'; the first:' if card.skipped > BRIEF else ':'}")
        yield Bullets(card.skipped_examples, brief=BRIEF)


def bar_tables(
    items: Sequence[NamedCount], total: int, share_of: str, *, overlap: bool = False
) -> list[Block]:
    """Counts with their share of `total` as numbers and bars; of many, the largest ones.

    The others are added up, unless they overlap.
    """
    shown, more = list(items), ""
    if len(items) > MAX_LISTED:
        ordered = sorted(items, key=lambda item: -item.count)
        shown, others = ordered[:MAX_LISTED], ordered[MAX_LISTED:]
        if overlap:
            more = f"{counted(len(others), 'rarer label', 'rarer labels')} not shown"
        else:
            shown.append(NamedCount(f"{len(others):,} more", sum(item.count for item in others)))
    rows: list[Sequence[TableCell]] = [["", "count", f"of {share_of}", ""]]
    for item in shown:
        share = item.count / max(total, 1)
        rows.append([item.name, f"{item.count:,}", percent(share), Bar(min(share, 1.0))])
    return [Table(rows), *([Paragraph(more, muted=True)] if more else [])]


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
    rows = []
    for side in card.sides:
        counts = (f"{count:,}" for count in (side.nodes, side.unused, side.single))
        rows.append([side.name, *counts, *_statistics(side.degree)])
    return Table([head, *rows])


def named_count_table(items: Sequence[NamedCount], edges: int) -> Table:
    """Names with their number and share of edges."""
    rows = [[item.name, f"{item.count:,}", percent(item.count / edges)] for item in items]
    return Table([["", "edges", "of all"], *rows])


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


def future_table(split: SplitSummary) -> Table:
    """How many edges of the held-out parts lead to nodes that training does not know."""
    parts = [part for part in split.parts if part.name in HELD_OUT and part.new_ends]
    rows: list[list[TableCell]] = [["", *(cell for part in parts for cell in (part.name, ""))]]
    for ends, title in NEW_NODES.items():
        row: list[TableCell] = [title]
        for part in parts:
            share = part.new_ends[ends] / max(part.edges, 1)
            row += [f"{part.new_ends[ends]:,} ({percent(share)})", Bar(share)]
        rows.append(row)
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
    columns = [
        [percent(item.count / max(part.labeled, 1)) for item in part.balance]
        for part in labels.values()
    ]
    return Table([["label", *labels], *zip(names, *columns, strict=True)])
