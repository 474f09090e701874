"""Family: the mapping between a `TextEncoder` and a model type of transformers."""

from collections.abc import Callable, Iterator, Mapping
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


def read_settings(published: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """Our settings from a config object, given our name and theirs of each."""
    values = {ours: getattr(published, theirs) for ours, theirs in names.items()}
    values["pad_token_id"] = values["pad_token_id"] or 0
    if values["activation"] not in ACTIVATION_NAMES:
        raise FormatError(
            f"config.json: unsupported activation '{values['activation']}'; "
            f"supported: {', '.join(ACTIVATION_NAMES)}"
        )
    return {**values, "activation": ACTIVATION_NAMES[values["activation"]]}


def write_settings(config: EncoderConfig, names: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of a config object, given our name and theirs of each setting."""
    values = {theirs: getattr(config, ours) for ours, theirs in names.items()}
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATION_NAMES.items())}
    return {**values, names["activation"]: activations[config.activation]}


def linear(
    ours: str | tuple[str, ...], theirs: str | tuple[str, ...], bias: bool = True
) -> Iterator[ParameterMap]:
    """Weight and bias of a linear map or norm, which either side may store in several tensors."""
    for kind in ("weight", "bias") if bias else ("weight",):
        yield _names(ours, kind), _names(theirs, kind)


def _names(modules: str | tuple[str, ...], kind: str) -> tuple[str, ...]:
    modules = (modules,) if isinstance(modules, str) else modules
    return tuple(f"{module}.{kind}" for module in modules)
