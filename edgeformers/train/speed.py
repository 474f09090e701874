"""Which faster ways of training are worth taking: recorded passes, compiled layers."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch

from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.train.compiled import compiled_layers
from edgeformers.train.replay import Replayed

Compile = Literal["auto", "on", "off"]

#: What the choice rests on, rounded from what `benchmarks.throughput` measured on an H200.
HOST_SECONDS_PER_LAYER = 5.5e-3  # to launch a layer's kernels, both ways, one by one
FLOPS_PER_SECOND = 4e14
RECORD_STEPS = 200  # a training of fewer steps is over before its recordings have paid


@dataclass(frozen=True)
class Ways:
    """Whether layers are compiled, and up to how many tokens passes are recorded."""

    compiles: bool
    most_tokens: int  # 0: nothing is recorded


def choose_ways(choice: Compile, config: EncoderConfig, *, steps: int) -> Ways:
    """The ways that this many steps repay.

    By itself ("auto") a pass is recorded where the host would hold the GPU up. Layers are compiled
    only when asked for ("on"): it takes less memory, and is slower than kernels of our own. The
    choice depends on nothing that differs between two runs of the same training, so that a
    resumed run takes the same way.
    """
    compiles = choice == "on"
    records = compiles or (choice == "auto" and steps >= RECORD_STEPS)
    return Ways(compiles, held_up_tokens(config) if records else 0)


@contextmanager
def faster_training(
    objective: Any, choice: Compile, *, device: torch.device, steps: int
) -> Iterator[None]:
    """Train an objective's model in the ways that the steps to come repay."""
    encoder = getattr(getattr(objective, "model", None), "encoder", None)
    if device.type != "cuda" or not isinstance(encoder, TextEncoder):
        yield
        return
    ways = choose_ways(choice, encoder.config, steps=steps)
    plain = objective.read
    with compiled_layers(encoder) if ways.compiles else nullcontext():
        if ways.most_tokens:
            objective.read = Replayed(objective.model, most_tokens=ways.most_tokens)
        try:
            yield
        finally:
            objective.read = plain


def held_up_tokens(config: EncoderConfig) -> int:
    """The tokens that keep the GPU busy about as long as the host needs to launch their pass."""
    weights = 4 * config.width**2 + 2 * config.width * config.ffn_width  # of a layer
    return int(HOST_SECONDS_PER_LAYER * FLOPS_PER_SECOND / (6 * weights))
