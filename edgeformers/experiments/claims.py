"""Whether our tables bear out what the paper claims: each claim in each table, in words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal

from edgeformers.experiments.claim_list import CLAIMS, OURS, SOMETIMES, Claim
from edgeformers.experiments.model_rows import EDGE_ROWS
from edgeformers.experiments.record import Comparison, Record
from edgeformers.experiments.tables import Cell, Spec, row_means, table_specs
from edgeformers.report.formatting import metric_name

Verdict = Literal["holds", "does not hold", "not significant", "not measured"]
Means = Mapping[str, Mapping[str, Cell]]
SIGNS: Mapping[int, Verdict] = {1: "holds", 0: "not significant", -1: "does not hold"}


@dataclass(frozen=True, kw_only=True)
class Margin:
    """One comparison that a claim makes, above 0 where the claim is right."""

    value: float
    above: str  # a row, or a column where those of one row are to rise
    below: str
    metric: str = ""  # none where columns are compared


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A claim in the light of one table, told by the comparison that bears it out least."""

    claim: Claim
    table: str
    verdict: Verdict
    margin: float | None = None
    compared: int = 0  # pairs of numbers
    weakest: str = ""  # the comparison in words
    missing: int = 0  # rows the claim names that were not measured
    test: Comparison | None = None  # of the two rows on the same examples, where there is one
    is_percent: bool = False  # as the table is

    def __str__(self) -> str:
        claim = f"{self.claim.text} ({self.claim.section})"
        if self.margin is None:
            return f"not measured: {claim}"
        surely = "" if self.test else " by the means, which were not tested"
        lost = f"; {self.missing} of its rows not measured" if self.missing else ""
        return (
            f"{self.verdict}{surely}: {claim}; {self.weakest} by {self._margin_words()}, the "
            f"weakest of {self.compared} compared{lost}"
        )

    def _margin_words(self) -> str:
        """+0.0100 (95% interval 0.0020 to 0.0180)."""
        size, digits = (100.0, 2) if self.is_percent else (1.0, 4)
        shown = f"{size * (self.margin or 0.0):+.{digits}f}"
        if self.test is None:
            return shown
        low, high = (f"{size * bound:.{digits}f}" for bound in (self.test.low, self.test.high))
        return f"{shown} (95% interval {low} to {high})"


def check_claims(record: Record) -> list[Checked]:
    """Every claim about an experiment, in each of its tables of the part that the paper shows."""
    return [check_claim(claim, record, spec) for claim, spec in _asked(record)]


def check_claim(claim: Claim, record: Record, spec: Spec) -> Checked:
    """One claim in one table, over the rows that were measured and the metrics of the paper.

    What was compared on the same examples holds, or does not, only where its 95 % interval leaves
    out 0; of the rest the means decide.
    """
    means = row_means(record, spec)
    found = _margins(claim, means, spec)
    if not found:
        return Checked(claim=claim, table=spec.name, verdict="not measured")
    tests = {(t.table, t.metric, t.best, t.second): t for t in record.claim_tests}
    close = [(one, tests.get(_key(spec, one))) for one in _closest(found)]
    weakest, test = min(close, key=lambda one: (_sign(*one), one[0].value))
    return Checked(
        claim=claim,
        table=spec.name,
        verdict=SIGNS[_sign(weakest, test)],
        margin=weakest.value,
        compared=len(found),
        weakest=_words(weakest, {info.name: info.title for info in record.rows}),
        missing=_missing(claim, means),
        test=test,
        is_percent=spec.percent,
    )


def close_calls(record: Record) -> list[tuple[Spec, Margin]]:
    """The comparisons of two rows on which the claims of a record rest, each once."""
    found = {}
    for claim, spec in _asked(record):
        for one in _closest(_margins(claim, row_means(record, spec), spec)):
            if one.metric and not claim.is_lower:
                found[_key(spec, one)] = (spec, one)
    return list(found.values())


def claim_lines(checked: Sequence[Checked]) -> list[str]:
    """A line per claim that was measured, with its table; then how many were not."""
    lines = [f"{one.table}: {one}" for one in checked if one.margin is not None]
    missing = sum(one.margin is None and one.claim.section != OURS for one in checked)
    return [*lines, f"{missing} claims of the paper were not measured"] if missing else lines


def claims_text(checked: Sequence[Checked]) -> str:
    """Every claim in Markdown, measured or not; empty where the paper claims nothing."""
    parts = {"What the paper claims": False, "What is to be shown beyond the paper": True}
    blocks = []
    for heading, is_ours in parts.items():
        mine = [one for one in checked if (one.claim.section == OURS) == is_ours]
        tables = dict.fromkeys(one.table for one in mine)
        told = [
            f"`{name}`:\n\n" + claims_block([one for one in mine if one.table == name])
            for name in tables
        ]
        blocks += [f"### {heading}\n\n" + "\n".join(told)] if told else []
    return "\n".join(blocks)


def claims_block(checked: Sequence[Checked]) -> str:
    """The claims of one table as a list in Markdown, the verdict in bold."""
    lines = []
    for one in checked:
        verdict, told = one.verdict, str(one)
        lines.append(f"- **{verdict}**{told.removeprefix(verdict)}")
    return "\n".join(lines) + "\n" if lines else ""


def _asked(record: Record) -> Iterator[tuple[Claim, Spec]]:
    """Claims with the tables that they are about; of a protocol that older records lack, if any."""
    for spec in table_specs(record.experiment):
        if spec.name.endswith(("/paper-shifted", "/paper-unseen")) and not row_means(record, spec):
            continue
        for claim in CLAIMS:
            if (
                claim.experiment == record.experiment
                and set(claim.groups) <= set(spec.groups)
                and bool(claim.groups) == bool(spec.groups)
                and spec.part in ("test", "train")
                and spec.task in (None, _task(claim))
            ):
                yield claim, spec


def _margins(claim: Claim, means: Means, spec: Spec) -> list[Margin]:
    """Every comparison a claim makes in a table."""
    metrics = [metric for metric in spec.metrics if not metric.endswith("hit@10")]
    if claim.groups:
        metrics = [metric for metric in metrics if metric.rpartition("/")[2] in claim.groups]
    if claim.compare == "rising" and len(claim.better) == 1:
        cells = means.get(claim.better[0], {})
        steps = pairwise([(metric, cells[metric].value) for metric in metrics if metric in cells])
        return [Margin(value=b - a, above=after, below=at) for (at, a), (after, b) in steps]
    return [one for metric in metrics for one in _metric_margins(claim, means, metric)]


def _metric_margins(claim: Claim, means: Means, metric: str) -> Iterator[Margin]:
    sign = -1.0 if claim.is_lower else 1.0
    better, worse = (
        {row: sign * means[row][metric].value for row in rows if metric in means.get(row, {})}
        for rows in (claim.better, claim.worse)
    )
    if claim.compare == "rising":
        pairs = [(after, before) for before, after in pairwise(better.items())]
    elif claim.compare == "best":
        pairs = list(product(_best(better), _best(worse)))
    else:
        pairs = list(product(better.items(), worse.items()))
    for (above, high), (below, low) in pairs:
        value = high - low + claim.slack * abs(low)
        yield Margin(value=value, above=above, below=below, metric=metric)


def _closest(margins: Sequence[Margin]) -> list[Margin]:
    """The smallest margin by each metric."""
    metrics = dict.fromkeys(one.metric for one in margins)
    return [min((m for m in margins if m.metric == name), key=_value) for name in metrics]


def _value(margin: Margin) -> float:
    return margin.value


def _key(spec: Spec, margin: Margin) -> tuple[str, str, str, str]:
    return spec.name, margin.metric, margin.above, margin.below


def _sign(margin: Margin, test: Comparison | None) -> int:
    """1: the claim is right here, -1: it is wrong, 0: by no more than chance would have it."""
    if test is None:
        return 1 if margin.value > 0 else -1
    if test.low > 0 and margin.value > 0:
        return 1
    return -1 if test.high < 0 and margin.value < 0 else 0


def _words(margin: Margin, titles: Mapping[str, str]) -> str:
    if not margin.metric:
        return f"{margin.below} to {margin.above}"
    above, below = (
        re.sub("^- ", "that without the ", titles[row]) for row in (margin.above, margin.below)
    )
    metric = margin.metric.rpartition("/")[2]
    where = f"with {metric} neighbors" if metric.isdigit() else f"in {metric_name(metric)}"
    return f"{above} over {below} {where}"


def _missing(claim: Claim, means: Means) -> int:
    """Rows without numbers; a rise is told of the values that were tried."""
    named = () if claim.compare == "rising" else (*claim.better, *claim.worse)
    return sum(row not in means and row not in SOMETIMES for row in named)


def _best(values: Mapping[str, float]) -> list[tuple[str, float]]:
    return [max(values.items(), key=lambda item: item[1])] if values else []


def _task(claim: Claim) -> str:
    is_edge = claim.better[0] in {row.name for row in EDGE_ROWS}
    return "edge-classification" if is_edge else "link-prediction"
