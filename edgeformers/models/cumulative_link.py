"""CumulativeLink: logits of ordered classes, such as stars."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CumulativeLink(nn.Module):
    """Ordered classes as intervals of one line: P(y <= k) = sigmoid(threshold_k - w . h).

    Confusing neighboring classes costs less than confusing distant ones. The output are
    log-probabilities, which are also logits: their softmax is the probabilities again.

    Shapes: B edges, D width, C classes.
    """

    def __init__(self, width: int, num_classes: int, frequencies: Tensor | None = None) -> None:
        super().__init__()
        self.place = nn.Linear(width, 1, bias=False)
        uniform = torch.full((num_classes,), 1 / num_classes)
        below = (uniform if frequencies is None else frequencies).cumsum(0)[:-1]
        thresholds = torch.logit(below.clamp(1e-4, 1 - 1e-4))  # at w = 0 classes have their share
        gaps = thresholds.diff().clamp(min=1e-3)
        self.first = nn.Parameter(thresholds[:1].clone())
        self.gaps = nn.Parameter(torch.log(torch.expm1(gaps)))  # the inverse of softplus

    def thresholds(self) -> Tensor:
        """The C - 1 borders between classes, in ascending order."""
        return torch.cat([self.first, self.first + F.softplus(self.gaps).cumsum(0)])

    def forward(self, edge_repr: Tensor) -> Tensor:
        """[B, D] -> log-probabilities [B, C]."""
        distance = self.thresholds() - self.place(edge_repr)  # [B, C-1]
        upper = F.pad(F.logsigmoid(distance), (0, 1))  # log P(y <= k); 0 for the last class
        lower = F.pad(F.logsigmoid(-distance), (1, 0))  # log P(y > k - 1); 0 for the first
        # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)), without cancellation
        inner = torch.log(-torch.expm1(-F.softplus(self.gaps)))
        return upper + lower + F.pad(inner, (1, 1))
