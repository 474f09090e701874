"""What the numbers of a data card mean for training, each in a sentence with its advice."""

from collections.abc import Iterator

from edgeformers.data.card.card import CUTS, DataCard, Finding, LabelSummary, SideSummary
from edgeformers.data.card.phrasing import counted, finding, of_all, percent, quoted
from edgeformers.data.card.split_advice import link_options, split_configs
from edgeformers.data.card.split_findings import split_findings

# Shares from which something is said, or is a warning rather than a note.
MANY_EMPTY_TEXTS = 0.05
MANY_CUT_TEXTS = 0.1
FREQUENT_LABEL, DOMINANT_LABEL = 0.6, 0.8
RARE_LABEL, FEW_EDGES = 0.01, 10  # of the labeled edges; edges of one label
MANY_SINGLE_EDGES = 0.3
MANY_SHARED_NAMES, FEW_NAMES = 0.2, 10  # of the smaller side; names that may well be chance
HUB, SMALL_SIDE = 0.1, 10  # of all edges; nodes among which one may well have that many
MANY_IDENTICAL_EDGES = 0.01
MANY_SHARED_TEXTS = 0.05
MANY_REPEATING_EDGES = 0.05
MANY_SKIPPED_ROWS = 0.01

SIDES = {"outgoing": "nodes with outgoing edges", "incoming": "nodes with incoming edges"}


def find(card: DataCard) -> list[Finding]:
    """All there is to know before training, warnings first."""
    if card.counts.edges:
        found = [*_network_findings(card), *split_findings(card)]
    else:
        found = [finding("warning", "edges", "The network has no edge.", "Check the input.")]
    return sorted(found, key=lambda one: one.severity != "warning")


def _network_findings(card: DataCard) -> Iterator[Finding]:
    yield from _text_findings(card)
    if card.labels is not None:
        yield from _label_findings(card.labels)
    yield from _node_findings(card)
    yield from _repeat_findings(card)
    yield from _row_findings(card)
    yield from _time_findings(card)
    yield from _weight_findings(card)


def _text_findings(card: DataCard) -> Iterator[Finding]:
    texts, edges = card.texts, card.counts.edges
    if texts.empty:
        share = texts.empty / edges
        yield finding(
            "warning" if share >= MANY_EMPTY_TEXTS else "note",
            "empty texts",
            f"{of_all(texts.empty, edges, 'edges')} have no text: there a model knows only the two "
            "nodes.",
            "Keep them if the link itself tells something; leave them out if you classify by text.",
            count=texts.empty,
            share=share,
        )
    short, longer = (texts.cut.get(str(cut), 0.0) for cut in CUTS[:2])
    if short >= MANY_CUT_TEXTS:
        yield finding(
            "note",
            "long texts",
            f"{percent(short)} of the texts are longer than {CUTS[0]} tokens: with the paper's "
            "limit their ends are never read.",
            f"At {CUTS[1]} tokens {percent(longer)} would still be cut; a batch then takes up to "
            "twice the memory and time.",
            share=short,
            share_at_128=longer,
        )


def _label_findings(labels: LabelSummary) -> Iterator[Finding]:
    total = labels.labeled
    if labels.unlabeled:
        everything = total + labels.unlabeled
        yield finding(
            "note",
            "unlabeled edges",
            f"{of_all(labels.unlabeled, everything, 'edges')} have no label: a classifier is not "
            "trained or scored on them.",
            "They still serve as neighbors, and for link prediction.",
            count=labels.unlabeled,
            share=labels.unlabeled / everything,
        )
    if total and len(labels.balance) > 1:
        yield from _balance_findings(labels)


def _balance_findings(labels: LabelSummary) -> Iterator[Finding]:
    total = labels.labeled
    first = max(labels.balance, key=lambda label: label.count)
    share = first.count / total
    if labels.kind == "class" and share >= FREQUENT_LABEL:
        yield finding(
            "warning" if share >= DOMINANT_LABEL else "note",
            "label balance",
            f"{percent(share)} of the labeled edges are {quoted(first.name)}: always answering "
            "this is already right that often.",
            "Judge by macro-F1 rather than accuracy, and compare with this share.",
            share=share,
        )
    rare = [one for one in labels.balance if one.count < max(FEW_EDGES, total * RARE_LABEL)]
    if rare:
        few = min(rare, key=lambda label: label.count)
        yield finding(
            "note",
            "rare labels",
            f"{counted(len(rare), 'label has', 'labels have')} under {percent(RARE_LABEL)} of the "
            f"labeled edges or fewer than {FEW_EDGES} of them, {quoted(few.name)} the fewest "
            f"({few.count:,}): too few to learn well, and macro-F1 gives each the weight of a "
            "frequent one.",
            "Join rare labels with near ones, or weigh the classes in the loss.",
            labels=len(rare),
            fewest=few.count,
        )


def _node_findings(card: DataCard) -> Iterator[Finding]:
    counts = card.counts
    for side in card.sides:
        yield from _degree_findings(side, counts.edges)
    smaller = min(counts.sources, counts.targets)
    if counts.shared_names >= max(MANY_SHARED_NAMES * smaller, FEW_NAMES):
        yield finding(
            "warning",
            "two kinds of nodes",
            f"{of_all(counts.shared_names, counts.sources, 'sources')} are called as a target is, "
            "and are two nodes each: that one answers another is not known of them.",
            "Where they are the same, prepare with --one-node-type (in Python bipartite=False).",
            count=counts.shared_names,
            share=counts.shared_names / counts.sources,
        )
    if counts.isolated:
        yield finding(
            "note",
            "isolated nodes",
            f"{of_all(counts.isolated, counts.nodes, 'nodes')} have no edge at all: nothing is "
            "learned about them.",
            "They can be recommended or classified only by their own text; leave them out "
            "otherwise.",
            count=counts.isolated,
            share=counts.isolated / counts.nodes,
        )


def _degree_findings(side: SideSummary, edges: int) -> Iterator[Finding]:
    used = side.nodes - side.unused
    if used and side.single / used >= MANY_SINGLE_EDGES:
        yield finding(
            "note",
            f"single edges, {side.name}",
            f"{of_all(side.single, used, SIDES.get(side.name, side.name))} have one edge only: "
            "when that edge is the question, no neighbor is left to learn from.",
            "For link prediction keep nodes with at least 3 to 5 edges; classifying edges by "
            "their text suffers less.",
            count=side.single,
            share=side.single / used,
        )
    if side.nodes > SMALL_SIDE and side.hubs and side.hubs[0].count >= HUB * edges:
        hub = side.hubs[0]
        yield finding(
            "note",
            f"hubs, {side.name}",
            f"{quoted(hub.name)} alone has {of_all(hub.count, edges, 'edges')}.",
            "Predicting it is often right without reading; check results without it.",
            count=hub.count,
            share=hub.count / edges,
        )


def _repeat_findings(card: DataCard) -> Iterator[Finding]:
    counts, texts, edges = card.counts, card.texts, card.counts.edges
    if counts.identical_edges:
        share = counts.identical_edges / edges
        yield finding(
            "warning" if share >= MANY_IDENTICAL_EDGES else "note",
            "identical edges",
            f"{of_all(counts.identical_edges, edges, 'edges')} repeat another one exactly: same "
            "source, target and text.",
            "Drop the repeats before splitting, or copies of training edges end up in the test.",
            count=counts.identical_edges,
            share=share,
        )
    if texts.shared >= MANY_SHARED_TEXTS * edges:
        yield finding(
            "note",
            "shared texts",
            f"{of_all(texts.shared, edges, 'edges')} carry a text that stands on other edges too.",
            "Look at the most repeated texts: boilerplate tells a model nothing.",
            count=texts.shared,
            share=texts.shared / edges,
        )
    if counts.repeating_edges >= MANY_REPEATING_EDGES * edges:
        yield finding(
            "note",
            "repeated pairs",
            f"{counted(counts.repeated_pairs, 'pair of nodes has', 'pairs of nodes have')} several "
            f"edges; {of_all(counts.repeating_edges, edges, 'edges')} follow an earlier one.",
            _pair_advice(card),
            pairs=counts.repeated_pairs,
            count=counts.repeating_edges,
        )
    if counts.self_loops:
        yield finding(
            "note",
            "self-loops",
            f"{of_all(counts.self_loops, edges, 'edges')} lead from a node to itself.",
            "Leave them out for link prediction: recommending a node to itself is no answer.",
            count=counts.self_loops,
            share=counts.self_loops / edges,
        )


def _pair_advice(card: DataCard) -> str:
    joined = "join the texts of a pair into one edge"
    configs = split_configs(card)
    if configs and all(one.new_pairs or one.how == "random" for one in configs):
        return f"For link prediction you may also {joined}."
    names = [split.name for split in card.splits]
    return f"For link prediction {link_options(card, names, new_pairs=True)}, or {joined}."


def _row_findings(card: DataCard) -> Iterator[Finding]:
    if not card.skipped:
        return
    rows = card.counts.edges + card.skipped
    share = card.skipped / rows
    yield finding(
        "warning" if share >= MANY_SKIPPED_ROWS else "note",
        "skipped rows",
        f"{of_all(card.skipped, rows, 'rows')} could not be read and are not in the network.",
        "The first of them are listed with their reasons; mend the file and prepare it again.",
        count=card.skipped,
        share=share,
    )


def _time_findings(card: DataCard) -> Iterator[Finding]:
    times, edges = card.times, card.counts.edges
    if times is not None and times.missing:
        yield finding(
            "note",
            "missing times",
            f"{of_all(times.missing, edges, 'edges')} have no time: a chronological split cannot "
            "place them.",
            "Split at random, or leave these edges out of the input.",
            count=times.missing,
        )
    if times is not None and times.far:
        yield finding(
            "note",
            "times far off",
            f"{of_all(times.far, edges, 'edges')} have a time far from all others (the times run "
            f"from {times.first[:10]} to {times.last[:10]}).",
            "Look for placeholders and typing errors before splitting by time.",
            count=times.far,
        )


def _weight_findings(card: DataCard) -> Iterator[Finding]:
    weights = card.weights
    if weights is not None and (odd := weights.missing + weights.negative):
        yield finding(
            "note",
            "weights",
            f"{of_all(odd, card.counts.edges, 'edges')} have a negative weight or none: they "
            "cannot be sampled by weight.",
            "Give every edge a weight of 0 or more if weights are to steer the sampling.",
            missing=weights.missing,
            negative=weights.negative,
        )
