"""Attention between the edges of an ego graph, and pooling of edges into their center node."""

from typing import Literal

import torch
from torch import Tensor, nn

from edgeformers.nn.attention import attend, attend_within
from edgeformers.nn.ragged import Ragged
from edgeformers.nn.segments import reduce_rows, softmax_rows

Pooling = Literal["attention", "mean", "max"]


class LocalAttention(nn.Module):
    """MHA_g: self-attention among the edges of an ego graph, giving the third virtual token h-bar.

    As the paper defines MHA, there is no output map and no residual connection.
    Shapes: E edges, D width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)

    def forward(self, cls_states: Tensor, egos: Ragged) -> Tensor:
        """[CLS] states of all edges [E, D] -> h-bar [E, D]."""
        parts = self.query_key_value(cls_states).unflatten(-1, (3, self.heads, -1))
        return attend_within(parts, egos).flatten(1)  # [E, 3, H, D/H] -> [E, D]


class BilinearPooling(nn.Module):
    """AGG of the paper: h_v = sum of alpha h_e with alpha = softmax(h_e^T W_s z_v^(0)).

    Shapes: E edges of B ego graphs, K node width, D width.
    """

    def __init__(self, node_width: int, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(node_width, width, bias=False)  # W_s

    def forward(self, edges: Tensor, z_center: Tensor, egos: Ragged) -> Tensor:
        """Edge states [E, D] and node vectors of the centers [B, K] -> [B, D]."""
        ego, count = egos.group_ids, egos.num_groups  # [E]
        wide = edges.to(torch.promote_types(edges.dtype, torch.float32))
        scores = (self.score(z_center)[ego] * wide).sum(-1, keepdim=True)  # [E, 1]
        return reduce_rows(softmax_rows(scores, ego, count) * wide, ego, count, "sum")


class HeadPooling(nn.Module):
    """AGG of the authors' code: multi-head attention with the center's node token as query.

    Shapes: E edges of B ego graphs, D width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)

    def forward(self, edges: Tensor, center_token: Tensor, egos: Ragged) -> Tensor:
        """Edge states [E, D] and node tokens of the centers [B, D] -> [B, D]."""
        q = self.query(center_token).unflatten(-1, (self.heads, -1))  # [B, H, D/H]
        k, v = self.key_value(edges).unflatten(-1, (2, self.heads, -1)).unbind(1)
        return attend(q, k, v, egos, readout=True).flatten(1)


def reduce_egos(edges: Tensor, egos: Ragged, how: Literal["mean", "max"]) -> Tensor:
    """Mean or maximum over the edges of each ego graph: [E, D] -> [B, D]."""
    return torch.segment_reduce(edges, how, lengths=egos.lengths.long(), unsafe=True)
