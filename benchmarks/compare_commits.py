"""Compare the speed of two checkouts in interleaved pairs: prepare, train and embed.

    git worktree add ../old COMMIT
    python -m benchmarks.compare_commits ../old . --rounds 8

Every round runs each workload in both checkouts at the same time, each process on a CPU core of its
own; the next round swaps the cores. A process repeats its workload and reports the fastest time.
Printed are the seconds of each checkout and the mean ratio new / old with its 95% confidence
interval (Student's t on the log ratios of the pairs).
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scipy import stats

WORKLOADS = ("prepare", "train edges", "train links", "embed edges", "embed nodes")

EMBEDDED = 2_000  # edges that are embedded
REPEATS = {"prepare": 4, "train": 3, "embed": 20}  # in one process, of which the fastest counts
CORES = (0, 1)

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
    parser.add_argument("--workloads", nargs="+", default=WORKLOADS, choices=WORKLOADS)
    parser.add_argument("--workload", help=argparse.SUPPRESS)  # set in the child processes
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.workload:
        print(json.dumps(measure(options)))
        return
    checkouts = {"old": options.old.resolve(), "new": options.new.resolve()}
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(Path(folder), options)
        ratios: dict[str, list[float]] = {workload: [] for workload in options.workloads}
        for number in range(options.rounds):
            cores = dict(zip(checkouts, CORES if number % 2 == 0 else CORES[::-1], strict=True))
            for workload in ratios:
                processes = {
                    who: start(checkout, workload, folder, cores[who], options)
                    for who, checkout in checkouts.items()
                }
                seconds = {who: finish(process) for who, process in processes.items()}
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


def start(
    checkout: Path, workload: str, folder: str, core: int, options: argparse.Namespace
) -> subprocess.Popen[str]:
    """A process on one core that imports the package from `checkout` and times a workload."""
    command = [sys.executable, __file__, folder, folder, "--workload", workload]
    command += ["--backbone", options.backbone, "--device", options.device, "--core", str(core)]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=environment, cwd=checkout, stdout=pipe, stderr=pipe, text=True
    )


def finish(process: "subprocess.Popen[str]") -> float:
    """The seconds that a process printed."""
    out, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args} failed:\n{errors}")
    return float(json.loads(out.splitlines()[-1]))


def make_inputs(folder: Path, options: argparse.Namespace) -> None:
    """Simulated reviews as CSV; the children prepare their own networks from them."""
    import edgeformers

    for name, count in (("prepare", options.edges), ("train", options.train_edges)):
        table = edgeformers.simulate(num_edges=count, seed=1).table.to_pandas()
        table.to_csv(folder / f"{name}.csv", index=False)


def measure(options: argparse.Namespace) -> float:
    """The seconds of the workload in this process, set-up not counted: the fastest of several."""
    os.sched_setaffinity(0, {options.core})
    import edgeformers

    folder, workload = options.old, options.workload
    repeats = REPEATS[workload.partition(" ")[0]]
    columns = {"source": "source", "target": "target", "text": "text", "label": "label"}
    if workload == "prepare":
        return fastest(
            lambda: edgeformers.prepare(
                str(folder / "prepare.csv"),
                Path(tempfile.mkdtemp(dir=folder)) / "network",
                **columns,
            ),
            repeats,
        )
    network = Path(tempfile.mkdtemp(dir=folder)) / "network"
    edgeformers.prepare(str(folder / "train.csv"), network, **columns)
    kind = edgeformers.EdgeClassifier if "edges" in workload else edgeformers.LinkPredictor
    estimator = kind(options.backbone, settings=SETTINGS, device=options.device, show=False)
    if workload.startswith("train"):
        return fastest(lambda: estimator.fit(network), repeats)
    estimator.fit(network)
    if "edges" in workload:
        return fastest(lambda: estimator.embed_edges(range(EMBEDDED)), repeats)
    return fastest(estimator.embed_nodes, repeats)


def fastest(work: Callable[[], object], repeats: int) -> float:
    """The least seconds of several calls; the first also fills caches and compiles kernels."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
