"""The verb `recommend`: the best targets of one source, or of all of them."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeformers.cli.options import AsJson, Device, Network, Quiet, RunFolder, say, say_json
from edgeformers.errors import InputError
from edgeformers.report.terminal import format_table

if TYPE_CHECKING:
    from edgeformers.estimators import Recommendation

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers recommend run-links user-000001 -k 3 --explain 2
  edgeformers recommend run-links --all -o tonight.parquet
"""


def recommend_command(
    run: RunFolder,
    node: Annotated[str | None, typer.Argument(help="The source's id.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many.")] = 10,
    explain: Annotated[
        int, typer.Option(help="Texts to show that speak for each recommendation.")
    ] = 0,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also what the source is linked to already.")
    ] = False,
    everyone: Annotated[bool, typer.Option("--all", help="For every source.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --all: .parquet, .csv or .jsonl.")
    ] = None,
    network: Network = None,
    device: Device = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Recommend targets to a source, with the texts that caused it, or to all sources at once."""
    from edgeformers.estimators import LinkPredictor
    from edgeformers.inference.batch_inference import recommend_all, write_rows
    from edgeformers.runs import open_run

    _check(node, everyone, out, explain)
    predictor = open_run(run, network, device=device, show=not quiet)
    if not isinstance(predictor, LinkPredictor):
        raise InputError(
            f"{run} classifies edges; ask it with: edgeformers predict {run} EDGES.csv -o OUT.csv"
        )
    if out is not None:
        tables = recommend_all(predictor, k, exclude_seen=not include_seen, show=not quiet)
        count = write_rows(out, tables)
        if as_json:
            say_json({"out": str(out), "recommendations": count})
        else:
            say(f"{count:,} recommendations: {out}")
        return
    found = predictor.recommend(node, k, exclude_seen=not include_seen, explain=explain)
    if as_json:
        say_json({"node": node, "recommendations": [asdict(one) for one in found]})
    else:
        say("\n".join(recommendation_lines(found)))


def recommendation_lines(found: "list[Recommendation]") -> list[str]:
    """A line per recommendation, and below it the texts that speak for it."""
    lines = format_table(
        [[str(i), one.node, f"{one.score:.3f}"] for i, one in enumerate(found, 1)], (1,)
    )
    shown: list[str] = []
    for line, one in zip(lines, found, strict=True):
        shown.append(line)
        shown += [f"       {why.node}: {' '.join(why.text.split())}" for why in one.because]
    return shown


def _check(node: str | None, everyone: bool, out: Path | None, explain: int) -> None:
    if (node is None) != everyone:
        raise InputError("name one source, or pass --all for every one of them")
    if everyone and out is None:
        raise InputError("say where to write: --all needs -o FILE.parquet")
    if not everyone and out is not None:
        raise InputError("-o goes with --all; the recommendations of one source are printed")
    if everyone and explain:
        raise InputError("--explain is for one source; leave out --all")
