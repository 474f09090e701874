"""BERT: an edge's text read by a language model that knows nothing of the network."""

from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch
from edgeformers.models.base import ModelConfig, make_lookup
from edgeformers.nn.encoder import TextEncoder


class Bert(nn.Module):
    """h_e = [CLS] of the text of e, fine-tuned (Devlin et al., 2019).

    Used: the text alone. The node table stays as it is given.

    Shapes: B edges, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextEncoder) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config).requires_grad_(False)

    @property
    def width(self) -> int:
        return self.encoder.width

    def forward(self, batch: EdgeBatch) -> Tensor:
        """B edges -> edge_repr [B, D]."""
        return self.encoder.encode(batch.text)
