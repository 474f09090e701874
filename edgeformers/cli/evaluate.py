"""The command `evaluate`: metrics of a trained model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgeformers.cli.command import RunCommand, choose, option
from edgeformers.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Evaluate(RunCommand):
    """Evaluate a trained model on a part of its split.

    Metrics come with 95% confidence intervals.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast
  edgeformers evaluate run-edges
  edgeformers evaluate run-edges --part val --json
"""

    part: str = option("train, val or test.", "test")

    def run(self) -> None:
        part = choose("part", self.part, ("train", "val", "test"))
        estimator = self.open()
        count = len(estimator.fitted_.network.parts[part])
        if not count:
            raise InputError(f"the part '{part}' of the split is empty; choose another part")
        results = estimator.evaluate(part)
        examples = "edges" if estimator.task == "edge-classification" else "links"
        self.print(
            {"run": str(self.folder), "task": estimator.task, "part": part, "results": results},
            f"{self.folder} on {count:,} {examples} of the {part} part:",
            *metric_lines(results),
        )


def metric_lines(results: Mapping[str, Any]) -> list[str]:
    """Metrics with their intervals, one line each; those of links one line per protocol."""
    from edgeformers.report.terminal import format_table

    values = {name: value for name, value in results.items() if isinstance(value, int | float)}
    protocols = list(dict.fromkeys(name.partition("/")[0] for name in values if "/" in name))
    if not protocols:
        rows = [[name, f"{v:.4f}", _interval(results, name)] for name, v in values.items()]
        return format_table(rows, left=(0, 2))
    metrics = [name.partition("/")[2] for name in values if name.startswith(f"{protocols[0]}/")]
    rows = [["protocol", *metrics, "95% interval of mrr"]]
    for protocol in protocols:
        cells = (f"{values[f'{protocol}/{metric}']:.4f}" for metric in metrics)
        rows.append([protocol, *cells, _interval(results, f"{protocol}/mrr")])
    return format_table(rows, left=(0, len(metrics) + 1))


def _interval(results: Mapping[str, Any], name: str) -> str:
    bounds = results.get(f"{name}_interval")
    return "" if bounds is None else f"{bounds[0]:.4f} to {bounds[1]:.4f}"
