"""The data card in a terminal."""

from collections.abc import Iterable, Iterator

from edgeformers.data.card.card import (
    DataCard,
    Distribution,
    Finding,
    LabelSummary,
    NodeLabelSummary,
    TimeSummary,
)
from edgeformers.data.card.phrasing import counted, percent
from edgeformers.report.card_rows import (
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
from edgeformers.report.terminal import bars, fit, format_table, sparkline, wrap
from edgeformers.report.text import number, printable

INDENT = "  "
SKIPPED = 5  # rows that are listed; the page has more


def card_text(card: DataCard, width: int = 80) -> str:
    """The card as plain lines of at most `width` characters."""
    blocks = [
        [
            *wrap(printable(card.name).upper(), width),
            *wrap(printable(card.origin), width),
            *wrap(headline(card), width),
        ],
        *([_finding_lines(card.findings, width)] if card.findings else []),
        ["DEGREES", *format_table(degree_rows(card)), *_degree_lines(card)],
        ["COUNTS", *format_table(fact_rows(card), left=(0, 2))],
        ["TEXTS", *format_table(length_rows(card)), *_text_lines(card)],
    ]
    blocks += [block for block in _optional_blocks(card, width) if len(block) > 1]
    for split in card.splits:
        tables = (split_rows(split), overlap_rows(split), label_share_rows(split))
        lines = [line for rows in tables for line in format_table(rows)]
        blocks.append([f"SPLIT {printable(split.name)}", *lines])
    return "\n\n".join("\n".join(fit(line, width) for line in block) for block in blocks) + "\n"


def _optional_blocks(card: DataCard, width: int) -> Iterator[list[str]]:
    if card.labels is not None:
        yield ["LABELS", *_label_lines(card.labels, width)]
    if card.node_labels is not None:
        yield ["NODE LABELS", *_node_label_lines(card.node_labels, width)]
    if card.times is not None and card.times.counts:
        yield ["TIME", *_time_lines(card.times, width)]
    if card.weights is not None and card.weights.values is not None:
        yield ["WEIGHTS", *_number_lines(card.weights.values)]
    if card.edge_types:
        shares = f"{INDENT}shares of all edges"
        yield ["EDGE TYPES", shares, *bars(top(card.edge_types), width, card.counts.edges)]
    if card.notes:
        yield ["PREPARATION", *_wrapped(card.notes, width)]
    if card.skipped:
        shown = card.skipped_examples[:SKIPPED]
        head = wrap(skipped_words(card, len(shown)), width, INDENT, INDENT)
        yield ["SKIPPED ROWS", *head, *_wrapped(shown, width)]


def _wrapped(texts: Iterable[str], width: int) -> list[str]:
    """Sentences one below the other, whole however long they are."""
    return [line for one in texts for line in wrap(printable(one), width, "· ", INDENT)]


def _finding_lines(findings: Iterable[Finding], width: int) -> list[str]:
    lines: list[str] = []
    for finding in findings:
        sign = "! " if finding.severity == "warning" else "· "
        where = f"[{', '.join(finding.splits)}] " if finding.splits else ""
        text = printable(f"{where}{finding.sentence} {finding.advice}")
        lines += wrap(text, width, sign, INDENT)
    return lines


def _degree_lines(card: DataCard) -> Iterator[str]:
    for side in card.sides:
        if side.degree is not None and side.degree.maximum >= 1:
            bars = sparkline(side.degree.histogram.counts)
            yield f"  {side.name}: degree 1 {bars} {number(side.degree.maximum)}"


def _text_lines(card: DataCard) -> Iterator[str]:
    for name, d in (("characters", card.texts.characters), ("tokens", card.texts.tokens)):
        if d is not None:
            plus = "+" if d.histogram.is_open else ""
            last = number(d.histogram.borders[-2])
            yield f"  {name}: 0 {sparkline(d.histogram.counts)} {last}{plus}"
    if card.texts.cut:
        cuts = ", ".join(f"{percent(share)} at {cut}" for cut, share in card.texts.cut.items())
        yield f"  cut: {cuts} tokens ({printable(card.texts.tokenizer or 'tokenizer')})"
    for text in card.texts.most_repeated[:3]:
        yield f"  {text.count:,} × {printable(text.name)}"


def _label_lines(labels: LabelSummary, width: int) -> list[str]:
    if labels.numbers is not None:
        return _number_lines(labels.numbers)
    shares = f"shares of {counted(labels.labeled, 'labeled edge', 'labeled edges')}"
    if labels.kind != "multi":
        return [f"{INDENT}{shares}", *bars(top(labels.balance), width, labels.labeled)]
    shown, more = top_of_several(labels.balance)
    head = wrap(f"{shares}; an edge may have several labels", width, INDENT, INDENT)
    return [*head, *bars(shown, width, labels.labeled), *wrap(more, width, INDENT, INDENT)]


def _node_label_lines(labels: NodeLabelSummary, width: int) -> list[str]:
    shown, more = top_of_several(labels.balance)
    nodes = counted(labels.labeled, "labeled node", "labeled nodes")
    head = wrap(f"shares of {nodes}; a node may have several labels", width, INDENT, INDENT)
    return [*head, *bars(shown, width, labels.labeled), *wrap(more, width, INDENT, INDENT)]


def _time_lines(times: TimeSummary, width: int) -> list[str]:
    lines = wrap(time_words(times), width, INDENT, INDENT)
    if len(times.counts) > 1:  # a single moment is no course of time
        lines += [f"{INDENT}edges per {times.period}", INDENT + sparkline(times.counts)]
    return lines


def _number_lines(d: Distribution) -> list[str]:
    head = ["lowest", "median", "mean", "95%", "highest"]
    lines = format_table([["", *head], ["", number(d.minimum), *in_short(d)]])
    return [*lines, f"  {number(d.minimum)} {sparkline(d.histogram.counts)} {number(d.maximum)}"]
