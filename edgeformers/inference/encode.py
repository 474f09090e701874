"""Encode many edges or nodes: sorted by length, shared among processes, returned in order."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.data.batch import pack_texts
from edgeformers.data.loader import EdgeLoader, EgoLoader
from edgeformers.data.prefetch import prefetch
from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids, Side
from edgeformers.errors import EdgeformersError, InputError
from edgeformers.inference.cuda_graphs import GraphedEncoder, can_use_graphs
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.fast.onednn_layers import CACHED_TOKENS, onednn_inference
from edgeformers.progress import progress_bar
from edgeformers.sharded_nodes import find_sharded, rows_of

Autocast = Callable[[], AbstractContextManager[Any]]
Vectors = NDArray[np.float32]


class OutOfMemoryError(EdgeformersError):
    """Encoding ran out of memory; the message names the setting to lower."""


@dataclass(kw_only=True)
class EncodeOptions:
    """Where and how a model encodes."""

    device: torch.device
    autocast: Autocast = nullcontext
    batch: int = 256  # edges or nodes of full length encoded at once
    show: bool = False  # progress bars
    graphed: dict[nn.Module, GraphedEncoder] = field(default_factory=dict, repr=False)  # one model

    def encode(self, model: Callable[[Any], Tensor], batch: Any) -> Tensor:
        """The output [B, D] of a model for a batch of the host: float32, without gradients."""
        with torch.inference_mode(), self.autocast():
            return self._reader(model)(batch).float()

    def _reader(self, model: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
        if not isinstance(model, nn.Module) or not can_use_graphs(model, self.device):
            return lambda batch: model(batch.to(self.device))
        if model not in self.graphed:
            self.graphed.clear()
            self.graphed[model] = GraphedEncoder(model, self.device)
        return self.graphed[model]


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """The given device if it is available; by default the GPU if there is one."""
    if device is None:
        is_gpu = torch.cuda.is_available()
        return torch.device("cuda", torch.cuda.current_device()) if is_gpu else torch.device("cpu")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without that backend asserts
        available = "cpu, cuda" if torch.cuda.is_available() else "cpu"
        raise InputError(f"device '{device}' is not available; available: {available}") from error
    return torch.device(device)


def make_autocast(device: torch.device, precision: str) -> Autocast:
    """bf16 if `precision` asks for it, or "auto" on hardware that computes in it; else float32."""
    is_bf16 = precision == "bf16" or (
        precision == "auto"
        and device.type == "cuda"
        and torch.cuda.is_bf16_supported(including_emulation=False)
    )
    return (lambda: torch.autocast(device.type, torch.bfloat16)) if is_bf16 else nullcontext


def encode_edges(
    model: nn.Module,
    loader: EdgeLoader,
    edge_ids: Ids,
    options: EncodeOptions,
) -> Vectors:
    """edge_repr [n, D] of edges, in their order.

    A batch has as many tokens as `options.batch` edges of full length.
    """
    batch = options.batch
    lengths = loader.lengths(edge_ids).astype(np.int64)
    order, budget = np.argsort(lengths, kind="stable")[::-1], batch * loader.max_tokens
    if loader.source_sampler is not None and loader.target_sampler is not None:
        around = sum(loader.source_sampler.sizes) + sum(loader.target_sampler.sizes)
        lengths = np.full_like(lengths, (1 + around) * loader.max_tokens)
        budget *= 1 + around
    chunks = _cut(order, lengths, _bounded(budget, model, options.device), batch)
    return _encode(model, loader.batch, edge_ids, chunks, options, "edges")


def encode_nodes(
    model: nn.Module,
    loader: EgoLoader,
    nodes: Ids,
    options: EncodeOptions,
    *,
    side: Side = "source",
) -> Vectors:
    """node_repr [n, D] of nodes, in their order, from training edges only.

    With one node type they are read as sources or as targets (`side`). A batch has as many edges
    as `options.batch` nodes with full neighborhoods.
    """
    work = loader.workload(nodes)
    order = np.argsort(work, kind="stable")[::-1]
    orders = [order]
    if loader.graph.is_bipartite:  # sources and targets have different samplers
        is_target = nodes[order] >= loader.graph.num_sources
        orders = [order[~is_target], order[is_target]]
    most = max(sum(loader.source_sampler.sizes), sum(loader.target_sampler.sizes))
    tokens = (work + 1) * loader.max_tokens
    budget = _bounded(options.batch * (most + 1) * loader.max_tokens, model, options.device)
    chunks = [chunk for part in orders for chunk in _cut(part, tokens, budget, options.batch)]
    return _encode(model, partial(loader.nodes, side=side), nodes, chunks, options, "nodes")


def lower_states(
    encoder: TextEncoder,
    layers: int,
    tokens: TokenStore,
    text_ids: Ids,
    max_tokens: int,
    options: EncodeOptions,
) -> Iterator[tuple[Ids, Vectors]]:
    """Pieces of texts and their states [T, D] after the first layers of an encoder, on a CPU."""
    lengths = np.minimum(tokens.lengths[text_ids], max_tokens).astype(np.int64)
    order = np.argsort(lengths, kind="stable")[::-1]
    chunks = [text_ids[chunk] for chunk in _cut(order, lengths, CACHED_TOKENS, options.batch)]
    was_training = encoder.training
    encoder.eval()
    bar = progress_bar(len(text_ids), desc="caching layers", unit="texts", show=options.show)
    with bar, onednn_inference(encoder.layers[:layers]):
        encoded = _forward(
            lambda text: encoder.lower_states(text, layers),
            lambda ids: pack_texts(tokens, ids, max_tokens),
            chunks,
            options,
        )
        for chunk, states in zip(chunks, encoded, strict=True):
            yield chunk, states
            bar.update(len(chunk))
    encoder.train(was_training)


def _bounded(budget: int, model: nn.Module, device: torch.device) -> int:
    """The tokens of a batch: fewer for a language model on a CPU."""
    return min(budget, CACHED_TOKENS) if _is_language_model_on_cpu(model, device) else budget


def _is_language_model_on_cpu(model: nn.Module, device: torch.device) -> bool:
    return device.type == "cpu" and isinstance(getattr(model, "encoder", None), TextEncoder)


def _cut(order: Ids, tokens: Ids, budget: int, batch: int) -> list[Ids]:
    """Cut the order into chunks of at most `budget` tokens and 4 * `batch` items."""
    ends = np.cumsum(tokens[order])
    chunks, start = [], 0
    while start < len(order):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + budget, side="right"))
        stop = min(max(stop, start + 1), start + 4 * batch)
        chunks.append(order[start:stop])
        start = stop
    return chunks


def _encode(
    model: nn.Module,
    make: Callable[[Ids], Any],
    ids: Ids,
    chunks: list[Ids],
    options: EncodeOptions,
    what: str,
) -> Vectors:
    """Vectors of `ids` in their order, encoded chunk by chunk.

    Batches, and therefore vectors, do not depend on the number of processes.
    """
    parts: list[Vectors] = []
    was_training = model.training
    model.eval()
    bar = progress_bar(len(ids), desc=f"encoding {what}", unit=what, show=options.show)
    own_ids = [ids[chunk] for chunk in distributed.shard(chunks)]
    fast: AbstractContextManager[None] = nullcontext()
    if len(chunks) > 1 and _is_language_model_on_cpu(model, options.device):
        fast = onednn_inference(cast(TextEncoder, model.encoder).layers)
    try:
        with bar, fast:
            rounds = math.ceil(len(chunks) / distributed.world_size())
            is_sharded = bool(find_sharded(model))
            for vectors in (
                _forward_sharded(model, make, own_ids, options, rounds)
                if is_sharded
                else _forward(model, make, own_ids, options)
            ):
                parts.append(vectors)
                bar.update(len(vectors) * distributed.world_size())
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(
            f"out of memory while encoding {options.batch} {what} at once; lower "
            "train.eval_batch_size"
        ) from error
    model.train(was_training)
    out = np.empty((len(ids), int(getattr(model, "width", 0))), np.float32)
    for chunk, vectors in zip(chunks, distributed.gather_shards(parts, out), strict=True):
        out[chunk] = vectors
    return out


def _forward_sharded(
    model: nn.Module,
    make: Callable[[Ids], Any],
    chunks: list[Ids],
    options: EncodeOptions,
    rounds: int,
) -> Iterator[Vectors]:
    """The vectors of each chunk in turn; in each round all processes exchange node vectors."""
    for number in range(rounds):
        batches = [make(ids) for ids in chunks[number : number + 1]]
        with torch.inference_mode(), options.autocast(), rows_of(model, batches):
            outputs = [model(batch.to(options.device)).float().cpu() for batch in batches]
        yield from (cast(Vectors, output.numpy()) for output in outputs)


def _forward(
    model: Callable[[Any], Tensor],
    make: Callable[[Ids], Any],
    chunks: list[Ids],
    options: EncodeOptions,
) -> Iterator[Vectors]:
    """The vectors of each chunk in turn; on a CPU every thread encodes chunks of its own.

    Threads that share each matrix product wait for each other hundreds of times per chunk.
    """
    device = options.device

    def forward(batch: Any) -> Vectors:
        return options.encode(model, batch).cpu().numpy()

    threads = torch.get_num_threads() if device.type == "cpu" else 1
    if threads == 1 or len(chunks) < 2 * threads:
        pin = device.type == "cuda"
        batches = prefetch(lambda ids: make(ids).pin_memory() if pin else make(ids), chunks)
        yield from map(forward, batches)
        return
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield from pool.map(lambda ids: forward(make(ids)), chunks)
        finally:
            torch.set_num_threads(threads)  # for threads that start later
