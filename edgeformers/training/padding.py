"""Batches brought to a few sizes, by edges and centers that nobody asked for.

What is recorded for one size of batch can be replayed for another batch of that size alone. So
batches are filled up with short texts between nodes of no number; a model reads them as it reads
others, none of them meets a real one, and what it says of them is dropped.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.data.batch import UNKNOWN, EdgeBatch, EgoBatch, tensors_of, with_tensors
from edgeformers.data.pinned_copy import move
from edgeformers.errors import InputError
from edgeformers.nn.fast.short_attention import block_size
from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import Ragged

Batch = TypeVar("Batch", bound=EdgeBatch | EgoBatch)
Groups = TypeVar("Groups", bound=Ragged)


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
    longest = min(block_size(batch.text.max_length), max_positions)
    texts, tokens = _grow(batch.text, 1, longest)
    return Size(tokens, texts, 0, 0, longest, 0)


def ego_size(batch: EgoBatch, max_positions: int) -> Size:
    """The size a batch of ego-graphs is filled up to.

    There is room for an ego-graph of every center and an eighth more, whatever the centers have:
    batches of as many centers differ in their texts and tokens alone.
    """
    longest = min(block_size(batch.text.max_length), max_positions)
    largest = block_size(batch.egos.max_length)
    spare = len(batch) // 8 + 1
    egos = _up(len(batch) + spare, 8)
    while True:
        more = egos - batch.egos.num_groups
        texts, tokens = _grow(batch.text, more, longest)
        if texts - batch.text.num_texts <= more * largest:
            return Size(tokens, texts, egos, len(batch) + egos, longest, largest)
        egos += spare


def _grow(text: PackedText, least: int, longest: int) -> tuple[int, int]:
    """Counts of texts, `least` added, and tokens such that each text added has 1 to `longest`."""
    step = max(8, _power(text.num_texts, 3))
    texts = _up(text.num_texts + least, step)
    while True:
        more = texts - text.num_texts
        tokens = _up_tokens(text.num_tokens + more)
        if tokens - text.num_tokens <= more * longest:
            return texts, tokens
        texts += step


def _up_tokens(count: int) -> int:
    """In steps of 512 or more: an eighth of few tokens, which do not fill a GPU, or a sixteenth."""
    return _up(count, max(512, _power(count, 3 if count < 16_384 else 4)))


def _power(count: int, bits: int) -> int:
    """The place of the binary digit that comes `bits` after a count's first."""
    return 1 << max(0, (count - 1).bit_length() - 1 - bits)


def _up(count: int, step: int) -> int:
    return -(-count // step) * step


def as_read(batch: Batch) -> Batch:
    """A batch with no more than a model reads of it."""
    return replace(batch, label=None, edge_ids=None) if isinstance(batch, EdgeBatch) else batch


def fill(batch: Batch, size: Size) -> Batch:
    """What a model reads of a batch, then edges and centers of no meaning, up to `size`.

    Where texts lie is known on the device alone: a recording must not depend on it.
    """
    read = as_read(batch)
    added = move(rest(batch, size), batch.text.device)
    pairs = zip(tensors_of(read), added, strict=True)
    filled = with_tensors(read, (torch.cat(pair) for pair in pairs))
    filled = replace(filled, text=_unplaced(filled.text, size.longest))
    if isinstance(filled, EgoBatch):
        filled = replace(filled, egos=_unplaced(filled.egos, size.largest))
    return cast(Batch, filled)


def rest(batch: EdgeBatch | EgoBatch, size: Size) -> list[Tensor]:
    """What is added to each tensor of `as_read`, in the order of `tensors_of`; on the host."""
    edges = size.texts - batch.text.num_texts
    text = _rest_of_groups(batch.text, size.texts, size.tokens)
    text.append(torch.zeros(len(text[1]), dtype=torch.long))  # token ids
    types = _zeros(batch.edge_type, edges)
    if isinstance(batch, EdgeBatch):
        return [*text, _unknown(edges), _unknown(edges), *types]
    egos = _rest_of_groups(batch.egos, size.egos, size.texts)
    occupied = torch.arange(len(batch), len(batch) + len(egos[0]))
    lengths = egos[0].diff(prepend=torch.tensor([batch.text.num_texts], dtype=torch.int32))
    nodes = [_unknown(size.centers - len(batch)), _unknown(edges)]
    owner = occupied.repeat_interleave(lengths)
    return [*text, *nodes, owner, *egos, occupied, *_zeros(batch.is_out, edges), *types]


def _rest_of_groups(groups: Ragged, count: int, rows: int) -> list[Tensor]:
    """Offsets and positions of further groups, which share the rows left over.

    Each has one or more; the offsets go on where those of `groups` end.
    """
    more, left = count - groups.num_groups, rows - groups.num_rows
    ends = np.arange(1, more + 1) * left // max(1, more)
    starts = np.concatenate([[0], ends[:-1]])
    positions = np.arange(left) - np.repeat(starts, ends - starts)
    offsets = (ends + groups.num_rows).astype(np.int32)
    return [torch.from_numpy(offsets), torch.from_numpy(positions)]


def _unplaced(text: Groups, longest: int) -> Groups:
    nowhere = cast(NDArray[np.int64], _Unknown())
    return replace(text, max_length=longest, host_offsets=nowhere)


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


def _unknown(count: int) -> Tensor:
    return torch.full((count,), UNKNOWN)


def _zeros(values: Tensor | None, count: int) -> list[Tensor]:
    return [] if values is None else [torch.zeros(count, dtype=values.dtype)]
