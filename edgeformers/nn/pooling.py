"""Attention over the edges of an ego-graph: what edges hear of each other, and their node."""

from typing import Literal

import torch
from torch import Tensor, nn

from edgeformers.nn.attention import attend, attend_within
from edgeformers.nn.ragged import Ragged
from edgeformers.nn.segments import reduce_rows, softmax_rows

Pooling = Literal["attention", "mean", "max"]


class LocalAttention(nn.Module):
    """MHA_g: each edge hears from its sibling edges, giving the third virtual token h-bar.

    Heads are laid side by side without an output map or a residual, as the paper defines MHA.
    Shapes: E edges in egos, D width.
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
    """AGG as in the paper: h_v = sum of alpha h_e with alpha = softmax(h_e^T W_s z_v^(0)).

    Shapes: E edges of B egos, K node width, D width.
    """

    def __init__(self, node_width: int, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(node_width, width, bias=False)  # W_s

    def forward(self, edges: Tensor, z_center: Tensor, egos: Ragged) -> Tensor:
        """Edge states [E, D] and centers [B, K] -> [B, D]."""
        ego, count = egos.group_ids, egos.num_groups  # [E]
        wide = edges.to(torch.promote_types(edges.dtype, torch.float32))
        scores = (self.score(z_center)[ego] * wide).sum(-1, keepdim=True)  # [E, 1]
        return reduce_rows(softmax_rows(scores, ego, count) * wide, ego, count, "sum")


class HeadPooling(nn.Module):
    """AGG as released: multi-head attention whose one query is the center's node token.

    Shapes: E edges of B egos, D width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)

    def forward(self, edges: Tensor, center_token: Tensor, egos: Ragged) -> Tensor:
        """Edge states [E, D] and the centers' tokens [B, D] -> [B, D]."""
        q = self.query(center_token).unflatten(-1, (self.heads, -1))  # [B, H, D/H]
        k, v = self.key_value(edges).unflatten(-1, (2, self.heads, -1)).unbind(1)
        return attend(q, k, v, egos, readout=True).flatten(1)


def reduce_egos(edges: Tensor, egos: Ragged, how: Literal["mean", "max"]) -> Tensor:
    """The mean or maximum of each ego's edges: [E, D] -> [B, D]."""
    return torch.segment_reduce(edges, how, lengths=egos.lengths.long(), unsafe=True)
