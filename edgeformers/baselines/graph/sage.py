"""GraphSAGE (Hamilton et al., 2017): of nodes alone, with edge texts, and for edges."""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.graph.ego import EgoModel
from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EdgeContextBatch, EgoBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.pooling import reduce_rows


class MeanSAGE(NeuralBaseline):
    """h_v = W [z_v ; mean of z_u over its neighbors u].

    Inputs used: the node and its neighbors. A neighbor with two edges counts twice.

    Shapes: B centers, E edges of all centers, K node width, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        self.update = nn.Linear(2 * config.node_width, encoder.width)  # W

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        pooled = reduce_rows(self.nodes(batch.neighbor), batch.owner, len(batch), "mean")  # [B, K]
        output: Tensor = self.update(torch.cat([self.nodes(batch.center), pooled], dim=1))
        return output


class MaxSAGE(NeuralBaseline):
    """h_v = W [z_v ; max over its neighbors u of ReLU(W_m z_u)], GraphSAGE's pooling aggregator.

    Inputs used: the node and its neighbors.

    Shapes: B centers, E edges of all centers, K node width, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        self.message = nn.Linear(config.node_width, encoder.width)  # W_m
        self.update = nn.Linear(config.node_width + encoder.width, encoder.width)  # W

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        messages = F.relu(self.message(self.nodes(batch.neighbor)))  # [E, D]
        pooled = reduce_rows(messages, batch.owner, len(batch), "max")  # [B, D]
        output: Tensor = self.update(torch.cat([self.nodes(batch.center), pooled], dim=1))
        return output


class MaxSAGEWithTexts(EgoModel):
    """h_v = W [z_v ; max over its edges e to u of ReLU(W_m [z_u ; h_e])].

    GraphSAGE's pooling aggregator over neighbors concatenated with edge texts.

    Shapes: B centers, E edges of all centers, K node width, D width.
    """

    reduction: ClassVar[Literal["max", "mean"]] = "max"

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        both = config.node_width + encoder.width
        self.message = nn.Linear(both, encoder.width)  # W_m
        self.update = nn.Linear(both, encoder.width)  # W

    def aggregate(self, center: Tensor, neighbor: Tensor, edge: Tensor, batch: EgoBatch) -> Tensor:
        """[B, K], [E, K] and [E, D] -> [B, D]."""
        messages = F.relu(self.message(torch.cat([neighbor, edge], dim=1)))  # [E, D]
        pooled = reduce_rows(messages, batch.owner, len(batch), self.reduction)  # [B, D]
        output: Tensor = self.update(torch.cat([center, pooled], dim=1))
        return output


class MeanSAGEWithTexts(MaxSAGEWithTexts):
    """MaxSAGEWithTexts with the mean in place of the maximum.

    GraphSAGE's own mean aggregator does not transform neighbors; here W_m combines each neighbor
    with its edge text first.
    """

    reduction = "mean"


class MaxSAGEForEdges(NeuralBaseline):
    """h_v = ReLU(W [z_v ; max over its edges e to u of ReLU(W_m [z_u ; h_e])]) for both ends.

    Then h_ij = W_o [h_e ; h_i ; h_j]. The edge between i and j is excluded from both maxima. Each
    text is encoded on its own.

    Inputs used: the text, both nodes, and the texts and neighbors of the edges around either.

    Shapes: B edges, E edges including those around them, K node width, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        width, both = encoder.width, config.node_width + encoder.width
        self.message = nn.Linear(both, width)  # W_m
        self.update = nn.Linear(both, width)  # W
        self.out = nn.Linear(3 * width, width)  # W_o

    def forward(self, batch: EdgeContextBatch) -> Tensor:
        """B edges with context -> edge_repr [B, D]."""
        texts = self.encoder.encode(batch.texts)  # [E, D]
        sizes = [len(batch), len(batch.source.neighbor), len(batch.target.neighbor)]
        own, source_texts, target_texts = texts.split(sizes)
        source = self._end(batch.edge.src, batch.source.neighbor, source_texts, batch.source.owner)
        target = self._end(batch.edge.dst, batch.target.neighbor, target_texts, batch.target.owner)
        output: Tensor = self.out(torch.cat([own, source, target], dim=1))
        return output

    def _end(self, center: Tensor, neighbor: Tensor, texts: Tensor, owner: Tensor) -> Tensor:
        """End nodes [B] and the edges around them -> h_v [B, D]."""
        messages = F.relu(self.message(torch.cat([self.nodes(neighbor), texts], dim=1)))
        pooled = reduce_rows(messages, owner, len(center), "max")  # [B, D]
        return F.relu(self.update(torch.cat([self.nodes(center), pooled], dim=1)))
