"""BERT for nodes: the mean of what a language model makes of a node's texts, and nothing else."""

from torch import Tensor, nn

from edgeformers.data.batch import EgoBatch
from edgeformers.models.base import ModelConfig, TextReader, make_lookup
from edgeformers.nn.segments import reduce_rows


class BertN(nn.Module):
    """h_v = mean of the [CLS] states of the texts on v's edges, each read alone.

    Used: the texts of a node's edges. The node table stays as it is given; a node without edges
    has no text, and is zero.

    Shapes: B centers, E edges of them all, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config).requires_grad_(False)

    @property
    def width(self) -> int:
        return self.encoder.width

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        return reduce_rows(self.encoder.encode(batch.text), batch.owner, len(batch), "mean")
