"""What neural baselines share: their settings, a text encoder and a node table."""

from typing import ClassVar

from torch import nn

from edgeformers.models.base import ModelConfig, TextReader, make_lookup


class NeuralBaseline(nn.Module):
    """A baseline over a text encoder; a subclass defines `forward`."""

    uses_nodes: ClassVar[bool] = True  # if not, the node table is kept but not trained

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config).requires_grad_(self.uses_nodes)

    @property
    def width(self) -> int:
        return self.encoder.width
