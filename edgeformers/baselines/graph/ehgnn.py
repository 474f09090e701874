"""EHGNN: message passing between edges on the dual hypergraph (Jo et al., 2021)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EdgeContextBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.pooling import reduce_rows

ROUNDS = 2


class DualRound(nn.Module):
    """One round on the dual hypergraph, in which edges are nodes and nodes are hyperedges.

    m_v = mean over the edges e of v of W_m h_e, + W_z z_v; then h_e = W_e h_e + (m_i + m_j) / 2.
    Without W_e and W_z this is the convolution of Bai et al. (2021) on the dual.

    Shapes: E edges, N nodes, K node width, D width.
    """

    def __init__(self, node_width: int, width: int) -> None:
        super().__init__()
        self.message = nn.Linear(width, width, bias=False)  # W_m
        self.node = nn.Linear(node_width, width, bias=False)  # W_z
        self.edge = nn.Linear(width, width)  # W_e

    def forward(self, edges: Tensor, z: Tensor, ends: Tensor) -> Tensor:
        """h_e [E, D], z_v [N, K] and the two nodes of each edge [E, 2] -> h_e [E, D]."""
        messages = self.message(edges).repeat_interleave(2, dim=0)  # one to each end
        nodes = reduce_rows(messages, ends.flatten(), len(z), "mean") + self.node(z)  # [N, D]
        output: Tensor = self.edge(edges) + nodes[ends].mean(1)
        return output


class EHGNN(NeuralBaseline):
    """h_e after two rounds on the dual of the subgraph sampled around e, with ReLU in between.

    Edges start from their texts, each encoded on its own by a language model or a bag of words;
    nodes keep their own vectors.

    Inputs used: the text, both nodes, and the texts and neighbors of the edges around either.

    Shapes: B edges, E edges including those around them, N nodes of all edges, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        self.rounds = nn.ModuleList(
            DualRound(config.node_width, encoder.width) for _ in range(ROUNDS)
        )

    def forward(self, batch: EdgeContextBatch) -> Tensor:
        """B edges with context -> edge_repr [B, D]."""
        edges = self.encoder.encode(batch.texts)  # [E, D]
        neighbors = (batch.source.neighbor, batch.target.neighbor)
        z = self.nodes(torch.cat([batch.edge.src, batch.edge.dst, *neighbors]))  # [N, K]
        ends = edge_ends(batch)
        for number, dual_round in enumerate(self.rounds):
            edges = dual_round(F.relu(edges) if number else edges, z, ends)
        return edges[: len(batch)]


def edge_ends(batch: EdgeContextBatch) -> Tensor:
    """The positions of both ends of all edges, in the order of `batch.texts`: [E, 2].

    Nodes are the B sources, the B targets, and the neighbors of sources and of targets.
    """
    count, sources, targets = len(batch), len(batch.source.neighbor), len(batch.target.neighbor)
    positions = torch.arange(2 * count + sources + targets, device=batch.edge.src.device)
    src, dst, *neighbors = positions.split([count, count, sources, targets])
    near = torch.cat([src, src[batch.source.owner], dst[batch.target.owner]])
    return torch.stack([near, torch.cat([dst, *neighbors])], dim=1)
