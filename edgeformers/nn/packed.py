"""PackedText: many texts in one row of tokens, with no padding between them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.errors import InputError
from edgeformers.nn.fast.length_buckets import Buckets, plan_buckets

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class KeyLayout:
    """Where rows land when V virtual rows stand before each text: [virtual ; text] per text.

    Shapes: S = T + B*V key rows. `order` takes cat(virtual, text) to key rows, `inverse` back.
    """

    num_virtual: int
    offsets: Tensor  # [B+1] int32
    row_offsets: Tensor  # [B+1] int32, of one readout row per text: 0, 1, 2, ...
    positions: Tensor  # [S]; a virtual row stands at position 0
    order: Tensor  # [S]
    inverse: Tensor  # [S]
    max_length: int


@dataclass(frozen=True, eq=False)
class PackedText:
    """B texts of one to `max_length` tokens, laid end to end in one row of T tokens.

    Make one with `from_offsets`, `from_lists` or `from_padded` on the host, then move it with
    `to`. The host keeps its own copy of the offsets, so nothing here waits for the device.
    What attention derives from the offsets is made once per batch and remembered.
    """

    token_ids: Tensor  # [T]
    offsets: Tensor  # [B+1] int32
    positions: Tensor  # [T], counted from 0 within each text
    max_length: int
    host_offsets: NDArray[np.int64]  # [B+1], on the host whatever the device
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_offsets(cls, token_ids: Tensor, offsets: Tensor) -> "PackedText":
        """Tokens laid end to end [T] and where each text begins and ends [B+1], on the host."""
        host = offsets.numpy().astype(np.int64)
        lengths = np.diff(host)
        if host.size < 1 or host[0] != 0 or host[-1] != token_ids.numel():
            raise InputError(
                f"offsets must run from 0 to the number of tokens, {token_ids.numel()} "
                f"(got {host[:1].tolist()} to {host[-1:].tolist()})"
            )
        _refuse_empty(lengths)
        positions = np.arange(host[-1]) - np.repeat(host[:-1], lengths)
        return cls(
            token_ids=token_ids,
            offsets=torch.from_numpy(host.astype(np.int32)),
            positions=torch.from_numpy(positions),
            max_length=int(lengths.max(initial=0)),
            host_offsets=host,
        )

    @classmethod
    def from_lists(cls, texts: Iterable[Sequence[int]]) -> "PackedText":
        """Texts given as lists of token ids."""
        rows = [list(text) for text in texts]
        offsets = np.cumsum([0, *map(len, rows)])
        token_ids = torch.tensor([token for row in rows for token in row], dtype=torch.long)
        return cls.from_offsets(token_ids, torch.from_numpy(offsets))

    @classmethod
    def from_padded(cls, token_ids: Tensor, mask: Tensor) -> "PackedText":
        """Padded ids [B, L] and a mask [B, L] (True = real token); padding left, right or both."""
        if token_ids.shape != mask.shape:
            raise InputError(
                f"token_ids and mask must have one shape "
                f"(got {list(token_ids.shape)} and {list(mask.shape)})"
            )
        token_ids, mask = token_ids.cpu(), mask.cpu().bool()
        lengths = mask.sum(1)
        _refuse_empty(lengths.numpy())
        edges = F.pad(mask.int(), (1, 1)).diff(dim=1).abs().sum(1)  # one run of tokens has two
        if (holes := edges.gt(2).nonzero()).numel():
            raise InputError(
                f"the mask of text {int(holes[0])} has a hole: padding may stand before and "
                f"after a text, not within it"
            )
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return cls.from_offsets(token_ids[mask], offsets)

    @classmethod
    def cat(cls, texts: Sequence["PackedText"]) -> "PackedText":
        """All texts of several, in their order, wherever they are."""
        before = np.cumsum([0, *(text.num_tokens for text in texts)]).tolist()
        parts = list(zip(texts, before[:-1], strict=True))
        return cls(
            token_ids=torch.cat([text.token_ids for text in texts]),
            offsets=torch.cat([texts[0].offsets[:1], *(t.offsets[1:] + at for t, at in parts)]),
            positions=torch.cat([text.positions for text in texts]),
            max_length=max(text.max_length for text in texts),
            host_offsets=np.concatenate([[0], *(t.host_offsets[1:] + at for t, at in parts)]),
        )

    @property
    def num_texts(self) -> int:
        return self.offsets.size(0) - 1

    @property
    def num_tokens(self) -> int:
        return self.token_ids.size(0)

    @property
    def device(self) -> torch.device:
        return self.token_ids.device

    @property
    def first(self) -> Tensor:
        """Row of each text's first token, its [CLS]: [B]."""
        return self.offsets[:-1]

    @property
    def lengths(self) -> Tensor:
        """Tokens of each text: [B]."""
        return self.offsets.diff()

    @property
    def text_ids(self) -> Tensor:
        """Which text each token belongs to: [T]."""
        return self.once("text_ids", lambda: _text_ids(self.lengths, self.num_tokens))

    @property
    def mask(self) -> Tensor:
        """The mask of `to_padded`: [B, L], True = real token."""
        columns = torch.arange(self.max_length, device=self.device)
        return columns < self.lengths[:, None]

    def to(self, device: torch.device | str, non_blocking: bool = True) -> "PackedText":
        """The same texts on another device; itself where it is there already."""
        if self.device == torch.device(device):
            return self
        return self._map(lambda x: x.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "PackedText":
        """The same texts in page-locked memory, from which copies to a GPU need not wait."""
        return self._map(Tensor.pin_memory)

    def to_padded(self, hidden: Tensor) -> Tensor:
        """Packed rows [T, D] -> [B, L, D], zeros after each text."""
        slots = self.text_ids * self.max_length + self.positions
        padded = hidden.new_zeros(self.num_texts * self.max_length, *hidden.shape[1:])
        rows = padded.index_copy(0, slots, hidden)
        return rows.view(self.num_texts, self.max_length, *hidden.shape[1:])

    def layout(self, num_virtual: int) -> KeyLayout:
        """The key rows when `num_virtual` virtual rows stand before each text; made once."""
        return self.once(("layout", num_virtual), lambda: _key_layout(self, num_virtual))

    def buckets(self, num_virtual: int, window: int | None, readout: bool) -> Buckets:
        """Blocks of similar length for keys as in `layout`, seen through `window`; made once.

        With `readout` there is one query row per text, at position 0.
        """

        def plan() -> Buckets:
            return plan_buckets(self.host_offsets, num_virtual, window, readout).to(self.device)

        return self.once(("buckets", num_virtual, window, readout), plan)

    def once(self, key: Any, make: Callable[[], Made]) -> Made:
        """What `make` gives, made at the first call with this key and remembered with the batch."""
        if key not in self._memo:
            with torch.inference_mode(False):  # so that training may use it too
                self._memo[key] = make()
        made: Made = self._memo[key]
        return made

    def _map(self, change: Callable[[Tensor], Tensor]) -> "PackedText":
        return replace(
            self,
            token_ids=change(self.token_ids),
            offsets=change(self.offsets),
            positions=change(self.positions),
            _memo={},
        )


def _refuse_empty(lengths: NDArray[Any]) -> None:
    if (lengths < 1).any():
        raise InputError(
            f"text {int(np.argmax(lengths < 1))} has no token; every text needs at least one, "
            f"such as [CLS]"
        )


def _text_ids(lengths: Tensor, num_tokens: int) -> Tensor:
    ids = torch.arange(lengths.size(0), device=lengths.device)
    return torch.repeat_interleave(ids, lengths, output_size=num_tokens)


def _key_layout(text: PackedText, num_virtual: int) -> KeyLayout:
    counted = torch.arange(text.num_texts + 1, device=text.device)
    if num_virtual == 0:
        rows = torch.arange(text.num_tokens, device=text.device)
        return KeyLayout(
            0, text.offsets, counted.int(), text.positions, rows, rows, text.max_length
        )
    before = counted * num_virtual
    offsets = text.offsets + before  # [B+1]
    virtual_rows = offsets[:-1, None] + torch.arange(num_virtual, device=text.device)  # [B, V]
    text_rows = torch.arange(text.num_tokens, device=text.device) + before[1:][text.text_ids]
    inverse = torch.cat([virtual_rows.flatten(), text_rows])  # [S]
    rows = torch.arange(inverse.size(0), device=text.device)
    return KeyLayout(
        num_virtual=num_virtual,
        offsets=offsets.int(),
        row_offsets=counted.int(),
        positions=torch.zeros_like(rows).index_copy(0, text_rows, text.positions),
        order=torch.empty_like(rows).index_copy(0, inverse, rows),
        inverse=inverse,
        max_length=text.max_length + num_virtual,
    )
