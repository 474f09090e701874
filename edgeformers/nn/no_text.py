"""NoText: takes the place of a text encoder in models that read no text."""

from dataclasses import dataclass

from torch import Tensor, nn

from edgeformers.errors import InputError
from edgeformers.nn.packed import PackedText


@dataclass(frozen=True, kw_only=True)
class NoTextConfig:
    """The width of the model's vectors, and the vocabulary of the tokenizer saved with it."""

    vocab_size: int
    width: int = 128


class NoText(nn.Module):
    """Has no parameters and encodes no text."""

    def __init__(self, config: NoTextConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def width(self) -> int:
        return self.config.width

    def encode(self, text: PackedText) -> Tensor:
        """Raise: a model without texts must not read any."""
        raise InputError("this model reads no text")
