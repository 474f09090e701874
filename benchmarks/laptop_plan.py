"""What planning for a CPU costs in quality: `default` as planned and as it is, in pairs.

    python -m benchmarks.laptop_plan --data ../shared/data --work work        # all that is missing
    python -m benchmarks.laptop_plan --work work --summary                    # the tables
    python -m benchmarks.laptop_plan --arms planned --seeds 1 --networks magazines simulated

Three networks of about 2,300 reviews, both tasks, 5 seeds; a run that is in `--work` is not
repeated, so the command can be stopped and started, and several may run at once with different
`--arms`, `--tasks`, `--networks` or `--seeds`. With `--device cuda`, all arms are trained on a GPU,
with the settings of a CPU, in float32 and with cached states: for quality, not for times. Another
arm is a name and settings: `--try frozen-5 model.text_layers=5 train.frozen_layers=5`.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.machine import machine, print_table

REVIEWS = 2_300
TARGETS = 150  # the most reviewed ones, so that sources share some
TASKS = ("edge-classification", "link-prediction")
METRICS = {"edge-classification": ("macro_f1", "micro_f1"), "link-prediction": ("full/mrr",)}
PLANNED, AS_IS = "planned", "as-is"


@dataclass(frozen=True)
class Source:
    """A table of reviews and its columns."""

    file: str
    source: str = ""
    target: str = ""
    label: str = ""


SIMULATED = "simulated"  # 5,000 edges, for times only
NETWORKS = {
    "magazines": Source("amazon-2018/Magazine_Subscriptions_5.json.gz"),
    "critics": Source("rotten-tomatoes/reviews.parquet", "critic", "movie", "stars"),
    "films": Source("imdb/reviews.parquet", "user", "film", "stars"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path, default=Path("work"))
    choices = [*NETWORKS, SIMULATED]
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=choices)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--arms", nargs="+", default=[PLANNED, AS_IS])
    parser.add_argument("--try", nargs="+", dest="tried", metavar=("NAME", "SETTING"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backbone", default="minilm")
    parser.add_argument("--summary", action="store_true", help="print the tables and stop")
    options = parser.parse_args()
    if options.tried:
        options.arms = options.tried[:1]
    if not options.summary:
        networks = {name: make_network(name, options) for name in options.networks}
        for seed in range(options.seeds):
            for arm in options.arms:
                for task in options.tasks:
                    for name, network in networks.items():
                        measure(arm, task, name, network, seed, options)
    summarize(read_records(options.work))


def make_network(name: str, options: argparse.Namespace) -> Path:
    """A prepared network of about 2,300 reviews: whole sources, drawn at random."""
    from edgeformers import prepare

    out = options.work / name
    if out.is_dir():
        return Path(out)
    if name == SIMULATED:
        prepare("simulated", out, num_edges=5_000)
        return out
    table = NETWORKS[name]
    if not table.source:
        prepare(options.data / table.file, out)
        return out
    columns = {"source": table.source, "target": table.target, "label": table.label}
    subset = options.work / f"{name}.parquet"
    options.work.mkdir(parents=True, exist_ok=True)
    pq.write_table(draw_sources(pq.read_table(options.data / table.file), table), subset)
    prepare(subset, out, **columns, text="text")
    return out


def draw_sources(reviews: pa.Table, table: Source) -> pa.Table:
    """The labeled reviews of random sources about the most reviewed targets."""
    reviews = reviews.filter(reviews.column(table.label).is_valid())
    target, source = (
        reviews.column(name).combine_chunks().dictionary_encode().indices.to_numpy()
        for name in (table.target, table.source)
    )
    frequent = np.argsort(-np.bincount(target), kind="stable")[:TARGETS]
    kept = np.isin(target, frequent)
    kept &= (np.bincount(source[kept], minlength=source.max() + 1) >= 4)[source]
    counts = np.bincount(source[kept], minlength=source.max() + 1)
    drawn = np.random.default_rng(0).permutation(np.flatnonzero(counts))
    drawn = drawn[: np.searchsorted(np.cumsum(counts[drawn]), REVIEWS) + 1]
    return reviews.filter(pa.array(kept & np.isin(source, drawn)))


def measure(
    arm: str, task: str, name: str, network: Path, seed: int, options: argparse.Namespace
) -> None:
    """Train and evaluate one run, unless its record exists."""
    from edgeformers.runs import train_run

    record = options.work / "records" / f"{arm}-{task}-{name}-{seed}.json"
    if record.exists():
        return
    folder = options.work / "runs" / record.stem
    config = arm_config(arm, task, network, seed, options)
    device = options.device
    wall, cpu = time.perf_counter(), time.process_time()
    with patch("edgeformers.training.state_cache.CACHED_ON", ("cpu", "cuda")):
        results = train_run(network, folder, config, device=device, show=False)
    values = {
        **{"arm": arm, "task": task, "network": name, "seed": seed, "device": device},
        "machine": machine(),
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "test": {metric: results["test"][metric] for metric in METRICS[task]},
        "val": best_epoch(folder, METRICS[task][0]),
    }
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(values))
    print({k: v for k, v in values.items() if k != "machine"}, flush=True)


def arm_config(arm: str, task: Any, network: Path, seed: int, options: argparse.Namespace) -> Any:
    """The settings of an arm."""
    from edgeformers.data.graph import EdgeTextGraph
    from edgeformers.estimators import run_config

    pairs = (text.split("=", 1) for text in (options.tried or [""])[1:])
    settings = {name: json.loads(value) for name, value in pairs}
    device = torch.device("cpu") if arm == PLANNED else None
    graph = EdgeTextGraph.open(network)
    settings = {"train.seed": seed, "train.precision": "fp32", **settings}
    settings |= {"model.backbone": options.backbone}
    return run_config(task, "default", settings=settings, graph=graph, device=device)


def best_epoch(folder: Path, metric: str) -> dict[str, float]:
    """The best validation score of a run, and its epoch."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    events = [event for event in map(json.loads, lines) if event["kind"] == "val"]
    best = max(events, key=lambda event: event[metric])
    return {"score": best[metric], "epoch": best["epoch"], "epochs": len(events)}


def read_records(work: Path) -> list[dict[str, Any]]:
    """All measured runs."""
    files = sorted((work / "records").glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def summarize(records: list[dict[str, Any]]) -> None:
    """Print every arm, and its differences to the default as it is, paired by seed and network."""
    for task in TASKS:
        for metric in METRICS[task]:
            own = {(r["arm"], r["network"], r["seed"]): r for r in records if r["task"] == task}
            arms = sorted({arm for arm, _, _ in own})
            rows = [arm_row(arm, metric, own) for arm in arms]
            head = ["arm", *NETWORKS, SIMULATED, "seconds", "CPU s", "pairs", "difference ± 95%"]
            print_table(f"{task}, test {metric}", head, rows)


def arm_row(arm: str, metric: str, own: dict[tuple[str, str, int], Any]) -> list[str]:
    """Means per network, and the mean paired difference to the default as it is."""
    runs = {key[1:]: record for key, record in own.items() if key[0] == arm}
    cells = [arm]
    for network in (*NETWORKS, SIMULATED):
        scores = [r["test"][metric] for (name, _), r in runs.items() if name == network]
        cells.append(f"{np.mean(scores):.4f} ({len(scores)})" if scores else "-")
    for clock in ("seconds", "cpu_seconds"):
        cells.append(f"{np.mean([record[clock] for record in runs.values()]):.0f}")
    pairs = [
        record["test"][metric] - own[AS_IS, *key]["test"][metric]
        for key, record in runs.items()
        if (AS_IS, *key) in own
    ]
    if arm == AS_IS or len(pairs) < 2:
        return [*cells, str(len(pairs)), "-"]
    from scipy import stats

    error = stats.sem(pairs) * stats.t.ppf(0.975, len(pairs) - 1)
    return [*cells, str(len(pairs)), f"{np.mean(pairs):+.4f} ± {error:.4f}"]


if __name__ == "__main__":
    main()
