"""GIN (Xu et al., 2019), and GINE with edge features (Hu et al., 2020)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.graph.ego import EgoModel
from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EgoBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.pooling import reduce_rows


class GIN(NeuralBaseline):
    """h_v = MLP((1 + eps) z_v + sum of z_u over its neighbors u).

    There is no batch norm, so that a node's vector does not depend on the other nodes in its
    batch.

    Inputs used: the node and its neighbors. A neighbor with two edges counts twice.

    Shapes: B centers, E edges of all centers, K node width, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        width = encoder.width
        self.eps = nn.Parameter(torch.zeros(()))
        self.mlp = nn.Sequential(
            nn.Linear(config.node_width, width), nn.ReLU(), nn.Linear(width, width)
        )

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        total = reduce_rows(self.nodes(batch.neighbor), batch.owner, len(batch), "sum")  # [B, K]
        output: Tensor = self.mlp((1 + self.eps) * self.nodes(batch.center) + total)
        return output


class GINE(EgoModel):
    """h_v = MLP((1 + eps) h_v + sum over its edges e to u of ReLU(h_u + h_e)).

    Nodes are first projected to the width of texts, h = W_n z. There is no batch norm, so that a
    node's vector does not depend on the other nodes in its batch.

    Shapes: B centers, E edges of all centers, K node width, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        width = encoder.width
        self.project = nn.Linear(config.node_width, width)  # W_n
        self.eps = nn.Parameter(torch.zeros(()))
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def aggregate(self, center: Tensor, neighbor: Tensor, edge: Tensor, batch: EgoBatch) -> Tensor:
        """[B, K], [E, K] and [E, D] -> [B, D]."""
        messages = F.relu(self.project(neighbor) + edge)  # [E, D]
        total = reduce_rows(messages, batch.owner, len(batch), "sum")  # [B, D]
        output: Tensor = self.mlp((1 + self.eps) * self.project(center) + total)
        return output
