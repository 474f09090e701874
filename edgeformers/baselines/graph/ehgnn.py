"""EHGNN: messages between edges that share a node, on the dual hypergraph (Jo et al., 2021)."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.data.batch import EdgeContextBatch
from edgeformers.models.base import ModelConfig, TextReader, make_lookup
from edgeformers.nn.segments import reduce_rows

ROUNDS = 2


class DualRound(nn.Module):
    """One round on the dual hypergraph, in which edges are nodes and nodes are hyperedges.

    m_v = mean over e of v of W_m h_e, + W_z z_v; then h_e = W_e h_e + (m_i + m_j) / 2. Without
    W_e and W_z this is the convolution of Bai et al. (2021) on the dual.

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
        heard = reduce_rows(messages, ends.flatten(), len(z), "mean") + self.node(z)  # [N, D]
        return cast(Tensor, self.edge(edges) + heard[ends].mean(1))


class EHGNN(nn.Module):
    """h_e after two rounds on the dual of what was sampled around e, ReLU between them.

    Edges start from their texts, each read alone by a language model or a bag of words, and nodes
    keep their own vectors. The other end of an edge around i or j is known from that edge only.

    Used: the text, the two ends, and the texts and other ends of edges around either.

    Shapes: B edges, E of them all with those around, N ends of these, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config)
        width = encoder.width
        self.rounds = nn.ModuleList(DualRound(config.node_width, width) for _ in range(ROUNDS))

    @property
    def width(self) -> int:
        return self.encoder.width

    def forward(self, batch: EdgeContextBatch) -> Tensor:
        """B edges with context -> edge_repr [B, D]."""
        edges = self.encoder.encode(batch.texts)  # [E, D]
        around = (batch.source.neighbor, batch.target.neighbor)
        z = self.nodes(torch.cat([batch.edge.src, batch.edge.dst, *around]))  # [N, K]
        ends = edge_ends(batch)
        for number, one in enumerate(self.rounds):
            edges = one(F.relu(edges) if number else edges, z, ends)
        return edges[: len(batch)]


def edge_ends(batch: EdgeContextBatch) -> Tensor:
    """Of all edges, as `batch.texts` has them, the places of both ends: [E, 2].

    Places are those of the B sources, the B targets, and the other ends around either.
    """
    count, sources, targets = len(batch), len(batch.source.neighbor), len(batch.target.neighbor)
    places = torch.arange(2 * count + sources + targets, device=batch.edge.src.device)
    src, dst, *others = places.split([count, count, sources, targets])
    near = torch.cat([src, src[batch.source.owner], dst[batch.target.owner]])
    return torch.stack([near, torch.cat([dst, *others])], dim=1)
