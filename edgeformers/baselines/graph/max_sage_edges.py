"""BERT+MaxSAGE for edges: a text between two nodes, each known by the edges around it."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.data.batch import EdgeContextBatch
from edgeformers.models.base import ModelConfig, TextReader, make_lookup
from edgeformers.nn.segments import reduce_rows


class MaxSAGEEdges(nn.Module):
    """h_v = ReLU(W [z_v ; max over its edges e to u of ReLU(W_m [z_u ; h_e])]) of both ends.

    Then h_ij = W_o [h_e ; h_i ; h_j]. The pooling aggregator of Hamilton et al. (2017), in which
    an edge's text stands beside the neighbor it leads to; the edge between i and j is in neither
    maximum. Texts are read first, each alone.

    Used: the text, the two ends, and the texts and other ends of edges around either.

    Shapes: B edges, E of them all with those around, K node width, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config)
        width, both = encoder.width, config.node_width + encoder.width
        self.message = nn.Linear(both, width)  # W_m
        self.update = nn.Linear(both, width)  # W
        self.out = nn.Linear(3 * width, width)  # W_o

    @property
    def width(self) -> int:
        return self.encoder.width

    def forward(self, batch: EdgeContextBatch) -> Tensor:
        """B edges with context -> edge_repr [B, D]."""
        texts = self.encoder.encode(batch.texts)  # [E, D]
        sizes = [len(batch), len(batch.source.neighbor), len(batch.target.neighbor)]
        own, around_source, around_target = texts.split(sizes)
        source = self._end(batch.edge.src, batch.source.neighbor, around_source, batch.source.owner)
        target = self._end(batch.edge.dst, batch.target.neighbor, around_target, batch.target.owner)
        return cast(Tensor, self.out(torch.cat([own, source, target], dim=1)))

    def _end(self, center: Tensor, neighbor: Tensor, texts: Tensor, owner: Tensor) -> Tensor:
        """Ends [B] and the edges around them -> h_v [B, D]."""
        messages = F.relu(self.message(torch.cat([self.nodes(neighbor), texts], dim=1)))
        heard = reduce_rows(messages, owner, len(center), "max")  # [B, D]
        return F.relu(self.update(torch.cat([self.nodes(center), heard], dim=1)))
