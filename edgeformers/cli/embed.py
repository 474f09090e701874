"""The verb `embed`: vectors of all nodes or edges, as Parquet."""

from pathlib import Path
from typing import Annotated

import typer

from edgeformers.cli.options import AsJson, Device, Network, Quiet, RunFolder, say, say_json
from edgeformers.errors import InputError

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers embed run-links --nodes -o nodes.parquet
  edgeformers embed run-links --nodes -o parts.parquet --shard 1/4
"""


def embed_command(
    run: RunFolder,
    out: Annotated[Path, typer.Option("--out", "-o", help="The Parquet file to write.")],
    nodes: Annotated[bool, typer.Option("--nodes", help="Vectors of all nodes.")] = False,
    edges: Annotated[bool, typer.Option("--edges", help="Vectors of all edges.")] = False,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Only the i-th of n parts, each its own file.")
    ] = "1/1",
    batch: Annotated[int | None, typer.Option(help="Texts or nodes encoded at once.")] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="On a CPU: quicker, and not quite the same vectors.")
    ] = False,
    network: Network = None,
    device: Device = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace vectors of another model.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write ids and vectors; run again after an interrupt, it goes on where it stopped."""
    from edgeformers.inference.embed import embed, parse_shard, read_facts
    from edgeformers.runs import open_run

    if nodes == edges:
        raise InputError("say what to embed: --nodes or --edges")
    part = parse_shard(shard)
    estimator = open_run(run, network, device=device, show=not quiet)
    path = embed(
        estimator,
        what="nodes" if nodes else "edges",
        out=out,
        shard=part,
        batch=batch,
        int8=int8,
        overwrite=overwrite,
        show=not quiet,
    )
    facts = read_facts(path)
    count = facts["rows"][1] - facts["rows"][0]
    if as_json:
        say_json({"out": str(path), **facts})
    else:
        say(f"{count:,} {facts['what']}, {facts['width']} numbers each: {path}")
