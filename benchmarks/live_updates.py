"""CPU time of taking in new edges, with few and with many candidates.

python -m benchmarks.live_updates [--candidates 1000 100000] [--edges 200] [--out RECORD.json]

Each edge is one call of `LinkScorer.update` with a new source or a new target, after all keys were
computed. Components have the widths of a default run, without the text component, whose cost is
that of encoding the two nodes.
"""

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import torch

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.table import EdgeTable, edge_schema
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.inference.components import ALSComponent, EASEComponent, LightGCNComponent
from edgeformers.inference.edge_history import EdgeHistory, NewEdges
from edgeformers.inference.link_scorer import LinkScorer
from edgeformers.inference.saved_components import GROUPS

WIDTHS = {"lightgcn": 64, "als": 128, "ease": 256}


def make_network(folder: Path, candidates: int) -> EdgeTextGraph:
    """Two edges to every candidate, from half as many sources."""
    numbers = np.random.default_rng(0).permutation(np.repeat(np.arange(candidates), 2))
    sources = [f"s{i % (candidates // 2)}" for i in range(len(numbers))]
    columns = [sources, [f"t{n}" for n in numbers], ["text"] * len(numbers)]
    batch = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=edge_schema(()))
    table = EdgeTable(
        schema=batch.schema, open=lambda: iter([batch]), origin="random", bipartite=True
    )
    return write_network(table, folder, config=PrepareConfig(tokenizer=None, progress=False))


def make_scorer(graph: EdgeTextGraph) -> LinkScorer:
    """A scorer with random vectors."""
    torch.manual_seed(0)
    n = graph.num_nodes
    vectors = {name: torch.randn(3, n, width) for name, width in WIDTHS.items()}
    als = vectors["als"]
    components = [
        LightGCNComponent(*vectors["lightgcn"][:2]),
        ALSComponent(als[0], als[1], als[1].T @ als[1] + torch.eye(als.size(2)), 1.0),
        EASEComponent(*vectors["ease"]),
    ]
    return LinkScorer(
        components,
        weights=torch.ones(GROUPS, len(components)),
        group=torch.zeros(n),
        candidates=candidate_nodes(graph),
    )


def measure(candidates: int, edges: int) -> dict[str, float]:
    """Milliseconds of CPU time: the first update, which prepares, and the median of others."""
    with TemporaryDirectory() as folder:
        graph = make_network(Path(folder) / "network", candidates)
        scorer, degrees = make_scorer(graph), np.full(graph.num_nodes, 2)
        scorer.rank(np.array([0]), 1)
        history, times, last = EdgeHistory(graph, "link", degrees), [], graph.num_nodes
        for at in range(edges):
            known = at % (candidates // 2)
            ends = (last + at, graph.num_sources + known) if at % 2 else (known, last + at)
            new = NewEdges(source=np.array(ends[:1]), target=np.array(ends[1:]), texts=["text"])
            started = time.process_time()
            scorer.update(new, history)
            times.append(1000 * (time.process_time() - started))
    return {
        "candidates": candidates,
        "first_ms": round(times[0], 2),
        "median_ms": round(float(np.median(times[2:])), 3),
        "p95_ms": round(float(np.quantile(times[2:], 0.95)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--edges", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = [measure(candidates, options.edges) for candidates in options.candidates]
    text = json.dumps(record, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
