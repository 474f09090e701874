"""The data card as a page."""

from collections.abc import Iterator

from edgeformers.data.card.card import CUTS, DataCard, Distribution, SplitSummary
from edgeformers.data.card.phrasing import counted, percent
from edgeformers.report import page, svg
from edgeformers.report.card_rows import (
    counted_rows,
    degree_rows,
    fact_rows,
    headline,
    in_short,
    label_share_rows,
    length_rows,
    overlap_rows,
    skipped_words,
    split_rows,
    time_words,
    top,
    top_of_several,
)
from edgeformers.report.text import number, printable

FOOTER = "Made by edgeformers. Every number counts all edges; nothing is sampled."
SIDE_TITLES = {"outgoing": "Edges out of a node", "incoming": "Edges into a node"}


def card_html(card: DataCard) -> str:
    """The card as one page that needs nothing else: no script, no font, no network."""
    sections = [_header(card), _findings(card), *_sections(card)]
    return page.page(f"{card.name}: data card", sections, FOOTER)


def card_in_short(card: DataCard) -> str:
    """The card under a heading of another page: what to know before training, all else folded."""
    head = page.paragraph(headline(card)) + page.numbers(_tiles(card))
    whole = page.details("The whole data card", page.deeper("".join(_sections(card)), 2))
    return head + page.deeper(_findings(card), 2) + whole


def _sections(card: DataCard) -> list[str]:
    return [
        _network(card),
        _texts(card),
        _labels(card),
        *_more(card),
        _time(card),
        *map(_split, card.splits),
        _preparation(card),
    ]


def _header(card: DataCard) -> str:
    return page.header("Data card", card.name, headline(card), card.origin, _tiles(card))


def _tiles(card: DataCard) -> list[tuple[str, str]]:
    counts, texts = card.counts, card.texts
    tiles = [("edges", f"{counts.edges:,}")]
    if card.is_bipartite:
        tiles += [("sources", f"{counts.sources:,}"), ("targets", f"{counts.targets:,}")]
    else:
        tiles.append(("nodes", f"{counts.nodes:,}"))
    tiles.append(("distinct texts", f"{texts.distinct:,}"))
    length = texts.tokens or texts.characters
    if length is not None:
        unit = "tokens" if texts.tokens is not None else "characters"
        tiles.append((f"median {unit}", number(length.median)))
    if card.labels is not None and card.labels.balance:
        tiles.append(("labels", f"{len(card.labels.balance):,}"))
    return tiles


def _findings(card: DataCard) -> str:
    nothing = page.paragraph("Nothing stands out.")
    return page.section(
        "Before you train", page.findings(card.findings) if card.findings else nothing
    )


def _network(card: DataCard) -> str:
    hubs = (
        f"<div>{page.block(f'Most edges: {side.name}', page.table(rows))}</div>"
        for side in card.sides
        if side.hubs and (rows := counted_rows(side.hubs[:5], card.counts.edges))
    )
    return page.section(
        "Network",
        page.side_by_side(_degree_figures(card)),
        page.table(degree_rows(card)),
        page.side_by_side(hubs),
        page.block("Counts", page.table(fact_rows(card), head=False)),
    )


def _degree_figures(card: DataCard) -> Iterator[str]:
    for side in card.sides:
        if side.degree is not None and side.degree.maximum >= 1:
            things = side.name if side.name in ("sources", "targets") else "nodes"
            title = SIDE_TITLES.get(side.name, f"Edges per {side.name.removesuffix('s')}")
            label = (
                f"{title}: how many {things} have at least so many edges, on logarithmic axes; "
                f"median {number(side.degree.median)}, largest {number(side.degree.maximum)}"
            )
            plot = svg.survival(side.degree.histogram, label, things)
            yield page.figure(title, plot, f"{things} with at least this many edges, log-log")


def _texts(card: DataCard) -> str:
    texts = card.texts
    cut = repeated = ""
    if texts.cut:
        parts = ", ".join(f"{percent(share)} at {limit}" for limit, share in texts.cut.items())
        cut = page.paragraph(
            f"Texts that would be cut: {parts} tokens. Counted by {texts.tokenizer or ''} "
            f"({texts.vocab_size or 0:,} tokens in its vocabulary), special tokens included."
        )
    if texts.most_repeated:
        rows = counted_rows(texts.most_repeated, card.counts.edges)
        repeated = page.block("Most repeated texts", page.table(rows))
    figures = page.side_by_side(_length_figures(card))
    return page.section("Texts", figures, cut, page.table(length_rows(card)), repeated)


def _length_figures(card: DataCard) -> Iterator[str]:
    for unit, data in (("tokens", card.texts.tokens), ("characters", card.texts.characters)):
        if data is not None:
            median = number(data.median)
            label = f"Length of the texts in {unit}: median {median}, longest {data.maximum:,.0f}"
            mark = (float(CUTS[0]), f"{CUTS[0]} tokens") if unit == "tokens" else None
            plot = svg.histogram(data.histogram, label, unit, "texts", mark)
            yield page.figure(f"Length in {unit}", plot, "texts per length")


def _labels(card: DataCard) -> str:
    labels = card.labels
    if labels is None:
        return ""
    several = " An edge may have several." if labels.kind == "multi" else ""
    head = page.paragraph(
        f"{counted(labels.labeled, 'edge has', 'edges have')} a label, {labels.unlabeled:,} "
        f"without.{several}"
    )
    if labels.numbers is not None:
        return page.section("Labels", head, _numbers("Labels are numbers", labels.numbers))
    shown, more = top(labels.balance), ""
    if labels.kind == "multi":
        shown, more = top_of_several(labels.balance)
    table = page.bar_table(shown, labels.labeled, "labeled edges")
    return page.section("Labels", head, table, _remark(more))


def _more(card: DataCard) -> Iterator[str]:
    """What only some networks have."""
    if card.node_labels is not None:
        total = card.node_labels.labeled
        nodes = counted(total, "node has", "nodes have")
        head = page.paragraph(
            f"{nodes} labels, perhaps several: shares are those of the labeled nodes."
        )
        shown, more = top_of_several(card.node_labels.balance)
        table = page.bar_table(shown, total, "labeled nodes")
        yield page.section("Labels of nodes", head, table, _remark(more))
    if card.edge_types:
        table = page.bar_table(top(card.edge_types), card.counts.edges, "all edges")
        yield page.section("Edge types", table)
    if card.weights is not None and card.weights.values is not None:
        yield page.section("Weights", _numbers("Weights of the edges", card.weights.values))


def _remark(text: str) -> str:
    return page.paragraph(text, soft=True) if text else ""


def _numbers(title: str, data: Distribution) -> str:
    label = f"{title}: from {number(data.minimum)} to {number(data.maximum)}"
    plot = svg.histogram(data.histogram, label, "", "edges")
    head = ["edges", "lowest", "median", "mean", "95%", "highest"]
    row = [f"{data.count:,}", number(data.minimum), *in_short(data)]
    return page.figure(title, plot) + page.table([head, row])


def _time(card: DataCard) -> str:
    times = card.times
    if times is None or not times.counts:
        return ""
    words = page.paragraph(time_words(times))
    if len(times.counts) == 1:  # a single moment is no course of time
        return page.section("Time", words)
    title = f"Edges per {times.period}"
    plot = svg.timeline(times.starts, times.counts, times.period, f"{title}. {time_words(times)}")
    return page.section("Time", words, page.figure(title, plot))


def _split(split: SplitSummary) -> str:
    sizes = ", ".join(f"{part.name} {part.edges:,}" for part in split.parts)
    keys = [(f"part {part.name}", f"{part.name} {percent(part.share)}") for part in split.parts]
    plot = svg.composition(split, f"Split {printable(split.name)}: {sizes} edges")
    shares = label_share_rows(split)
    return page.section(
        f"Split: {split.name}",
        page.figure_with_legend(plot, [*keys, ("cold", "touches a cold node")]),
        page.paragraph("A node is cold when no training edge touches it.", soft=True),
        page.table(split_rows(split)),
        page.block("Shared with training", page.table(overlap_rows(split))),
        page.block("Labels in each part", page.table(shares)) if shares else "",
    )


def _preparation(card: DataCard) -> str:
    blocks = [
        ("Decided while preparing:", card.notes),
        (skipped_words(card, len(card.skipped_examples)), card.skipped_examples),
    ]
    body = [page.paragraph(head) + page.bullets(lines) for head, lines in blocks if lines]
    return page.section("Preparation", *body) if body else ""
