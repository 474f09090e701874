"""Neighborhoods as of a time beside those of the whole network, as the network grows.

python -m benchmarks.as_of_time
python -m benchmarks.as_of_time --edges 20000 200000 2000000 --record

Both samplers draw the same centers in one process, in turns, on one core; the time is CPU time, the
median of several rounds.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.data import ends
from benchmarks.machine import machine, print_table
from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.sampler import EgoSampler
from edgeformers.files import write_atomic

RESULTS = Path(__file__).parent / "results" / "scale" / "as_of_time.json"
SIZE, CALL, QUERIES = 8, 8192, 65_536  # edges per neighborhood, centers per call, centers a round


def measure(edges: int, rounds: int) -> dict[str, float]:
    """CPU nanoseconds per neighborhood of both samplers on a network of this size."""
    src, dst = ends(edges)
    times = np.random.default_rng(0).permutation(edges).astype(np.int64)
    num_nodes = int(dst.max()) + 1
    plain = EgoSampler(build_adjacency(src, dst, num_nodes), [SIZE])
    timed = EgoSampler(build_adjacency(src, dst, num_nodes, times=times), [SIZE])
    chosen = np.random.default_rng(1).choice(edges, QUERIES // 2)
    centers = np.stack([src[chosen], dst[chosen]], 1).ravel()
    partners = np.stack([dst[chosen], src[chosen]], 1).ravel()
    before = np.repeat(times[chosen], 2)  # each link is predicted when it comes
    parts = [slice(at, at + CALL) for at in range(0, QUERIES, CALL)]

    def draw_all(epoch: int) -> None:
        for part in parts:
            plain.sample(centers[part], partners=partners[part], epoch=epoch)

    def draw_earlier(epoch: int) -> None:
        for part in parts:
            timed.sample(centers[part], partners=partners[part], before=before[part], epoch=epoch)

    found: dict[str, list[float]] = {"whole": [], "as of time": []}
    draws: Sequence[Callable[[int], None]] = (draw_all, draw_earlier)
    for epoch in range(rounds + 1):  # the first one compiles and warms up
        for kept, draw in zip(found.values(), draws, strict=True):
            start = time.process_time_ns()
            draw(epoch)
            kept.append((time.process_time_ns() - start) / QUERIES)
    return {name: median(values[1:]) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, nargs="+", default=[20_000, 200_000, 2_000_000])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name}")
    args = parser.parse_args()
    found = {edges: measure(edges, args.rounds) for edges in args.edges}
    rows = [
        [
            f"{edges:,}",
            *(f"{value:,.0f}" for value in each.values()),
            f"{each['whole'] / each['as of time']:.2f}",
        ]
        for edges, each in found.items()
    ]
    head = ["edges", "whole network, ns", "as of a time, ns", "speed ratio"]
    print_table(f"CPU time per neighborhood of {SIZE} edges", head, rows)
    if args.record:
        values = {"machine": machine(), "rounds": args.rounds, "ns per neighborhood": found}
        write_atomic(RESULTS, json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main()
