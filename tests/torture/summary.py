"""Counts of outcomes per suite, as JSON and as the table of docs/reliability.md."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from edgeformers.files import write_atomic
from tests.torture.driver import ROOT
from tests.torture.suites import SUITES, Suite

RECORD = ROOT / "benchmarks" / "reliability.json"
DOCUMENT = ROOT / "docs" / "reliability.md"
BLOCK = re.compile(r"(<!-- torture -->\n).*?(<!-- end -->)", re.DOTALL)


def summarize(suite: Suite, outcomes: Sequence[Mapping[str, Any]], count: int) -> dict[str, Any]:
    """The counts of a suite, of which `count` cases were wanted."""
    kinds = Counter(outcome["kind"] for outcome in outcomes)
    return {
        "cases": len(outcomes),
        "wanted": count,
        "kinds": dict(sorted(kinds.items())),
        "result": suite.result(kinds, count),
        "seconds": round(sum(outcome["seconds"] for outcome in outcomes), 1),
        "longest_seconds": round(max((o["seconds"] for o in outcomes), default=0.0), 2),
        "peak_bytes": max((outcome["peak_bytes"] for outcome in outcomes), default=0),
        "commits": sorted({outcome["commit"] for outcome in outcomes}),
    }


def write_summary(folder: Path, suites: Mapping[str, Mapping[str, Any]]) -> str:
    """Write summary.json and summary.md; returns the table."""
    record = {"date": date.today().isoformat(), "machine": machine(), "suites": suites}
    table = markdown(record)
    write_atomic(folder / "summary.json", json.dumps(record, indent=1) + "\n")
    write_atomic(folder / "summary.md", table)
    return table


def markdown(record: Mapping[str, Any]) -> str:
    """A row per suite: what was tried, how it ended, and the target."""
    lines = ["| what was tried | cases | outcomes | target | |", "|---|---:|---|---|---|"]
    for name, counts in record["suites"].items():
        suite = SUITES[name]
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in counts["kinds"].items())
        cells = [suite.title, f"{counts['cases']:,}", kinds, suite.target, counts["result"]]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"Measured {record['date']} on {record['machine']}.", ""]
    return "\n".join(lines)


def render_document(text: str, record: Mapping[str, Any]) -> str:
    """A document with the current table in its block."""
    return BLOCK.sub(lambda match: match[1] + markdown(record) + match[2], text)
