"""A linear model of edges, of their words and their nodes, set beside a trained one."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from edgeformers.errors import InputError
from edgeformers.nn.bag_of_words import BagConfig, BagOfWords
from edgeformers.nn.packed import PackedText


class LinearEdgeModel(nn.Module):
    """What the words and the two nodes of an edge say of it, each for itself: logits [B, C].

    sum_w tf-idf(w) W_w + S_source + T_target + b, a logistic regression whose weights are given. Of
    the logits by which is decided it makes up `share`, 0 to 1, and the trained ones the rest. A
    new node (-1) says nothing.

    Shapes: B edges, N nodes, C classes.
    """

    source: Tensor
    target: Tensor
    share: Tensor

    def __init__(
        self, bag: BagOfWords, source: Tensor, target: Tensor, *, share: float = 0.5
    ) -> None:
        super().__init__()
        if source.shape != target.shape or source.size(1) != bag.width:
            raise InputError(
                "weights of nodes beside a model are [N, C] as source and as target, and words "
                f"have the same C (got {list(source.shape)}, {list(target.shape)}, {bag.width})"
            )
        self.bag = bag.requires_grad_(False)
        self.register_buffer("source", source.float())
        self.register_buffer("target", target.float())
        self.register_buffer("share", torch.tensor(float(share)))

    @classmethod
    def like(
        cls, state: Mapping[str, Tensor], prefix: str = "ensemble."
    ) -> "LinearEdgeModel | None":
        """Room for what a saved head has beside it; None where it has nothing."""
        if f"{prefix}source" not in state:
            return None
        words, width = state[f"{prefix}bag.table"].shape
        vocab_size = len(state[f"{prefix}bag.column"])
        bag = BagOfWords(BagConfig(vocab_size=vocab_size, words=words, width=width))
        return cls(bag, state[f"{prefix}source"], state[f"{prefix}target"])

    def forward(self, text: PackedText, src: Tensor, dst: Tensor) -> Tensor:
        """Whole texts, and the nodes at both ends [B] -> [B, C]."""
        return self.bag.encode(text) + _rows(self.source, src) + _rows(self.target, dst)

    def mix(self, trained: Tensor, linear: Tensor) -> Tensor:
        """The logits [B, C] by which is decided."""
        return (1 - self.share) * trained + self.share * linear


def _rows(table: Tensor, nodes: Tensor) -> Tensor:
    """Nodes [B] -> [B, C]; zeros of a new one."""
    return table[nodes.clamp(min=0)] * (nodes >= 0)[:, None]
