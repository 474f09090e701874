"""MaxSAGE: a node and the maximum of what its edges and neighbors say (Hamilton et al., 2017)."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.graph.ego import EgoModel
from edgeformers.data.batch import EgoBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.segments import reduce_rows


class MaxSAGE(EgoModel):
    """h_v = W [z_v ; max over its edges e to u of ReLU(W_m [z_u ; h_e])].

    GraphSAGE's pooling aggregator, where an edge's text stands beside the neighbor it leads to.

    Shapes: B centers, E edges of them all, K node width, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        both = config.node_width + encoder.width
        self.message = nn.Linear(both, encoder.width)  # W_m
        self.update = nn.Linear(both, encoder.width)  # W

    def aggregate(self, center: Tensor, neighbor: Tensor, edge: Tensor, batch: EgoBatch) -> Tensor:
        """[B, K], [E, K] and [E, D] -> [B, D]."""
        messages = F.relu(self.message(torch.cat([neighbor, edge], dim=1)))  # [E, D]
        heard = reduce_rows(messages, batch.owner, len(batch), "max")  # [B, D]
        return cast(Tensor, self.update(torch.cat([center, heard], dim=1)))
