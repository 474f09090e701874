"""Compare one training with several at once on the same cores: how much slower each of them is.

    python -m benchmarks.side_by_side --rounds 5
    taskset -c 0,1 python -m benchmarks.side_by_side --rounds 5 --backbone minilm

Every round runs each variant through the command line, first alone and then `--copies` times at
once. Printed are the fastest seconds of a whole process and the ratio of the two. The machine must
be idle. If one training keeps all cores busy, the number of copies is the ideal ratio.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import machine, print_table

#: What differs between the variants: environment variables.
VARIANTS = {
    "as shipped": {},
    "active waiting": {"GOMP_SPINCOUNT": "300000"},  # the default of GNU's OpenMP
    "one thread": {"OMP_NUM_THREADS": "1"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=2)
    parser.add_argument("--edges", type=int, default=2_500)
    parser.add_argument("--task", default="edge-classification")
    parser.add_argument("--backbone", default="scratch:2x64")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    options = parser.parse_args()
    print(machine())
    seconds: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        network = Path(folder) / "network"
        prepare = ["prepare", "simulated", "-o", str(network), "--edges", str(options.edges)]
        subprocess.run([*program(), *prepare, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        for number in range(options.rounds):
            for variant in options.variants:
                for copies in (1, options.copies):
                    taken = train_at_once(network, copies, VARIANTS[variant], options)
                    seconds.setdefault((variant, copies), []).append(taken)
                    print(f"{number} {variant}, {copies} at once: {taken:.1f} s", flush=True)
    rows = []
    for variant in options.variants:
        alone, together = (min(seconds[variant, copies]) for copies in (1, options.copies))
        rows.append([variant, f"{alone:.1f}", f"{together:.1f}", f"{together / alone:.2f}"])
    head = ["", "alone, s", f"{options.copies} at once, s each", "ratio"]
    print_table(f"Training {options.task}, {options.backbone}", head, rows)


def program() -> list[str]:
    return [sys.executable, "-m", "edgeformers.cli"]


def train_at_once(
    network: Path, copies: int, variables: dict[str, str], options: argparse.Namespace
) -> float:
    """The mean seconds of processes that train the same model at the same time."""
    chosen = ["--backbone", options.backbone, "--recipe", "fast", "--device", "cpu", "--quiet"]
    with tempfile.TemporaryDirectory(dir=network.parent) as folder:
        started = time.perf_counter()
        processes = [
            subprocess.Popen(
                [*program(), "train", options.task, network, "-o", f"{folder}/{copy}", *chosen],
                env={**os.environ, **variables},
                stdout=subprocess.DEVNULL,
            )
            for copy in range(copies)
        ]
        ends: dict[int, float] = {}
        while len(ends) < copies:
            for process in processes:
                if process.pid not in ends and process.poll() is not None:
                    ends[process.pid] = time.perf_counter()
                    if process.returncode:
                        raise SystemExit(f"training failed with code {process.returncode}")
            time.sleep(0.02)
    return sum(end - started for end in ends.values()) / copies


if __name__ == "__main__":
    main()
