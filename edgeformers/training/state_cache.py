"""Cache the states of frozen layers during training on a CPU, so that each text is read once."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import nn

from edgeformers.data.text_states import TextStates, find_folder_for_states
from edgeformers.inference.encode import lower_states
from edgeformers.inference.fitted import FittedModel
from edgeformers.models.base import Edgeformer
from edgeformers.nn.encoder import TextEncoder
from edgeformers.progress import print_message

CACHED_ON = ("cpu",)  # types of devices; a GPU computes states about as fast as it copies them


def cacheable_layers(model: nn.Module) -> int:
    """The number of layers whose states depend on nothing but the text and never change."""
    encoder = getattr(model, "encoder", None)
    if not isinstance(model, Edgeformer) or not isinstance(encoder, TextEncoder):
        return 0
    frozen = 0
    for part in (encoder.embeddings, *encoder.layers):
        if any(parameter.requires_grad for parameter in part.parameters()):
            break
        frozen += 1
    return max(0, min(frozen - 1, model.config.text_layers))  # without the embeddings


@contextmanager
def cached_states(fitted: FittedModel[Any], folder: Path | None) -> Iterator[None]:
    """Let the loader of a model serve cached states of frozen layers, on a CPU.

    They are stored next to the run, or else in the temporary folder. Cached layers have no dropout.
    Test edges, which training does not read, are not stored.
    """
    network, layers = fitted.network, cacheable_layers(fitted.model)
    tokens, max_tokens = network.loader.tokens, network.loader.max_tokens
    if not layers or fitted.device.type not in CACHED_ON:
        yield
        return
    encoder = cast(TextEncoder, fitted.model.encoder)
    texts = np.setdiff1d(np.arange(len(tokens)), network.parts["test"])
    num_tokens = int(np.minimum(tokens.lengths[texts], max_tokens).sum())
    folders = [] if folder is None else [folder]
    with suppress(FileNotFoundError):  # no usable temporary folder
        folders.append(Path(tempfile.gettempdir()))
    chosen = find_folder_for_states(num_tokens, encoder.width, folders)
    if chosen is None:
        print_message(
            f"{' and '.join(map(str, folders))}: not enough free space to cache the states of "
            f"{layers} frozen layers; training computes them in every step",
            show=fitted.options.show,
        )
        yield
        return
    tokens.states = TextStates(
        tokens.lengths,
        lower_states(encoder, layers, tokens, texts, max_tokens, fitted.options),
        max_tokens=max_tokens,
        layers=layers,
        folder=chosen,
    )
    try:
        yield
    finally:
        tokens.states = None
