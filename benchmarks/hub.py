"""Compare a network that has a hub with one of the same size that has none.

    python -m benchmarks.hub --rounds 3
    python -m benchmarks.hub --edges 1000000 --hub 500000

`spread` has no hub. In `source`, one source has `--hub` edges to different targets; in `target` one
target has as many; in `pair` all of them link the same two nodes. Printed are the least CPU
seconds of each task and the ratio to `spread`. Nothing should take much longer because of a hub.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import edgeformers
from benchmarks.machine import machine, print_table

KINDS = ("spread", "source", "target", "pair")
SETTINGS = {
    "train.epochs": 1,
    "train.batch_size": 256,
    "data.max_tokens": 8,
    "data.source_neighbors": [2],
    "data.target_neighbors": [2],
    "links.ensemble": False,
}
WORDS = np.array([f"word{number}" for number in range(500)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--hub", type=int, default=100_000, help="edges of the hub")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    options = parser.parse_args()
    print(machine())
    seconds: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for kind in options.kinds:
                network = Path(folder) / f"{kind}-{number}"
                for task, taken in measure(kind, network, options.edges, options.hub):
                    seconds.setdefault((task, kind), []).append(taken)
                    print(f"{number} {kind}, {task}: {taken:.2f} s", flush=True)
    fastest = {at: min(values) for at, values in seconds.items()}
    rows = []
    for task in dict.fromkeys(task for task, _ in fastest):
        first = fastest[task, options.kinds[0]]
        times = [fastest[task, kind] for kind in options.kinds]
        rows.append([task, *(f"{value:.2f} s ({value / first:.2f})" for value in times)])
    title = f"{options.edges:,} edges, {options.hub:,} of them at the hub"
    print_table(title, ["", *options.kinds], rows)


def make_ends(kind: str, edges: int, hub: int) -> tuple[np.ndarray, np.ndarray]:
    """Sources and targets in random order; node 0 is the hub."""
    rng = np.random.default_rng(0)
    nodes = max(edges // 10, 2)
    source, target = rng.integers(1, nodes, edges), rng.integers(1, nodes, edges)
    at_hub = rng.permutation(edges)[:hub]
    if kind in ("source", "pair"):
        source[at_hub] = 0
    if kind == "source":
        target[at_hub] = rng.integers(1, nodes, hub)
    if kind in ("target", "pair"):
        target[at_hub] = 0
    return source, target


def measure(kind: str, network: Path, edges: int, hub: int) -> Iterator[tuple[str, float]]:
    """The CPU seconds of each task on a network."""
    import pyarrow as pa

    source, target = make_ends(kind, edges, hub)
    texts = WORDS[np.random.default_rng(1).integers(0, len(WORDS), (edges, 6))]
    table = pa.table(
        {
            "source": [f"user {node}" for node in source.tolist()],
            "target": [f"item {node}" for node in target.tolist()],
            "text": [" ".join(words) for words in texts.tolist()],
        }
    )
    yield "prepare", clock(lambda: edgeformers.prepare(table, network, progress=False))
    graph = edgeformers.EdgeTextGraph.open(network)
    yield "data card", clock(lambda: edgeformers.describe(graph))
    predictor = edgeformers.LinkPredictor(
        "scratch:2x32", recipe="fast", settings=SETTINGS, device="cpu", show=False
    )
    yield "one epoch and its validation", clock(lambda: predictor.fit(network))
    yield "evaluation, all protocols", clock(lambda: predictor.evaluate("test"))
    user = f"user {np.bincount(source).argmax()}"
    predictor.recommend(user)  # computes the keys of all candidates
    yield "recommend, 20 times", clock(lambda: [predictor.recommend(user) for _ in range(20)])
    yield "embed nodes", clock(predictor.embed_nodes)


def clock(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
