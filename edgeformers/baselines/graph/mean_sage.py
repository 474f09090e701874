"""MeanSAGE: a node and the mean of what its edges and neighbors say (Hamilton et al., 2017)."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.graph.ego import EgoModel
from edgeformers.data.batch import EgoBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.segments import reduce_rows


class MeanSAGE(EgoModel):
    """h_v = W [z_v ; mean over its edges e to u of ReLU(W_m [z_u ; h_e])].

    GraphSAGE's own mean takes neighbors as they are. Here an edge's text and the neighbor it leads
    to meet in one layer first, as in MaxSAGE, from which this differs in nothing else.

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
        heard = reduce_rows(messages, batch.owner, len(batch), "mean")  # [B, D]
        return cast(Tensor, self.update(torch.cat([center, heard], dim=1)))
