"""Networks of 1, 10 and 100 million edges from files to recommendations: time and memory.

python -m benchmarks.big_network --edges 1000000 10000000 100000000 --folder /data/big

Every stage runs in a process of its own and adds one record to the results; a stage that has a
record is not repeated. All sizes have the same nodes, so that only the number of edges changes.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import edgeformers
from benchmarks.machine import machine
from edgeformers.data.graph import TEXT_ROWS, EdgeTextGraph
from edgeformers.data.simulate import SimulationConfig, simulate
from edgeformers.data.simulate.config import PRODUCTS, Scenario
from edgeformers.data.storage import CACHE, ArrayWriter, fingerprint_folder, write_record
from edgeformers.data.tokenize import train_tokenizer
from edgeformers.data.tokens import RECORD, encode_chunks, token_meta
from edgeformers.files import atomic_folder
from edgeformers.training.initialization import SCRATCH_VOCABULARY

NODES = {"num_sources": 400_000, "num_targets": 100_000}
SHARD_ROWS = 10_000_000  # rows per input file
ROWS = 500_000  # rows generated at a time
VOCABULARY = 2000
TOKENIZER = SCRATCH_VOCABULARY
BACKBONE = "scratch:2x64"
STEPS = 200
EMBEDDED = 50_000  # nodes or edges
SOURCES = 200
SETTINGS: dict[str, Any] = {"train.batch_size": 64, "model.node_init": "random"}
RESULTS = Path(__file__).parent / "results" / "scale" / "big-network.json"


@dataclass
class Record:
    """What one stage took at one size."""

    edges: int
    stage: str
    seconds: float
    cpu_seconds: float
    anonymous_mb: float  # peak; memory-mapped files are not counted
    details: dict[str, float]


class PeakMemory:
    """The peak of the anonymous memory of this process, sampled by a thread."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.peak_mb = max(self.peak_mb, anonymous_mb())


def anonymous_mb() -> float:
    """The anonymous memory of this process now."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


def write_files(edges: int, folder: Path) -> dict[str, float]:
    """Write the edges as Parquet files: ids, a text of two to four words, stars and a time."""
    simulation = simulate(SimulationConfig(num_edges=edges, **NODES))
    model, num_levels = simulation.model, simulation.config.sentiments
    table = pa.array(all_texts(simulation.config.words), pa.string())
    words = simulation.config.words
    lowest = (len(words.verdicts) - num_levels) // 2
    (folder / "files").mkdir(parents=True, exist_ok=True)
    for start in range(0, edges, SHARD_ROWS):
        path = folder / "files" / f"edges-{start // SHARD_ROWS:03}.parquet"
        with pq.ParquetWriter(path, simulation.table.schema, compression="zstd") as writer:
            stop = min(start + SHARD_ROWS, edges)
            for first in range(start, stop, ROWS):
                numbers = np.arange(first, min(first + ROWS, stop))
                draws = model.draw(numbers)
                product = model.product[draws.target].astype(np.int64)
                phrase = (lowest + draws.verdict) * words.phrases + numbers % words.phrases
                place = product * len(words.verdicts) * words.phrases + phrase
                batch = simulation.rows(first, first + len(numbers))
                writer.write_batch(batch.set_column(2, "text", table.take(pa.array(place))))
    return {"files_mb": folder_mb(folder / "files")}


def all_texts(words: Scenario) -> list[str]:
    """The different texts: "nothing special flash"."""
    names = [name for topic in words.topics for name in list(topic.products)[:PRODUCTS]]
    return [f"{phrase} {name}" for name in names for level in words.verdicts for phrase in level]


def folder_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def prepare_files(edges: int, folder: Path) -> dict[str, float]:
    """Prepare the files without tokens, which are timed apart."""
    files = sorted((folder / "files").glob("*.parquet"))
    graph = edgeformers.prepare(
        files,
        folder / "network",
        label="label",
        time="time",
        tokenizer=None,
        overwrite=True,
        progress=False,
    )
    return {"network_mb": folder_mb(graph.path), "nodes": graph.num_nodes}


def add_tokens(edges: int, folder: Path) -> dict[str, float]:
    """The tokens of the texts: each of the few different ones is tokenized once.

    So a hundred million texts need no hours; see `tokenize` for the time of real tokenizing.
    """
    graph = EdgeTextGraph.open(folder / "network")
    words = pa.array(all_texts(), pa.string())
    tokenizer = train_tokenizer(all_texts(), VOCABULARY)
    meta = token_meta(tokenizer, TOKENIZER)
    encoded = [text.ids for text in tokenizer.encode_batch(all_texts(), add_special_tokens=False)]
    lengths = np.array(list(map(len, encoded)))
    padded = np.zeros((len(encoded), lengths.max()), meta.dtype)
    is_token = np.arange(padded.shape[1]) < lengths[:, None]
    padded[is_token] = np.concatenate(encoded)
    with atomic_folder(graph.path / "tokens" / meta.fingerprint, overwrite=True) as store:
        tokenizer.save(str(store / "tokenizer.json"))
        end = 0
        with (
            ArrayWriter(store / "edges.ids.npy", meta.dtype) as ids,
            ArrayWriter(store / "edges.offsets.npy", np.int64) as offsets,
        ):
            offsets.append(np.zeros(1))
            for texts in graph.iter_texts():
                rows = pc.index_in(pa.array(texts), value_set=words).to_numpy()
                ids.append(padded[rows][is_token[rows]])
                offsets.append(end + np.cumsum(lengths[rows]))
                end = ids.length
        record = {"meta": asdict(meta), "files": fingerprint_folder(store)}
        write_record(store / RECORD, record)
    return {"tokens": end}


def tokenize(edges: int, folder: Path) -> dict[str, float]:
    """Really tokenize the first million texts."""
    graph = EdgeTextGraph.open(folder / "network")
    tokenizer = train_tokenizer(all_texts(), VOCABULARY)
    texts = list(islice(graph.iter_texts(), min(edges, 1_000_000) // TEXT_ROWS))
    counts = [len(n) for _, n in encode_chunks(tokenizer, texts, np.uint16, 512)]
    return {"texts": sum(counts)}


def train(task: str, edges: int, folder: Path) -> dict[str, float]:
    """Set up a run, take some hundred steps and save the model; epochs are not completed."""
    from edgeformers.training.optimizers import lr_schedule
    from edgeformers.training.runlog import RunLog
    from edgeformers.training.trainer import Trainer

    start = time.perf_counter()
    graph = EdgeTextGraph.open(folder / "network")
    made = {"edges": edgeformers.EdgeClassifier, "links": edgeformers.LinkPredictor}[task](
        BACKBONE, settings=SETTINGS, device="cpu", show=False
    )
    objective = made.make_objective(graph)
    trainer = Trainer(objective, made.config.train, device=made.device, show=False)
    making = Making(objective)
    before = anonymous_mb()
    factor = lr_schedule(made.config.train, trainer.num_steps)
    objective.modules.train()
    seconds, cpu = [time.perf_counter()], [time.thread_time()]
    log = RunLog(None, resume_step=0)
    with closing(trainer._updates(0, 0)) as updates:
        for ids, batches in islice(updates, STEPS):
            trainer._update(ids, batches, factor(trainer.state.step), log)
            trainer.state.step += 1
            seconds.append(time.perf_counter())
            cpu.append(time.thread_time())
    warm = STEPS // 4
    objective.modules.eval()
    objective.fitted.save(folder / f"model-{task}", include_network=False)
    return {
        "start_seconds": seconds[0] - start,
        "start_mb": before,
        "end_mb": anonymous_mb(),
        "step_ms": 1e3 * float(np.median(np.diff(seconds)[warm:])),
        "update_cpu_ms": 1e3 * float(np.median(np.diff(cpu)[warm:])),
        **making.medians(),
    }


class Making:
    """Measures what it takes to make batches, and their size."""

    def __init__(self, objective: Any) -> None:
        self.cpu, self.texts, self.tokens, self.pages = [], [], [], []
        self._make, objective.make = objective.make, self

    def __call__(self, *args: Any) -> Any:
        cpu, usage = time.thread_time(), resource.getrusage(resource.RUSAGE_THREAD)
        pieces = self._make(*args)
        self.cpu.append(time.thread_time() - cpu)
        self.pages.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - usage.ru_minflt)
        parts = [getattr(piece, "egos", piece).text for piece in pieces]
        self.texts.append(sum(text.num_texts for text in parts))
        self.tokens.append(sum(text.token_ids.numel() for text in parts))
        return pieces

    def medians(self) -> dict[str, float]:
        """Medians per batch after the first quarter of the steps."""
        found = {"batch_cpu_ms": self.cpu, "page_faults": self.pages, "texts": self.texts}
        found |= {"text_tokens": self.tokens}
        medians = {name: float(np.median(values[STEPS // 4 :])) for name, values in found.items()}
        return medians | {"batch_cpu_ms": 1e3 * medians["batch_cpu_ms"]}


def open_network(edges: int, folder: Path) -> dict[str, float]:
    """Open the arrays that training and recommending need, twice: the second time is remembered."""
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ[CACHE] = cache
        for name in ("first", "again"):
            start, cpu = time.perf_counter(), time.process_time()
            graph = EdgeTextGraph.open(folder / "network")
            graph.verify()
            _ = graph.src, graph.dst, graph.labels, graph.adjacency
            _ = graph.token_store(TOKENIZER).offsets
            found[f"{name}_seconds"] = time.perf_counter() - start
            found[f"{name}_cpu_seconds"] = time.process_time() - cpu
    return found


def embed_slice(task: str, edges: int, folder: Path) -> dict[str, float]:
    """Write the vectors of a slice of the nodes or edges with the model of the stage `task`."""
    from edgeformers.inference.embed import embed

    what, total = ("edges", edges) if task == "edges" else ("nodes", sum(NODES.values()))
    shard = (1, total // EMBEDDED)
    start = time.process_time()
    model = edgeformers.load(folder / f"model-{task}", network=folder / "network", device="cpu")
    loaded, out = time.process_time(), folder / f"{task}.parquet"
    path = embed(model, what=what, out=out, shard=shard, overwrite=True, show=False)
    rows = pq.ParquetFile(path).metadata.num_rows
    cpu = time.process_time() - loaded
    path.unlink()
    return {"load_cpu_seconds": loaded - start, "rows": rows, "cpu_us_per_row": 1e6 * cpu / rows}


def recommend(edges: int, folder: Path) -> dict[str, float]:
    """Recommend 10 targets to each of some sources; the first time all candidates are encoded."""
    start = time.process_time()
    made = edgeformers.load(folder / "model-links", network=folder / "network", device="cpu")
    model = made.fitted_
    cpu = [start, time.process_time()]
    sources = np.linspace(0, model.network.graph.num_sources - 1, SOURCES).astype(int)
    for name in model.nodes.ids_of(sources):
        assert len(model.recommend(name, 10)) == 10
        cpu.append(time.process_time())
    load, first, *others = np.diff(cpu)
    return {
        "load_cpu_seconds": load,
        "first_cpu_seconds": first,
        "cpu_ms_per_source": 1e3 * float(np.mean(others)),
    }


STAGES: dict[str, Callable[[int, Path], dict[str, float]]] = {
    "files": write_files,
    "prepare": prepare_files,
    "tokens": add_tokens,
    "tokenize": tokenize,
    "edges": partial(train, "edges"),
    "links": partial(train, "links"),
    "open": open_network,
    "embed-edges": partial(embed_slice, "edges"),
    "embed-nodes": partial(embed_slice, "links"),
    "recommend": recommend,
}


def run_stage(stage: str, edges: int, folder: Path) -> Record:
    start, cpu = time.perf_counter(), time.process_time()
    with PeakMemory() as memory:
        details = STAGES[stage](edges, folder)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    return Record(edges, stage, seconds, cpu_seconds, memory.peak_mb, details)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--edges", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        (stage,), (edges,) = options.stages, options.edges
        print(json.dumps(asdict(run_stage(stage, edges, options.folder / str(edges)))))
        return
    results = {"machine": machine(), "records": []}
    if options.results.exists():
        results = json.loads(options.results.read_text())
    for edges, stage in itertools.product(options.edges, options.stages):
        if any((r["edges"], r["stage"]) == (edges, stage) for r in results["records"]):
            continue
        command = [sys.executable, "-m", "benchmarks.big_network", "--one", "--edges", str(edges)]
        command += ["--folder", str(options.folder), "--stages", stage]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        record = json.loads(done.stdout.splitlines()[-1])
        print(json.dumps(record), flush=True)
        results["records"].append(record)
        options.results.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
