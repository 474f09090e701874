"""EgoSampler: fixed-size neighborhoods of many nodes, without the edges to be predicted."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.adjacency import Adjacency, small_int
from edgeformers.data.jit import jit
from edgeformers.data.numba_kernels import draw_neighborhoods
from edgeformers.data.random import hash_keys
from edgeformers.data.types import IntArray
from edgeformers.errors import InputError

NO_PARTNER = -1
_NO_TIMES = np.empty(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class Neighborhoods:
    """Ego graphs N_e(v) of B centers with N edge slots each; `mask` is False for empty slots.

    Shapes: center [B]; edge_ids, neighbors, mask [B, N]. Empty slots contain -1.
    """

    center: IntArray
    edge_ids: IntArray
    neighbors: IntArray
    mask: NDArray[np.bool_]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of edges of each center."""
        sizes: NDArray[np.int64] = self.mask.sum(1)
        return sizes

    def distinct(self) -> tuple["Neighborhoods", NDArray[np.int64]]:
        """Repeated centers with the same edges only once, and the row of each center there [B]."""
        rows = np.concatenate([self.center[:, None], self.edge_ids], axis=1)
        _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        kept = Neighborhoods(
            center=self.center[first],
            edge_ids=self.edge_ids[first],
            neighbors=self.neighbors[first],
            mask=self.mask[first],
        )
        return kept, place.reshape(-1)


class EgoSampler:
    """Samples edges around nodes without replacement, `sizes[s]` from each stratum s.

    The sample of a node depends only on (seed, epoch, node) and, in training, on its partner:
    edges between a center and its partner are excluded, because that pair is to be predicted. It
    does not depend on the batch. The time does not depend on the degree of a node: where nearly
    all of many edges lead to the partner, a sample may miss some of the others.

    Build the adjacency from training edges only, with the paper's positive and negative edges (or
    edge types) as strata. Instead of it, pass what builds it when it is first needed.
    """

    def __init__(
        self,
        adjacency: Adjacency | Callable[[], Adjacency],
        sizes: Sequence[int],
        *,
        seed: int = 0,
    ) -> None:
        if isinstance(adjacency, Adjacency):
            _check_strata(adjacency, sizes)
        if min(sizes) < 0 or sum(sizes) < 1:
            raise InputError(
                f"sizes must not be negative, and at least one positive (got {list(sizes)})"
            )
        self._given = adjacency
        self.sizes = tuple(int(size) for size in sizes)
        self.seed = seed
        self._sizes = np.array(self.sizes, np.int64)
        self._local = threading.local()
        self._last_key: tuple[int, np.uint64] | None = None

    @cached_property
    def adjacency(self) -> Adjacency:
        """The edges around every node, of which some are sampled."""
        if isinstance(self._given, Adjacency):
            return self._given
        adjacency = self._given()
        _check_strata(adjacency, self.sizes)
        return adjacency

    @cached_property
    def _largest_row(self) -> int:
        return int(np.diff(self.adjacency.indptr).max(initial=0))

    def sample(
        self,
        centers: ArrayLike,
        *,
        partners: ArrayLike | None = None,
        before: ArrayLike | None = None,
        epoch: int = 0,
    ) -> Neighborhoods:
        """Neighborhoods of `centers` [B] without edges to `partners` [B] (-1: no partner).

        With `before` [B], microseconds since 1970, the network is read as it was then: all edges
        of a neighborhood are earlier. This needs an adjacency with times.
        """
        center = _node_array(centers, self.adjacency.num_nodes, "centers", lowest=0)
        if partners is None:
            partner = np.full(len(center), NO_PARTNER, np.int64)
        else:
            partner = _node_array(partners, self.adjacency.num_nodes, "partners", lowest=NO_PARTNER)
        if len(partner) != len(center):
            raise InputError(
                f"expected one partner per center (got {len(partner)} for {len(center)})"
            )
        adjacency = self.adjacency
        times, limits = _NO_TIMES, _NO_TIMES
        if before is not None:
            if adjacency.times is None:
                raise InputError("neighborhoods as of a time need a sampler with times (timed)")
            times, limits = adjacency.times, np.asarray(before, np.int64)
            if limits.shape != center.shape:
                raise InputError(
                    f"expected one time per center (got {limits.size} for {len(center)})"
                )
        shape = (len(center), sum(self.sizes))
        edge_ids = np.full(shape, -1, adjacency.links.dtype)
        neighbors = np.full_like(edge_ids, -1)
        jit(draw_neighborhoods, 4 * edge_ids.size)(
            adjacency.indptr,
            adjacency.links,
            center,
            partner,
            self._sizes,
            self._epoch_key(epoch),
            edge_ids,
            neighbors,
            *self._scratch(),
            times,
            limits,
        )
        return Neighborhoods(
            center=center, edge_ids=edge_ids, neighbors=neighbors, mask=edge_ids >= 0
        )

    def sample_without(self, center: int, removed: ArrayLike, *, epoch: int = 0) -> Neighborhoods:
        """The neighborhood of a node as `sample` draws it, but without some edges.

        Edges of the sample that stay are kept; in each stratum, others replace the removed ones.
        """
        gone = np.asarray(removed, np.int64)
        sample = self.sample([center], epoch=epoch)
        if not np.isin(sample.edge_ids, gone).any():
            return sample
        wider = EgoSampler(self.adjacency, [n + len(gone) for n in self.sizes], seed=self.seed)
        drawn, more = (
            np.stack([each.edge_ids[0], each.neighbors[0]], 1)
            for each in (sample, wider.sample([center], epoch=epoch))
        )
        rows = np.full_like(drawn, -1)  # [N, 2]
        ends = zip(np.cumsum(self.sizes), np.cumsum(wider.sizes), strict=True)
        for (end, wide_end), size in zip(ends, self.sizes, strict=True):
            own, spare = drawn[end - size : end], more[wide_end - size - len(gone) : wide_end]
            spare = spare[~np.isin(spare[:, 0], own[:, 0])]
            both = np.concatenate([own, spare])
            both = both[(both[:, 0] >= 0) & ~np.isin(both[:, 0], gone)][: (own[:, 0] >= 0).sum()]
            rows[end - size : end - size + len(both)] = both
        edge_ids, neighbors = rows.T[:, None]
        return Neighborhoods(
            center=sample.center, edge_ids=edge_ids, neighbors=neighbors, mask=edge_ids >= 0
        )

    def _epoch_key(self, epoch: int) -> np.uint64:
        """The random key of an epoch; that of the last epoch is cached."""
        last = self._last_key
        if last is None or last[0] != epoch:
            last = (epoch, np.uint64(hash_keys(self.seed, 0x5A3B, epoch)[()]))
            self._last_key = last
        return last[1]

    def _scratch(self) -> tuple[IntArray, IntArray]:
        """The working memory of a thread, as long as the largest neighborhood."""
        if not hasattr(self._local, "scratch"):
            moved = np.full(self._largest_row, -1, small_int(self._largest_row))
            self._local.scratch = moved, np.empty_like(moved)
        scratch: tuple[IntArray, IntArray] = self._local.scratch
        return scratch


def _check_strata(adjacency: Adjacency, sizes: Sequence[int]) -> None:
    if len(sizes) != adjacency.num_strata:
        raise InputError(
            f"sizes must contain one number for each of the {adjacency.num_strata} strata "
            f"(got {list(sizes)})"
        )


def _node_array(values: ArrayLike, num_nodes: int, what: str, *, lowest: int) -> NDArray[np.int64]:
    nodes = np.asarray(values, dtype=np.int64)
    if nodes.ndim != 1:
        raise InputError(f"{what} must be one-dimensional (got shape {nodes.shape})")
    if len(nodes) and (nodes.min() < lowest or nodes.max() >= num_nodes):
        outside = (nodes < lowest) | (nodes >= num_nodes)
        raise InputError(
            f"{what} contain node {nodes[outside][0]}, but nodes are numbered 0 to {num_nodes - 1}"
        )
    return nodes
