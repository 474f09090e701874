"""The base of graph neural networks that read a node, its neighbors and its edge texts."""

from abc import ABC, abstractmethod

from torch import Tensor

from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EgoBatch


class EgoModel(NeuralBaseline, ABC):
    """A one-hop graph neural network over texts; its kinds differ only in `aggregate`.

    Each text is encoded on its own, by a language model or a bag of words, before the network is
    applied. A neighbor with two edges counts twice. A center without edges is represented by its
    own vector alone.

    Inputs used: the node, its neighbors, and the texts of its edges, but not the types or
    directions of edges.

    Shapes: B centers, E edges of all centers, K node width, D width.
    """

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        center, neighbor = self.nodes(batch.center), self.nodes(batch.neighbor)
        return self.aggregate(center, neighbor, self.encoder.encode(batch.text), batch)

    @abstractmethod
    def aggregate(self, center: Tensor, neighbor: Tensor, edge: Tensor, batch: EgoBatch) -> Tensor:
        """Centers z_v [B, K], neighbors z_u [E, K] and texts h_e [E, D] -> node_repr [B, D]."""
