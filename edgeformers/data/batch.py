"""Batches: packed texts and named tensors, the only form in which data reaches a model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from edgeformers.data.pinned_copy import flatten, unflatten
from edgeformers.errors import InputError
from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import Ragged

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph
    from edgeformers.data.sampler import Neighborhoods
    from edgeformers.data.tokens import TokenStore

UNKNOWN = -1  # the node number of a node the model has never met


class _Movable:
    """A dataclass of tensors, packed texts and other batches that moves as one."""

    _flat: Tensor | None = None  # of one in page-locked memory: its tensors side by side

    def to(self, device: torch.device | str, non_blocking: bool = True) -> Self:
        """The same on another device; in page-locked memory, all tensors at one copy."""
        if self._flat is None:
            return self._map(lambda part: part.to(device, non_blocking=non_blocking))
        moved = self._flat.to(device, non_blocking=non_blocking)
        return cast(Self, with_tensors(self, iter(unflatten(moved, tensors_of(self)))))

    def pin_memory(self) -> Self:
        """The same in page-locked memory, from which copies to a GPU need not wait."""
        return self._side_by_side(pin=True)

    def _side_by_side(self, *, pin: bool) -> Self:
        tensors = tensors_of(self)
        flat = flatten(tensors, pin=pin)
        made = cast(Self, with_tensors(self, iter(unflatten(flat, tensors))))
        object.__setattr__(made, "_flat", flat)
        return made

    def _map(self, change: Callable[[Any], Any]) -> Self:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        moved = {name: change(part) for name, part in parts.items() if hasattr(part, "pin_memory")}
        return replace(self, **moved)  # type: ignore[type-var]


@dataclass(frozen=True, kw_only=True)
class EdgeBatch(_Movable):
    """B edges: their texts, their two ends, and what is known of them.

    Shapes: src, dst, edge_type [B]; label [B], or [B, C] where an edge has several labels.
    A node the model does not know is -1.
    """

    text: PackedText
    src: Tensor
    dst: Tensor
    edge_type: Tensor | None = None
    label: Tensor | None = None
    edge_ids: Tensor | None = None

    def __len__(self) -> int:
        return self.src.size(0)

    @classmethod
    def cat(cls, batches: Sequence["EdgeBatch"]) -> "EdgeBatch":
        """The edges of several batches as one, in their order, without labels."""
        return cls(
            text=PackedText.cat([one.text for one in batches]),
            src=torch.cat([one.src for one in batches]),
            dst=torch.cat([one.dst for one in batches]),
            edge_type=_cat_known([one.edge_type for one in batches]),
        )


@dataclass(frozen=True, kw_only=True)
class EgoBatch(_Movable):
    """B centers with E edges between them all; the edges of a center lie side by side.

    Shapes: center [B]; neighbor, owner (the row of its center), is_out (the center is the
    source), edge_type [E]. `egos` groups the E edges by those centers that have any, which are
    the rows `occupied` of `center`.
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
        """Edges laid side by side, `counts[b]` of them for center b; made on the host."""
        found = counts.numpy()
        total = int(found.sum())
        if total != text.num_texts or counts.numel() != center.numel():
            raise InputError(
                f"there must be one text per edge and one count per center (got {text.num_texts} "
                f"texts for {total} edges, {counts.numel()} counts for {center.numel()} centers)"
            )
        occupied = found.nonzero()[0]
        offsets = np.zeros(len(occupied) + 1, np.int64)
        np.cumsum(found[occupied], out=offsets[1:])
        owner = np.arange(len(found)).repeat(found)
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
    """B pairs of nodes to be linked, and others drawn beside their keys, to be read at once.

    The centers of `egos` are B queries, their B keys, and the nodes drawn.
    """

    egos: EgoBatch
    num_pairs: int

    @property
    def sizes(self) -> list[int]:
        """How many queries, keys and drawn nodes there are."""
        return [self.num_pairs, self.num_pairs, len(self.egos) - 2 * self.num_pairs]

    @property
    def centers(self) -> list[Tensor]:
        """The nodes: queries, keys and drawn ones."""
        return self.by_role(self.egos.center)

    def by_role(self, rows: Tensor) -> list[Tensor]:
        """Rows of all centers, apart: those of queries, of keys and of drawn nodes."""
        return list(rows.split(self.sizes))

    def __len__(self) -> int:
        """What pieces of it would be counted in: pairs, or drawn nodes where they are more."""
        return max(self.sizes)


@dataclass(frozen=True, kw_only=True)
class EdgeContextBatch(_Movable):
    """B edges, and the other edges around their two ends.

    Row b of `source` and of `target` is the ego-graph of an end of edge b; no edge between the
    two ends is in either. What the other edges are labelled is not told.
    """

    edge: EdgeBatch
    source: EgoBatch
    target: EgoBatch

    @property
    def label(self) -> Tensor | None:
        """What is known of the B edges."""
        return self.edge.label

    @property
    def texts(self) -> PackedText:
        """The texts of the B edges, then of those around sources, then of those around targets."""
        parts = [self.edge.text, self.source.text, self.target.text]
        return self.edge.text.cached("context", lambda: PackedText.cat(parts))

    def __len__(self) -> int:
        return len(self.edge)


def tensors_of(batch: Any) -> list[Tensor]:
    """All tensors of a batch, in the order of its fields."""
    found: list[Tensor] = []
    for field in fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, Tensor):
            found.append(value)
        elif is_dataclass(value):
            found += tensors_of(value)
    return found


def with_tensors(batch: Any, tensors: Iterator[Tensor]) -> Any:
    """A batch with other tensors, in the order in which `tensors_of` gives its own."""
    if isinstance(batch, Tensor):
        return next(tensors)
    return batch._map(lambda part: with_tensors(part, tensors))


def pack_texts(tokens: "TokenStore", text_ids: ArrayLike, max_tokens: int) -> PackedText:
    """The texts of a token store, special tokens around each, cut to `max_tokens`."""
    ids, offsets = tokens.take(text_ids, max_tokens)
    return PackedText.from_tokens(torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(offsets))


def edge_batch(
    graph: "EdgeTextGraph", tokens: "TokenStore", edge_ids: ArrayLike, max_tokens: int
) -> EdgeBatch:
    """Chosen edges of a network as a batch, with their labels and types where there are any."""
    chosen = np.asarray(edge_ids, np.int64)
    return EdgeBatch(
        text=pack_texts(tokens, chosen, max_tokens),
        src=_long(graph.src[chosen]),
        dst=_long(graph.dst[chosen]),
        edge_type=None if graph.edge_types is None else _long(graph.edge_types[chosen]),
        label=None if graph.labels is None else _label(graph.labels[chosen]),
        edge_ids=_long(chosen),
    )


def ego_batch(
    graph: "EdgeTextGraph", tokens: "TokenStore", *found: "Neighborhoods", max_tokens: int
) -> EgoBatch:
    """Sampled neighborhoods as one batch, in their order; empty slots are left out, not padded."""
    # Row by row: the edges of a center lie side by side.
    edges = np.concatenate([one.edge_ids[one.mask] for one in found]).astype(np.int64)
    center = np.concatenate([one.center for one in found]).astype(np.int64)
    counts = np.concatenate([one.sizes for one in found])
    is_out = np.asarray(graph.src)[edges] == center.repeat(counts)
    return EgoBatch.from_counts(
        text=pack_texts(tokens, edges, max_tokens),
        center=torch.from_numpy(center),
        counts=torch.from_numpy(counts),
        neighbor=_long(np.concatenate([one.neighbors[one.mask] for one in found])),
        is_out=torch.from_numpy(is_out),
        edge_type=None if graph.edge_types is None else _long(graph.edge_types[edges]),
    )


def _cat_known(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Values of all batches, or none where one of them has none."""
    known = [part for part in parts if part is not None]
    return torch.cat(known) if len(known) == len(parts) else None


def _long(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.asarray(values).astype(np.int64))


def _label(values: NDArray[Any]) -> Tensor:
    if values.dtype.kind == "f" or values.dtype.kind == "b":
        return torch.from_numpy(values.astype(np.float32))
    return _long(values)
