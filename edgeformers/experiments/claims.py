"""The claims in claims.toml, checked against a record: verdict, effect, interval and seeds.

A claim of several comparisons holds only if all of them do. Such an intersection-union test needs
no correction for their number. A claim that any of several comparisons succeeds is corrected by
Holm's method.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal

from edgeformers.decode import decode
from edgeformers.evaluation import holm
from edgeformers.experiments.claim_effects import (
    Effect,
    RowPair,
    linear_effects,
    measured_effects,
    ratio_effects,
    row_effects,
    trend_effects,
)
from edgeformers.experiments.model_rows import (
    EDGE_ROWS,
    LINK_ROWS,
    NODE_ROWS,
    RECIPROCITY_ROWS,
    ROWS,
    SHIPPED_LINK_ROWS,
    ModelRow,
    all_link_rows,
)
from edgeformers.experiments.record import Record
from edgeformers.experiments.tables import Means, TableSpec, row_means, table_specs

Kind = Literal[
    "each", "families", "any", "ratio", "linear", "trend", "concave", "measured", "untestable"
]
Verdict = Literal["holds", "does not hold", "not significant", "cannot be tested"]
VERDICTS: Mapping[int, Verdict] = {1: "holds", 0: "not significant", -1: "does not hold"}
ROW_KINDS = ("each", "families", "any")
ALPHA = 0.05
OURS = "ours"  # the section of a claim that is not the paper's
#: Rows that some networks cannot have; a claim does not count them as missing.
OPTIONAL_ROWS = frozenset(f"{row.name}{end}" for row in RECIPROCITY_ROWS for end in ("", "-cold"))


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Rows that are claimed to be better than others."""

    better: tuple[str, ...]
    worse: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim and how it is tested; see claims.toml."""

    id: str
    section: str
    text: str
    kind: Kind = "each"
    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    sides: tuple[Sides, ...] = ()  # from better and worse if not given
    groups: tuple[str, ...] | Literal["all"] = ()
    bounds: tuple[float, float] = (0.0, float("inf"))
    reason: str = ""  # why it cannot be tested

    @property
    def rows(self) -> tuple[str, ...]:
        """All rows that the claim names."""
        if self.kind == "measured":
            return ()
        return tuple(dict.fromkeys(row for s in self.sides for row in (*s.better, *s.worse)))

    def is_about(self, spec: TableSpec) -> bool:
        """Whether the claim is to be checked in this table."""
        is_edge = bool(set(self.rows) & {row.name for row in EDGE_ROWS})
        task = "edge-classification" if is_edge else "link-prediction"
        if (self.rows and spec.task not in (None, task)) or spec.part == "inference":
            return False
        if self.groups == "all":
            return True
        return set(self.groups) <= set(spec.groups) and bool(self.groups) == bool(spec.groups)

    def pairs(self, means: Means, metric: str) -> Iterator[tuple[int, list[RowPair]]]:
        """The number of a side, and comparisons of which the weakest decides by this metric."""
        for number, side in enumerate(self.sides):
            better, worse = (
                [row for row in rows if metric in means.get(row, {})]
                for rows in (side.better, side.worse)
            )
            if not better or not worse:
                continue
            if self.kind == "each":
                yield number, [((a,), (b,)) for a in better for b in worse]
                continue
            best = tuple(
                (max(rows, key=lambda row: means[row][metric].value),) for rows in (better, worse)
            )
            yield number, [(best[0], best[1])]
            if self.kind == "families":
                yield number, [(tuple(better), tuple(worse))]


@dataclass(frozen=True, kw_only=True)
class CheckedClaim:
    """A claim in one table, with the comparison that decides it."""

    claim: Claim
    table: str
    verdict: Verdict
    effect: Effect | None = None
    compared: int = 0  # number of comparisons
    missing: int = 0  # rows of the claim that were not measured
    reason: str = ""  # why it cannot be tested

    def __str__(self) -> str:
        claim = f"{self.claim.text} ({self.claim.section})"
        if self.effect is None:
            return f"{self.verdict}: {claim}; {self.reason}"
        interval = f" (95% interval {self.effect.interval})" if self.effect.is_tested else ""
        verdict: str = self.verdict
        if not self.effect.is_tested and verdict != "cannot be tested":
            verdict += " by the means (not tested)"
        return (
            f"{verdict}: {claim}; {self.effect.what}: {self.effect.shown}{interval}{self.remarks}"
        )

    @property
    def remarks(self) -> str:
        """How many comparisons there were, and how many rows were missing."""
        which = "strongest" if self.claim.kind == "any" else "weakest"
        remarks = f", the {which} of {self.compared} comparisons" if self.compared > 1 else ""
        return remarks + (f"; {self.missing} of its rows not measured" if self.missing else "")


@cache
def claims_about(experiment: str) -> tuple[Claim, ...]:
    """The claims about an experiment."""
    text = files("edgeformers.experiments").joinpath("claims.toml").read_text("utf-8")
    claims = decode(tuple[Claim, ...], tomllib.loads(text).get(experiment, []), path=experiment)
    tables: Mapping[str, Sequence[ModelRow]] = {
        "edge-classification": EDGE_ROWS,
        "node-classification": [ROWS[name] for name in NODE_ROWS],
        "as-shipped": (*SHIPPED_LINK_ROWS, *RECIPROCITY_ROWS),
        "cold-start": (*all_link_rows(), *RECIPROCITY_ROWS),
    }
    baselines = [row for row in tables.get(experiment, LINK_ROWS) if row.group != "ours"]
    suffix = "-cold" if experiment == "cold-start" else ""
    groups: Mapping[tuple[str, ...], tuple[str, ...]] = {
        ("@paper-baselines",): tuple(row.name for row in baselines if row.in_paper),
        ("@baselines",): tuple(f"{row.name}{suffix}" for row in baselines),
    }
    resolved = []
    for claim in claims:
        sides = claim.sides or (Sides(better=claim.better, worse=claim.worse),)
        sides = tuple(replace(s, worse=groups.get(s.worse, s.worse)) for s in sides)
        resolved.append(replace(claim, sides=sides if sides[0].better else ()))
    return tuple(resolved)


def check_claims(record: Record) -> list[CheckedClaim]:
    """Every claim about an experiment, in each of its tables that the claim is about."""
    return [check_claim(claim, record, spec) for claim, spec in claims_by_table(record)]


def check_claim(claim: Claim, record: Record, spec: TableSpec) -> CheckedClaim:
    """One claim in one table, over the measured rows and the metrics of the paper.

    A comparison counts only if its 95 % interval excludes 0; without a test, the means decide.
    While rows are missing, a claim about all of them cannot hold, and one about any of several
    families cannot fail.
    """
    if claim.kind == "untestable":
        return untested(claim, spec.name, claim.reason)
    effects = _effects(claim, record, spec)
    if not effects:
        return untested(claim, spec.name, "not measured")
    deciding = _any_side(effects) if claim.kind == "any" else _weakest(effects)
    measured = {*row_means(record, spec), *OPTIONAL_ROWS}
    missing, verdict = sum(row not in measured for row in claim.rows), VERDICTS[deciding.sign]
    if missing and (verdict == "holds") != (claim.kind == "any"):
        verdict = "cannot be tested"
    return CheckedClaim(
        claim=claim,
        table=spec.name,
        verdict=verdict,
        effect=deciding,
        compared=_comparisons(claim, record, spec) or len(effects),
        missing=missing,
    )


def untested(claim: Claim, table: str, reason: str) -> CheckedClaim:
    """A claim that cannot be tested, and why."""
    return CheckedClaim(claim=claim, table=table, verdict="cannot be tested", reason=reason)


def claimed_pairs(record: Record) -> Iterator[tuple[TableSpec, str, list[RowPair]]]:
    """The comparisons of rows that claims make by each metric; the weakest of a list decides."""
    for claim, spec in claims_by_table(record):
        if claim.kind in ROW_KINDS:
            means = row_means(record, spec)
            for metric in claimed_metrics(claim, spec):
                yield from ((spec, metric, pairs) for _, pairs in claim.pairs(means, metric))


def claimed_metrics(claim: Claim, spec: TableSpec) -> list[str]:
    """The metrics of a table that a claim is about; the paper does not report Hit@10."""
    metrics = [metric for metric in spec.metrics if not metric.endswith("hit@10")]
    if claim.groups and claim.groups != "all":
        return [metric for metric in metrics if metric.rpartition("/")[2] in claim.groups]
    return metrics


def claims_by_table(record: Record) -> Iterator[tuple[Claim, TableSpec]]:
    """Claims with the tables they are about; tables of protocols the record lacks are skipped."""
    specs = table_specs(record.experiment) or [
        TableSpec(name=record.experiment, title="", part="test", metrics=())
    ]
    for spec in specs:
        is_optional = spec.name.endswith(("/paper-shifted", "/paper-unseen"))
        if spec.part not in ("test", "train") or (is_optional and not row_means(record, spec)):
            continue
        yield from (
            (claim, spec) for claim in claims_about(record.experiment) if claim.is_about(spec)
        )


def _effects(claim: Claim, record: Record, spec: TableSpec) -> list[Effect]:
    """Every comparison that a claim makes in a table."""
    metrics = claimed_metrics(claim, spec)
    match claim.kind:
        case "ratio":
            (side,) = claim.sides
            return list(ratio_effects(record, spec, side.better, side.worse, claim.bounds))
        case "linear":
            return list(linear_effects(record, spec, claim.better[0]))
        case "trend" | "concave":
            return list(trend_effects(record, spec, metrics, is_concave=claim.kind == "concave"))
        case "measured":
            return list(measured_effects(record, claim.better[0]))
    means = row_means(record, spec)
    return [
        replace(effect, side=side)
        for metric in metrics
        for side, pairs in claim.pairs(means, metric)
        for effect in row_effects(record, spec, metric, pairs)
    ]


def _comparisons(claim: Claim, record: Record, spec: TableSpec) -> int:
    """The number of comparisons of rows, including those whose tests the record does not keep."""
    means = row_means(record, spec)
    metrics = claimed_metrics(claim, spec) if claim.kind in ROW_KINDS else []
    return sum(len(pairs) for metric in metrics for _, pairs in claim.pairs(means, metric))


def _weakest(effects: list[Effect]) -> Effect:
    return min(effects, key=lambda effect: (effect.sign, effect.support))


def _any_side(effects: list[Effect]) -> Effect:
    """The strongest of several sides, each as strong as its weakest comparison."""
    sides = [[e for e in effects if e.side == number] for number in {e.side for e in effects}]
    weakest = [_weakest(side) for side in sides]
    p_values = [
        max(effect.p_value for effect in side) if effect.sign > 0 else 1.0
        for side, effect in zip(sides, weakest, strict=True)
    ]
    corrected = [
        replace(effect, sign=0) if effect.is_tested and effect.sign > 0 and p >= ALPHA else effect
        for effect, p in zip(weakest, holm(p_values), strict=True)
    ]
    return max(corrected, key=lambda effect: (effect.sign, effect.support))
