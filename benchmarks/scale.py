"""Training speed at the size of Amazon-Apps: texts and links per second, old and new settings.

python -m benchmarks.scale --out results                        on a GPU, alone
python -m benchmarks.scale --device cpu --edges 4000 --backbone scratch:2x32 --seconds 1   anywhere

Texts are random tokens, about 35 each, and weights are untrained: neither changes the speed. Rates
exclude the first steps, in which kernels are compiled and CUDA graphs captured, and validation.
"""

import argparse
import gc
import json
import statistics
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import edgeformers
from benchmarks.machine import machine, print_table, synchronize
from benchmarks.network import write_arrays, write_random_tokens
from edgeformers.data.batch import LinkBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.sampler import Neighborhoods
from edgeformers.estimators.build import batch_settings
from edgeformers.nn.backbones import random_backbone
from edgeformers.nn.encoder import EncoderConfig
from edgeformers.training.trainer import Trainer

TASKS = {"edges": edgeformers.EdgeClassifier, "links": edgeformers.LinkPredictor}
#: Edges, sources and targets of Amazon-Apps, simulated.
APPS = (750_000, 87_000, 13_200)
WORDS = 30_522
SKEW = 2.0  # a node's share of the edges falls with its rank

#: What the recipe was before, and what replaced it.
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "edges": {"old": {"train.batch_size": 64}, "new": {}},
    "links": {
        "old": {"train.batch_size": 128},
        "new": {},
        "cache": {"links.uniform_negatives": 0, "links.cached_negatives": 4_096},
        "eager": {"train.cuda_graphs": False},
    },
}


@dataclass(frozen=True)
class Rate:
    """The speed of one way of training; per second, over the timed steps."""

    task: str
    name: str
    batch_size: int
    steps: int
    examples: float  # edges or links
    texts: float  # read by the encoder; with R-Drop each twice
    tokens: float
    step_ms: float  # median
    host_ms: float  # median of the time until a step is launched
    make_ms: float  # mean time to make a batch, in the background


class TimedTrainer(Trainer):
    """Trains for some seconds and notes when each step ends."""

    def __init__(self, *args: Any, warmup: int, seconds: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self.warmup, self.seconds = warmup, seconds
        self.times: list[float] = []
        self.launched: list[float] = []
        self.made: list[float] = []
        self.read: list[tuple[int, int, int]] = []  # examples, texts and tokens of each step

    def _make(self, ids: Any, epoch: int) -> list[Any]:
        started = time.perf_counter()
        made = super()._make(ids, epoch)
        self.made.append(time.perf_counter() - started)
        return made

    def _update(self, ids: Any, batches: Any, factor: float, log: Any) -> torch.Tensor:
        if len(self.times) == self.warmup:
            synchronize(self.device)
        started = time.perf_counter()
        loss = super()._update(ids, batches, factor, log)
        self.launched.append(time.perf_counter() - started)
        pieces = [piece for batch in batches for piece in batch]
        texts = [(p.egos if isinstance(p, LinkBatch) else p).text for p in pieces]
        twice = 2 if getattr(self.objective.head, "rdrop", 0) else 1
        count, tokens = (sum(getattr(t, n) for t in texts) for n in ("num_texts", "num_tokens"))
        self.read.append((sum(map(len, ids)), twice * count, twice * tokens))
        self.times.append(time.perf_counter())
        timed = self.times[self.warmup :]
        if len(timed) > 1 and timed[-1] - timed[0] >= self.seconds:
            synchronize(self.device)
            self.times[-1] = time.perf_counter()
            raise _Enough
        return loss

    def rate(self, task: str, name: str) -> Rate:
        times, first = self.times[self.warmup :], self.warmup + 1
        seconds = times[-1] - times[0]
        examples, texts, tokens = np.array(self.read[first:]).sum(0) / seconds
        return Rate(
            task,
            name,
            self.objective.batch_size,
            len(times) - 1,
            examples,
            texts,
            tokens,
            statistics.median(np.diff(times)) * 1e3,
            statistics.median(self.launched[first:]) * 1e3,
            statistics.mean(self.made[first:]) * 1e3,
        )


class _Enough(Exception):
    """Enough steps have been timed."""


def apps_network(out: Path, edges: int, *, seed: int = 5) -> EdgeTextGraph:
    """A network with the edges per node of Amazon-Apps, five labels and random tokens."""
    rng = np.random.default_rng(seed)
    sources, targets = (max(8, count * edges // APPS[0]) for count in APPS[1:])
    src = np.concatenate([np.arange(sources), rng.integers(0, sources, edges - sources)])
    dst = (rng.random(edges) ** SKEW * targets).astype(np.int64)
    graph = write_arrays(
        out,
        src=src,
        dst=dst,
        num_nodes=(sources, targets),
        labels=rng.integers(0, 5, edges),
        label_names=list("12345"),
    )
    write_random_tokens(graph, WORDS)
    return graph


def measure(task: str, name: str, graph: EdgeTextGraph, options: argparse.Namespace) -> Rate:
    """Train with one group of settings for some seconds."""
    layers, width = map(int, options.backbone.removeprefix("scratch:").split("x"))
    encoder = EncoderConfig(
        vocab_size=WORDS, width=width, heads=max(1, width // 32), layers=layers, ffn_width=4 * width
    )
    tokens = graph.token_store("random")
    settings = {
        "model.backbone": options.backbone,
        "model.node_init": "random",
        "train.checkpoint_every": 1_000_000_000,
        "links.ensemble": False,
        **SETTINGS[task][name],
    }
    made = TASKS[task](settings=settings, device=options.device, show=False)
    if made.config.train.batch_size is None:  # as on a GPU, on any device
        grown = batch_settings(made.config, graph.num_edges * 8 // 10)
        made = TASKS[task](settings={**grown, **settings}, device=options.device, show=False)
    opened = (random_backbone(encoder, seed=0), tokens)
    with patch("edgeformers.estimators.build.open_backbone", lambda *_, **__: opened):
        objective = made.make_objective(graph)
    trainer = TimedTrainer(
        objective,
        made.config.train,
        device=made.device,
        show=False,
        warmup=options.warmup,
        seconds=options.seconds,
    )
    try:
        with encoding_repeats() if name == "old" else nullcontext():
            trainer.fit()
    except _Enough:
        return trainer.rate(task, name)
    raise RuntimeError(f"{task} {name}: training ended before {options.seconds} s; use more edges")


def encoding_repeats() -> Any:
    """Encode targets that repeat within a batch as often as they occur, as the old version did."""
    return patch.object(Neighborhoods, "distinct", lambda self: (self, np.arange(len(self.center))))


def main(arguments: list[str] | None = None) -> list[Rate]:
    options = _parser().parse_args(arguments)
    rates: list[Rate] = []
    with TemporaryDirectory() as folder:
        started = time.perf_counter()
        graph = apps_network(Path(folder) / "network", options.edges)
        print(f"{graph}, written in {time.perf_counter() - started:.1f} s", flush=True)
        for task in options.tasks:
            names = [name for name in options.names or SETTINGS[task] if name in SETTINGS[task]]
            rounds: dict[str, list[Rate]] = {name: [] for name in names}
            for name in names * options.rounds:  # in turns, so that all meet the same machine
                started = time.perf_counter()
                rounds[name].append(measure(task, name, graph, options))
                took = time.perf_counter() - started
                print(f"{json.dumps(asdict(rounds[name][-1]))} ({took:.0f} s in all)", flush=True)
                gc.collect()
            rates += [_median(own) for own in rounds.values()]
    _report(rates, options)
    return rates


def _median(rates: list[Rate]) -> Rate:
    """The round with the median speed; of two, the slower."""
    return sorted(rates, key=lambda rate: rate.examples)[(len(rates) - 1) // 2]


def _report(rates: list[Rate], options: argparse.Namespace) -> None:
    old = {rate.task: rate for rate in rates if rate.name == "old"}
    ratios = [rate.examples / old[rate.task].examples if rate.task in old else 0 for rate in rates]
    head = ["", "settings", "batch", "steps", "step, ms", "launch, ms", "make, ms"]
    print_table(
        f"Training at {options.edges:,} edges, {options.backbone}, {options.device}",
        [*head, "examples/s", "texts/s", "tokens/s", "ratio"],
        [
            [
                *(rate.task, rate.name, f"{rate.batch_size:,}", f"{rate.steps:,}"),
                *(f"{ms:.2f}" for ms in (rate.step_ms, rate.host_ms, rate.make_ms)),
                *(f"{count:,.0f}" for count in (rate.examples, rate.texts, rate.tokens)),
                f"{ratio:.2f}" if ratio else "",
            ]
            for rate, ratio in zip(rates, ratios, strict=True)
        ],
    )
    if options.out is not None:
        is_gpu = options.device.startswith("cuda")
        device = torch.cuda.get_device_name() if is_gpu else options.device
        facts = {"machine": machine(), "device": device, "torch": torch.__version__}
        rows = [{**asdict(r), "ratio": q} for r, q in zip(rates, ratios, strict=True)]
        options.out.mkdir(parents=True, exist_ok=True)
        written = {**facts, "backbone": options.backbone, "edges": options.edges, "rates": rows}
        (options.out / "scale-training.json").write_text(json.dumps(written, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edges", type=int, default=APPS[0])
    parser.add_argument("--backbone", default="scratch:6x384", help="MiniLM's size")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--names", nargs="+", help="settings; by default all")
    parser.add_argument("--warmup", type=int, default=60, help="steps before the timed ones")
    parser.add_argument("--seconds", type=float, default=5.0, help="of timed steps")
    parser.add_argument("--rounds", type=int, default=3, help="of all settings in turns")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path, help="folder for scale-training.json")
    return parser


if __name__ == "__main__":
    main()
