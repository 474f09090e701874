"""The speed of the server at 100,000 targets, next to `.recommend()` in a loop and to Cornac.

python -m venv ../cornac && ../cornac/bin/pip install cornac flask gunicorn
python -m benchmarks.serve --folder /data/serve --cornac ../cornac

The first time, the run, the quickstart and Cornac's model are made in the folder (`serve_run.py`).
Clients are a process of their own (`load.py`). Nodes are drawn uniformly; nothing caches answers.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

import edgeformers
from benchmarks.machine import machine, print_table
from benchmarks.serve_run import build_run, component_widths
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.estimators import LinkPredictor

RESULTS = Path(__file__).parent / "results" / "serve" / "serve.json"
LOAD, CORNAC = (str(Path(__file__).with_name(name)) for name in ("load.py", "serve_cornac.py"))
Record = dict[str, Any]

NODES = 5_000  # different nodes that are asked for
NEW_NODES = 200  # new nodes that are described
TEXTS = 8  # of a new node
CLIENTS = 8
READY_SECONDS = 600  # after which a server that is not ready has failed


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    pid: int
    ready_seconds: float  # from the start of the process

    def memory_mb(self) -> dict[str, float]:
        """The memory of the process and its children: what is in memory, and what is not a file."""
        pids = [self.pid, *_children(self.pid)]
        status = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
        return {
            name: sum(_megabytes(text, name) for text in status) for name in ("VmRSS", "RssAnon")
        }

    def cpu_seconds(self) -> float:
        """CPU time, user and system, of the process and its children."""
        ticks = 0
        for pid in (self.pid, *_children(self.pid)):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(command: Sequence[str | Path], ready: str, port: int, **more: str) -> Iterator[Server]:
    """A server process, from when the path `ready` is answered with 200 until it is terminated."""
    url, start = f"http://127.0.0.1:{port}", time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), env={**os.environ, **more})
    try:
        while not _answers(url + ready):
            if process.poll() is not None or time.perf_counter() - start > READY_SECONDS:
                raise RuntimeError(f"the server does not answer: {' '.join(map(str, command))}")
            time.sleep(0.02)
        yield Server(url, process.pid, time.perf_counter() - start)
    finally:
        process.terminate()
        process.wait()


def serve_command(runs: Sequence[Path], port: int) -> list[str | Path]:
    """The command a user types."""
    edgeformers_command = Path(sys.executable).with_name("edgeformers")
    return [edgeformers_command, "serve", *runs, "--port", str(port)]


def load(server: Server, requests: Path, *, clients: int, seconds: float) -> Record:
    """What the clients measured, in a process of their own, and the server's CPU time."""
    before = server.cpu_seconds()
    command = [sys.executable, LOAD, server.url, str(requests)]
    command += ["--clients", str(clients), "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    measured = json.loads(done.stdout)
    cpu_ms = 1e3 * (server.cpu_seconds() - before) / max(1, measured["requests"])
    return {**measured, "server_cpu_ms": cpu_ms}


def measure_server(folder: Path, seconds: float) -> Record:
    """One client, several clients, and new nodes, of the run with 100,000 targets."""
    port = free_port()
    with running(serve_command([folder / "run"], port), "/health/ready", port) as server:
        warm_up(server, folder / "known.json")
        return {
            "ready_seconds": server.ready_seconds,
            "one_client": load(server, folder / "known.json", clients=1, seconds=seconds / 4),
            "clients": load(server, folder / "known.json", clients=CLIENTS, seconds=seconds),
            "new_node": load(server, folder / "new.json", clients=1, seconds=seconds / 4),
            "memory_mb": server.memory_mb(),
            "index": json.loads((folder / "run" / "index" / "index.json").read_text()),
        }


def measure_cornac(folder: Path, environment: Path, seconds: float) -> Record:
    """Cornac's Flask application under Gunicorn, with the workers that Gunicorn recommends."""
    saved, port = folder / "cornac" / "BPR", free_port()
    if not saved.is_dir():
        _write_ratings(folder)
        script = [environment / "bin" / "python", CORNAC, folder / "ratings.tsv", saved.parent]
        subprocess.run(list(map(str, script)), check=True)
    workers = 2 * (os.cpu_count() or 1) + 1
    command: list[str | Path] = [environment / "bin" / "gunicorn", "--workers", str(workers)]
    command += ["--bind", f"127.0.0.1:{port}", "--log-level", "warning", "cornac.serving.app:app"]
    train_set = str(next(saved.glob("*.trainset")))
    settings = {"MODEL_CLASS": "cornac.models.BPR", "MODEL_PATH": str(saved)}
    first = json.loads((folder / "cornac.json").read_text())[0][1]
    with running(command, first, port, **settings, TRAIN_SET=train_set) as server:
        warm_up(server, folder / "cornac.json")
        return {
            "workers": workers,
            "one_client": load(server, folder / "cornac.json", clients=1, seconds=seconds / 4),
            "clients": load(server, folder / "cornac.json", clients=CLIENTS, seconds=seconds),
            "memory_mb": server.memory_mb(),
        }


def measure_quickstart(folder: Path) -> Record:
    """The time until the runs of the quickstart can be used."""
    command = Path(sys.executable).with_name("edgeformers")
    if not (folder / "quickstart" / "report.html").exists():
        subprocess.run([command, "quickstart", "-o", folder / "quickstart"], check=True)
    runs = [folder / "quickstart" / name for name in ("edges", "links")]
    seconds, memory = [], {}
    for _ in range(3):  # the first time, files come from the disk
        port = free_port()
        with running(serve_command(runs, port), "/health/ready", port) as server:
            seconds.append(server.ready_seconds)
            memory = server.memory_mb()
    return {"ready_seconds": seconds, "memory_mb": memory}


def measure_loop(folder: Path, seconds: float) -> Record:
    """`.recommend()` in a loop, in this process."""
    predictor = edgeformers.load(folder / "run")
    assert isinstance(predictor, LinkPredictor)
    requests = json.loads((folder / "known.json").read_text())
    nodes = [path.split("/")[3] for _, path, _ in requests]
    predictor.recommend(nodes[0])  # reads the files
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        predictor.recommend(nodes[len(latencies) % len(nodes)])
        latencies.append(time.perf_counter() - start)
    return {
        "calls_per_second": len(latencies) / sum(latencies),
        "p50_ms": float(np.median(latencies)) * 1e3,
        "widths": component_widths(predictor.fitted_),
    }


def write_requests(folder: Path, graph: EdgeTextGraph) -> None:
    """Requests for nodes drawn uniformly, for both servers, and for new nodes with texts."""
    random = np.random.default_rng(0)
    sources = random.choice(graph.num_sources, min(NODES, graph.num_sources), replace=False)
    ids = graph.node_index.ids_of(sources)
    edges = random.integers(0, graph.num_edges, (NEW_NODES, TEXTS))
    described = [
        [
            {"target": target, "text": text}
            for target, text in zip(
                graph.node_index.ids_of(graph.dst[own]), graph.texts(own), strict=True
            )
        ]
        for own in edges
    ]
    written = {
        "known": [["GET", f"/v1/nodes/{name}/recommendations?k=10", None] for name in ids],
        "cornac": [["GET", f"/recommend?uid={name}&k=10&remove_seen=true", None] for name in ids],
        "new": [["POST", "/v1/recommendations", {"edges": own, "k": 10}] for own in described],
    }
    for name, requests in written.items():
        (folder / f"{name}.json").write_text(json.dumps(requests), "utf-8")


def warm_up(server: Server, requests: Path) -> None:
    load(server, requests, clients=CLIENTS, seconds=2)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def report(record: Record) -> None:
    """Print the measurements as a table for docs/serve.md."""
    ours, cornac = record["server"], record["cornac"]
    rows = [["`.recommend()` in a loop", *_cells(record["loop"], "calls_per_second"), ""]]
    for name, measured in (("edgeformers serve", ours), ("Cornac, Gunicorn", cornac)):
        for which, clients in (("one_client", "1 client"), ("clients", f"{CLIENTS} clients")):
            one = measured[which]
            cells = _cells(one, "requests_per_second")
            rows.append([f"{name}, {clients}", *cells, str(sum(one["errors"].values()))])
    new = ours["new_node"]
    cells = _cells(new, "requests_per_second")
    rows.append(
        [
            f"edgeformers serve, new node with {TEXTS} texts",
            *cells,
            str(sum(new["errors"].values())),
        ]
    )
    print_table("Recommendations", ["", "per second", "p50, ms", "p99, ms", "errors"], rows)
    print(f"\nthroughput relative to Cornac: {record['ratio']:.1f}")
    cpu = [each["clients"]["server_cpu_ms"] for each in (ours, cornac)]
    print("CPU time per request with {} clients: {:.1f} ms, Cornac {:.1f} ms".format(CLIENTS, *cpu))
    print(f"quickstart ready after {min(record['quickstart']['ready_seconds']):.1f} s")
    print(f"memory, MB: {ours['memory_mb']}; Cornac {cornac['memory_mb']}")


def main() -> None:
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.loop:
        print(json.dumps(measure_loop(options.folder, options.seconds)))
        return
    build_run(options.folder)
    graph = EdgeTextGraph.open(options.folder / "network")
    if not (options.folder / "known.json").exists():
        write_requests(options.folder, graph)
    before = os.getloadavg()
    record: Record = {
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "network": {
            "sources": graph.num_sources,
            "targets": graph.num_targets,
            "edges": graph.num_edges,
        },
        "loop": _in_own_process(options.folder, options.seconds / 4),
        "quickstart": measure_quickstart(options.folder),
        "server": measure_server(options.folder, options.seconds),
        "cornac": measure_cornac(options.folder, options.cornac, options.seconds),
        "load_average": [before, os.getloadavg()],
    }
    speed = [record[name]["clients"]["requests_per_second"] for name in ("server", "cornac")]
    record["ratio"] = speed[0] / speed[1]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    report(record)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for what is prepared once")
    parser.add_argument("--cornac", type=Path, required=True, help="an environment with Cornac")
    parser.add_argument("--seconds", type=float, default=60.0, help="under load")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--loop", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _in_own_process(folder: Path, seconds: float) -> Record:
    command = [sys.executable, "-m", "benchmarks.serve", "--loop", "--folder", str(folder)]
    command += ["--cornac", "", "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _write_ratings(folder: Path) -> None:
    """Every pair of linked nodes with its first stars, for Cornac."""
    graph = EdgeTextGraph.open(folder / "network")
    assert graph.labels is not None
    _, first = np.unique(np.stack([graph.src, graph.dst]), axis=1, return_index=True)
    names = np.array(graph.node_index.ids_of(np.arange(graph.num_nodes)))
    stars = np.array(graph.label_names)[graph.labels[first]]
    rows = zip(names[graph.src[first]], names[graph.dst[first]], stars, strict=True)
    (folder / "ratings.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")


def _cells(measured: Mapping[str, Any], rate: str) -> list[str]:
    p99 = f"{measured['p99_ms']:.1f}" if "p99_ms" in measured else ""
    return [f"{measured[rate]:,.0f}", f"{measured['p50_ms']:.1f}", p99]


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text().split()]


def _megabytes(status: str, name: str) -> float:
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
