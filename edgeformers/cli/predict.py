"""The verb `predict`: the labels of a table of edges."""

from pathlib import Path
from typing import Annotated

import typer

from edgeformers.cli.options import AsJson, Device, RunFolder, say, say_json
from edgeformers.errors import InputError

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast
  printf 'source,target,text\\nada,tent,Too small for two.\\n' > new.csv
  edgeformers predict run-edges new.csv -o predictions.csv
"""


def predict_command(
    run: RunFolder,
    edges: Annotated[str, typer.Argument(help="A table: csv, tsv, jsonl or parquet.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="A file to write: .parquet, .csv or .jsonl.")
    ],
    source: Annotated[str, typer.Option(metavar="COLUMN", help="The source's id.")] = "source",
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The target's id.")] = "target",
    text: Annotated[str, typer.Option(metavar="COLUMN", help="The text.")] = "text",
    format: Annotated[
        str | None, typer.Option(help="The format, where the suffix does not tell.")
    ] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Add the prediction and the probabilities to every edge of a table; new nodes are fine."""
    from edgeformers.estimators import EdgeClassifier, load
    from edgeformers.inference.batch_inference import predict_edges, write_rows
    from edgeformers.runs import check_device

    classifier = load(run, device=check_device(device))
    if not isinstance(classifier, EdgeClassifier):
        raise InputError(f"{run} predicts links; ask it with: edgeformers recommend {run} NODE")
    names = {"source": source, "target": target, "text": text}
    count = write_rows(out, predict_edges(classifier, edges, format=format, **names))
    if as_json:
        say_json({"out": str(out), "edges": count})
    else:
        say(f"{count:,} predictions: {out}")
