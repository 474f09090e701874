"""What the numbers of a data card mean for training; findings.toml has the texts."""

from edgeformers.data.card.card import CUTS, DataCard, Finding, LabelSummary, SideSummary
from edgeformers.data.card.collector import FindingCollector
from edgeformers.data.card.phrasing import counted, percent, quoted, share_of
from edgeformers.data.card.split_findings import add_split_findings

# Shares from which something is reported.
MANY_LONG_TEXTS = 0.1
FREQUENT_LABEL, DOMINANT_LABEL = 0.6, 0.8
RARE_LABEL, FEW_EDGES = 0.01, 10  # share and number of labeled edges
MANY_SHARED_NAMES, FEW_NAMES = 0.2, 10  # share of the smaller side; a number that may be chance
HUB, SMALL_SIDE = 0.1, 10  # share of the edges; number of nodes where such a share is normal
MANY_REPEATING_EDGES = 0.05

SIDE_NAMES = {"outgoing": "nodes with outgoing edges", "incoming": "nodes with incoming edges"}


def card_findings(card: DataCard) -> list[Finding]:
    """All findings, warnings first."""
    collector = FindingCollector(card)
    if not card.counts.edges:
        collector.add("no edges", "warning")
        return collector.findings()
    _add_text_findings(card, collector)
    if card.labels is not None:
        _add_label_findings(card.labels, collector)
    for side in card.sides:
        _add_degree_findings(side, card.counts.edges, collector)
    _add_node_findings(card, collector)
    _add_repeat_findings(card, collector)
    _add_input_findings(card, collector)
    add_split_findings(card, collector)
    return collector.findings()


def _add_text_findings(card: DataCard, collector: FindingCollector) -> None:
    texts, edges = card.texts, card.counts.edges
    collector.add_share("empty texts", texts.empty, edges, "edges", warn_from=0.05)
    short, longer = CUTS[:2]
    share, next_share = texts.cut.get(str(short), 0.0), texts.cut.get(str(longer), 0.0)
    if share >= MANY_LONG_TEXTS:
        collector.add(
            "long texts",
            numbers={"share": share, "share_at_128": next_share},
            share=percent(share),
            limit=str(short),
            next_share=percent(next_share),
            next_limit=str(longer),
        )


def _add_label_findings(labels: LabelSummary, collector: FindingCollector) -> None:
    total = labels.labeled + labels.unlabeled
    collector.add_share("unlabeled edges", labels.unlabeled, total, "edges")
    if not labels.labeled or len(labels.balance) < 2:
        return
    frequent = max(labels.balance, key=lambda label: label.count)
    share = frequent.count / labels.labeled
    if labels.kind == "class" and share >= FREQUENT_LABEL:
        collector.add(
            "label balance",
            "warning" if share >= DOMINANT_LABEL else "note",
            numbers={"share": share},
            share=percent(share),
            label=quoted(frequent.name),
        )
    threshold = max(FEW_EDGES, labels.labeled * RARE_LABEL)
    rare = [label for label in labels.balance if label.count < threshold]
    if rare:
        rarest = min(rare, key=lambda label: label.count)
        collector.add(
            "rare labels",
            numbers={"labels": len(rare), "fewest": rarest.count},
            labels=counted(len(rare), "label has", "labels have"),
            share=percent(RARE_LABEL),
            few=str(FEW_EDGES),
            label=quoted(rarest.name),
            count=f"{rarest.count:,}",
        )


def _add_degree_findings(side: SideSummary, edges: int, collector: FindingCollector) -> None:
    collector.add_share(
        "single edges",
        side.single,
        side.nodes - side.unused,
        SIDE_NAMES.get(side.name, side.name),
        at_least=0.3,
        about=f"single edges, {side.name}",
    )
    if side.nodes > SMALL_SIDE and side.hubs:
        hub, about = side.hubs[0], f"hubs, {side.name}"
        node = quoted(hub.name)
        collector.add_share("hubs", hub.count, edges, "edges", at_least=HUB, about=about, node=node)


def _add_node_findings(card: DataCard, collector: FindingCollector) -> None:
    counts = card.counts
    smaller = min(counts.sources, counts.targets)
    if counts.shared_names >= max(MANY_SHARED_NAMES * smaller, FEW_NAMES):
        collector.add_share(
            "two kinds of nodes", counts.shared_names, counts.sources, "sources", warn_from=0
        )
    collector.add_share("isolated nodes", counts.isolated, counts.nodes, "nodes")


def _add_repeat_findings(card: DataCard, collector: FindingCollector) -> None:
    counts, edges = card.counts, card.counts.edges
    collector.add_share("identical edges", counts.identical_edges, edges, "edges", warn_from=0.01)
    collector.add_share("shared texts", card.texts.shared, edges, "edges", at_least=0.05)
    if counts.repeating_edges >= MANY_REPEATING_EDGES * edges:
        configs = collector.configs.values()
        is_solved = configs and all(c.new_pairs or c.how == "random" for c in configs)
        if not is_solved:
            collector.change_splits(
                [split.name for split in card.splits], links_only=True, new_pairs=True
            )
        collector.add(
            "repeated pairs",
            numbers={"pairs": counts.repeated_pairs, "count": counts.repeating_edges},
            advice="advice_new_pairs" if is_solved else "advice",
            pairs=counted(counts.repeated_pairs, "pair of nodes has", "pairs of nodes have"),
            subject=share_of(counts.repeating_edges, edges, "edges"),
        )
    collector.add_share("self-loops", counts.self_loops, edges, "edges")


def _add_input_findings(card: DataCard, collector: FindingCollector) -> None:
    edges, times, weights = card.counts.edges, card.times, card.weights
    rows = edges + card.skipped
    collector.add_share("skipped rows", card.skipped, rows, "rows", warn_from=0.01)
    if times is not None:
        first, last = times.first[:10], times.last[:10]
        collector.add_share("missing times", times.missing, edges, "edges")
        collector.add_share("times far off", times.far, edges, "edges", first=first, last=last)
    if weights is not None:
        collector.add_share("weights", weights.missing + weights.negative, edges, "edges")
