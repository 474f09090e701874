"""Representations of many edges or nodes: sorted by length, shared among processes, in order."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from tqdm.auto import tqdm

from edgeformers.data.loader import EdgeLoader, EgoLoader, Ids, Prefetch
from edgeformers.train import distributed

Autocast = Callable[[], AbstractContextManager[Any]]
Vectors = NDArray[np.float32]


def make_autocast(device: torch.device, precision: str) -> Autocast:
    """bf16 where the hardware computes in it ("auto") or where asked; float32 elsewhere."""
    wanted = precision == "bf16" or (
        precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
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
    """edge_repr of chosen edges [n, D], in their order."""
    return _encode(
        model, loader.batch, edge_ids, loader.lengths, device, autocast, batch, show, "edges"
    )


def encode_nodes(
    model: nn.Module,
    loader: EgoLoader,
    nodes: Ids,
    *,
    device: torch.device,
    autocast: Autocast = nullcontext,
    batch: int = 256,
    epoch: int = 0,
    show: bool = False,
) -> Vectors:
    """node_repr of chosen nodes [n, D], in their order, from training edges alone."""
    is_target = nodes >= loader.graph.num_sources if loader.graph.is_bipartite else nodes < 0
    out: Vectors | None = None
    for side in (False, True):
        chosen = np.flatnonzero(is_target == side)
        if not len(chosen) and (side or len(nodes)):
            continue
        found = _encode(
            model,
            lambda ids: loader.nodes(ids, epoch=epoch),
            nodes[chosen],
            loader.work,
            device,
            autocast,
            batch,
            show,
            "nodes",
        )
        out = np.empty((len(nodes), found.shape[1]), np.float32) if out is None else out
        out[chosen] = found
    assert out is not None
    return out


def _encode(
    model: nn.Module,
    make: Callable[[Ids], Any],
    ids: Ids,
    length: Callable[[Ids], NDArray[Any]],
    device: torch.device,
    autocast: Autocast,
    batch: int,
    show: bool,
    what: str,
) -> Vectors:
    """Vectors of `ids` in their order; neighbors in a batch are of similar length."""
    order = np.argsort(length(ids), kind="stable")[::-1]
    mine = distributed.shard(order)
    parts: list[Vectors] = []
    was_training = model.training
    model.eval()
    bar = tqdm(total=len(mine), desc=f"encoding {what}", unit=f" {what}", disable=not show)
    with bar, torch.inference_mode():
        for one in _on_device(make, ids, mine, batch, device):
            with autocast():
                parts.append(model(one).float().cpu().numpy())
            bar.update(len(one))
    model.train(was_training)
    width = getattr(model, "width", 0)
    vectors = np.concatenate(parts) if parts else np.empty((0, int(width)), np.float32)
    whole = distributed.gather_sharded(vectors)
    out = np.empty_like(whole)
    out[order] = whole
    return out


def _on_device(
    make: Callable[[Ids], Any], ids: Ids, places: Ids, batch: int, device: torch.device
) -> Iterator[Any]:
    chunks = [ids[places[at : at + batch]] for at in range(0, len(places), batch)]
    pin = device.type == "cuda"
    for one in Prefetch(lambda chunk: make(chunk).pin_memory() if pin else make(chunk), chunks):
        yield one.to(device)
