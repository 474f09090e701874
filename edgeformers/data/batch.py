"""Batches: packed texts and named tensors, the input of every model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from edgeformers.errors import InputError
from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import Ragged

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph
    from edgeformers.data.sampler import Neighborhoods
    from edgeformers.data.tokens import TokenStore

UNKNOWN = -1  # the number of a node that the model does not know


class _Movable:
    """A dataclass of tensors, packed texts and other batches that moves between devices."""

    _buffer: Tensor | None = None  # of a pinned batch: the bytes of all its tensors

    def to(self, device: torch.device | str, non_blocking: bool = True) -> Self:
        """The batch on another device; a pinned batch is moved by a single copy.

        A copy to the CPU always waits for its data.
        """
        non_blocking &= torch.device(device).type != "cpu"
        if self._buffer is None:
            return self._map(lambda part: part.to(device, non_blocking=non_blocking))
        buffer = self._buffer.to(device, non_blocking=non_blocking)
        moved: Self = with_tensors(self, iter(split_bytes(buffer, tensors_of(self))))
        return moved

    def pin_memory(self) -> Self:
        """The batch in page-locked memory, from which it is copied asynchronously."""
        return self._in_one_buffer(pin=True)

    def _in_one_buffer(self, *, pin: bool) -> Self:
        tensors = tensors_of(self)
        buffer = concat_bytes(tensors, pin=pin)
        batch: Self = with_tensors(self, iter(split_bytes(buffer, tensors)))
        object.__setattr__(batch, "_buffer", buffer)
        return batch

    def _map(self, change: Callable[[Any], Any]) -> Self:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        moved = {name: change(part) for name, part in parts.items() if hasattr(part, "pin_memory")}
        return replace(self, **moved)  # type: ignore[type-var]


@dataclass(frozen=True, kw_only=True)
class EdgeBatch(_Movable):
    """B edges: texts, sources, targets and, if known, types and labels.

    `summaries` describe the other labeled edges of both nodes; only training gives them, and only
    to a model with a `NodePrior`.

    Shapes: src, dst, edge_type [B]; summaries [B, 2, C, C+1]; label [B], or [B, C] for label sets.
    An unknown node is -1.
    """

    text: PackedText
    src: Tensor
    dst: Tensor
    edge_type: Tensor | None = None
    summaries: Tensor | None = None
    label: Tensor | None = None
    edge_ids: Tensor | None = None

    def __len__(self) -> int:
        return self.src.size(0)

    @classmethod
    def cat(cls, batches: Sequence["EdgeBatch"]) -> "EdgeBatch":
        """Concatenate batches; labels and edge ids are dropped."""
        return cls(
            text=PackedText.cat([batch.text for batch in batches]),
            src=torch.cat([batch.src for batch in batches]),
            dst=torch.cat([batch.dst for batch in batches]),
            edge_type=_cat_all([batch.edge_type for batch in batches]),
            summaries=_cat_all([batch.summaries for batch in batches]),
        )


@dataclass(frozen=True, kw_only=True)
class EgoBatch(_Movable):
    """Ego graphs of B centers with E edges in total; the edges of a center are consecutive.

    Shapes: center [B]; neighbor, owner (the row of the center), is_out (whether the center is
    the source), edge_type [E]. `egos` groups the E edges by the centers that have any edge; these
    are the rows `occupied` of `center`.
    """

    text: PackedText
    center: Tensor
    neighbor: Tensor
    owner: Tensor
    egos: Ragged
    occupied: Tensor
    is_out: Tensor | None = None
    edge_type: Tensor | None = None

    def __len__(self) -> int:
        return self.center.size(0)

    @classmethod
    def from_counts(
        cls,
        text: PackedText,
        center: Tensor,
        counts: Tensor,
        neighbor: Tensor,
        **more: Tensor | None,
    ) -> "EgoBatch":
        """Create a batch on the CPU in which center b has the next `counts[b]` edges."""
        degrees = counts.numpy()
        total = int(degrees.sum())
        if total != text.num_texts or counts.numel() != center.numel():
            raise InputError(
                f"expected one text per edge and one count per center (got {text.num_texts} "
                f"texts for {total} edges, {counts.numel()} counts for {center.numel()} centers)"
            )
        occupied = degrees.nonzero()[0]
        offsets = np.zeros(len(occupied) + 1, np.int64)
        np.cumsum(degrees[occupied], out=offsets[1:])
        owner = np.arange(len(degrees)).repeat(degrees)
        return cls(
            text=text,
            center=center,
            neighbor=neighbor,
            owner=torch.from_numpy(owner),
            egos=Ragged.from_offsets(offsets),
            occupied=torch.from_numpy(occupied),
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class LinkBatch(_Movable):
    """B pairs of nodes to be linked, and M sampled negatives.

    The first B ego graphs are those of the queries. Keys and negatives often repeat, with the same
    sampled edges, and are encoded once: `targets` [B + M] are the rows of their ego graphs.
    """

    egos: EgoBatch
    num_pairs: int
    targets: Tensor

    @property
    def centers(self) -> list[Tensor]:
        """The nodes: queries, keys and negatives."""
        return self.by_role(self.egos.center)

    def by_role(self, rows: Tensor) -> list[Tensor]:
        """Rows of all ego graphs -> those of queries [B], keys [B] and negatives [M]."""
        keys, negatives = self.targets[: self.num_pairs], self.targets[self.num_pairs :]
        return [rows[: self.num_pairs], rows[keys], rows[negatives]]

    def __len__(self) -> int:
        """The number of pairs, or of negatives if there are more."""
        return max(self.num_pairs, len(self.targets) - self.num_pairs)


@dataclass(frozen=True, kw_only=True)
class NodeTexts(_Movable):
    """The texts of B edges and, after them, of their sources and targets that have any: N texts.

    Shapes: owner (the edge of each text), order (which puts the texts of each edge together) [N].
    `groups` are the B groups of texts in that order.
    """

    text: PackedText
    owner: Tensor
    order: Tensor
    groups: Ragged


@dataclass(frozen=True, kw_only=True)
class EdgeContextBatch(_Movable):
    """B edges with the ego graphs of their sources and targets.

    Row b of `source` and `target` belongs to edge b. The ego graphs contain no edge between the
    source and the target of edge b, and no labels. Only some models read `node_texts`.
    """

    edge: EdgeBatch
    source: EgoBatch
    target: EgoBatch
    node_texts: NodeTexts | None = None

    @property
    def label(self) -> Tensor | None:
        """The labels of the B edges."""
        return self.edge.label

    @property
    def texts(self) -> PackedText:
        """The texts of the B edges, of the edges around sources, and of those around targets."""
        parts = [self.edge.text, self.source.text, self.target.text]
        return self.edge.text.cached("context", lambda: PackedText.cat(parts))

    def __len__(self) -> int:
        return len(self.edge)


def tensors_of(batch: Any) -> list[Tensor]:
    """All tensors of a batch, in the order of its fields."""
    tensors: list[Tensor] = []
    for field in fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, Tensor):
            tensors.append(value)
        elif is_dataclass(value):
            tensors += tensors_of(value)
    return tensors


def nodes_of(batch: Any) -> list[Tensor]:
    """The node numbers of a batch, which may be a tensor of them."""
    if isinstance(batch, Tensor):
        return [batch]
    nodes: list[Tensor] = []
    for field in fields(batch):
        value = getattr(batch, field.name)
        if field.name in ("src", "dst", "center", "neighbor"):
            nodes.append(value)
        elif is_dataclass(value):
            nodes += nodes_of(value)
    return nodes


def with_tensors(batch: Any, tensors: Iterator[Tensor]) -> Any:
    """The batch with its tensors replaced, in the order of `tensors_of`."""
    if isinstance(batch, Tensor):
        return next(tensors)
    return batch._map(lambda part: with_tensors(part, tensors))


def concat_bytes(tensors: Sequence[Tensor], *, pin: bool = False) -> Tensor:
    """The bytes of CPU tensors in one buffer, widest types first, so that each is aligned."""
    arrays = [tensors[i].contiguous().numpy().reshape(-1) for i in _order(tensors)]
    parts = [array.view(np.uint8) for array in arrays]
    buffer = torch.empty(sum(map(len, parts)), dtype=torch.uint8, pin_memory=pin)
    if parts:
        np.concatenate(parts, out=buffer.numpy())
    return buffer


def split_bytes(buffer: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The inverse of `concat_bytes`, on any device: views with the shapes and types of `like`."""
    views: list[Tensor] = [buffer] * len(like)
    start, order = 0, _order(like)
    for dtype in dict.fromkeys(like[i].dtype for i in order):
        indices = [i for i in order if like[i].dtype == dtype]
        counts = [like[i].numel() for i in indices]
        stop = start + sum(counts) * dtype.itemsize
        parts = buffer[start:stop].view(dtype).split(counts)
        for i, part in zip(indices, parts, strict=True):
            views[i] = part if like[i].ndim == 1 else part.view(like[i].shape)
        start = stop
    return views


def move(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """CPU tensors on another device, by one asynchronous copy."""
    if device.type == "cpu":
        return list(tensors)
    return split_bytes(concat_bytes(tensors, pin=True).to(device, non_blocking=True), tensors)


def _order(tensors: Sequence[Tensor]) -> list[int]:
    """Indices of the tensors sorted by type, widest first."""
    return sorted(range(len(tensors)), key=lambda i: _rank(tensors[i].dtype))


@cache
def _rank(dtype: torch.dtype) -> tuple[int, str]:
    return -dtype.itemsize, str(dtype)


def pack_texts(tokens: "TokenStore", text_ids: ArrayLike, max_tokens: int) -> PackedText:
    """Texts of a token store with special tokens, truncated to `max_tokens`; with cached states."""
    ids, offsets = tokens.take(text_ids, max_tokens)
    token_ids, starts = torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(offsets)
    text = PackedText.from_tokens(token_ids, starts)
    cache = tokens.states
    states = None if cache is None else cache.take(text_ids, max_tokens)
    if cache is None or states is None:
        return text
    return replace(text, states=torch.from_numpy(states), state_layers=cache.layers)


def edge_batch(
    graph: "EdgeTextGraph", tokens: "TokenStore", edge_ids: ArrayLike, max_tokens: int
) -> EdgeBatch:
    """Some edges of a network as a batch, with labels and types if there are any."""
    ids = np.asarray(edge_ids, np.int64)
    return EdgeBatch(
        text=pack_texts(tokens, ids, max_tokens),
        src=_long(graph.src[ids]),
        dst=_long(graph.dst[ids]),
        edge_type=None if graph.edge_types is None else _long(graph.edge_types[ids]),
        label=None if graph.labels is None else _label(graph.labels[ids]),
        edge_ids=_long(ids),
    )


def ego_batch(
    graph: "EdgeTextGraph", tokens: "TokenStore", *samples: "Neighborhoods", max_tokens: int
) -> EgoBatch:
    """Sampled neighborhoods as one batch, without padding for empty slots."""
    edges = np.concatenate([sample.edge_ids[sample.mask] for sample in samples]).astype(np.int64)
    center = np.concatenate([sample.center for sample in samples]).astype(np.int64)
    counts = np.concatenate([sample.sizes for sample in samples])
    is_out = np.asarray(graph.src)[edges] == center.repeat(counts)
    return EgoBatch.from_counts(
        text=pack_texts(tokens, edges, max_tokens),
        center=torch.from_numpy(center),
        counts=torch.from_numpy(counts),
        neighbor=_long(np.concatenate([sample.neighbors[sample.mask] for sample in samples])),
        is_out=torch.from_numpy(is_out),
        edge_type=None if graph.edge_types is None else _long(graph.edge_types[edges]),
    )


def make_node_texts(edge: EdgeBatch, *ends: EgoBatch, limit: int) -> NodeTexts:
    """Join the texts around the ends of edges to one text per node, on the host.

    The text of a node consists of the sampled training edges around it, without those between
    source and target: the edge itself is in neither. A node without edges has no text.
    """
    owner = np.concatenate([np.arange(len(edge)), *(egos.occupied.numpy() for egos in ends)])
    sizes = np.bincount(owner, minlength=len(edge))
    joined = [join_ego_texts(egos.text, egos.egos, limit) for egos in ends]
    return NodeTexts(
        text=PackedText.cat([edge.text, *joined]),
        owner=torch.from_numpy(owner),
        order=torch.from_numpy(owner.argsort(kind="stable")),
        groups=Ragged.from_offsets(np.concatenate([[0], sizes.cumsum()])),
    )


def join_ego_texts(text: PackedText, groups: Ragged, limit: int) -> PackedText:
    """Concatenate the texts of each group after one [CLS], cut to `limit` tokens, on the host.

    Texts are sorted by their token ids, so that the result does not depend on the order in which
    edges were drawn.
    """
    ids, starts = text.token_ids.numpy(), text.host_offsets[:-1]
    group = np.repeat(np.arange(groups.num_groups), np.diff(groups.host_offsets))
    order = np.lexsort((_sort_keys(text), group))
    lengths = np.diff(text.host_offsets)[order] - 1  # without [CLS], except in the first text
    firsts = groups.host_offsets[:-1]
    lengths[firsts] += 1
    ends = np.concatenate([[0], lengths.cumsum()])
    before = ends[:-1] - ends[firsts][group]  # tokens of the group before each text
    kept = np.clip(limit - before, 0, lengths)
    skipped = starts[order] + np.diff(text.host_offsets)[order] - lengths
    rows = np.repeat(skipped - kept.cumsum() + kept, kept) + np.arange(kept.sum())
    offsets = np.concatenate([[0], kept.cumsum()])[[*groups.host_offsets]]
    return PackedText.from_tokens(torch.from_numpy(ids[rows]), torch.from_numpy(offsets))


def _sort_keys(text: PackedText) -> NDArray[np.bytes_]:
    """Strings in the order of the token ids of texts, a text before its continuations [B]."""
    padded = np.zeros((text.num_texts, max(1, text.max_length)), ">u4")
    at = np.repeat(np.arange(text.num_texts), np.diff(text.host_offsets))
    padded[at, text.positions.numpy()] = text.token_ids.numpy() + 1
    return padded.view(f"S{4 * padded.shape[1]}")[:, 0]


def _cat_all(parts: Sequence[Tensor | None]) -> Tensor | None:
    """The parts concatenated; None if one of them is missing."""
    known = [part for part in parts if part is not None]
    return torch.cat(known) if len(known) == len(parts) else None


def _long(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.asarray(values).astype(np.int64))


def _label(values: NDArray[Any]) -> Tensor:
    is_number = values.dtype.kind in "fb"
    return torch.from_numpy(values.astype(np.float32)) if is_number else _long(values)
