"""Checked claims as Markdown tables, lines of text and plain values; one table per network."""

from collections.abc import Iterable, Sequence
from typing import Any

from edgeformers.experiments.claims import (
    OURS,
    CheckedClaim,
    check_claims,
    claims_about,
    untested,
)
from edgeformers.experiments.record import Record
from edgeformers.experiments.tables import PROTOCOLS

#: Experiments about which the paper makes claims, in its order.
CLAIMED = (
    "edge-classification",
    "link-prediction",
    "ablation",
    "node-classification",
    "embedding-plot",
    "efficiency",
    "node-dimension",
    "neighbor-size",
    "attention-map",
)
HEADINGS = {"What the paper claims": False, "Our claims beyond the paper": True}
HEADER = (
    "| claim | section | verdict | effect | 95% interval | seeds |\n|---|---|---|---|---|---|\n"
)


def claims_markdown(checked: Sequence[CheckedClaim]) -> str:
    """All claims under headings, a table of claims for each table of results."""
    blocks = []
    for heading, is_ours in HEADINGS.items():
        claims = [claim for claim in checked if (claim.claim.section == OURS) == is_ours]
        tables = [
            f"`{table}`:\n\n" + claims_table([claim for claim in claims if claim.table == table])
            for table in dict.fromkeys(claim.table for claim in claims)
        ]
        blocks += [f"### {heading}\n\n" + "\n".join(tables)] if tables else []
    return "\n".join(blocks)


def claims_table(checked: Sequence[CheckedClaim]) -> str:
    """Claims as one Markdown table, the verdicts in bold, and notes on the intervals."""
    if not checked:
        return ""
    lines = ["| " + " | ".join(_cells(claim)) + " |\n" for claim in checked]
    effects = [claim.effect for claim in checked if claim.effect is not None]
    notes = []
    if any(effect.is_tested and not effect.covers_seeds for effect in effects):
        notes.append("\\* The interval is about other examples (or timings) only, not other seeds.")
    if any(not effect.is_tested for effect in effects):
        notes.append("– Not tested: the means decide.")
    return HEADER + "".join(lines) + ("\n" + "  \n".join(notes) + "\n" if notes else "")


def network_claims(records: Iterable[Record], protocol: str = "paper") -> list[CheckedClaim]:
    """Every claim of the paper once, with links ranked under one protocol.

    Claims about experiments without a record cannot be tested.
    """
    by_experiment = {record.experiment: record for record in records}
    claims = []
    for experiment in CLAIMED:
        if experiment in by_experiment:
            checked = check_claims(by_experiment[experiment])
        else:
            checked = [
                untested(c, experiment, c.reason or "not run") for c in claims_about(experiment)
            ]
        claims += [
            claim
            for claim in checked
            if claim.claim.section != OURS and _protocol(claim.table) in ("", protocol)
        ]
    return claims


def claim_lines(checked: Sequence[CheckedClaim]) -> list[str]:
    """A line per claim with a comparison, and how many of the paper's could not be tested."""
    lines = [f"{claim.table}: {claim}" for claim in checked if claim.effect is not None]
    paper = [claim for claim in checked if claim.claim.section != OURS]
    missing = sum(claim.verdict == "cannot be tested" for claim in paper)
    return [*lines, f"{missing} claims of the paper could not be tested"] if missing else lines


def claim_values(checked: CheckedClaim) -> dict[str, Any]:
    """A checked claim as plain values."""
    effect = checked.effect
    is_tested = effect is not None and effect.is_tested
    return {
        "id": checked.claim.id,
        "table": checked.table,
        "claim": checked.claim.text,
        "section": checked.claim.section,
        "verdict": checked.verdict,
        "margin": effect and effect.value,
        "interval": [effect.low, effect.high] if effect and is_tested else None,
        "seeds": effect and effect.seeds,
        "covers_seeds": bool(effect and is_tested and effect.covers_seeds),
        "comparison": effect.what if effect else checked.reason,
        "comparisons": checked.compared,
        "rows_missing": checked.missing,
    }


def _cells(checked: CheckedClaim) -> list[str]:
    claim, effect = checked.claim, checked.effect
    cells = [claim.text, claim.section, f"**{checked.verdict}**"]
    if effect is None:
        return [*cells, checked.reason, "–", "–"]
    seeds = f"{effect.seeds}" if effect.covers_seeds or not effect.is_tested else f"{effect.seeds}*"
    what = f"{effect.shown}, {effect.what}{checked.remarks}"
    return [*cells, what.replace("|", "\\|"), effect.interval, seeds]


def _protocol(table: str) -> str:
    """The protocol of a table of links; empty for other tables."""
    last = table.rpartition("/")[2]
    return last if last in PROTOCOLS else ""
