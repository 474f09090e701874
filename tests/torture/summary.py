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
    rejected = [outcome for outcome in outcomes if outcome["kind"] == "rejected"]
    return {
        "cases": len(outcomes),
        "wanted": count,
        "kinds": dict(sorted(kinds.items())),
        "result": suite.result(kinds, count),
        "cpu_seconds": round(sum(o.get("cpu_seconds", o["seconds"]) for o in outcomes)),  # at most
        "longest_seconds": round(max((o["seconds"] for o in rejected), default=0.0), 2),
        "peak_bytes": max((outcome["peak_bytes"] for outcome in rejected), default=0),
        "last": max((outcome["date"] for outcome in outcomes), default=""),
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
    lines = ["| tried | cases | outcomes | target | |", "|---|---:|---|---|---|"]
    for name, counts in record["suites"].items():
        suite = SUITES[name]
        cells = [suite.title, f"{counts['cases']:,}", outcome_text(suite, counts), suite.target]
        lines.append(f"| {' | '.join(cells)} | {counts['result']} |")
    hours = sum(counts["cpu_seconds"] for counts in record["suites"].values()) / 3600
    machine = f"{record['machine']}, within {hours:.1f} CPU hours"
    lines += ["", f"Measured on {record['date']}: {machine}.", ""]
    return "\n".join(lines)


def outcome_text(suite: Suite, counts: Mapping[str, Any]) -> str:
    """The outcomes of a suite by kind; failures are named even if there are none."""
    labels = {"silent": "silent", "crash": "crashes", **suite.labels}
    kinds = [kind for kind in counts["kinds"] if not suite.is_failure(kind)]
    kinds += [kind for kind in labels if suite.is_failure(kind)]
    text = ", ".join(f"{counts['kinds'].get(kind, 0):,} {labels.get(kind, kind)}" for kind in kinds)
    if suite.shows_cost:
        megabytes = counts["peak_bytes"] >> 20
        text += f"; rejected within {counts['longest_seconds']:.1f} s and {megabytes} MB"
    return text


def render_document(text: str, record: Mapping[str, Any]) -> str:
    """A document with the current table in its block."""
    return BLOCK.sub(lambda match: match[1] + markdown(record) + match[2], text)


def publish(folder: Path) -> None:
    """Keep the summary in the repository, and show it in docs/reliability.md."""
    record = (folder / "summary.json").read_text(encoding="utf-8")
    write_atomic(RECORD, record)
    document = DOCUMENT.read_text(encoding="utf-8")
    write_atomic(DOCUMENT, render_document(document, json.loads(record)))
