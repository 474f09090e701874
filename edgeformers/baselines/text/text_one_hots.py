"""Text and one-hots of nodes: a fine-tuned text and, beside it, which two nodes it lies between."""

from typing import cast

from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch
from edgeformers.models.base import ModelConfig, make_lookup
from edgeformers.nn.encoder import TextEncoder


class TextOneHots(nn.Module):
    """h_e = [CLS] + W_s z_i + W_t z_j.

    To a linear head this is the text with a one-hot of each end laid beside it: of either, every
    node adds numbers of its own to the scores of the classes. Text and nodes never meet before.

    Used: the text and the two ends.

    Shapes: B edges, D width, K node width.
    """

    def __init__(self, config: ModelConfig, encoder: TextEncoder) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config)
        self.source = nn.Linear(config.node_width, encoder.width, bias=False)  # W_s
        self.target = nn.Linear(config.node_width, encoder.width, bias=False)  # W_t

    @property
    def width(self) -> int:
        return self.encoder.width

    def forward(self, batch: EdgeBatch) -> Tensor:
        """B edges -> edge_repr [B, D]."""
        ends = self.source(self.nodes(batch.src)) + self.target(self.nodes(batch.dst))
        return cast(Tensor, self.encoder.encode(batch.text) + ends)
