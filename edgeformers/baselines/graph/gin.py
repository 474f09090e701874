"""GIN: a node plus the sum of its neighbors, each met with its edge (Xu et al., 2019)."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.graph.ego import EgoModel
from edgeformers.data.batch import EgoBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.segments import reduce_rows


class GIN(EgoModel):
    """h_v = MLP((1 + eps) h_v + sum over its edges e to u of ReLU(h_u + h_e)).

    Edges join the sum as in GINE (Hu et al., 2020). Nodes are mapped to the width of texts
    first, h = W_n z, since the two are added. Without batch norms: a node's vector does not
    depend on which others are encoded with it.

    Shapes: B centers, E edges of them all, K node width, D width.
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
        heard = reduce_rows(messages, batch.owner, len(batch), "sum")  # [B, D]
        return cast(Tensor, self.mlp((1 + self.eps) * self.project(center) + heard))
