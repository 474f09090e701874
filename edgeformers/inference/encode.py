"""Representations of many edges or nodes: sorted by length, shared among processes, in order."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from tqdm.auto import tqdm

from edgeformers import distributed
from edgeformers.data.loader import INFERENCE, EdgeLoader, EgoLoader, Prefetch
from edgeformers.data.types import Ids, Side
from edgeformers.errors import EdgeformersError
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.fast.onednn_layers import onednn_inference

Autocast = Callable[[], AbstractContextManager[Any]]
Vectors = NDArray[np.float32]

CACHED_TOKENS = 2048  # at once on a CPU: what is computed of them stays near its cores


class OutOfMemoryError(EdgeformersError):
    """Memory ended; the message says which setting to lower."""


def make_autocast(device: torch.device, precision: str) -> Autocast:
    """bf16 where the hardware computes in it ("auto") or where asked; float32 elsewhere."""
    wanted = precision == "bf16" or (
        precision == "auto"
        and device.type == "cuda"
        and torch.cuda.is_bf16_supported(including_emulation=False)
    )
    if not wanted:
        return nullcontext
    return lambda: torch.autocast(device.type, torch.bfloat16)


def encode_edges(
    model: nn.Module,
    loader: EdgeLoader,
    edge_ids: Ids,
    *,
    device: torch.device,
    autocast: Autocast = nullcontext,
    batch: int = 256,
    show: bool = False,
) -> Vectors:
    """edge_repr of chosen edges [n, D], in their order.

    At once are read as many tokens as `batch` edges of full length have.
    """
    lengths = loader.lengths(edge_ids).astype(np.int64)
    order, budget = np.argsort(lengths, kind="stable")[::-1], batch * loader.max_tokens
    if loader.source_sampler is not None and loader.target_sampler is not None:
        around = sum(loader.source_sampler.sizes) + sum(loader.target_sampler.sizes)
        lengths = np.full_like(lengths, (1 + around) * loader.max_tokens)
        budget *= 1 + around
    chunks = _cut(order, lengths, _bounded(budget, model, device), batch)
    return _encode(model, loader.batch, edge_ids, chunks, device, autocast, batch, show, "edges")


def encode_nodes(
    model: nn.Module,
    loader: EgoLoader,
    nodes: Ids,
    *,
    device: torch.device,
    autocast: Autocast = nullcontext,
    batch: int = 256,
    epoch: int = INFERENCE,
    side: Side = "source",
    show: bool = False,
) -> Vectors:
    """node_repr of chosen nodes [n, D], in their order, from training edges alone.

    In a network of one kind of node, they are read as sources or as targets (`side`). At once are
    read as many edges as `batch` nodes of full neighborhoods have.
    """
    work = loader.workload(nodes)
    order = np.argsort(work, kind="stable")[::-1]
    orders = [order]
    if loader.graph.is_bipartite:  # a batch holds sources or targets, which are read differently
        is_target = nodes[order] >= loader.graph.num_sources
        orders = [order[~is_target], order[is_target]]

    def make(ids: Ids) -> Any:
        return loader.nodes(ids, epoch=epoch, side=side)

    most = max(sum(loader.source_sampler.sizes), sum(loader.target_sampler.sizes))
    tokens = (work + 1) * loader.max_tokens
    budget = _bounded(batch * (most + 1) * loader.max_tokens, model, device)
    chunks = [chunk for one in orders for chunk in _cut(one, tokens, budget, batch)]
    return _encode(model, make, nodes, chunks, device, autocast, batch, show, "nodes")


def _bounded(budget: int, model: nn.Module, device: torch.device) -> int:
    """The tokens read at once: of a language model on a CPU, no more than its caches like."""
    return min(budget, CACHED_TOKENS) if _reads_on_cpu(model, device) else budget


def _reads_on_cpu(model: nn.Module, device: torch.device) -> bool:
    return device.type == "cpu" and isinstance(getattr(model, "encoder", None), TextEncoder)


def _cut(order: Ids, tokens: Ids, budget: int, batch: int) -> list[Ids]:
    """The order in chunks of at most `budget` tokens, and of few times `batch` however short."""
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
    device: torch.device,
    autocast: Autocast,
    batch: int,
    show: bool,
    what: str,
) -> Vectors:
    """Vectors of `ids` in their order, encoded chunk by chunk: similar work side by side.

    Batches are the same however many processes share them, and so are the vectors.
    """
    parts: list[Vectors] = []
    was_training = model.training
    model.eval()
    bar = tqdm(total=len(ids), desc=f"encoding {what}", unit=f" {what}", disable=not show)
    mine = [ids[chunk] for chunk in distributed.shard(chunks)]
    with bar, _naming_memory(batch, what), _quick(model, chunks, device):
        for vectors in _read(model, make, mine, device, autocast):
            parts.append(vectors)
            bar.update(len(vectors) * distributed.world_size())
    model.train(was_training)
    out = np.empty((len(ids), int(getattr(model, "width", 0))), np.float32)
    for chunk, vectors in zip(chunks, distributed.gather_shards(parts, out), strict=True):
        out[chunk] = vectors
    return out


def _quick(
    model: nn.Module, chunks: list[Ids], device: torch.device
) -> AbstractContextManager[None]:
    """On a CPU a language model's layers take the quick way, if there is more than one batch."""
    if len(chunks) < 2 or not _reads_on_cpu(model, device):
        return nullcontext()
    return onednn_inference(cast(TextEncoder, model.encoder).layers)


def _read(
    model: nn.Module,
    make: Callable[[Ids], Any],
    chunks: list[Ids],
    device: torch.device,
    autocast: Autocast,
) -> Iterator[Vectors]:
    """The vectors of each chunk in turn; on a CPU every thread reads chunks of its own.

    Threads that share each product instead wait for each other hundreds of times per chunk, and
    for whatever else the machine has to do.
    """

    def read(batch: Any) -> Vectors:
        with torch.inference_mode(), autocast():
            return cast(Vectors, model(batch.to(device)).float().cpu().numpy())

    threads = torch.get_num_threads() if device.type == "cpu" else 1
    if threads == 1 or len(chunks) < 2 * threads:
        pin = device.type == "cuda"
        yield from map(
            read, Prefetch(lambda ids: make(ids).pin_memory() if pin else make(ids), chunks)
        )
        return
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield from pool.map(lambda ids: read(make(ids)), chunks)
        finally:
            torch.set_num_threads(threads)  # what threads that start later will have


@contextmanager
def _naming_memory(batch: int, what: str) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(
            f"out of memory while encoding {batch} {what} at once; lower train.eval_batch_size"
        ) from error
