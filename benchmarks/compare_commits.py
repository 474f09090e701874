"""Compare the speed of two checkouts in interleaved pairs: prepare, train and embed.

    git worktree add ../old COMMIT
    python -m benchmarks.compare_commits ../old . --rounds 8

Every round runs each workload once in each checkout, in a process of its own and in alternating
order, so that both meet the same machine. Printed are the seconds of each checkout and the mean
ratio new / old with its 95% confidence interval (Student's t on the log ratios of the pairs).
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scipy import stats

WORKLOADS = ("prepare", "train edges", "train links", "embed edges", "embed nodes")

EMBEDDED = 2_000  # edges that are embedded

#: Settings by the names that every version reads.
SETTINGS = {
    "train.epochs": 1,
    "train.checkpoint_every": 1_000_000,
    "edges.beside": False,
    "links.beside": False,
    "edges.tune_decision": False,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--edges", type=int, default=20_000, help="rows of the prepared CSV")
    parser.add_argument("--train-edges", type=int, default=2_500, help="rows to train on and embed")
    parser.add_argument("--backbone", default="scratch:4x256")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workload", help=argparse.SUPPRESS)  # set in the child processes
    options = parser.parse_args()
    if options.workload:
        print(json.dumps(measure(options)))
        return
    checkouts = {"old": options.old.resolve(), "new": options.new.resolve()}
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(Path(folder), options)
        ratios = {workload: [] for workload in WORKLOADS}
        for number in range(options.rounds):
            order = ("old", "new") if number % 2 == 0 else ("new", "old")
            for workload in WORKLOADS:
                seconds = {who: run(checkouts[who], workload, folder, options) for who in order}
                ratios[workload].append(seconds["new"] / seconds["old"])
                print(f"{number} {workload}: {seconds['old']:.3f} {seconds['new']:.3f}", flush=True)
    print("\n| | new / old | 95% interval |\n|---|---|---|")
    for workload, values in ratios.items():
        mean, low, high = interval(values)
        print(f"| {workload} | {mean:.3f} | {low:.3f} to {high:.3f} |")


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The geometric mean of ratios and its 95% confidence interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = sum(logs) / len(logs)
    error = stats.sem(logs) * stats.t.ppf(0.975, len(logs) - 1) if len(logs) > 1 else math.nan
    return math.exp(mean), math.exp(mean - error), math.exp(mean + error)


def run(checkout: Path, workload: str, folder: str, options: argparse.Namespace) -> float:
    """The seconds of one workload in a process that imports the package from `checkout`."""
    command = [sys.executable, __file__, folder, folder, "--workload", workload]
    command += ["--backbone", options.backbone, "--device", options.device]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    answer = subprocess.run(
        command, env=environment, cwd=checkout, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise SystemExit(f"{workload} failed in {checkout}:\n{answer.stderr}")
    return float(json.loads(answer.stdout.splitlines()[-1]))


def make_inputs(folder: Path, options: argparse.Namespace) -> None:
    """Simulated reviews as CSV; the children prepare their own networks from them."""
    import edgeformers

    for name, count in (("prepare", options.edges), ("train", options.train_edges)):
        table = edgeformers.simulate(num_edges=count, seed=1).table.to_pandas()
        table.to_csv(folder / f"{name}.csv", index=False)


def measure(options: argparse.Namespace) -> float:
    """The seconds of the workload in this process, set-up not counted."""
    import edgeformers

    folder, workload = options.old, options.workload
    columns = {"source": "source", "target": "target", "text": "text", "label": "label"}
    if workload == "prepare":
        seconds = 0.0
        for _ in range(2):  # the first time warms caches and compiles numba kernels
            out = Path(tempfile.mkdtemp(dir=folder)) / "network"
            started = time.perf_counter()
            edgeformers.prepare(str(folder / "prepare.csv"), out, **columns)
            seconds = time.perf_counter() - started
        return seconds
    network = Path(tempfile.mkdtemp(dir=folder)) / "network"
    edgeformers.prepare(str(folder / "train.csv"), network, **columns)
    kind = edgeformers.EdgeClassifier if "edges" in workload else edgeformers.LinkPredictor
    estimator = kind(options.backbone, settings=SETTINGS, device=options.device, show=False)
    started = time.perf_counter()
    estimator.fit(network)
    if workload.startswith("embed"):
        started = time.perf_counter()
        estimator.embed_edges(range(EMBEDDED)) if "edges" in workload else estimator.embed_nodes()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
