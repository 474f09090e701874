"""The command `embed`: vectors of all nodes or edges as Parquet."""

from dataclasses import dataclass
from pathlib import Path

from edgeformers.cli.command import OUT, RunCommand, option
from edgeformers.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Embed(RunCommand):
    """Write the vectors of all nodes or edges to Parquet.

    After an interruption, the same command continues where it stopped.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers embed run-links --nodes -o nodes.parquet
  edgeformers embed run-links --nodes -o parts.parquet --shard 1/4
"""

    out: Path = option("The Parquet file to write.", ..., names=OUT)
    nodes: bool = option("Embed all nodes.", False)
    edges: bool = option("Embed all edges.", False)
    shard: str = option("Embed the i-th of n shards, in its own file.", "1/1", metavar="I/N")
    batch: int | None = option("Texts or nodes encoded at once.")
    int8: bool = option("Quantize on CPU: faster, slightly different vectors.", False)
    overwrite: bool = option("Replace the vectors of another model.", False)

    def run(self) -> None:
        from edgeformers.inference.embed import embed, parse_shard, read_facts

        if self.nodes == self.edges:
            raise InputError("choose what to embed: --nodes or --edges")
        shard = parse_shard(self.shard)
        path = embed(
            self.open(),
            what="nodes" if self.nodes else "edges",
            out=self.out,
            shard=shard,
            batch=self.batch,
            int8=self.int8,
            overwrite=self.overwrite,
            show=not self.quiet,
        )
        facts = read_facts(path)
        count = facts["rows"][1] - facts["rows"][0]
        line = f"{count:,} {facts['what']}, {facts['width']} dimensions: {path}"
        self.print({"out": str(path), **facts}, line)
