"""Options that several verbs share, and how results are printed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from edgeformers.report.terminal import format_table

RunFolder = Annotated[Path, typer.Argument(help="The folder of a trained run.")]
Network = Annotated[
    Path | None,
    typer.Option("--network", help="The network, where it is not at the place it was."),
]
Device = Annotated[
    str | None, typer.Option("--device", help="cpu or cuda; the GPU where there is one.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def say(text: str = "") -> None:
    """Print a line, once however many processes there are."""
    from edgeformers import distributed

    if distributed.is_main():
        typer.echo(text)


def say_json(values: Any) -> None:
    """Print the answer for machines."""
    say(json.dumps(values, ensure_ascii=False, indent=1))


def metric_lines(found: Mapping[str, Any]) -> list[str]:
    """What `evaluate` found: a line per metric with its interval, or a line per protocol."""
    values = {name: value for name, value in found.items() if isinstance(value, int | float)}
    protocols = list(dict.fromkeys(name.partition("/")[0] for name in values if "/" in name))
    if not protocols:
        rows = [[name, f"{v:.4f}", _interval(found, name)] for name, v in values.items()]
        return format_table(rows, left=(0, 2))
    metrics = [name.partition("/")[2] for name in values if name.startswith(f"{protocols[0]}/")]
    rows = [["protocol", *metrics, "95% interval of mrr"]]
    for one in protocols:
        figures = (f"{values[f'{one}/{metric}']:.4f}" for metric in metrics)
        rows.append([one, *figures, _interval(found, f"{one}/mrr")])
    return format_table(rows, left=(0, len(metrics) + 1))


def _interval(found: Mapping[str, Any], name: str) -> str:
    bounds = found.get(f"{name}_interval")
    return "" if bounds is None else f"{bounds[0]:.4f} to {bounds[1]:.4f}"
