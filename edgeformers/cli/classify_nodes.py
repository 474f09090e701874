"""The verb `classify-nodes`: how well the node vectors of a run tell labels of nodes."""

import math
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from edgeformers.cli.options import AsJson, Device, Network, Quiet, RunFolder, say, say_json
from edgeformers.data.card.phrasing import counted
from edgeformers.data.types import Side
from edgeformers.errors import InputError
from edgeformers.report.terminal import format_table

if TYPE_CHECKING:
    from edgeformers.evaluation import SeedSummary

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers classify-nodes run-links --node-side target

\b
With a table of your own:
  edgeformers classify-nodes run --labels products.csv --node-id product --node-labels kind
"""


def classify_nodes_command(
    run: RunFolder,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="A table of nodes; without it, the network's own labels."
        ),
    ] = None,
    node_id: Annotated[str, typer.Option(metavar="COLUMN", help="Its ids.")] = "node",
    node_labels: Annotated[str, typer.Option(metavar="COLUMN", help="Its labels.")] = "label",
    node_label_separator: Annotated[
        str | None, typer.Option(help="What stands between several labels of a node.")
    ] = None,
    node_side: Annotated[
        str | None, typer.Option(help="source or target, where both may be meant.")
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Splits and fits, each of its own seed.")] = 5,
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Bring vectors to mean 0 and deviation 1.")
    ] = False,
    network: Network = None,
    device: Device = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit a logistic regression on frozen node vectors, several times, and test it."""
    from edgeformers.estimators import LinkPredictor
    from edgeformers.estimators.node_labels import (
        classify_labeled_nodes,
        network_node_labels,
        read_node_labels,
    )
    from edgeformers.inference.node_classification import ProbeConfig
    from edgeformers.runs import open_run

    side = _checked_side(node_side)
    predictor = open_run(run, network, device=device, show=not quiet)
    if not isinstance(predictor, LinkPredictor):
        raise InputError(f"{run} has vectors of edges; take a link-prediction run")
    if labels is None:
        labeled = network_node_labels(predictor.objective.loader.graph, side=side)
    else:
        labeled = read_node_labels(
            predictor.names,
            labels,
            id=node_id,
            labels=node_labels,
            label_separator=node_label_separator,
            side=side,
        )
    config = ProbeConfig(standardize=standardize)
    report = classify_labeled_nodes(predictor, labeled, repetitions=repetitions, config=config)
    if as_json:
        told = {"run": str(run), "nodes": len(labeled), "labels": labeled.names}
        told |= {"strangers": labeled.strangers, "runs": report.runs}
        say_json({**told, "summary": {name: _facts(one) for name, one in report.summary.items()}})
        return
    say(f"{len(labeled):,} nodes with {len(labeled.names):,} labels in {run}:")
    if labeled.strangers:
        rows = counted(labeled.strangers, "labeled row is", "labeled rows are")
        say(f"({rows} left out: the network has no such node)")
    say(
        "\n".join(
            format_table([[name, str(one)] for name, one in report.summary.items()], left=(0, 1))
        )
    )


def _checked_side(side: str | None) -> Side | None:
    if side not in (None, *get_args(Side)):
        raise InputError(f"--node-side must be source or target (got '{side}')")
    return None if side is None else "source" if side == "source" else "target"


def _facts(one: "SeedSummary") -> dict[str, Any]:
    """Mean and deviation as JSON can hold them: of a single run there is no deviation."""
    return {"mean": one.mean, "deviation": None if math.isnan(one.deviation) else one.deviation}
