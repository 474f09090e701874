"""The verb `evaluate`: how well a run does on a part of its network."""

from typing import Annotated

import typer

from edgeformers.cli.options import (
    AsJson,
    Device,
    Network,
    Quiet,
    RunFolder,
    metric_lines,
    say,
    say_json,
)
from edgeformers.errors import InputError, suggest

PARTS = ("train", "val", "test")
EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast
  edgeformers evaluate run-edges
  edgeformers evaluate run-edges --part val --json
"""


def evaluate_command(
    run: RunFolder,
    part: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    network: Network = None,
    device: Device = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Score a run on a part of the network's split, with 95 % intervals."""
    from edgeformers.runs import open_run

    if part not in PARTS:
        raise InputError(f"there is no part '{part}'; {suggest(part, PARTS)}")
    estimator = open_run(run, network, device=device, show=not quiet)
    count = len(estimator.objective.parts[part])
    if not count:
        raise InputError(f"the split has nothing in '{part}'; choose another part")
    found = estimator.evaluate(part)
    if as_json:
        say_json({"run": str(run), "task": estimator.task, "part": part, "results": found})
        return
    what = "edges" if estimator.task == "edge-classification" else "links"
    say(f"{run} on {count:,} {what} of the part '{part}':")
    say("\n".join(metric_lines(found)))
