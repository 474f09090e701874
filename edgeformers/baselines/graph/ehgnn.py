"""EHGNN (Jo et al., 2021): convolutions on the dual hypergraph, in which edges are nodes."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EdgeContextBatch
from edgeformers.errors import ConfigError
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.pooling import reduce_rows


@dataclass(frozen=True, kw_only=True)
class EHGNNConfig(ModelConfig):
    """Settings of EHGNN."""

    layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers < 1:
            raise ConfigError(f"layers must be at least 1 (got {self.layers})")


class DualConvolution(nn.Module):
    """One layer on the dual hypergraph, in which edges are nodes and nodes are hyperedges.

    m_v = mean over the edges e of v of W_m h_e; then h_e = W_e h_e + (m_i + m_j) / 2. Without
    W_e, the update by the edge's own vector, this is the hypergraph convolution of Bai et al.
    (2021).

    Shapes: E edges, N nodes, D width.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message = nn.Linear(width, width, bias=False)  # W_m
        self.edge = nn.Linear(width, width)  # W_e

    def forward(self, edges: Tensor, ends: Tensor, num_nodes: int) -> Tensor:
        """h_e [E, D] and the two of N nodes of each edge [E, 2] -> h_e [E, D]."""
        messages = self.message(edges).repeat_interleave(2, dim=0)  # one to each end
        nodes = reduce_rows(messages, ends.flatten(), num_nodes, "mean")  # [N, D]
        output: Tensor = self.edge(edges) + nodes[ends].mean(1)
        return output


class EHGNN(NeuralBaseline):
    """h_e after the layers on the dual of the subgraph sampled around e, with ReLU in between.

    Edges start from their texts, each encoded on its own by a language model or a bag of words.
    Nodes have no vectors: they only say which edges meet.

    Inputs used: the text, and the texts of the edges around either end.

    Shapes: B edges, E edges including those around them, D width.
    """

    uses_nodes = False

    def __init__(self, config: EHGNNConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        self.layers = nn.ModuleList(DualConvolution(encoder.width) for _ in range(config.layers))

    def forward(self, batch: EdgeContextBatch) -> Tensor:
        """B edges with context -> edge_repr [B, D]."""
        edges = self.encoder.encode(batch.texts)  # [E, D]
        ends = edge_ends(batch)
        num_nodes = len(batch) + len(edges)  # both ends of B edges, and one of each around them
        for number, layer in enumerate(self.layers):
            edges = layer(F.relu(edges) if number else edges, ends, num_nodes)
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
