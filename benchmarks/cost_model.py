"""What networks of 1e6 to 1e9 edges cost, computed from measured parts.

python -m benchmarks.cost_model --processes 8

Rates are read from benchmarks/results/scale. Network shape and text length are those of the
simulation of the size of Amazon-Apps. Beyond 1e8 edges everything is extrapolated, and so is every
figure for more than one GPU. docs/scale.md says where each part was measured.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import print_table

RESULTS = Path(__file__).parent / "results" / "scale"
SIZES = (10**6, 10**7, 10**8, 10**9)

# the network
NODES_PER_EDGE = 99_891 / 750_000
TOKENS = 37  # per text
TRAINING_SHARE = 0.7
# prepare
TOKENIZE_US = 1.8  # CPU time per token of MiniLM's tokenizer
DISK_BYTES = 118e6 / 750_000  # per edge, with tokens
PREPARE_GB = 0.4  # next to the ids and the split
ID_BYTES = 60  # per node, with ids of 13 bytes
# training
BATCH = 1_024
EDGE_ROWS, LINK_ROWS = 2, 11  # node embeddings of an edge; of a link with its neighbors, at most
NODE_WIDTH = 64
COPIES = 3  # of the node table: values and two moments
BACKBONE_PARAMETERS = 22.7e6  # MiniLM
TEMPORARY_BYTES = 8 + 16 + 8  # per training link: known links, adjacency, numbers of the edges
READS_PER_TEXT = 3  # places on disk: adjacency, offsets, tokens


@dataclass(frozen=True)
class Rates:
    """Measured speeds: CPU microseconds per edge and examples per second on one GPU."""

    prepare_us: float
    edges: float
    links: float
    texts: float  # that training on links reads per second

    @classmethod
    def read(cls) -> "Rates":
        prepared = _records("big-network.json", "records", stage="prepare")
        largest = max(prepared, key=lambda record: record["edges"])
        (edges,) = _records("training.json", "rates", task="edges", name="new")
        (links,) = _records("training-links.json", "rates", task="links", name="new")
        return cls(
            prepare_us=1e6 * largest["cpu_seconds"] / largest["edges"],
            edges=edges["examples"],
            links=links["examples"],
            texts=links["texts"],
        )


def _records(file: str, field: str, **chosen: str) -> list[dict[str, Any]]:
    records = json.loads((RESULTS / file).read_text())[field]
    return [r for r in records if all(r[name] == value for name, value in chosen.items())]


def costs(rates: Rates, processes: int) -> dict[str, Callable[[int], float]]:
    """Each quantity as a function of the number of edges."""
    others = (processes - 1) / processes

    def steps(edges: int) -> float:
        return TRAINING_SHARE * edges / BATCH

    def row_traffic(rows_per_example: int) -> float:
        """Bytes that a process receives per step: numbers, rows and gradients of nodes."""
        return others * rows_per_example * BATCH / processes * (8 + 4 * (2 * NODE_WIDTH + 2))

    dense_traffic = 2 * others * 4 * BACKBONE_PARAMETERS  # all-reduce of the backbone's gradients
    return {
        "nodes, million": lambda e: NODES_PER_EDGE * e / 1e6,
        "network on disk, GB": lambda e: DISK_BYTES * e / 1e9,
        "temporary files of links, GB": lambda e: TEMPORARY_BYTES * TRAINING_SHARE * e / 1e9,
        "prepare without tokens, core hours": lambda e: rates.prepare_us * e / 3.6e9,
        "tokenize, core hours": lambda e: TOKENIZE_US * TOKENS * e / 3.6e9,
        "prepare, memory, GB": lambda e: (
            PREPARE_GB + (ID_BYTES * NODES_PER_EDGE + (e < 2**28)) * e / 1e9
        ),
        "Edgeformer-E, GPU hours per epoch": lambda e: TRAINING_SHARE * e / rates.edges / 3600,
        "Edgeformer-N, GPU hours per epoch": lambda e: TRAINING_SHARE * e / rates.links / 3600,
        "node table and moments, GB": lambda e: _table(e),
        f"the same per process of {processes}, GB": lambda e: _table(e) / processes,
        "rows per step of links, KB received": lambda e: row_traffic(LINK_ROWS) / 1e3,
        "rows per epoch of links, GB received": lambda e: row_traffic(LINK_ROWS) * steps(e) / 1e9,
        "rows per epoch of edges, GB received": lambda e: row_traffic(EDGE_ROWS) * steps(e) / 1e9,
        "backbone gradients per step, MB received": lambda e: dense_traffic / 1e6,
        "backbone gradients per epoch, TB received": lambda e: dense_traffic * steps(e) / 1e12,
        "reads of links from disk, thousand/s and GPU": lambda e: (
            rates.texts * READS_PER_TEXT / 1e3
        ),
    }


def _table(edges: int) -> float:
    return COPIES * 4 * NODE_WIDTH * NODES_PER_EDGE * edges / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=8, help="GPUs that train together")
    options = parser.parse_args()
    rows = [
        [name, *(_shown(cost(edges)) for edges in SIZES)]
        for name, cost in costs(Rates.read(), options.processes).items()
    ]
    title = f"Costs by number of edges, {options.processes} processes, computed"
    print_table(title, ["", *(f"{edges:.0e}".replace("+0", "") for edges in SIZES)], rows)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


if __name__ == "__main__":
    main()
