"""Representations of many edges or nodes: sorted by length, shared among processes, in order."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from tqdm.auto import tqdm

from edgeformers.data.loader import INFERENCE, EdgeLoader, EgoLoader, Ids, Prefetch
from edgeformers.data.splits import Side
from edgeformers.errors import EdgeformersError
from edgeformers.train import distributed

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
    order = np.argsort(lengths, kind="stable")[::-1]
    chunks = _cut(order, lengths, batch * loader.max_tokens, batch, device)
    if loader.source_sampler is not None:  # there is more to read around an edge than in it
        chunks = _cut(order, np.ones_like(order), batch, batch, device)
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
    work = loader.work(nodes)
    order = np.argsort(work, kind="stable")[::-1]
    orders = [order]
    if loader.graph.is_bipartite:  # a batch holds sources or targets, which are read differently
        is_target = nodes[order] >= loader.graph.num_sources
        orders = [order[~is_target], order[is_target]]

    def make(ids: Ids) -> Any:
        return loader.nodes(ids, epoch=epoch, side=side)

    most = max(sum(loader.source_sampler.sizes), sum(loader.target_sampler.sizes))
    tokens = (work + 1) * loader.max_tokens
    chunks = [
        chunk
        for one in orders
        for chunk in _cut(one, tokens, batch * (most + 1) * loader.max_tokens, batch, device)
    ]
    return _encode(model, make, nodes, chunks, device, autocast, batch, show, "nodes")


def _cut(order: Ids, tokens: Ids, budget: int, batch: int, device: torch.device) -> list[Ids]:
    """The order in chunks of at most `budget` tokens, and of few times `batch` however short."""
    if device.type == "cpu":
        budget = min(budget, CACHED_TOKENS)
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
    with bar, torch.inference_mode(), _naming_memory(batch, what):
        for one in _on_device(make, [ids[chunk] for chunk in distributed.shard(chunks)], device):
            with autocast():
                parts.append(model(one).float().cpu().numpy())
            bar.update(len(one) * distributed.world_size())
    model.train(was_training)
    out = np.empty((len(ids), int(getattr(model, "width", 0))), np.float32)
    for chunk, vectors in zip(chunks, distributed.gather_sharded(parts, out), strict=True):
        out[chunk] = vectors
    return out


def _on_device(
    make: Callable[[Ids], Any], chunks: list[Ids], device: torch.device
) -> Iterator[Any]:
    pin = device.type == "cuda"
    for one in Prefetch(lambda chunk: make(chunk).pin_memory() if pin else make(chunk), chunks):
        yield one.to(device)


@contextmanager
def _naming_memory(batch: int, what: str) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(
            f"out of memory while encoding {batch} {what} at once; lower train.eval_batch"
        ) from error
