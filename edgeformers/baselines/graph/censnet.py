"""CensNet: alternating convolutions over nodes and over edges (Jiang et al., 2019)."""

import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.graph.ego import EgoModel
from edgeformers.data.batch import EgoBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.pooling import count_rows, reduce_rows


class CensNet(EgoModel):
    """A node, an edge and a node convolution on the star of a center v with n edges e_i to u_i.

    Nodes: H_v' = ReLU((T diag(H_e p_e) T^T * A_v) H_v W_v), where each edge scales the messages
    along it. Edges: H_e' = ReLU((T^T diag(H_v p_v) T * A_e) H_e W_e), where all edges of the star
    are neighbors in the line graph through v. T is the node-edge incidence matrix; both A are
    normalized, D^-1/2 (A + I) D^-1/2: v has degree n + 1, u_i has 2, an edge has n. A self-loop
    has weight 1, so that a node without edges keeps its vector. The last ReLU is omitted.

    Shapes: B centers, E edges of all centers, K node width, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        width = encoder.width
        self.first_nodes = nn.Linear(config.node_width, width)  # W_v
        self.first_weight = nn.Linear(width, 1, bias=False)  # p_e
        self.edges = nn.Linear(width, width)  # W_e
        self.node_weight = nn.Linear(width, 1, bias=False)  # p_v
        self.last_nodes = nn.Linear(width, width)
        self.last_weight = nn.Linear(width, 1, bias=False)

    def aggregate(self, center: Tensor, neighbor: Tensor, edge: Tensor, batch: EgoBatch) -> Tensor:
        """[B, K], [E, K] and [E, D] -> [B, D]."""
        owner = batch.owner
        size = count_rows(owner, len(batch))[:, None].to(center.dtype)  # n, [B, 1]
        norm = (2 * (size + 1)).rsqrt()[owner]  # A_v between v and each u_i, [E, 1]
        weight = norm * self.first_weight(edge)
        v = F.relu(self.first_nodes(_convolve(center, weight * neighbor, size, owner)))  # [B, D]
        u = F.relu(self.first_nodes(neighbor / 2 + weight * center[owner]))  # [E, D]

        messages = self.node_weight(v) * reduce_rows(edge, owner, len(batch), "sum")  # [B, D]
        self_loop = (1 - self.node_weight(v)[owner]) * edge  # replaces the edge's own message
        e = F.relu(self.edges((messages[owner] + self_loop) / size[owner]))  # [E, D]

        weight = norm * self.last_weight(e)
        output: Tensor = self.last_nodes(_convolve(v, weight * u, size, owner))
        return output


def _convolve(center: Tensor, messages: Tensor, size: Tensor, owner: Tensor) -> Tensor:
    """The center's row of A_v H_v: its own vector over its degree, plus the messages [E, X]."""
    return center / (size + 1) + reduce_rows(messages, owner, center.size(0), "sum")
