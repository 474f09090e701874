"""The data card in a terminal."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from edgeformers.data.card import DataCard, Distribution, Finding, Labels, NamedCount
from edgeformers.data.wording import percent
from edgeformers.report.card_rows import (
    degree_rows,
    fact_rows,
    headline,
    in_short,
    label_share_rows,
    length_rows,
    overlap_rows,
    split_rows,
    top,
)
from edgeformers.report.terminal import bars, fit, sparkline, table
from edgeformers.report.text import number, printable


def card_text(card: DataCard, width: int = 80) -> str:
    """The card as plain lines of at most `width` characters."""
    blocks = [
        [printable(card.name).upper(), printable(card.origin), headline(card)],
        *([_finding_lines(card.findings, width)] if card.findings else []),
        ["DEGREES", *table(degree_rows(card)), *_degree_lines(card)],
        ["COUNTS", *table(fact_rows(card), left=(0, 2))],
        ["TEXTS", *table(length_rows(card)), *_text_lines(card)],
    ]
    blocks += [block for block in _optional_blocks(card, width) if len(block) > 1]
    for split in card.splits:
        tables = (split_rows(split), overlap_rows(split), label_share_rows(split))
        lines = [line for rows in tables for line in table(rows)]
        blocks.append([f"SPLIT {printable(split.name)}", *lines])
    return "\n\n".join("\n".join(fit(line, width) for line in block) for block in blocks) + "\n"


def _optional_blocks(card: DataCard, width: int) -> Iterator[list[str]]:
    if card.labels is not None:
        yield ["LABELS", *_label_lines(card.labels, width)]
    if card.node_labels is not None:
        head = f"NODE LABELS  {card.node_labels.labelled:,} nodes labelled"
        yield [head, *_bars(card.node_labels.balance, width)]
    if card.times is not None and card.times.counts:
        span = f"  {card.times.first} to {card.times.last}, edges per {card.times.period}"
        yield ["TIME", span, "  " + sparkline(card.times.counts)]
    if card.weights is not None and card.weights.values is not None:
        yield ["WEIGHTS", *_number_lines(card.weights.values)]
    if card.edge_types:
        yield ["EDGE TYPES", *_bars(card.edge_types, width)]
    if card.notes:
        yield ["PREPARATION", *(f"  {printable(note)}" for note in card.notes)]
    if card.skipped:
        examples = [f"  {printable(example)}" for example in card.skipped_examples[:5]]
        yield [f"SKIPPED ROWS  {card.skipped:,}", *examples]


def _finding_lines(findings: Iterable[Finding], width: int) -> list[str]:
    lines: list[str] = []
    for finding in findings:
        sign = "! " if finding.severity == "warning" else "· "
        where = f"[{', '.join(finding.splits)}] " if finding.splits else ""
        text = printable(f"{where}{finding.sentence} {finding.advice}")
        lines += textwrap.wrap(
            text, width, initial_indent=sign, subsequent_indent="  ", break_on_hyphens=False
        )
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


def _label_lines(labels: Labels, width: int) -> list[str]:
    if labels.numbers is not None:
        return _number_lines(labels.numbers)
    return bars(top(labels.balance), width, labels.labelled)


def _number_lines(d: Distribution) -> list[str]:
    head = ["lowest", "median", "mean", "95%", "highest"]
    lines = table([["", *head], ["", number(d.minimum), *in_short(d)]])
    return [*lines, f"  {number(d.minimum)} {sparkline(d.histogram.counts)} {number(d.maximum)}"]


def _bars(items: Sequence[NamedCount], width: int) -> list[str]:
    return bars(top(items), width, sum(item.count for item in items))
