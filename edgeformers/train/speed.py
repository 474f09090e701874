"""Which faster ways of training are worth taking: compiled layers, recorded passes."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch

from edgeformers.models.edgeformer_n import EdgeformerN
from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.train.compiled import compiled_layers
from edgeformers.train.replay import Replayed

Compile = Literal["auto", "on", "off"]

#: What the choice rests on, rounded from what `benchmarks.step` measured on an H200.
HOST_SECONDS_PER_LAYER = 3e-3  # to launch a layer's kernels, both ways, one by one
FLOPS_PER_SECOND = 3e14
COMPILE_SECONDS = 60.0
SHARE_SAVED = 0.08  # of a step that keeps the GPU busy all the time, by compiling
RECORD_STEPS = 100  # a training of fewer steps is over before recording pays


@dataclass(frozen=True)
class Ways:
    """Whether layers are compiled, and up to how many tokens a step's passes are recorded."""

    compiles: bool
    most_tokens: int  # 0: nothing is recorded


def choose_ways(choice: Compile, config: EncoderConfig, *, steps: int, tokens: int) -> Ways:
    """The ways that this many steps of this many tokens repay.

    By itself ("auto") a step is recorded where the host would hold the GPU up, and compiled where
    it would not: each where it was measured to be faster. The choice depends on nothing that
    differs between two runs of the same training, so that a resumed run takes the same way.
    """
    gpu, host = step_seconds(config, tokens)
    longest = int(tokens * host / gpu) if gpu else 0  # of a step that the host would hold up
    if choice == "on":
        return Ways(compiles=True, most_tokens=longest)
    if choice == "off":
        return Ways(compiles=False, most_tokens=0)
    if tokens <= longest:
        return Ways(compiles=False, most_tokens=longest if steps >= RECORD_STEPS else 0)
    return Ways(compiles=steps * SHARE_SAVED * gpu > COMPILE_SECONDS, most_tokens=0)


@contextmanager
def faster_training(
    objective: Any, choice: Compile, *, device: torch.device, steps: int, tokens: int
) -> Iterator[None]:
    """Train an objective's model in the ways that the steps to come repay; a step has `tokens`."""
    encoder = getattr(objective.model, "encoder", None)
    if device.type != "cuda" or not isinstance(encoder, TextEncoder):
        yield
        return
    ways = choose_ways(choice, encoder.config, steps=steps, tokens=tokens)
    is_measured = choice == "on" or isinstance(objective.model, EdgeformerN)
    plain = objective.read
    with compiled_layers(encoder) if ways.compiles else nullcontext():
        if ways.most_tokens and is_measured:  # recorded passes of other models were not yet
            objective.read = Replayed(objective.model, most_tokens=ways.most_tokens)
        try:
            yield
        finally:
            objective.read = plain


def step_seconds(config: EncoderConfig, tokens: int) -> tuple[float, float]:
    """About how long a step keeps the GPU busy, and the host."""
    layer = 4 * config.width**2 + 2 * config.width * config.ffn_width
    flops = 6.0 * tokens * config.layers * layer
    return flops / FLOPS_PER_SECOND, config.layers * HOST_SECONDS_PER_LAYER


def count_tokens(pieces: list[Any]) -> int:
    """Tokens of all texts in the pieces of a batch."""
    found = 0
    for piece in pieces:
        for name in ("text", "texts"):
            if (text := getattr(piece, name, None)) is not None:
                found += text.num_tokens
        if hasattr(piece, "query"):
            found += count_tokens([piece.query, piece.key])
    return found
