"""What a query under `rolling` costs as the network grows: reading an edge, ranking a link.

python -m benchmarks.rolling_cost
python -m benchmarks.rolling_cost --edges 2000 20000 200000 --record

The model is `default` with an untrained two-layer encoder and its fitted ensemble. Times are CPU
times of the first validation links, the median over moments.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.machine import machine, print_table
from edgeformers import LinkPredictor
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.splits import SplitConfig
from edgeformers.data.table import EdgeTable
from edgeformers.data.times import DAY
from edgeformers.data.types import Ids
from edgeformers.evaluation.rolling import RollingLinks
from edgeformers.files import write_atomic
from edgeformers.inference.ensemble import fit_ensemble
from edgeformers.inference.rolling import RollingPredictor

RESULTS = Path(__file__).parent / "results" / "scale" / "rolling_cost.json"
TARGETS, EDGES_PER_SOURCE, LINKS = 1_000, 5, 200


def write_dated(edges: int, folder: Path) -> EdgeTextGraph:
    """A network of five years in which some targets are more popular than others."""
    draw = np.random.default_rng(0)
    sources = draw.integers(edges // EDGES_PER_SOURCE, size=edges)
    targets = (TARGETS * draw.random(edges) ** 2).astype(int)

    def rows() -> Iterator[dict[str, Any]]:
        for at, (source, target) in enumerate(zip(sources, targets, strict=True)):
            moment = int(5 * 365 * DAY * at / edges)
            yield {"source": f"s{source}", "target": f"t{target}", "text": "fine", "time": moment}

    split = SplitConfig(name="link", how="chronological", fractions=(0.9, 0.05, 0.05))
    config = PrepareConfig(tokenizer="train:200", progress=False, splits=[split])
    table = EdgeTable.from_rows(rows, fields=["time"], origin="simulated", bipartite=True)
    return write_network(table, folder / "network", config=config)


def measure(edges: int) -> dict[str, float]:
    """CPU milliseconds to read an edge and to rank a link among all targets."""
    with tempfile.TemporaryDirectory() as folder:
        graph = write_dated(edges, Path(folder))
        settings = {"data.split": "link"}
        predictor = LinkPredictor("scratch:2x32", settings=settings, show=False)
        fitted = predictor.make_objective(graph).fitted
        rolling = RollingPredictor(replace(fitted, ensemble=fit_ensemble(fitted)))
        links = RollingLinks(graph, "link", "val", limit=LINKS)
        reading, ranking = [], []

        def observe(new: Ids) -> None:
            start = time.process_time()
            rolling.observe(new)
            reading.append((time.process_time() - start) / max(len(new), 1))

        for block in links.blocks(observe):
            start = time.process_time()
            rolling.scores_at(block.sources, block.time)
            ranking.append((time.process_time() - start) / len(block.links))
        return {"read an edge": 1e3 * median(reading), "rank a link": 1e3 * median(ranking)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, nargs="+", default=[2_000, 20_000, 200_000])
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name}")
    args = parser.parse_args()
    measure(args.edges[0])  # imports and compiles everything
    found = {edges: measure(edges) for edges in args.edges}
    rows = [[f"{edges:,}", *(f"{ms:.1f}" for ms in each.values())] for edges, each in found.items()]
    head = ["edges", "read an edge, ms", "rank a link, ms"]
    print_table(f"CPU time under `rolling`, {TARGETS:,} targets", head, rows)
    if args.record:
        values = {"machine": machine(), "targets": TARGETS, "ms": found}
        write_atomic(RESULTS, json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main()
