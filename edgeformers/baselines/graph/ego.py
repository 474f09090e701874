"""What the network baselines of nodes share: a node, its edges and their other ends as vectors."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from edgeformers.data.batch import EgoBatch
from edgeformers.models.base import ModelConfig, TextReader, make_lookup


class EgoModel(nn.Module, ABC):
    """A graph neural network over one hop: `aggregate` is all in which its kinds differ.

    Texts are read first, each alone, by a language model or a bag of words; the network comes
    after. A neighbor to which two edges lead is met twice. A center without edges is read from its
    own vector alone.

    Used: the node, its neighbors, and the texts of its edges; not their types and directions.

    Shapes: B centers, E edges of them all, K node width, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config)

    @property
    def width(self) -> int:
        return self.encoder.width

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        center, neighbor = self.nodes(batch.center), self.nodes(batch.neighbor)
        return self.aggregate(center, neighbor, self.encoder.encode(batch.text), batch)

    @abstractmethod
    def aggregate(self, center: Tensor, neighbor: Tensor, edge: Tensor, batch: EgoBatch) -> Tensor:
        """Centers z_v [B, K], other ends z_u [E, K] and texts h_e [E, D] -> node_repr [B, D]."""
