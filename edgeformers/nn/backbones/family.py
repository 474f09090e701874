"""Family: how one kind of published checkpoint says what our TextEncoder says."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from edgeformers.errors import FormatError
from edgeformers.nn.encoder import EncoderConfig

#: Our parameters and theirs; laid end to end along the first dimension the two are the same.
Link = tuple[tuple[str, ...], tuple[str, ...]]

#: Published activation names and ours; the first of several names is the one written.
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
    """One value of "model_type" in config.json."""

    architecture: str  # the class in transformers that holds the encoder alone
    prefix: str  # of the encoder's tensors in a checkpoint that has a head as well
    read: Callable[[Any], EncoderConfig]  # from the configuration object of transformers
    write: Callable[[EncoderConfig], dict[str, Any]]  # to its arguments
    links: Callable[[EncoderConfig], Iterator[Link]]


def linear(
    ours: str | tuple[str, ...], theirs: str | tuple[str, ...], bias: bool = True
) -> Iterator[Link]:
    """The weight and, if it has one, the bias of a linear map or norm, whole or in parts."""
    for kind in ("weight", "bias") if bias else ("weight",):
        yield _parts(ours, kind), _parts(theirs, kind)


def read_activation(name: str) -> str:
    """Our name of an activation that a config.json names."""
    if name not in ACTIVATION_NAMES:
        known = ", ".join(ACTIVATION_NAMES)
        raise FormatError(f"config.json asks for the activation '{name}'; supported are {known}")
    return ACTIVATION_NAMES[name]


def write_activation(name: str) -> str:
    """The name config.json gives to one of our activations."""
    return next(theirs for theirs, ours in ACTIVATION_NAMES.items() if ours == name)


def _parts(names: str | tuple[str, ...], kind: str) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else names
    return tuple(f"{name}.{kind}" for name in names)
