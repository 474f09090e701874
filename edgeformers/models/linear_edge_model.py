"""LinearEdgeModel: a logistic regression on words and nodes, combined with a trained model."""

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor, nn

from edgeformers.errors import InputError
from edgeformers.nn.bag_of_words import BagConfig, BagOfWords
from edgeformers.nn.packed import PackedText


class LinearEdgeModel(nn.Module):
    """Logits sum_w tf-idf(w) W_w + S_source + T_target + b [B, C], with weights fitted elsewhere.

    Decisions use `share` (0 to 1) of these logits and the rest of the trained ones. An unknown
    node (-1) contributes nothing.

    Shapes: B edges, N nodes, C classes.
    """

    source: Tensor  # [N, C]
    target: Tensor  # [N, C]
    share: Tensor

    def __init__(
        self, bag: BagOfWords, source: Tensor, target: Tensor, *, share: float = 0.5
    ) -> None:
        super().__init__()
        if source.shape != target.shape or source.size(1) != bag.width:
            raise InputError(
                "source and target weights must both be [N, C], with the C of the words (got "
                f"{list(source.shape)}, {list(target.shape)} and {bag.width})"
            )
        self.bag = bag.requires_grad_(False)
        self.register_buffer("source", source.float())
        self.register_buffer("target", target.float())
        self.register_buffer("share", torch.tensor(float(share)))

    @classmethod
    def from_tensors(cls, state: Mapping[str, Tensor], prefix: str = "ensemble.") -> Self | None:
        """A model with the shapes of a saved head's, to load its tensors into; None without one."""
        if f"{prefix}source" not in state:
            return None
        words, width = state[f"{prefix}bag.table"].shape
        vocab_size = len(state[f"{prefix}bag.column"])
        bag = BagOfWords(BagConfig(vocab_size=vocab_size, words=words, width=width))
        return cls(bag, state[f"{prefix}source"], state[f"{prefix}target"])

    def check(self, num_nodes: int, num_classes: int, num_tokens: int) -> None:
        """Raise a ValueError if the tensors do not fit these numbers of nodes, classes, tokens."""
        self.bag.check()
        if self.source.shape != (num_nodes, num_classes) or len(self.bag.column) < num_tokens:
            raise ValueError(f"the linear model is for {list(self.source.shape)} nodes and classes")

    def forward(self, text: PackedText, src: Tensor, dst: Tensor) -> Tensor:
        """Full texts, and the nodes at both ends [B] -> [B, C]."""
        return self.bag.encode(text) + _rows(self.source, src) + _rows(self.target, dst)

    def mix(self, trained: Tensor, linear: Tensor) -> Tensor:
        """The logits [B, C] that decide."""
        return (1 - self.share) * trained + self.share * linear


def _rows(table: Tensor, nodes: Tensor) -> Tensor:
    """Nodes [B] -> rows [B, C]; zeros for an unknown node."""
    return table[nodes.clamp(min=0)] * (nodes >= 0)[:, None]
