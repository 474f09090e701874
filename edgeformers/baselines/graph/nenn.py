"""NENN: alternating attention over neighboring nodes and edges (Yang and Li, 2020)."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.graph.ego import EgoModel
from edgeformers.data.batch import EgoBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.pooling import reduce_rows, softmax_rows
from edgeformers.nn.ragged import Ragged


class NENN(EgoModel):
    """A node-level, an edge-level and a node-level layer on the star of each center.

    A layer computes ELU([n ; e]) from attention over neighboring nodes and over neighboring edges.
    The neighbors of a node are itself, its neighbors and its edges; those of an edge are its two
    nodes, itself and the other edges of the center. A final linear layer maps the center to width
    D.

    Shapes: B centers, E edges of all centers, P pairs of edges of one center, K node width,
    D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextReader) -> None:
        super().__init__(config, encoder)
        width = encoder.width
        self.first = DualAttention(config.node_width, width, width)
        self.middle = DualAttention(2 * width, width, width)
        self.last = DualAttention(2 * width, 2 * width, width)
        self.out = nn.Linear(2 * width, width)

    def aggregate(self, center: Tensor, neighbor: Tensor, edge: Tensor, batch: EgoBatch) -> Tensor:
        """[B, K], [E, K] and [E, D] -> [B, D]."""
        owner = batch.owner
        every = torch.arange(owner.size(0), device=owner.device)  # each edge, and its neighbor u
        ends = torch.cat([every, every])  # edges and neighbors attend to v and u: [2E]
        star = torch.cat([torch.arange(len(batch), device=owner.device), owner])  # v to v and u
        query, key = batch.egos.cached("siblings", lambda: _sibling_pairs(batch.egos))  # [P]

        v, u, e = self.first.project(center, neighbor, edge)
        both = torch.cat([v[owner], u])
        v, u = (
            self.first(v, torch.cat([v, u]), star, e, owner),  # [B, 2D]
            self.first(u, both, ends, e, every),  # [E, 2D]
        )
        mid_v, mid_u, e = self.middle.project(v, u, edge)
        both = torch.cat([mid_v[owner], mid_u])
        e = self.middle(e, both, ends, e[key], query)  # [E, 2D]

        v, u, e = self.last.project(v, u, e)
        output: Tensor = self.out(self.last(v, torch.cat([v, u]), star, e, owner))
        return output


class DualAttention(nn.Module):
    """One layer: projections W_n of nodes and W_e of edges, and attention over each of the two.

    Shapes: Q queries, R node keys, S edge keys, D width.
    """

    def __init__(self, node_width: int, edge_width: int, width: int) -> None:
        super().__init__()
        self.node_map = nn.Linear(node_width, width, bias=False)  # W_n
        self.edge_map = nn.Linear(edge_width, width, bias=False)  # W_e
        self.to_nodes = AdditiveAttention(width)
        self.to_edges = AdditiveAttention(width)

    def project(
        self, center: Tensor, neighbor: Tensor, edge: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Centers, neighbors and edges projected to width D."""
        return self.node_map(center), self.node_map(neighbor), self.edge_map(edge)

    def forward(
        self, queries: Tensor, nodes: Tensor, node_query: Tensor, edges: Tensor, edge_query: Tensor
    ) -> Tensor:
        """Queries [Q, D], nodes [R, D] and edges [S, D], each with its query [R] [S] -> [Q, 2D]."""
        attended = [
            self.to_nodes(queries, nodes, node_query),
            self.to_edges(queries, edges, edge_query),
        ]
        return F.elu(torch.cat(attended, dim=1))


class AdditiveAttention(nn.Module):
    """GAT attention: key k has weight softmax(LeakyReLU(a^T [q ; k])) among the keys of q."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, 1, bias=False)  # the first half of a
        self.key = nn.Linear(width, 1, bias=False)  # the second half

    def forward(self, queries: Tensor, keys: Tensor, query_of_key: Tensor) -> Tensor:
        """Queries [Q, D] and keys [R, D], each with its query [R] -> [Q, D]."""
        scores = F.leaky_relu(self.query(queries)[query_of_key] + self.key(keys), 0.2)  # [R, 1]
        weights = softmax_rows(scores, query_of_key, queries.size(0))
        return reduce_rows(weights * keys, query_of_key, queries.size(0), "sum")


def _sibling_pairs(egos: Ragged) -> tuple[Tensor, Tensor]:
    """All pairs of edges of the same center, including an edge with itself: two tensors [P]."""
    num_pairs = int((np.diff(egos.host_offsets) ** 2).sum())
    size = egos.lengths.long()[egos.group_ids]  # edges of its center, [E]
    query = torch.repeat_interleave(size, output_size=num_pairs)
    before = size.cumsum(0) - size  # pairs of earlier edges
    position = torch.arange(num_pairs, device=size.device) - before[query]
    return query, egos.starts.long()[egos.group_ids][query] + position
