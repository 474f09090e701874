"""One training step, and inference, of our models beside the padded reference and other models.

python -m benchmarks.step                                   everything, on a GPU
python -m benchmarks.step --parts ceiling nodes --centers 25   a part of it
python -m benchmarks.step --device cpu --layers 2 --width 64 --centers 3  to try it anywhere
"""

import argparse
import gc
import itertools
import json
import statistics
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.machine import machine, print_table
from benchmarks.network import regular_network, write_random_tokens
from benchmarks.reference import check_golden, pad_edges, pad_egos, padded_twin
from benchmarks.workload import (
    MAX_TOKENS,
    bert_encoder,
    draw_edges,
    draw_egos,
    new_model,
    useful_flops,
)
from edgeformers.config import TrainSettings
from edgeformers.data.batch import EdgeBatch, EgoBatch
from edgeformers.data.loader import EgoLoader
from edgeformers.inference.cuda_graphs import MIN_USES
from edgeformers.inference.encode import EncodeOptions
from edgeformers.nn.encoder import EncoderConfig
from edgeformers.registry import MODELS
from edgeformers.training.cuda_graphs import NO_LIMIT, GraphedModel
from edgeformers.training.optimizers import Optimizers

PARTS = (
    "ceiling",
    "kernels",
    "parity",
    "nodes",
    "edges",
    "inference",
    "neighbors",
    "tables",
    "profile",
)
VARIANTS = ("reference", "eager", "recorded", "rivals")
WAYS = ("eager", "recorded")
DRAWS = 3  # batches of one shape that a step of ours goes through in turn
RIVALS = ("graphformers-n", "bert-gin", "bert-nenn")
CLASSES = 5


@dataclass(frozen=True)
class Measured:
    """What one variant took."""

    name: str
    what: str
    ms: float
    spread: float  # between the slowest and the fastest of the timed steps, as a share
    texts_per_second: float
    tflops: float  # useful ones
    share: float  # of the measured matrix-product ceiling
    peak_gb: float
    times_faster: float | None = None  # than the padded reference in fp32


class Bench:
    """Runs variants one after the other; one that fails is reported and the rest goes on."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = torch.device(options.device)
        self.encoder = bert_encoder(options.layers, options.width, options.vocab)
        self.ceiling = 0.0
        self.found: list[Measured] = []
        self.notes: list[str] = []
        self.started = time.perf_counter()

    def note(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", flush=True)
        self.notes.append(text)

    def measure(
        self, name: str, what: str, make: Callable[[], Callable[[], Any]], texts: int, flops: float
    ) -> Measured | None:
        """Time what `make` gives; nothing of it is left in memory afterwards."""
        self._clean()
        try:
            started = time.perf_counter()
            run = make()
            times = self._times(run)
            took = time.perf_counter() - started
            for why in filter(None, [getattr(getattr(run, "read", None), "failure", "")]):
                self.note(f"{what} / {name} could not be recorded: {why}")
            peak = torch.cuda.max_memory_allocated() / 1e9 if self._on_gpu else float("nan")
            del run
        except Exception as error:
            self.note(f"FAILED {what} / {name}: {type(error).__name__}: {error}")
            if not isinstance(error, torch.OutOfMemoryError):
                traceback.print_exc()
            return None
        finally:
            self._clean()
        ms = statistics.median(times)
        tflops = flops / ms / 1e9
        one = Measured(
            name,
            what,
            ms,
            (max(times) - min(times)) / ms,
            texts / ms * 1e3,
            tflops,
            tflops / self.ceiling if self.ceiling else float("nan"),
            peak,
        )
        base = next((m for m in self.found if m.what == what and m.name == "reference fp32"), None)
        one = replace(one, times_faster=base.ms / ms) if base else one
        self.found.append(one)
        times = f", {one.times_faster:.1f}x" if one.times_faster else ""
        self.note(
            f"{what} / {name}: {ms:.2f} ms (+-{one.spread:.0%}), {tflops:.0f} TFLOP/s "
            f"({one.share:.0%}), {peak:.1f} GB{times}; {took:.1f} s with the first steps"
        )
        return one

    @property
    def _on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def _times(self, run: Callable[[], Any]) -> list[float]:
        for _ in range(max(self.options.warmup, 2 * DRAWS if hasattr(run, "read") else 0)):
            run()
        if not self._on_gpu:
            return [_host_ms(run) for _ in range(self.options.steps)]
        torch.cuda.synchronize()
        rounds = []
        for _ in range(self.options.steps):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            stop.record()
            rounds.append((start, stop))
        torch.cuda.synchronize()
        return [start.elapsed_time(stop) for start, stop in rounds]

    def _clean(self) -> None:
        gc.collect()
        if self._on_gpu:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def _host_ms(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def autocast(device: torch.device, precision: str) -> Any:
    """fp32 as it is, fp32 through TF32, or bf16 autocast."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def link_loss(both: Tensor, batch: Any = None) -> Tensor:
    """The softmax over keys in the batch; queries are the first half of the rows."""
    query, key = both.float().chunk(2)
    return F.cross_entropy(query @ key.T, torch.arange(len(query), device=both.device))


# ---- steps ------------------------------------------------------------------------------------


def reference_step(bench: Bench, model: nn.Module, batch: Any, loss: Any, precision: str) -> Any:
    """AdamW over everything, the node table dense, all texts padded."""
    twin = padded_twin(model).to(bench.device).train()  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(twin.parameters(), lr=1e-5, weight_decay=1e-3)

    def run() -> None:
        optimizer.zero_grad()
        with autocast(bench.device, precision):
            found = twin(batch)
        loss(found).backward()
        optimizer.step()

    return run


def our_step(
    bench: Bench, model: nn.Module, batches: list[Any], loss: Any, way: str
) -> Callable[[], None]:
    """The model as it is trained in bf16, in one of `WAYS`; batches come in turn."""
    model.to(bench.device).train()
    read = faster(model, way)
    optimizers = Optimizers(model, TrainSettings(), can_disable=True)
    turns = itertools.cycle([batch.to(bench.device) for batch in batches])

    def run() -> None:
        batch = fresh(next(turns))
        optimizers.zero_grad()
        with autocast(bench.device, "bf16"):
            found = read(batch)
        made = loss(found, batch)
        made.backward()
        optimizers.disable_if_nonfinite(made)
        optimizers.step(1.0)

    run.read = read  # type: ignore[attr-defined]
    return run


def faster(model: nn.Module, way: str) -> Any:
    """The model, or a faster way to call it."""
    return GraphedModel(model, max_tokens=NO_LIMIT) if way == "recorded" else model


def inference(bench: Bench, model: nn.Module, batch: Any, precision: str) -> Any:
    model.to(bench.device).eval()
    batch = batch.to(bench.device)

    def run() -> Tensor:
        with torch.inference_mode(), autocast(bench.device, precision):
            return model(batch if not hasattr(batch, "text") else fresh(batch))

    return run


def fresh(batch: Any) -> Any:
    """The batch as if it had just been made: what is derived from it is derived anew."""
    parts = {"text": replace(batch.text, _cache={})}
    if isinstance(batch, EgoBatch):
        parts["egos"] = replace(batch.egos, _cache={})
    return replace(batch, **parts)


# ---- parts ------------------------------------------------------------------------------------


def ceiling(bench: Bench) -> None:
    """The best rate of a bf16 matrix product here, on random numbers."""
    if not bench._on_gpu:
        return
    best = 0.0
    for size in (4096, 8192):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        best = max(best, 2 * size**3 / device_ms(lambda a=a, b=b: a @ b) / 1e9)
    bench.ceiling = best
    source = torch.randn(1 << 30, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    moved = 2 * source.nbytes / device_ms(lambda: target.copy_(source)) / 1e9
    bench.note(f"ceilings: bf16 matrix product {best:.0f} TFLOP/s, copy {moved:.2f} TB/s")


def device_ms(run: Callable[[], Any], times: int = 10) -> float:
    """Mean time of a launch among several after a warm-up."""
    for _ in range(3):
        run()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        run()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / times


def nodes(bench: Bench) -> None:
    """Training steps of Edgeformer-N: centers are queries and as many keys."""
    for centers in bench.options.centers:
        for kind in bench.options.lengths:
            _node_steps(bench, centers, bench.options.neighbors, kind == "full")


def _node_steps(bench: Bench, centers: int, neighbors: int, full: bool) -> None:
    what = f"N {centers}x{neighbors}x2 {'full' if full else 'real'}"
    batches = _draw_egos(bench, centers, neighbors, full)
    flops = _mean_flops(bench, batches, virtual=3)
    padded = pad_egos(batches[0], neighbors, MAX_TOKENS).to(bench.device)
    check_twin(bench, what, node_model(bench.encoder), batches[0], padded)
    texts = batches[0].text.num_texts
    for precision in ("fp32", "tf32", "bf16") if wanted(bench, "reference") else ():
        make = _late(reference_step, bench, node_model, padded, link_loss, precision)
        bench.measure(f"reference {precision}", what, make, texts, flops)
    for way in filter(lambda way: wanted(bench, way), WAYS):
        make = _late(our_step, bench, node_model, batches, link_loss, way)
        bench.measure(f"ours {way} bf16", what, make, texts, flops)
    for name in bench.options.rivals if wanted(bench, "rivals") else ():
        rival_steps(bench, name, what, batches, flops)


def _draw_egos(bench: Bench, centers: int, neighbors: int, full: bool) -> list[EgoBatch]:
    return [
        draw_egos(
            2 * centers,
            neighbors,
            full=full,
            vocab_size=bench.encoder.vocab_size,
            seed=DRAWS * centers + draw,
        )
        for draw in range(DRAWS)
    ]


def _mean_flops(bench: Bench, batches: list[Any], *, virtual: int) -> float:
    """Useful FLOP of a training step: thrice those of reading."""
    found = [
        useful_flops(
            bench.encoder, np.diff(batch.text.host_offsets), virtual=virtual, local=virtual == 3
        )
        for batch in batches
    ]
    return 3 * statistics.mean(found)


def edges(bench: Bench) -> None:
    """Training steps of Edgeformer-E, as many texts as Edgeformer-N has."""
    for centers in bench.options.centers:
        for kind in bench.options.lengths:
            _edge_steps(bench, centers * 2 * bench.options.neighbors, kind == "full")


def _edge_steps(bench: Bench, count: int, full: bool) -> None:
    what = f"E {count} {'full' if full else 'real'}"
    vocab = bench.encoder.vocab_size
    batches = [
        draw_edges(count, full=full, vocab_size=vocab, seed=DRAWS * count + draw)
        for draw in range(DRAWS)
    ]
    flops = _mean_flops(bench, batches, virtual=2)
    padded = pad_edges(batches[0], MAX_TOKENS).to(bench.device)
    check_twin(bench, what, edge_model(bench.encoder), batches[0], padded)
    head = nn.Linear(bench.encoder.width, CLASSES).to(bench.device)
    label = batches[0].label.to(bench.device)  # type: ignore[union-attr]

    def loss(edge_repr: Tensor, batch: Any = None) -> Tensor:
        return F.cross_entropy(head(edge_repr.float()), label)

    for precision in ("fp32", "tf32", "bf16") if wanted(bench, "reference") else ():
        make = _late(reference_step, bench, edge_model, padded, loss, precision)
        bench.measure(f"reference {precision}", what, make, count, flops)
    for way in filter(lambda way: wanted(bench, way), WAYS):
        make = _late(our_step, bench, edge_model, batches, loss, way)
        bench.measure(f"ours {way} bf16", what, make, count, flops)


def inferences(bench: Bench) -> None:
    """Encoding alone: no gradient, nothing dropped."""
    neighbors = bench.options.neighbors
    for centers in bench.options.centers:
        batch = draw_egos(
            2 * centers, neighbors, full=False, vocab_size=bench.encoder.vocab_size, seed=centers
        )
        lengths = np.diff(batch.text.host_offsets)
        flops = useful_flops(bench.encoder, lengths, virtual=3, local=True)
        padded = pad_egos(batch, neighbors, MAX_TOKENS).to(bench.device)
        what = f"N inference {centers}x{neighbors}x2 real"
        for precision in ("fp32", "bf16"):
            if wanted(bench, "reference"):
                twin = _late(_twin_inference, bench, padded, precision)
                bench.measure(f"reference {precision}", what, twin, len(lengths), flops)
        if wanted(bench, "eager"):
            make = _late(_our_inference, bench, batch, "bf16")
            bench.measure("ours eager bf16", what, make, len(lengths), flops)
        if wanted(bench, "recorded"):
            make = _late(_graphed_inference, bench, batch)
            bench.measure("ours recorded bf16", what, make, len(lengths), flops)


def _twin_inference(bench: Bench, padded: Any, precision: str) -> Any:
    return inference(bench, padded_twin(node_model(bench.encoder)), padded, precision)


def _our_inference(bench: Bench, batch: Any, precision: str) -> Any:
    return inference(bench, node_model(bench.encoder), batch, precision)


def _graphed_inference(bench: Bench, batch: Any) -> Callable[[], Tensor]:
    """From a batch on the host, as `recommend` encodes; the others start on the GPU."""
    model = node_model(bench.encoder).to(bench.device).eval()
    options = EncodeOptions(device=bench.device, autocast=lambda: autocast(bench.device, "bf16"))

    def run() -> Tensor:
        return options.encode(model, fresh(batch))

    first, last = [run() for _ in range(MIN_USES + 1)][::MIN_USES]
    error = float((last - first).norm() / first.norm())
    bench.note(f"recorded inference differs from eager by {error:.1e}")
    run.read = next(iter(options.graphed.values()), None)  # type: ignore[attr-defined]
    return run


def neighborhoods(bench: Bench) -> None:
    """The cost of a step as neighborhoods grow."""
    rows = []
    for neighbors in (2, 3, 4, 5, 10, 20, 50):
        batches = _draw_egos(bench, 25, neighbors, full=False)
        flops = _mean_flops(bench, batches, virtual=3)
        make = _late(our_step, bench, node_model, batches, link_loss, "recorded")
        what, texts = f"N 25x{neighbors}x2 real", batches[0].text.num_texts
        one = bench.measure("ours recorded bf16", what, make, texts, flops)
        if one is not None:
            rows.append([str(neighbors), f"{one.ms:.2f}", f"{one.ms / texts * 1e3:.1f}"])
    print_table("Neighbors, 25 centers", ["neighbors", "ms", "us per text"], rows)


def tables(bench: Bench) -> None:
    """The cost of a step as the network grows: drawing, packing, and the model with its table.

    Batches are drawn anew from networks on disk, with as many nodes in the table as edges. What
    the host does is timed alone; the step reads batches that are on the device.
    """
    rows = []
    for edges in bench.options.sizes:
        with TemporaryDirectory() as folder:
            loader = _drawing(bench, Path(folder) / "network", edges)
            batches, host_ms = _draw_pairs(loader, edges)
            flops = _mean_flops(bench, batches, virtual=3)
            way = "recorded" if bench._on_gpu else "eager"
            make = partial(_table_step, bench, batches, edges, way)
            what, texts = f"N 25x{bench.options.neighbors}x2, {edges:,} edges", batches[0].text
            one = bench.measure(f"ours {way} bf16", what, make, texts.num_texts, flops)
        if one is not None:
            rows.append([f"{edges:,}", f"{host_ms:.2f}", f"{one.ms:.2f}", f"{one.peak_gb:.1f}"])
    print_table(
        "Growing networks, 25 centers; as many nodes as edges",
        ["edges", "drawn and packed, ms", "step, ms", "peak GB"],
        rows,
    )


def _drawing(bench: Bench, folder: Path, edges: int) -> EgoLoader:
    graph = regular_network(folder, edges)
    tokens = write_random_tokens(graph, bench.encoder.vocab_size)
    sampler = graph.sampler("edge", (bench.options.neighbors,))
    return EgoLoader(
        graph=graph,
        tokens=tokens,
        max_tokens=MAX_TOKENS,
        source_sampler=sampler,
        target_sampler=sampler,
    )


def _draw_pairs(loader: EgoLoader, edges: int, times: int = 60) -> tuple[list[EgoBatch], float]:
    """The last batches of many, and the milliseconds that one takes in the middle."""
    rng, took = np.random.default_rng(0), []
    found: deque[EgoBatch] = deque(maxlen=DRAWS)
    for epoch in range(times):
        ids = rng.integers(0, edges, 25)
        start = time.perf_counter()
        src, dst = (nodes[ids].astype(np.int64) for nodes in (loader.graph.src, loader.graph.dst))
        sources = loader.source_sampler.sample(src, partners=dst, epoch=epoch)
        targets = loader.target_sampler.sample(dst, partners=src, epoch=epoch)
        found.append(loader.pack(sources, targets))  # as published, also targets that repeat
        took.append((time.perf_counter() - start) * 1e3)
    return list(found), statistics.median(took)


def _table_step(bench: Bench, batches: list[EgoBatch], nodes: int, way: str) -> Callable[[], None]:
    model = new_model("edgeformer-n", bench.encoder, num_nodes=nodes)
    return our_step(bench, model, batches, link_loss, way)


def parity(bench: Bench) -> None:
    """Every way against float32: what is read, and the gradients, with nothing dropped."""
    batches = _draw_egos(bench, 25, bench.options.neighbors, full=False)
    exact = _gradients(bench, batches[0], "eager", "fp32")
    for way in filter(lambda way: wanted(bench, way), WAYS):
        try:
            found = _gradients(bench, batches[0], way, "bf16")
        except Exception as error:
            bench.note(f"FAILED parity {way}: {type(error).__name__}: {error}")
            traceback.print_exc()
            continue
        errors = {name: relative(found[name], exact[name]) for name in exact}
        worst = max(errors, key=lambda name: errors[name])
        middle = statistics.median(errors.values())
        bench.note(
            f"parity {way} bf16 to fp32: output {errors['output']:.1e}, gradients in the middle "
            f"{middle:.1e}, worst {errors[worst]:.1e} ({worst})"
        )


def _gradients(bench: Bench, batch: Any, way: str, precision: str) -> dict[str, Tensor]:
    model = node_model(replace(bench.encoder, **NOTHING_DROPPED)).to(bench.device).train()
    read = faster(model, way)
    batch = fresh(batch.to(bench.device))
    weights = torch.randn(
        len(batch), bench.encoder.width, generator=torch.Generator().manual_seed(0)
    ).to(bench.device)
    for _ in range(2):  # the second time what was recorded is replayed
        model.zero_grad(set_to_none=True)
        with autocast(bench.device, precision):
            found = read(batch)
        (found.float() * weights).sum().backward()
    if getattr(read, "failure", ""):
        bench.note(f"parity {way}: could not be recorded: {read.graphs.failure}")
    grads = {
        n: p.grad.to_dense().clone() for n, p in model.named_parameters() if p.grad is not None
    }
    return {"output": found.detach().float(), **grads}


def relative(found: Tensor, exact: Tensor) -> float:
    return float((found.float() - exact).norm() / exact.norm().clamp(min=1e-12))


NOTHING_DROPPED = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}


def profile(bench: Bench) -> None:
    """Where a step's time goes on the GPU, and whether the host waits for it."""
    if not bench._on_gpu:
        return
    for centers in bench.options.centers:
        batches = _draw_egos(bench, centers, bench.options.neighbors, full=False)
        way = "recorded" if centers <= 64 else "eager"
        run = our_step(bench, node_model(bench.encoder), batches, link_loss, way)
        for _ in range(2 * DRAWS):
            run()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as waits:
            warnings.simplefilter("always")
            run()
        torch.cuda.set_sync_debug_mode("default")
        bench.note(f"a step at {centers} centers waits for the GPU {len(waits)} times")
        for wait in waits[:4]:
            bench.note(f"  {wait.filename}:{wait.lineno}: {str(wait.message)[:100]}")
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds) as found:
            for _ in range(DRAWS):
                run()
            torch.cuda.synchronize()
        table = found.key_averages().table(
            sort_by="self_cuda_time_total", row_limit=60, max_name_column_width=90
        )
        _write(bench, f"profile-{centers}.txt", table)
        print(f"profile of {DRAWS} steps ({way}) at {centers} centers")
        print("\n".join(line[:92] + line[-80:] for line in table.splitlines()[:40]))
        del run
        bench._clean()


def kernels(bench: Bench) -> None:
    """The parts of a layer alone, at the sizes they have in a batch."""
    if not bench._on_gpu:
        return
    for centers in bench.options.centers:
        _products(bench, centers)
        _attentions(bench, centers)


def _products(bench: Bench, centers: int) -> None:
    width, ffn = bench.encoder.width, bench.encoder.ffn_width
    tokens = int(2 * centers * bench.options.neighbors * 37)
    for name, into, out in (
        ("qkv", width, 3 * width),
        ("out", width, width),
        ("up", width, ffn),
        ("down", ffn, width),
    ):
        x = torch.randn(tokens, into, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(out, into, device="cuda", dtype=torch.bfloat16)
        g = torch.randn(tokens, out, device="cuda", dtype=torch.bfloat16)
        work = 2 * tokens * into * out / 1e9
        ms = [device_ms(f) for f in (lambda: x @ w.T, lambda: g @ w, lambda: g.T @ x)]  # noqa: B023
        rates = ", ".join(f"{m:.3f} ms ({work / m:.0f} TFLOP/s)" for m in ms)
        bench.note(f"product {name} {tokens}x{into}x{out}: forward, dx, dw: {rates}")


def _attentions(bench: Bench, centers: int) -> None:
    from edgeformers.nn.attention import attend

    batch = draw_egos(2 * centers, bench.options.neighbors, full=False, vocab_size=100, seed=1).to(
        bench.device
    )
    text, heads = batch.text, bench.encoder.heads
    shape = (heads, bench.encoder.width // heads)
    q = torch.randn(text.num_tokens, *shape, device="cuda", dtype=torch.bfloat16)
    k, v = (
        torch.randn(text.num_tokens + 3 * text.num_texts, *shape, device="cuda").bfloat16()
        for _ in range(2)
    )
    for part in (q, k, v):
        part.requires_grad_()
    grad = torch.randn_like(q)
    text.layout(3)
    for backend in ("varlen", "bucketed"):
        forward = device_ms(lambda b=backend: attend(q, k, v, text, 3, backend=b))
        out = attend(q, k, v, text, 3, backend=backend)
        back = device_ms(lambda o=out: torch.autograd.grad(o, (q, k, v), grad, retain_graph=True))
        bench.note(f"attention {backend} {centers}: forward {forward:.3f} ms, back {back:.3f} ms")
    _short_attention(bench, centers, text, shape)


def _short_attention(bench: Bench, centers: int, text: Any, shape: tuple[int, int]) -> None:
    """The kernels for short texts, checked against torch's own in float32, then timed."""
    from edgeformers.nn.fast.short_attention import attend_short, block_size

    block = block_size(text.max_length)
    virtual = torch.randn(text.num_texts, 3, 2, *shape, device="cuda").bfloat16()
    bias = torch.randn(3 * shape[0] * shape[1], device="cuda")

    def op(*parts: Tensor) -> Tensor:
        q = parts[0] if len(parts) == 4 else None
        return attend_short(*parts[-3:], text.offsets, block, q)

    for name, count in (("text", 3), ("rows", 2)):
        many = torch.randn(text.num_tokens, count, *shape, device="cuda").bfloat16()
        rows = torch.randn(text.num_texts, *shape, device="cuda").bfloat16()
        inputs = [many, bias, virtual] if name == "text" else [rows, many, bias, virtual]
        leaves = [part.requires_grad_() for part in inputs]
        out = op(*leaves)
        grad = torch.randn_like(out)
        found = torch.autograd.grad(out, leaves, grad, retain_graph=True)
        wide = [part.detach().float().requires_grad_() for part in leaves]
        exact = _exact_attention(wide, text)
        right = torch.autograd.grad(exact, wide, grad.float())
        errors = [
            float((a.detach().float() - b).norm() / b.norm())
            for a, b in zip((out, *found), (exact, *right), strict=True)
        ]
        del exact, right, wide
        forward = device_ms(lambda: op(*leaves))  # noqa: B023
        back = device_ms(
            lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True)  # noqa: B023
        )
        bench.note(
            f"attention short {name} {centers}: forward {forward:.3f} ms, back {back:.3f} ms, "
            f"relative errors {', '.join(f'{e:.1e}' for e in errors)}"
        )


def _exact_attention(parts: list[Tensor], text: Any) -> Tensor:
    """What the kernels compute, through the library's bucketed attention.

    The bias is in all rows already, so nothing but its gradient is added.
    """
    from edgeformers.nn.attention import attend, join_virtual

    readout = len(parts) == 4
    many, bias, virtual = parts[-3:]
    zero = (bias - bias.detach()).view(3, *many.shape[2:])
    many, virtual = many + zero[-many.size(1) :], virtual + zero[1:]
    q = parts[0] + zero[0] if readout else many[:, 0]
    k, v = (
        join_virtual(many[:, i - 2].flatten(1), text, virtual[:, :, i].flatten(2))
        .unflatten(1, many.shape[2:])
        .contiguous()
        for i in (0, 1)
    )
    return attend(q, k, v, text, virtual.size(1), readout=readout, backend="bucketed")


# ---- what is measured -------------------------------------------------------------------------


def node_model(encoder: EncoderConfig) -> nn.Module:
    return new_model("edgeformer-n", encoder, fidelity="released")


def edge_model(encoder: EncoderConfig) -> nn.Module:
    return new_model("edgeformer-e", encoder, fidelity="released")


def rival_steps(bench: Bench, name: str, what: str, batches: list[Any], flops: float) -> None:
    if name not in MODELS:
        bench.note(f"{name} is not listed; left out")
        return
    texts = batches[0].text.num_texts
    for way in filter(lambda way: wanted(bench, way), ("eager", "recorded")):

        def make(way: str = way) -> Any:
            return our_step(bench, new_model(name, bench.encoder), batches, link_loss, way)

        bench.measure(f"{name} {way} bf16", what, make, texts, flops)


def _late(make: Any, bench: Bench, *args: Any) -> Callable[[], Any]:
    """Models are made when their turn comes, so that no two are in memory together."""

    def later() -> Any:
        built = [arg(bench.encoder) if arg in (node_model, edge_model) else arg for arg in args]
        return make(bench, *built)

    return later


def wanted(bench: Bench, variant: str) -> bool:
    return variant in bench.options.variants


def check_twin(
    bench: Bench, what: str, model: nn.Module, batch: EdgeBatch | EgoBatch, padded: Any
) -> None:
    """Same weights, same inputs: the outputs must agree before anything is timed."""
    with torch.inference_mode():
        ours = model.to(bench.device).eval()(batch.to(bench.device))
        theirs = padded_twin(model).to(bench.device).eval()(padded)  # type: ignore[arg-type]
    worst = float((ours - theirs).abs().max())
    scale = float(theirs.abs().max())
    bench.note(f"{what}: ours and the reference differ by {worst:.1e} (largest number {scale:.2f})")
    if not worst <= 2e-3 * max(1.0, scale):
        raise AssertionError(f"{what}: the two models do not compute the same ({worst:.1e})")


def _write(bench: Bench, name: str, text: str) -> None:
    if bench.options.out is not None:
        bench.options.out.mkdir(parents=True, exist_ok=True)
        (bench.options.out / name).write_text(text, encoding="utf-8")


def report(bench: Bench) -> None:
    """The tables, and the same as JSON."""
    for what in dict.fromkeys(one.what for one in bench.found):
        print_table(
            what,
            ["", "ms", "texts/s", "useful TFLOP/s", "of ceiling", "peak GB", "times faster"],
            [
                [
                    one.name,
                    f"{one.ms:.2f}",
                    f"{one.texts_per_second:,.0f}",
                    f"{one.tflops:.0f}",
                    f"{one.share:.0%}",
                    f"{one.peak_gb:.1f}",
                    "" if one.times_faster is None else f"{one.times_faster:.1f}",
                ]
                for one in bench.found
                if one.what == what
            ],
        )
    found = {
        "machine": machine(),
        "device": torch.cuda.get_device_name() if bench._on_gpu else "cpu",
        "torch": torch.__version__,
        "ceiling_tflops": bench.ceiling,
        "measured": [asdict(one) for one in bench.found],
        "notes": bench.notes,
    }
    _write(bench, "step.json", json.dumps(found, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--rivals", nargs="+", default=list(RIVALS), choices=RIVALS)
    parser.add_argument("--centers", nargs="+", type=int, default=[25, 256])
    parser.add_argument("--neighbors", type=int, default=5)
    parser.add_argument("--lengths", nargs="+", default=["real"], choices=["real", "full"])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocab", type=int, default=30_522)
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=int,
        default=[1_000_000, 3_000_000, 10_000_000],
        help="edges of the networks that the part tables grows through",
    )
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, help="folder for step.json and profiles")
    options = parser.parse_args()
    bench = Bench(options)
    bench.note(f"{machine()}, torch {torch.__version__}, {options.device}")
    golden = check_golden()
    bench.note(
        "no golden outputs at hand"
        if golden is None
        else f"the reference differs from golden outputs by {golden:.1e}"
    )
    runs = {
        "ceiling": ceiling,
        "kernels": kernels,
        "parity": parity,
        "nodes": nodes,
        "edges": edges,
        "inference": inferences,
        "neighbors": neighborhoods,
        "tables": tables,
        "profile": profile,
    }
    for part in options.parts:
        try:
            runs[part](bench)
        except Exception:
            bench.note(f"FAILED part {part}")
            traceback.print_exc()
        _write(bench, "notes.txt", "\n".join(bench.notes))
    report(bench)


if __name__ == "__main__":
    main()
