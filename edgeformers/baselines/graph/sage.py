"""GraphSAGE (Hamilton et al., 2017): of nodes alone, with edge texts, and for edges."""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.graph.ego import EgoModel
from edgeformers.baselines.graph.node_texts import NodeTextConfig, NodeTextReader
from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EdgeContextBatch, EgoBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.encoder import TextEncoder
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


class MaxSAGEForEdges(NodeTextReader):
    """h_ij = W [h_e ; max of ReLU(W_m h_i) and ReLU(W_m h_j)], over the texts of both nodes.

    Each text is encoded on its own; that of a node is made of the edges around it.

    Inputs used: the text, and the texts of edges around either end, joined to a text per node.

    Shapes: B edges, N texts of edges and nodes, D width.
    """

    def __init__(self, config: NodeTextConfig, encoder: TextEncoder) -> None:
        super().__init__(config, encoder)
        self.message = nn.Linear(encoder.width, encoder.width)  # W_m
        self.update = nn.Linear(2 * encoder.width, encoder.width)  # W

    def forward(self, batch: EdgeContextBatch) -> Tensor:
        """B edges with context -> edge_repr [B, D]."""
        count, texts = len(batch), self.texts(batch)
        own, nodes = self.encoder.encode(texts.text).tensor_split([count])  # [B, D], [N - B, D]
        messages = F.relu(self.message(nodes))
        pooled = reduce_rows(messages, texts.owner[count:], count, "max")  # [B, D]
        output: Tensor = self.update(torch.cat([own, pooled], dim=1))
        return output
