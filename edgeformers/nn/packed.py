"""PackedText: a batch of texts as one sequence of tokens, without padding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from edgeformers.errors import InputError
from edgeformers.nn.ragged import Ragged, check_not_empty, group_fields


@dataclass(frozen=True, eq=False, kw_only=True)
class PackedText(Ragged):
    """B texts of 1 to `max_length` tokens, T tokens in total.

    Create it with `from_tokens`, `from_lists` or `from_padded` on the host. With `states`, an
    encoder skips its first `state_layers` layers.
    """

    token_ids: Tensor  # [T]
    states: Tensor | None = None  # [T, D], after the first `state_layers` layers of the encoder
    state_layers: int = 0

    @classmethod
    def from_tokens(cls, token_ids: Tensor, offsets: Tensor) -> "PackedText":
        """Texts from their concatenated tokens [T] and offsets [B+1]."""
        host = offsets.numpy()
        if host.size < 1 or host[0] != 0 or host[-1] != token_ids.numel():
            raise InputError(
                f"offsets must run from 0 to the number of tokens, {token_ids.numel()} "
                f"(got {host[:1].tolist()} to {host[-1:].tolist()})"
            )
        return cls(token_ids=token_ids, **group_fields(host))

    @classmethod
    def from_lists(cls, texts: Iterable[Sequence[int]]) -> "PackedText":
        """Texts from lists of token ids."""
        rows = [list(text) for text in texts]
        offsets = np.cumsum([0, *map(len, rows)])
        token_ids = torch.tensor([token for row in rows for token in row], dtype=torch.long)
        return cls.from_tokens(token_ids, torch.from_numpy(offsets))

    @classmethod
    def from_padded(cls, token_ids: Tensor, mask: Tensor) -> "PackedText":
        """Texts from padded ids [B, L] and a mask [B, L], False at padding on either side."""
        if token_ids.shape != mask.shape:
            raise InputError(
                f"token_ids and mask must have the same shape "
                f"(got {list(token_ids.shape)} and {list(mask.shape)})"
            )
        token_ids, mask = token_ids.cpu(), mask.cpu().bool()
        lengths = mask.sum(1)
        check_not_empty(lengths.numpy())
        changes = F.pad(mask.int(), (1, 1)).diff(dim=1).abs().sum(1)  # 2 for consecutive tokens
        if (gaps := changes.gt(2).nonzero()).numel():
            raise InputError(
                f"the mask of text {int(gaps[0])} has a gap; padding is allowed only before and "
                f"after a text"
            )
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return cls.from_tokens(token_ids[mask], offsets)

    @classmethod
    def cat(cls, texts: Sequence["PackedText"]) -> "PackedText":
        """Concatenate batches of texts on the same device."""
        before = np.cumsum([0, *(text.num_tokens for text in texts)]).tolist()
        shifted = list(zip(texts, before[:-1], strict=True))
        states = [text.states for text in texts if text.states is not None]
        has_states = len(states) == len(texts) and len({t.state_layers for t in texts}) == 1
        return cls(
            token_ids=torch.cat([text.token_ids for text in texts]),
            states=torch.cat(states) if has_states else None,
            state_layers=texts[0].state_layers if has_states else 0,
            offsets=torch.cat([texts[0].offsets[:1], *(t.offsets[1:] + at for t, at in shifted)]),
            positions=torch.cat([text.positions for text in texts]),
            max_length=max(text.max_length for text in texts),
            host_offsets=np.concatenate([[0], *(t.host_offsets[1:] + at for t, at in shifted)]),
        )

    @property
    def num_texts(self) -> int:
        return self.num_groups

    @property
    def num_tokens(self) -> int:
        return self.num_rows

    @property
    def text_ids(self) -> Tensor:
        """Text of each token: [T]."""
        return self.group_ids
