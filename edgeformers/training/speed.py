"""Which passes of a training are worth recording: those that the host would hold up."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.training.cuda_graphs import GraphedModel

#: What the choice rests on, rounded from what `benchmarks.throughput` measured on an H200.
HOST_SECONDS_PER_LAYER = 5.5e-3  # to launch a layer's kernels, both ways, one by one
FLOPS_PER_SECOND = 4e14
RECORD_STEPS = 200  # a training of fewer steps is over before its recordings have paid

EVERY = 1 << 62  # tokens: no pass has as many


def most_tokens(record: bool | None, config: EncoderConfig, *, steps: int) -> int:
    """Up to how many tokens passes are recorded in a training of this many steps; 0: none.

    By itself (None) those are recorded that the host would hold up, where the steps repay it. The
    choice depends on nothing that differs between two runs of the same training, so that a
    resumed run does the same.
    """
    if record is not None:
        return EVERY if record else 0
    return held_up_tokens(config) if steps >= RECORD_STEPS else 0


@contextmanager
def faster_training(
    objective: Any, record: bool | None, *, device: torch.device, steps: int
) -> Iterator[None]:
    """Have an objective's model called by replaying its recorded passes, where that is faster."""
    encoder = getattr(getattr(objective, "model", None), "encoder", None)
    if device.type != "cuda" or not isinstance(encoder, TextEncoder):
        yield
        return
    most, plain = most_tokens(record, encoder.config, steps=steps), objective.read
    if most:
        objective.read = GraphedModel(objective.model, most_tokens=most)
    try:
        yield
    finally:
        objective.read = plain


def held_up_tokens(config: EncoderConfig) -> int:
    """The tokens that keep the GPU busy about as long as the host needs to launch their pass."""
    weights = 4 * config.width**2 + 2 * config.width * config.ffn_width  # of a layer
    return int(HOST_SECONDS_PER_LAYER * FLOPS_PER_SECOND / (6 * weights))
