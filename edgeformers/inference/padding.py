"""Batches padded to a few sizes with dummy edges and centers, for CUDA graphs.

A graph replays only batches of the size it was captured for. Padding consists of short texts
between unknown nodes. It does not interact with real edges, and its output is dropped.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.data.batch import UNKNOWN, EdgeBatch, EgoBatch, move, tensors_of, with_tensors
from edgeformers.errors import InputError
from edgeformers.nn.fast.short_attention import block_size
from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import Ragged

Batch = TypeVar("Batch", bound=EdgeBatch | EgoBatch)
Groups = TypeVar("Groups", bound=Ragged)


@dataclass(frozen=True)
class PaddedSize:
    """The size of a padded batch."""

    tokens: int
    texts: int
    egos: int
    centers: int
    max_text: int  # tokens of the longest text
    max_ego: int  # edges of the largest ego graph


def padded_size(batch: EdgeBatch | EgoBatch, max_positions: int) -> PaddedSize:
    """The size to which a batch is padded.

    A batch of ego graphs gets room for one of every center and an eighth more, whether or not the
    centers have edges, so that batches with the same number of centers differ only in texts and
    tokens.
    """
    max_text = min(block_size(batch.text.max_length), max_positions)
    if isinstance(batch, EdgeBatch):
        texts, tokens = _text_size(batch.text, 1, max_text)
        return PaddedSize(tokens, texts, 0, 0, max_text, 0)
    max_ego = block_size(batch.egos.max_length)
    spare = len(batch) // 8 + 1
    egos = _round_up(len(batch) + spare, 8)
    while True:
        added = egos - batch.egos.num_groups
        texts, tokens = _text_size(batch.text, added, max_text)
        if texts - batch.text.num_texts <= added * max_ego:
            return PaddedSize(tokens, texts, egos, len(batch) + egos, max_text, max_ego)
        egos += spare


def _text_size(text: PackedText, min_added: int, max_text: int) -> tuple[int, int]:
    """Padded counts of texts and tokens, such that each added text has 1 to `max_text` tokens."""
    step = max(8, _granularity(text.num_texts, 3))
    texts = _round_up(text.num_texts + min_added, step)
    while True:
        added = texts - text.num_texts
        tokens = _token_size(text.num_tokens + added)
        if tokens - text.num_tokens <= added * max_text:
            return texts, tokens
        texts += step


def _token_size(count: int) -> int:
    """Multiples of an eighth of small counts, which do not fill a GPU, or of a sixteenth."""
    return _round_up(count, max(512, _granularity(count, 3 if count < 16_384 else 4)))


def _granularity(count: int, bits: int) -> int:
    """The value of the binary digit `bits` places after the leading one."""
    return 1 << max(0, (count - 1).bit_length() - 1 - bits)


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step


def model_inputs(batch: Batch) -> Batch:
    """The part of a batch that models read."""
    return replace(batch, label=None, edge_ids=None) if isinstance(batch, EdgeBatch) else batch


def pad(batch: Batch, size: PaddedSize) -> Batch:
    """The model inputs of a batch, padded to `size`.

    The offsets of the result are unknown on the host, since a graph must not depend on them.
    """
    inputs = model_inputs(batch)
    added = move(padding(batch, size), batch.text.device)
    pairs = zip(tensors_of(inputs), added, strict=True)
    padded = with_tensors(inputs, (torch.cat(pair) for pair in pairs))
    padded = replace(padded, text=_without_host_offsets(padded.text, size.max_text))
    if isinstance(padded, EgoBatch):
        padded = replace(padded, egos=_without_host_offsets(padded.egos, size.max_ego))
    return cast(Batch, padded)


def padding(batch: EdgeBatch | EgoBatch, size: PaddedSize) -> list[Tensor]:
    """What `pad` appends to the tensors of `model_inputs`, in the order of `tensors_of`."""
    edges = size.texts - batch.text.num_texts
    text = _added_groups(batch.text, size.texts, size.tokens)
    text.append(torch.zeros(len(text[1]), dtype=torch.long))  # token ids
    types = _zeros(batch.edge_type, edges)
    if isinstance(batch, EdgeBatch):
        summaries = _zeros(batch.summaries, edges)
        return [*text, _unknown(edges), _unknown(edges), *types, *summaries]
    egos = _added_groups(batch.egos, size.egos, size.texts)
    occupied = torch.arange(len(batch), len(batch) + len(egos[0]))
    lengths = egos[0].diff(prepend=torch.tensor([batch.text.num_texts], dtype=torch.int32))
    nodes = [_unknown(size.centers - len(batch)), _unknown(edges)]
    owner = occupied.repeat_interleave(lengths)
    return [*text, *nodes, owner, *egos, occupied, *_zeros(batch.is_out, edges), *types]


def _added_groups(groups: Ragged, count: int, rows: int) -> list[Tensor]:
    """Offsets and positions of the groups added to have `count` groups of `rows` rows in total."""
    added, left = count - groups.num_groups, rows - groups.num_rows
    ends = np.arange(1, added + 1) * left // max(1, added)
    starts = np.concatenate([[0], ends[:-1]])
    positions = np.arange(left) - np.repeat(starts, ends - starts)
    offsets = (ends + groups.num_rows).astype(np.int32)
    return [torch.from_numpy(offsets), torch.from_numpy(positions)]


def _without_host_offsets(groups: Groups, max_length: int) -> Groups:
    unknown = cast(NDArray[np.int64], _UnknownOffsets())
    return replace(groups, max_length=max_length, host_offsets=unknown)


class _UnknownOffsets:
    """Raises an error on any use, so that a model that needs host offsets is not captured."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise InputError("the offsets of a padded batch are not known on the host")

    __getattr__ = __array__ = __getitem__ = __iter__ = _refuse


def _unknown(count: int) -> Tensor:
    return torch.full((count,), UNKNOWN)


def _zeros(values: Tensor | None, count: int) -> list[Tensor]:
    if values is None:
        return []
    return [torch.zeros(count, *values.shape[1:], dtype=values.dtype)]
