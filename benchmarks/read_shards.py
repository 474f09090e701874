"""Reading a table in shards: one file at a time next to several, in turn. CPU and wall time.

python -m benchmarks.read_shards 'shards/*.csv.gz' --rounds 5
"""

import argparse
import time
from statistics import median

from edgeformers.data.readers import sources
from edgeformers.data.readers.tables import read_edges


def read(path: str, readers: int) -> tuple[int, float, float]:
    """Rows, wall seconds and CPU seconds of reading all shards."""
    sources.READERS = readers
    table = read_edges(path)
    wall, cpu = time.perf_counter(), time.process_time()
    rows = sum(batch.num_rows for batch in table.batches())
    return rows, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", help="a folder or a quoted glob with source, target and text")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    times: dict[int, list[tuple[float, float]]] = {1: [], sources.READERS: []}
    for _ in range(args.rounds):
        for readers, measured in times.items():
            rows, *seconds = read(args.path, readers)
            measured.append((seconds[0], seconds[1]))
    walls, cpus = (
        {readers: median(pair[at] for pair in measured) for readers, measured in times.items()}
        for at in (0, 1)
    )
    for readers in times:
        print(
            f"at most {readers} files at a time: {rows:,} rows, wall {walls[readers]:.2f} s, "
            f"CPU {cpus[readers]:.2f} s; ratio to one: wall {walls[readers] / walls[1]:.2f}, "
            f"CPU {cpus[readers] / cpus[1]:.2f}"
        )


if __name__ == "__main__":
    main()
