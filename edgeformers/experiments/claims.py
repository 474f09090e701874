"""Checks the claims in claims.toml against the tables of a record, with paired tests if any."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise, product
from typing import Literal

from edgeformers.decode import decode
from edgeformers.experiments.model_rows import EDGE_ROWS, LINK_ROWS, RECIPROCITY_ROWS
from edgeformers.experiments.record import Comparison, Record
from edgeformers.experiments.tables import Means, TableSpec, row_means, table_specs
from edgeformers.report.formatting import metric_name

Verdict = Literal["holds", "does not hold", "not significant", "not measured"]
VERDICTS: Mapping[int, Verdict] = {1: "holds", 0: "not significant", -1: "does not hold"}
OURS = "ours"  # the section of a claim that is not the paper's
HEADINGS = {"What the paper claims": False, "Our claims beyond the paper": True}
#: Rows that some networks cannot have; a claim does not count them as missing.
OPTIONAL_ROWS = frozenset(f"{row.name}{end}" for row in RECIPROCITY_ROWS for end in ("", "-cold"))


@dataclass(frozen=True, kw_only=True)
class Claim:
    """An ordering of rows; see claims.toml."""

    text: str
    section: str
    better: tuple[str, ...]
    worse: tuple[str, ...] = ()
    compare: Literal["each", "best"] = "each"
    lower_is_better: bool = False
    slack: float = 0.0
    groups: tuple[str, ...] | Literal["all"] = ()

    def is_about(self, spec: TableSpec) -> bool:
        """Whether the claim is to be checked in this table."""
        is_edge = self.better[0] in {row.name for row in EDGE_ROWS}
        if spec.task not in (None, "edge-classification" if is_edge else "link-prediction"):
            return False
        if self.groups == "all":
            return True
        return set(self.groups) <= set(spec.groups) and bool(self.groups) == bool(spec.groups)


@cache
def claims_about(experiment: str) -> tuple[Claim, ...]:
    """The claims about an experiment."""
    text = files("edgeformers.experiments").joinpath("claims.toml").read_text("utf-8")
    claims = decode(tuple[Claim, ...], tomllib.loads(text).get(experiment, []), path=experiment)
    rows = EDGE_ROWS if experiment == "edge-classification" else (*LINK_ROWS, *RECIPROCITY_ROWS)
    baselines = [row for row in rows if row.group != "ours"]
    suffix = "-cold" if experiment == "cold-start" else ""
    groups: Mapping[tuple[str, ...], tuple[str, ...]] = {
        ("@paper-baselines",): tuple(row.name for row in baselines if row.in_paper),
        ("@baselines",): tuple(f"{row.name}{suffix}" for row in baselines),
    }
    return tuple(replace(claim, worse=groups.get(claim.worse, claim.worse)) for claim in claims)


@dataclass(frozen=True, kw_only=True)
class Margin:
    """One comparison that a claim makes; positive if the claim holds."""

    value: float
    above: str  # a row, or a column if columns of one row are compared
    below: str
    metric: str = ""  # empty if columns are compared


@dataclass(frozen=True, kw_only=True)
class CheckedClaim:
    """A claim in one table, decided by its weakest comparison."""

    claim: Claim
    table: str
    verdict: Verdict
    margin: float | None = None
    compared: int = 0  # number of comparisons
    weakest: str = ""  # the deciding comparison in words
    missing: int = 0  # rows of the claim that were not measured
    test: Comparison | None = None  # the paired test of the deciding comparison
    is_percent: bool = False

    def __str__(self) -> str:
        claim = f"{self.claim.text} ({self.claim.section})"
        if self.margin is None:
            return f"not measured: {claim}"
        scale, digits = (100.0, 2) if self.is_percent else (1.0, 4)
        margin = f"{scale * self.margin:+.{digits}f}"
        if self.test is not None:
            low, high = (f"{scale * end:.{digits}f}" for end in (self.test.low, self.test.high))
            margin += f" (95% interval {low} to {high})"
        untested = "" if self.test else " by the means (not tested)"
        missing = f"; {self.missing} of its rows not measured" if self.missing else ""
        return (
            f"{self.verdict}{untested}: {claim}; {self.weakest} by {margin}, the weakest of "
            f"{self.compared} comparisons{missing}"
        )


def check_claims(record: Record) -> list[CheckedClaim]:
    """Every claim about an experiment, in each of its tables that the claim is about."""
    return [check_claim(claim, record, spec) for claim, spec in _claims_by_table(record)]


def check_claim(claim: Claim, record: Record, spec: TableSpec) -> CheckedClaim:
    """One claim in one table, over the measured rows and the metrics of the paper.

    A tested comparison counts only if its 95 % interval excludes 0; otherwise the means decide.
    """
    means = row_means(record, spec)
    margins = _margins(claim, means, spec)
    if not margins:
        return CheckedClaim(claim=claim, table=spec.name, verdict="not measured")
    tests = {(t.table, t.metric, t.best, t.second): t for t in record.claim_tests}
    smallest = [(margin, tests.get(_test_key(spec, margin))) for margin in _smallest(margins)]
    weakest, test = min(smallest, key=lambda pair: (_sign(*pair), pair[0].value))
    # A claim that values improve is about whichever values were tried.
    named = (*claim.better, *claim.worse) if claim.worse else ()
    return CheckedClaim(
        claim=claim,
        table=spec.name,
        verdict=VERDICTS[_sign(weakest, test)],
        margin=weakest.value,
        compared=len(margins),
        weakest=_describe(weakest, record.titles),
        missing=sum(row not in means and row not in OPTIONAL_ROWS for row in named),
        test=test,
        is_percent=spec.percent,
    )


def deciding_margins(record: Record) -> list[tuple[TableSpec, Margin]]:
    """The row comparisons that decide a record's claims, each once: these are to be tested."""
    deciding = {}
    for claim, spec in _claims_by_table(record):
        for margin in _smallest(_margins(claim, row_means(record, spec), spec)):
            if margin.metric and not claim.lower_is_better:
                deciding[_test_key(spec, margin)] = (spec, margin)
    return list(deciding.values())


def claim_lines(checked: Sequence[CheckedClaim]) -> list[str]:
    """A line per measured claim, and the number of the paper's claims that were not measured."""
    lines = [f"{claim.table}: {claim}" for claim in checked if claim.margin is not None]
    missing = sum(claim.margin is None and claim.claim.section != OURS for claim in checked)
    return [*lines, f"{missing} claims of the paper were not measured"] if missing else lines


def claims_markdown(checked: Sequence[CheckedClaim]) -> str:
    """All claims under headings; empty without claims."""
    blocks = []
    for heading, is_ours in HEADINGS.items():
        claims = [claim for claim in checked if (claim.claim.section == OURS) == is_ours]
        lists = [
            f"`{table}`:\n\n" + claims_list([claim for claim in claims if claim.table == table])
            for table in dict.fromkeys(claim.table for claim in claims)
        ]
        blocks += [f"### {heading}\n\n" + "\n".join(lists)] if lists else []
    return "\n".join(blocks)


def claims_list(checked: Sequence[CheckedClaim]) -> str:
    """Claims as a Markdown list, the verdicts in bold."""
    return "".join(f"- **{c.verdict}**{str(c).removeprefix(c.verdict)}\n" for c in checked)


def _claims_by_table(record: Record) -> Iterator[tuple[Claim, TableSpec]]:
    """Claims with the tables they are about; tables of protocols the record lacks are skipped."""
    for spec in table_specs(record.experiment):
        is_optional = spec.name.endswith(("/paper-shifted", "/paper-unseen"))
        if spec.part not in ("test", "train") or (is_optional and not row_means(record, spec)):
            continue
        yield from (
            (claim, spec) for claim in claims_about(record.experiment) if claim.is_about(spec)
        )


def _margins(claim: Claim, means: Means, spec: TableSpec) -> list[Margin]:
    """Every comparison that a claim makes in a table; the paper does not report Hit@10."""
    metrics = [metric for metric in spec.metrics if not metric.endswith("hit@10")]
    if claim.groups and claim.groups != "all":
        metrics = [metric for metric in metrics if metric.rpartition("/")[2] in claim.groups]
    if not claim.worse and len(claim.better) == 1:
        cells = means.get(claim.better[0], {})
        steps = pairwise([(metric, cells[metric].value) for metric in metrics if metric in cells])
        return [Margin(value=b - a, above=after, below=at) for (at, a), (after, b) in steps]
    return [margin for metric in metrics for margin in _metric_margins(claim, means, metric)]


def _metric_margins(claim: Claim, means: Means, metric: str) -> Iterator[Margin]:
    sign = -1.0 if claim.lower_is_better else 1.0
    better, worse = (
        [(row, sign * means[row][metric].value) for row in rows if metric in means.get(row, {})]
        for rows in (claim.better, claim.worse)
    )
    if not claim.worse:
        pairs = [(after, before) for before, after in pairwise(better)]
    elif claim.compare == "best":
        pairs = list(product(_best(better), _best(worse)))
    else:
        pairs = list(product(better, worse))
    for (above, high), (below, low) in pairs:
        value = high - low + claim.slack * abs(low)
        yield Margin(value=value, above=above, below=below, metric=metric)


def _best(values: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    return [max(values, key=lambda item: item[1])] if values else []


def _smallest(margins: Sequence[Margin]) -> list[Margin]:
    """The smallest margin by each metric."""
    metrics = dict.fromkeys(margin.metric for margin in margins)
    return [
        min((m for m in margins if m.metric == metric), key=lambda m: m.value) for metric in metrics
    ]


def _test_key(spec: TableSpec, margin: Margin) -> tuple[str, str, str, str]:
    return spec.name, margin.metric, margin.above, margin.below


def _sign(margin: Margin, test: Comparison | None) -> int:
    """1: the claim holds here, -1: it does not, 0: the difference is not significant."""
    if test is None:
        return 1 if margin.value > 0 else -1
    if test.low > 0 and margin.value > 0:
        return 1
    return -1 if test.high < 0 and margin.value < 0 else 0


def _describe(margin: Margin, titles: Mapping[str, str]) -> str:
    if not margin.metric:
        return f"{margin.below} to {margin.above}"
    above, below = (
        re.sub("^- ", "the model without the ", titles[row]) for row in (margin.above, margin.below)
    )
    metric = margin.metric.rpartition("/")[2]
    where = f"with {metric} neighbors" if metric.isdigit() else f"in {metric_name(metric)}"
    return f"{above} over {below} {where}"
