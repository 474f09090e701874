"""Padded texts and ego graphs that the models read like packed ones, inside a traced graph.

ONNX Runtime gets rectangles of tokens, and the sizes of a traced graph are symbols: the plans that
`Ragged` makes on the host are expressed here as tensor operations.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import Block, Buckets, Ragged

NO_PLAN: Any = np.zeros(0, np.int64)  # the offsets on the host, which a traced graph does not have


@dataclass(frozen=True, eq=False, kw_only=True)
class PaddedText(PackedText):
    """B texts of L tokens, padded on the right: row b * L + i is token i of text b.

    The first token is always visible, so that a text without tokens gives numbers, not NaN.
    """

    mask_: Tensor  # [B, L], True = real

    @classmethod
    def make(cls, token_ids: Tensor, mask: Tensor, max_length: int) -> Self:
        """Texts from ids and their mask [B, L]; L is at most `max_length`."""
        num_texts, length = token_ids.shape
        columns = torch.arange(length)
        return cls(
            token_ids=token_ids.flatten(),
            offsets=torch.arange(num_texts + 1) * length,
            positions=columns.expand(num_texts, length).flatten(),
            max_length=max_length,
            host_offsets=NO_PLAN,
            mask_=mask.bool() | (columns == 0),
        )

    def _group_ids(self) -> Tensor:
        rows = torch.arange(self.mask_.size(0))
        return rows[:, None].expand_as(self.mask_).flatten()

    def buckets(self, num_virtual: int, window: int | None, readout: bool) -> Buckets:
        """All texts in one block; padding is invisible."""
        num_texts, length = self.mask_.shape
        visible = self.mask_[:, None, None, :]  # [B, 1, 1, L]
        if window is not None:
            keys = torch.arange(length)
            queries = keys[:1] if readout else keys
            visible = visible & ((queries[:, None] - keys).abs() <= window)
        if num_virtual:
            virtual = visible.new_ones(1).expand(*visible.shape[:3], num_virtual)
            visible = torch.cat([virtual, visible], dim=-1)
        return Buckets([Block(num_texts, None, None, visible, [])], None)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnedEdges(Ragged):
    """The edges of ego graphs by the row of their center [E], in any order; some have no edges.

    Edges attend to all edges of the batch at once, and see those with the same center.
    """

    owner: Tensor  # [E]
    num_centers: int

    @classmethod
    def make(cls, owner: Tensor, num_centers: int) -> Self:
        """The edges of `num_centers` centers."""
        zeros = torch.zeros_like(owner)
        return cls(
            offsets=torch.arange(2) * owner.size(0),
            positions=zeros,
            max_length=1,
            host_offsets=NO_PLAN,
            owner=owner,
            num_centers=num_centers,
        )

    @property
    def num_groups(self) -> int:
        return self.num_centers

    @property
    def group_ids(self) -> Tensor:
        return self.owner

    def buckets(self, num_virtual: int, window: int | None, readout: bool) -> Buckets:
        """All edges in one block."""
        visible = self.owner[:, None] == self.owner  # [E, E]
        return Buckets([Block(1, None, None, visible[None, None], [])], None)
