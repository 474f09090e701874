"""NodePrior: the part of node vectors that is predicted from a node's labeled training edges."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from edgeformers.errors import InputError

SIDES = ("source", "target")
HIDDEN = 128
SCALE = 4.0  # brings differences from the average edge to about unit size


class NodePrior(nn.Module):
    """f(s_v), which is added to the vector of a node: what its labeled edges say about it.

    The summary s_v of a node has a row per class: the sum of what the texts of its training edges
    with that label let one expect [C], and the number of these edges. A vector that is learned for
    one node alone needs many edges; f is learned from the edges of all nodes, so that few edges of
    a node suffice. A node has a summary as a source and another as a target, each with its own f. A
    new node has no edges: its summary is zero.

    The label of an edge is part of the summaries of its nodes. In training they must be given
    without it (`training.node_summaries`), or else the model would only learn to read it.

    Shapes: B edges, V node tokens, N nodes, C classes, F features, K node width.
    """

    source: Tensor  # [N+1, C, C+1], the last row is the unknown node's
    target: Tensor  # [N+1, C, C+1]
    average: Tensor  # [C, C+1], the mean summary of an edge

    def __init__(
        self, num_nodes: int, width: int, classes: int, sides: Sequence[str] = SIDES
    ) -> None:
        super().__init__()
        for side in SIDES:
            self.register_buffer(side, torch.zeros(num_nodes + 1, classes, classes + 1))
        self.register_buffer("average", torch.zeros(classes, classes + 1))
        features = classes * (2 * classes + 1) + 1
        self.maps = nn.ModuleDict({side: _map(features, width) for side in sides})

    @torch.no_grad()
    def set_summaries(self, source: Tensor, target: Tensor) -> None:
        """Set the summaries of all nodes [N, C, C+1] as sources and as targets."""
        for own, given in ((self.source, source), (self.target, target)):
            if own[:-1].shape != given.shape:
                raise InputError(
                    f"node summaries must be {list(own[:-1].shape)} (got {list(given.shape)})"
                )
            own[:-1].copy_(given)
        total = source.double().sum(0)
        self.average.copy_(total / total[:, -1].sum().clamp(min=1))

    def look_up(self, src: Tensor, dst: Tensor) -> Tensor:
        """Node numbers [B], -1 if unknown -> their summaries [B, 2, C, C+1]."""
        rows = [torch.where(nodes >= 0, nodes, len(self.source) - 1) for nodes in (src, dst)]
        return torch.stack([self.source[rows[0]], self.target[rows[1]]], dim=1)

    def forward(self, summaries: Tensor) -> Tensor:
        """[B, 2, C, C+1] -> the predicted vectors of the nodes on the V `sides` [B, V, K]."""
        x = self.features(summaries)
        predicted = [of_side(x[:, SIDES.index(side)]) for side, of_side in self.maps.items()]
        return torch.stack(predicted, dim=1)

    def features(self, summaries: Tensor) -> Tensor:
        """Summaries [..., C, C+1] -> means over all edges and over those of each label [..., F].

        Both are as if the node had one average edge more, and relative to the average. The number
        of edges comes last.
        """
        counts = summaries[..., -1:]  # [..., C, 1]
        total = counts.sum(-2, keepdim=True)  # [..., 1, 1]
        mean = (summaries + self.average) / (total + 1) - self.average
        expected = self.average[:, :-1] / self.average[:, -1:].clamp(min=1e-6)  # [C, C]
        by_label = (summaries[..., :-1] + expected) / (counts + 1) - expected
        parts = [SCALE * mean, SCALE * by_label, total.log1p() / 2]
        return torch.cat([part.flatten(-2) for part in parts], dim=-1)


def _map(features: int, width: int) -> nn.Sequential:
    """A network whose output is zero before training."""
    last = nn.Linear(HIDDEN, width)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(features, HIDDEN), nn.GELU(), last)
