"""Layers compiled once for batches of all sizes: fused kernels, and less kept for the way back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.layer import PostNormLayer
from edgeformers.nn.packed import PackedText

#: Share of the memory that the compiler would like to keep for the way back. Below 1 it computes
#: cheap things again, such as an activation from its input, rather than keep both.
MEMORY_BUDGET = 0.9

PROGRAMS = 64  # of one process: a few for every model that it trains


@contextmanager
def compiled_layers(
    encoder: TextEncoder, *, backend: str | Callable[..., Any] = "inductor"
) -> Iterator[None]:
    """In training, run the encoder's layers compiled wherever the operators for short texts apply.

    All layers share a few programs (the first layer, those with virtual tokens, the last), which
    hold for any number of tokens and texts: no other size of batch is compiled again. Elsewhere,
    and in evaluation, layers run as they are.
    """
    changed = [
        layer
        for layer in encoder.layers
        if isinstance(layer, PostNormLayer) and "forward" not in vars(layer)
    ]
    for layer in changed:
        fast = torch.compile(layer.forward, backend=backend, dynamic=True)
        layer.forward = partial(_forward, layer, layer.forward, fast)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in changed:
            del layer.forward


def _forward(
    layer: PostNormLayer,
    plain: Callable[..., Tensor],
    fast: Callable[..., Tensor],
    hidden: Tensor,
    text: PackedText,
    virtual: Tensor | None = None,
    *,
    readout: Tensor | None = None,
) -> Tensor:
    spans = None
    if layer.training and torch.is_grad_enabled():
        spans = layer.attention.spans(hidden, text, virtual)
    if spans is None:
        return plain(hidden, text, virtual, readout=readout)
    with _compiler_settings():
        return fast(hidden, spans, virtual, readout=readout)


@contextmanager
def _compiler_settings() -> Iterator[None]:
    import torch._dynamo.config as limits  # slow to import, and needed by few
    import torch._functorch.config as memory

    with (
        cast(Any, memory).patch(activation_memory_budget=MEMORY_BUDGET),
        cast(Any, limits).patch(recompile_limit=PROGRAMS),
    ):
        yield
