"""Family: the mapping between a `TextEncoder` and a model type of transformers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from edgeformers.errors import FormatError
from edgeformers.nn.encoder import EncoderConfig

#: Names of our parameters and of theirs; both sides have the same concatenation along dimension 0.
ParameterMap = tuple[tuple[str, ...], tuple[str, ...]]

#: Activation names of transformers and ours; of several names the first is written.
ACTIVATION_NAMES = {
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class Family:
    """A "model_type" of config.json."""

    architecture: str  # class name of the encoder in transformers
    prefix: str  # of the encoder's tensors in checkpoints with a head
    read: Callable[[Any], EncoderConfig]  # from a config object of transformers
    write: Callable[[EncoderConfig], dict[str, Any]]  # to the arguments of a config object
    parameters: Callable[[EncoderConfig], Iterator[ParameterMap]]


def linear(
    ours: str | tuple[str, ...], theirs: str | tuple[str, ...], bias: bool = True
) -> Iterator[ParameterMap]:
    """Weight and bias of a linear map or norm, which either side may store in several tensors."""
    for kind in ("weight", "bias") if bias else ("weight",):
        yield _parts(ours, kind), _parts(theirs, kind)


def read_activation(name: str) -> str:
    """Our name of an activation in config.json."""
    if name not in ACTIVATION_NAMES:
        known = ", ".join(ACTIVATION_NAMES)
        raise FormatError(f"config.json: unsupported activation '{name}'; supported: {known}")
    return ACTIVATION_NAMES[name]


def write_activation(name: str) -> str:
    """The name of an activation in config.json."""
    return next(theirs for theirs, ours in ACTIVATION_NAMES.items() if ours == name)


def _parts(names: str | tuple[str, ...], kind: str) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else names
    return tuple(f"{name}.{kind}" for name in names)
