"""Measure the search of an index among clustered vectors: recall, time, memory.

python -m benchmarks.vector_index --targets 1000000 --width 384 -o RECORD.json
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import machine
from edgeformers.inference.encode import Vectors
from edgeformers.inference.index import LARGE, choose_probes, measure_recall
from edgeformers.inference.vector_search import BoundedSearch, InvertedLists, KeySearch, Wanted

CLUSTERS, SPREAD = 10_000, 0.5  # centers, and the distance of their members relative to them


def clustered_vectors(count: int, width: int, seed: int) -> Vectors:
    """Members of random clusters, with norms that differ; the centers are always the same."""
    spectrum = (1 + np.arange(width)) ** -0.5
    centers = np.random.default_rng(0).normal(size=(CLUSTERS, width)) * spectrum
    rng = np.random.default_rng(seed)
    norms = np.exp(0.2 * rng.normal(size=(count, 1))).astype(np.float32)
    vectors = np.empty((count, width), np.float32)
    for at in range(0, count, 65_536):
        rows = vectors[at : at + 65_536]
        own = centers[rng.integers(CLUSTERS, size=len(rows))]
        rows[:] = own + SPREAD * spectrum * rng.normal(size=rows.shape)
        rows *= norms[at : at + 65_536] / np.linalg.norm(rows, axis=1, keepdims=True)
    return vectors


def measure(targets: int, width: int) -> dict[str, Any]:
    """Build the search that an index of this size has, and search for new queries."""
    keys = clustered_vectors(targets, width, seed=1)
    sampled, tested = clustered_vectors(2_000, width, seed=2), clustered_vectors(300, width, seed=3)
    started = time.perf_counter()
    search: KeySearch
    settings: dict[str, int]
    if targets > LARGE:
        lists = InvertedLists.build(keys, sampled)
        choose_probes(lists, keys, sampled[:200])
        search, settings = lists, {"lists": lists.index.nlist, "probes": lists.probes}
    else:
        search, settings = BoundedSearch.build(keys, sampled), {}
    seconds = time.perf_counter() - started
    times, cpu_times = milliseconds(search, keys, tested)
    return {
        "targets": targets,
        "width": width,
        "kind": "ivf" if targets > LARGE else "exact",
        "settings": settings,
        "recall_at_10": measure_recall(search, keys, tested),
        "queries": len(tested),
        "build_seconds": round(seconds, 1),
        "p50_cpu_ms": round(float(np.percentile(cpu_times, 50)), 2),
        "p50_ms": round(float(np.percentile(times, 50)), 2),
        "p99_ms": round(float(np.percentile(times, 99)), 2),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "keys_mb": keys.nbytes >> 20,
        "load_average": os.getloadavg()[0],  # of the last minute, including this process
    }


def milliseconds(
    search: KeySearch, keys: Vectors, queries: Vectors
) -> tuple[list[float], list[float]]:
    """How long each query takes alone, and its CPU time.

    8 results are left out, as links already seen are.
    """
    times, cpu_times = [], []
    for at, query in enumerate(queries):
        wanted = [Wanted(k=10, excluded=np.arange(at, at + 8))]
        started, cpu_started = time.perf_counter(), time.process_time()
        search.best(keys, query[None], wanted, None)
        times.append(1000 * (time.perf_counter() - started))
        cpu_times.append(1000 * (time.process_time() - cpu_started))
    return times, cpu_times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    record = {"machine": machine(), **measure(options.targets, options.width)}
    print(json.dumps(record, indent=1))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
