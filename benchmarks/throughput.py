"""Training from end to end, with sampling, loading, logging and checkpoints, beside the bare step.

python -m benchmarks.throughput                        Edgeformer-N and -E of BERT-base's size
python -m benchmarks.throughput --device cpu --backbone scratch:2x64 --edges 2000  anywhere
"""

import argparse
import itertools
import json
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import edgeformers
from benchmarks.data import lengthen
from benchmarks.machine import machine, print_table
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.simulate import simulate
from edgeformers.train.optim import Optimizers
from edgeformers.train.runlog import read_log
from edgeformers.train.speed import count_tokens, faster_training

SETTINGS: dict[str, Any] = {
    "train.epochs": 2,
    "train.checkpoint_every": 1_000_000,
    "data.source_neighbors": [5],
    "data.target_neighbors": [5],
    "train.eval_pairs": 100,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backbone", default="scratch:12x768")
    parser.add_argument("--edges", type=int, default=8_000)
    parser.add_argument("--batch", nargs="+", type=int, default=[25, 256], help="pairs of a step")
    parser.add_argument("--compile", default="on", choices=["auto", "on", "off"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, help="folder for throughput.json")
    options = parser.parse_args()
    print(f"{machine()}, torch {torch.__version__}, {options.device}", flush=True)
    found = []
    with TemporaryDirectory() as folder:
        graph = make_network(options.edges, Path(folder) / "network")
        for task, batch in itertools.product(("links", "edges"), options.batch):
            size = batch if task == "links" else batch * 10
            found.append(measure(task, graph, size, options, Path(folder) / f"{task}-{batch}"))
            print(json.dumps(found[-1]), flush=True)
    print_table(
        "Training from end to end beside the bare step",
        ["", "examples", "bare, ms", "end to end, ms", "ratio", "GPU waits"],
        [
            [
                one["task"],
                f"{one['batch']}",
                f"{one['bare_ms']:.2f}",
                f"{one['whole_ms']:.2f}",
                f"{one['whole_ms'] / one['bare_ms']:.2f}",
                "" if one["waits"] is None else f"{one['waits']:.0%}",
            ]
            for one in found
        ],
    )
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "throughput.json").write_text(json.dumps(found, indent=1))


def make_network(edges: int, out: Path) -> EdgeTextGraph:
    """The built-in network with texts of about 58 tokens."""
    simulated = simulate(num_edges=edges, seed=0)
    table = replace(simulated.table, open=lambda: map(lengthen, simulated.table.open()))
    config = PrepareConfig(tokenizer="train:8000", progress=False)
    return write_network(table, out, nodes=[simulated.nodes], config=config)


def measure(task: str, graph: Any, batch: int, options: argparse.Namespace, run: Path) -> Any:
    """Milliseconds of a step in a real training, and of the same step alone."""
    kind = edgeformers.LinkPredictor if task == "links" else edgeformers.EdgeClassifier
    settings = {**SETTINGS, "train.batch_size": batch, "train.compile": options.compile}
    settings |= {"links.uniform_negatives": 0} if task == "links" else {"edges.consistency": 0.0}
    made = kind(options.backbone, settings=settings, device=options.device, show=False)
    made.fit(graph, run=run)
    rate = [e for e in read_log(run / "metrics.jsonl") if e["kind"] == "speed"][-1]
    whole = batch / rate["examples_per_second"] * 1e3
    return {
        "task": task,
        "batch": batch,
        "whole_ms": whole,
        "bare_ms": bare_step(made, options),
        "waits": gpu_waits(made, graph) if options.device == "cuda" else None,
    }


def bare_step(made: Any, options: argparse.Namespace) -> float:
    """The same steps on batches that are already on the device, nothing else around them."""
    objective, train = made.objective, made.config.train
    objective.modules.train()
    device = torch.device(made.device)
    optimizers = Optimizers(objective.modules, train, can_halt=True)
    ids = objective.batches(0)[:8]
    batches = [[piece.to(device) for piece in objective.make(one, 0, None)] for one in ids]
    tokens = count_tokens(batches[0])
    faster = faster_training(objective, train.compile, device=device, steps=1, tokens=tokens)

    def step(batch: list[Any]) -> None:
        optimizers.zero_grad()
        loss = objective.backward([batch])
        optimizers.halt_unless_finite(loss)
        optimizers.step(1.0)

    with faster:
        for batch in batches * 2:
            step(batch)
        _wait(device)
        start = time.perf_counter()
        for batch in batches * 2:
            step(batch)
        _wait(device)
    return (time.perf_counter() - start) / (2 * len(batches)) * 1e3


def gpu_waits(made: Any, graph: Any) -> float:
    """The share of a real training's time in which no kernel runs, steps alone."""
    from edgeformers.train.trainer import Trainer

    trainer = Trainer(made.objective, made.config.train, device=made.device, show=False)
    trainer.objective.evaluate = lambda part: {trainer.objective.select: 0.0}  # steps alone
    spans: list[tuple[float, float]] = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        trainer.fit()
        torch.cuda.synchronize()
    for event in found.events():
        if event.device_type == torch.profiler.DeviceType.CUDA:
            spans.append((event.time_range.start, event.time_range.end))
    spans.sort()
    spans = spans[len(spans) // 2 :]  # behind what is compiled and recorded
    busy, until = 0.0, spans[0][0]
    for start, end in spans:
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return 1 - busy / (until - spans[0][0])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
