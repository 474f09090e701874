"""Training through the library, from drawing to logging, beside the bare step on the same batches.

python -m benchmarks.throughput                          both models of BERT-base's size, on a GPU
python -m benchmarks.throughput --network FOLDER --backbone MINILM_FOLDER --trace trace.json
python -m benchmarks.throughput --device cpu --backbone scratch:2x64 --edges 900 --steps 3  anywhere
"""

import argparse
import gc
import itertools
import json
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import edgeformers
from benchmarks.machine import machine, print_table, synchronize
from benchmarks.network import simulated_network
from benchmarks.step import fresh
from edgeformers.config import TrainSettings, parse_setting
from edgeformers.data.batch import EdgeBatch, LinkBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.training.cuda_graphs import GraphedModel, use_cuda_graphs
from edgeformers.training.trainer import Trainer

RECORD = {"off": False, "auto": None, "on": True}  # train.cuda_graphs
TASKS = {"links": edgeformers.LinkPredictor, "edges": edgeformers.EdgeClassifier}
NEIGHBORS = 5
WARM_UP, TIMED, PROFILED = range(3)  # epochs
PROFILED_STEPS = 10
ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}  # what a timeline calls work of the GPU

#: Steps as the paper's: no second reading, no further negatives. A long training is announced, so
#: that train.cuda_graphs decides by itself as it would for one; it ends after three epochs.
SETTINGS: dict[str, Any] = {
    "train.epochs": 100_000,
    "train.checkpoint_every": 1_000_000_000,
    "train.ema_decay": None,
    "data.max_tokens": 64,
    "data.source_neighbors": [NEIGHBORS],
    "data.target_neighbors": [NEIGHBORS],
    "model.node_init": "random",
    "links.uniform_negatives": 0,
    "links.ensemble": False,
    "edges.rdrop": 0.0,
}


@dataclass(frozen=True)
class Rate:
    """How fast one way of training is; milliseconds are of a step."""

    backbone: str
    task: str
    batch: int
    record: str
    way: str  # what train.cuda_graphs came to
    tokens: float
    edges: float  # texts read in a step
    centers: float  # ego-graphs read in a step; none of edges
    bare_ms: float
    whole_ms: float
    busy_ms: float | None  # that the GPU works in a step of the training; None: not known

    @property
    def ratio(self) -> float:
        return self.whole_ms / self.bare_ms

    @property
    def waits(self) -> float | None:
        """The share of the training's time in which the GPU has nothing to do."""
        return None if self.busy_ms is None else max(0.0, 1 - self.busy_ms / self.whole_ms)


def main(arguments: list[str] | None = None) -> list[Rate]:
    options = _parser().parse_args(arguments)
    print(f"{machine()}, torch {torch.__version__}, {_device_name(options)}", flush=True)
    found: list[Rate] = []
    with TemporaryDirectory() as folder:
        graph = _network(options, Path(folder))
        print(graph, flush=True)
        for backbone, task, batch in itertools.product(
            options.backbone, options.tasks, options.batch
        ):
            size = batch if task == "links" else batch * 2 * NEIGHBORS
            try:
                found += measure(backbone, task, size, graph, options, Path(folder))
            except Exception:
                print(f"FAILED {backbone} {task} {size}", flush=True)
                traceback.print_exc()
    _report(found, options)
    return found


def measure(
    backbone: str,
    task: str,
    batch: int,
    graph: EdgeTextGraph,
    options: argparse.Namespace,
    folder: Path,
) -> list[Rate]:
    """One model on batches of one size, in every way of `train.cuda_graphs` that differs here."""
    settings = {**SETTINGS, "train.batch_size": batch, **dict(options.set)}
    made = TASKS[task](backbone, settings=settings, device=options.device, show=False)
    objective = fix_batches(made.make_objective(graph), batch, options.steps)
    found: list[Rate] = []
    for record in options.record:
        name = f"{Path(backbone).name.replace(':', '-')}-{task}-{batch}-{record}"
        trainer = StepsAlone(
            objective,
            replace(made.config.train, cuda_graphs=RECORD[record]),
            device=made.device,
            folder=folder / name,
            **_timeline(options, name, folder),
        )
        way = trainer.way()
        if way in (one.way for one in found):
            print(f"{name}: {way}, as above", flush=True)
            continue
        started = time.perf_counter()
        trainer.fit()
        rate = Rate(backbone, task, batch, record, way, **trainer.found)
        found.append(rate)
        took = time.perf_counter() - started
        print(f"{json.dumps(asdict(rate))} ({took:.0f} s in all)", flush=True)
        del trainer
        _clean(made.device)
    return found


def fix_batches(objective: Any, size: int, steps: int) -> Any:
    """The objective with the same `steps` batches in every epoch, neighbors drawn alike."""
    make = objective.make
    whole = [ids for ids in objective.batches(0) if len(ids) == size] or objective.batches(0)
    kept = list(itertools.islice(itertools.cycle(whole), steps))
    objective.batches = lambda epoch: kept[:PROFILED_STEPS] if epoch == PROFILED else kept
    objective.make = lambda ids, epoch, micro: make(ids, 0, micro)
    return objective


class StepsAlone(Trainer):
    """The trainer as it is, less validation and checkpoints.

    After an epoch that records what is to be, one is timed and the beginning of one
    is watched; then the same batches, on the device already, go through the bare step.
    """

    def __init__(
        self,
        objective: Any,
        settings: TrainSettings,
        *,
        device: torch.device,
        folder: Path,
        timeline: Path | None,
        watched: list[Any],
    ) -> None:
        super().__init__(objective, settings, device=device, folder=folder, show=False)
        self.timeline, self.watched = timeline, watched
        self.found: dict[str, Any] = {"busy_ms": None}

    def way(self) -> str:
        """What `train.cuda_graphs` comes to with these batches."""
        graphs = use_cuda_graphs(
            self.objective,
            self.settings.cuda_graphs,
            device=self.device,
            steps=self.num_steps,
        )
        with graphs:
            read = self.objective.read
            made = self.objective.make(self.objective.batches(0)[0], 0, self.state.micro_batch_size)
            tokens = sizes(made)["tokens"]
            records = isinstance(read, GraphedModel) and tokens <= read.max_tokens
        return "recorded" if records else "as it is"

    def _train_epoch(self, log: Any, factor: Any, bar: Any) -> None:
        run = partial(super()._train_epoch, log, factor, bar)
        if self.state.epoch == PROFILED:
            self.found["busy_ms"] = self._watch(run)
            return
        synchronize(self.device)
        start = time.perf_counter()
        run()
        synchronize(self.device)
        self.found["whole_ms"] = (time.perf_counter() - start) / self.state.update * 1e3

    def _end_epoch(self, log: Any) -> None:
        at = self.state
        at.epoch, at.update = at.epoch + 1, 0
        at.finished = at.epoch > (TIMED if self.timeline is None else PROFILED)
        if at.finished:
            self.found |= self._bare()

    def _watch(self, run: Callable[[], None]) -> float | None:
        """Run what is given under the profiler: milliseconds of a step that the GPU works."""
        assert self.timeline is not None
        synchronize(self.device)
        try:
            with torch.profiler.profile(activities=self.watched) as found:
                run()
                synchronize(self.device)
            found.export_chrome_trace(str(self.timeline))
            return busy_ms(self.timeline) / self.state.update or None
        except Exception as error:  # the other figures are worth having without this one
            print(f"no timeline: {type(error).__name__}: {error}", flush=True)
            return None

    def _bare(self) -> dict[str, float]:
        """The steps alone, and what they read: nothing is drawn, packed, copied, or logged."""
        micro = self.state.micro_batch_size
        groups = [self.objective.make(ids, 0, micro) for ids in self.objective.batches(TIMED)]
        pieces = [[self._placed(piece) for piece in group] for group in groups]
        for batch in pieces[:PROFILED_STEPS]:
            self._bare_step(batch)
        synchronize(self.device)
        start = time.perf_counter()
        for batch in pieces:
            self._bare_step(batch)
        synchronize(self.device)
        bare = (time.perf_counter() - start) / len(pieces) * 1e3
        return {"bare_ms": bare, **_means([sizes(group) for group in groups])}

    def _placed(self, piece: Any) -> Any:
        """A piece on the device; the host keeps the labels, from which it weighs pieces."""
        moved = piece.to(self.device)
        if not isinstance(piece, EdgeBatch) or self.device.type != "cuda":
            return moved
        return replace(moved, label=piece.pin_memory().label)

    def _bare_step(self, batch: list[Any]) -> None:
        self.optimizers.zero_grad()
        self.objective.backward([[renewed(piece) for piece in batch]])
        self.optimizers.step(1.0)


def renewed(piece: Any) -> Any:
    """A batch as if it had just been made: what is derived from it is derived anew."""
    if isinstance(piece, LinkBatch):
        return replace(piece, egos=fresh(piece.egos))
    return fresh(piece)


def sizes(group: list[Any]) -> dict[str, int]:
    """Tokens, edges and centers that a step reads."""
    parts = [piece.egos if isinstance(piece, LinkBatch) else piece for piece in group]
    return {
        "tokens": sum(part.text.num_tokens for part in parts),
        "edges": sum(part.text.num_texts for part in parts),
        "centers": sum(len(part) for part in parts if hasattr(part, "center")),
    }


def busy_ms(timeline: Path) -> float:
    """Milliseconds of a timeline in which the GPU does something, each counted once."""
    with timeline.open(encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    spans = sorted(
        (e["ts"], e["ts"] + e.get("dur", 0)) for e in events if e.get("cat") in ON_DEVICE
    )
    busy, until = 0.0, float("-inf")
    for start, end in spans:
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return busy / 1e3


def _means(found: list[dict[str, int]]) -> dict[str, float]:
    return {name: sum(one[name] for one in found) / len(found) for name in found[0]}


def _timeline(options: argparse.Namespace, name: str, folder: Path) -> dict[str, Any]:
    """Where a timeline is written, and what is in it: more where somebody will look at it."""
    host, gpu = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA
    of_gpu = [gpu] if options.device.startswith("cuda") else []
    if options.trace is None:
        return {"timeline": folder / f"{name}.json" if of_gpu else None, "watched": of_gpu}
    path = options.trace.with_name(f"{options.trace.stem}-{name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    return {"timeline": path, "watched": [host, *of_gpu]}


def _network(options: argparse.Namespace, folder: Path) -> EdgeTextGraph:
    if options.network is not None:
        return EdgeTextGraph.open(options.network)
    return simulated_network(folder / "network", options.edges)


def _report(found: list[Rate], options: argparse.Namespace) -> None:
    print_table(
        f"Training beside the bare step, {options.steps} steps",
        [
            *("", "batch", "record", "", "bare, ms", "training, ms"),
            *("ratio", "GPU waits", "edges/s", "centers/s"),
        ],
        [
            [
                f"{Path(one.backbone).name} {one.task}",
                f"{one.batch:,}",
                one.record,
                one.way,
                f"{one.bare_ms:.2f}",
                f"{one.whole_ms:.2f}",
                f"{one.ratio:.2f}",
                "" if one.waits is None else f"{one.waits:.0%}",
                f"{one.edges / one.whole_ms * 1e3:,.0f}",
                f"{one.centers / one.whole_ms * 1e3:,.0f}" if one.centers else "",
            ]
            for one in found
        ],
    )
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        facts = {"machine": machine(), "device": _device_name(options), "torch": torch.__version__}
        rows = [{**asdict(one), "ratio": one.ratio, "waits": one.waits} for one in found]
        written = json.dumps({**facts, "rates": rows}, indent=1)
        (options.out / "throughput.json").write_text(written, encoding="utf-8")


def _device_name(options: argparse.Namespace) -> str:
    is_gpu = options.device.startswith("cuda")
    return torch.cuda.get_device_name() if is_gpu else str(options.device)


def _clean(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--network", type=Path, help="a prepared network; without, one is simulated"
    )
    parser.add_argument("--edges", type=int, default=20_000, help="of the simulated network")
    parser.add_argument(
        "--backbone", nargs="+", default=["scratch:12x768"], help="untrained sizes, or folders"
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument(
        "--batch",
        nargs="+",
        type=int,
        default=[25],
        help=f"pairs of a step; of edges {2 * NEIGHBORS} times as many, to read as many texts",
    )
    parser.add_argument("--record", nargs="+", default=["off", "auto"], choices=RECORD)
    parser.add_argument("--set", action="append", type=parse_setting, default=[], metavar="NAME=V")
    parser.add_argument("--steps", type=int, default=24, help="of the timed epoch")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--trace", type=Path, help="write timelines FILE-....json of ten steps")
    parser.add_argument("--out", type=Path, help="folder for throughput.json")
    return parser


if __name__ == "__main__":
    main()
