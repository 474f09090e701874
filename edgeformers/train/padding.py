"""Batches brought to a few sizes, by edges and centers that nobody asked for.

What is recorded for one size of batch can be replayed for another batch of that size alone. So
batches are filled up with short texts between nodes of no number; a model reads them as it reads
others, none of them meets a real one, and what it says of them is dropped.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.data.batch import UNKNOWN, EdgeBatch, EgoBatch
from edgeformers.errors import InputError
from edgeformers.nn.packed import PackedText
from edgeformers.nn.short import block_of


@dataclass(frozen=True)
class Size:
    """How much a batch is filled up to, and the longest text and largest ego-graph it may have."""

    tokens: int
    texts: int
    egos: int
    centers: int
    longest: int
    largest: int


def edge_size(batch: EdgeBatch, max_positions: int) -> Size:
    """The size a batch of edges is filled up to."""
    longest = min(block_of(batch.text.max_length), max_positions)
    texts, tokens = _grow(batch.text, batch.text.num_texts + 1, longest)
    return Size(tokens, texts, 0, 0, longest, 0)


def ego_size(batch: EgoBatch, max_positions: int) -> Size:
    """The size a batch of ego-graphs is filled up to."""
    longest = min(block_of(batch.text.max_length), max_positions)
    largest = block_of(batch.egos.max_length)
    egos = _up(batch.egos.num_texts + 1, 4)
    while True:
        more = egos - batch.egos.num_texts
        texts, tokens = _grow(batch.text, batch.text.num_texts + more, longest)
        if texts - batch.text.num_texts <= more * largest:
            break
        egos = _up(egos + 1, 4)
    return Size(tokens, texts, egos, _up(len(batch) + more, 4), longest, largest)


def _grow(text: PackedText, least: int, longest: int) -> tuple[int, int]:
    """Counts of texts and tokens such that each text added has 1 to `longest` tokens."""
    texts = _up(least, 4)
    while True:
        more = texts - text.num_texts
        tokens = _up(text.num_tokens + more, 5)
        if tokens - text.num_tokens <= more * longest:
            return texts, tokens
        texts = _up(texts + 1, 4)


def _up(count: int, bits: int) -> int:
    """The next count of which only the first `bits` + 1 binary digits are not zero."""
    step = 1 << max(3, (count - 1).bit_length() - 1 - bits)
    return -(-count // step) * step


def fill_edges(batch: EdgeBatch, size: Size) -> EdgeBatch:
    """The edges, then others of no meaning, as many as `size` has."""
    more = size.texts - len(batch)
    return EdgeBatch(
        text=_fill_text(batch.text, size.texts, size.tokens, size.longest),
        src=_fill(batch.src, more, UNKNOWN),
        dst=_fill(batch.dst, more, UNKNOWN),
        edge_type=_fill_some(batch.edge_type, more),
    )


def fill_egos(batch: EgoBatch, size: Size) -> EgoBatch:
    """The ego-graphs, then others of no meaning, as many as `size` has."""
    edges, centers = size.texts - batch.text.num_texts, size.centers - len(batch)
    egos = _fill_text(batch.egos, size.egos, size.texts, size.largest)
    added = torch.arange(size.egos - batch.egos.num_texts, device=batch.center.device) + len(batch)
    occupied = torch.cat([batch.occupied, added])
    return EgoBatch(
        text=_fill_text(batch.text, size.texts, size.tokens, size.longest),
        center=_fill(batch.center, centers, UNKNOWN),
        neighbor=_fill(batch.neighbor, edges, UNKNOWN),
        owner=occupied[egos.text_ids],
        egos=egos,
        occupied=occupied,
        is_out=_fill_some(batch.is_out, edges),
        edge_type=_fill_some(batch.edge_type, edges),
    )


def _fill_text(text: PackedText, texts: int, tokens: int, longest: int) -> PackedText:
    """The texts, then others that share the tokens left over, of which each has one or more.

    Where they lie is known on the device alone: a recording must not depend on it.
    """
    more, left = texts - text.num_texts, tokens - text.num_tokens
    ends = torch.arange(1, more + 1, device=text.device) * left // max(1, more)
    rows = torch.arange(left, device=text.device)
    starts = torch.cat([ends.new_zeros(1), ends])[torch.searchsorted(ends, rows, right=True)]
    return PackedText(
        token_ids=_fill(text.token_ids, left, 0),
        offsets=torch.cat([text.offsets, (ends + text.num_tokens).int()]),
        positions=torch.cat([text.positions, rows - starts]),
        max_length=longest,
        host_offsets=cast(NDArray[np.int64], _Unknown()),
    )


class _Unknown:
    """Offsets that the host does not know; whoever asks for them cannot be recorded."""

    def __getattr__(self, name: str) -> Any:
        raise InputError("where the texts of a recorded batch lie is not known on the host")

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.offsets

    def __getitem__(self, _: Any) -> Any:
        return self.offsets

    def __iter__(self) -> Any:
        return self.offsets


def _fill(values: Tensor, more: int, value: int) -> Tensor:
    return torch.cat([values, values.new_full((more,), value)])


def _fill_some(values: Tensor | None, more: int) -> Tensor | None:
    return None if values is None else _fill(values, more, 0)
