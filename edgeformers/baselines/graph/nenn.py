"""NENN: nodes and edges attend to the nodes and edges around them, in turns (Yang and Li, 2020)."""

from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.graph.ego import EgoModel
from edgeformers.data.batch import EgoBatch
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.ragged import Ragged
from edgeformers.nn.segments import reduce_rows, softmax_rows


class NENN(EgoModel):
    """A node-level layer, an edge-level one, a node-level one, on the star of each center.

    A layer gives ELU([n ; e]) of what attention finds in the nodes and in the edges around. Around
    a node are itself, its neighbors and its edges; around an edge its two ends, itself and the
    other edges of the center. What lies beyond the star is not read. A last linear map brings the
    center to width D.

    Shapes: B centers, E edges of them all, P pairs of edges of one center, K node width, D width.
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
        every = torch.arange(owner.size(0), device=owner.device)  # each edge, and its other end
        ends = torch.cat([every, every])  # an edge, and a neighbor, hears v and u: [2E]
        star = torch.cat([torch.arange(len(batch), device=owner.device), owner])  # v hears v and u
        asking, heard = batch.egos.cached("siblings", lambda: _siblings(batch.egos))  # [P]

        v, u, e = self.first.project(center, neighbor, edge)
        around = torch.cat([v[owner], u])
        v, u = (
            self.first(v, torch.cat([v, u]), star, e, owner),  # [B, 2D]
            self.first(u, around, ends, e, every),  # [E, 2D]
        )
        mid_v, mid_u, e = self.middle.project(v, u, edge)
        around = torch.cat([mid_v[owner], mid_u])
        e = self.middle(e, around, ends, e[heard], asking)  # [E, 2D]

        v, u, e = self.last.project(v, u, e)
        return cast(Tensor, self.out(self.last(v, torch.cat([v, u]), star, e, owner)))


class DualAttention(nn.Module):
    """One layer: its maps W_n of nodes and W_e of edges, and attention to each of the two.

    Shapes: Q that ask, R and S rows of nodes and of edges that they hear, D width.
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
        """Centers, neighbors and edges in the space of this layer, each [..., D]."""
        return self.node_map(center), self.node_map(neighbor), self.edge_map(edge)

    def forward(
        self, asking: Tensor, nodes: Tensor, of_nodes: Tensor, edges: Tensor, of_edges: Tensor
    ) -> Tensor:
        """[Q, D] that hear nodes [R, D] and edges [S, D], of whom `of_...` says -> [Q, 2D]."""
        heard = [self.to_nodes(asking, nodes, of_nodes), self.to_edges(asking, edges, of_edges)]
        return F.elu(torch.cat(heard, dim=1))


class AdditiveAttention(nn.Module):
    """GAT's attention: row k weighs softmax(LeakyReLU(a^T [q ; k])) among those that q hears."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, 1, bias=False)  # the first half of a
        self.key = nn.Linear(width, 1, bias=False)  # the second half

    def forward(self, asking: Tensor, rows: Tensor, group: Tensor) -> Tensor:
        """[Q, D] and rows [R, D], each heard by the one that `group` [R] says -> [Q, D]."""
        scores = F.leaky_relu(self.query(asking)[group] + self.key(rows), 0.2)  # [R, 1]
        weights = softmax_rows(scores, group, asking.size(0))
        return reduce_rows(weights * rows, group, asking.size(0), "sum")


def _siblings(egos: Ragged) -> tuple[Tensor, Tensor]:
    """Each edge with every edge of its center, itself among them: who hears [P], and whom [P]."""
    num_pairs = int((np.diff(egos.host_offsets) ** 2).sum())
    size = egos.lengths.long()[egos.group_ids]  # edges of its center, [E]
    asking = torch.repeat_interleave(size, output_size=num_pairs)
    before = size.cumsum(0) - size  # pairs of the edges before
    place = torch.arange(num_pairs, device=size.device) - before[asking]
    return asking, egos.starts.long()[egos.group_ids][asking] + place
