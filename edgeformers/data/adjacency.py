"""Adjacency: edges grouped by node as compressed sparse rows, in linear time and memory."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from edgeformers.data.jit import jit
from edgeformers.data.numba_kernels import group_edges
from edgeformers.data.scratch import scratch_array
from edgeformers.data.types import Ids, IntArray


@dataclass(frozen=True, kw_only=True)
class Adjacency:
    """The edges around every node, N_e(v), grouped into S strata.

    The edges of node v in stratum s are rows `indptr[v * S + s] : indptr[v * S + s + 1]` of
    `links`. Edge and neighbor share a row because they are read together. A self-loop occurs
    once.
    """

    indptr: NDArray[np.int64]  # [num_nodes * S + 1]
    links: IntArray  # [n, 2]: edge, neighbor
    num_strata: int = 1
    held_out: NDArray[np.bool_] | None = None  # [V]: nodes whose edges here are profile edges
    times: Ids | None = None  # [n]: of the edges, which are then in time order within a row

    @property
    def edge_ids(self) -> IntArray:
        return self.links[:, 0]

    @property
    def neighbors(self) -> IntArray:
        return self.links[:, 1]

    @property
    def num_nodes(self) -> int:
        return (len(self.indptr) - 1) // self.num_strata

    def degrees(self) -> NDArray[np.int64]:
        """The number of edges of each node, in all strata."""
        return np.diff(self.indptr[:: self.num_strata])

    def training_degrees(self) -> NDArray[np.int64]:
        """The number of training edges of each node; 0 for held-out nodes."""
        return self.degrees() if self.held_out is None else self.degrees() * ~self.held_out

    def profile_sizes(self) -> NDArray[np.int64]:
        """The number of profile edges of each held-out node; 0 for other nodes."""
        return self.degrees() - self.training_degrees()

    def edges_of(self, node: int) -> IntArray:
        """All edges of a node, stratum by stratum."""
        start, stop = node * self.num_strata, (node + 1) * self.num_strata
        return self.edge_ids[self.indptr[start] : self.indptr[stop]]

    def neighbors_of(self, node: int) -> IntArray:
        """The neighbors along `edges_of(node)`."""
        start, stop = node * self.num_strata, (node + 1) * self.num_strata
        return self.neighbors[self.indptr[start] : self.indptr[stop]]


def build_adjacency(
    src: IntArray,
    dst: IntArray,
    num_nodes: int,
    *,
    keep: NDArray[np.bool_] | tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
    strata: IntArray | None = None,
    num_strata: int = 1,
    links_file: Path | None = None,
    times: Ids | None = None,
) -> Adjacency:
    """The adjacency of the edges with `keep[e]`, in stratum `strata[e]` (negative: no stratum).

    Two masks decide separately whether an edge is kept at its source and at its target. The links
    are written to `links_file`, if given. With `times`, the edges of a node are in time order.
    """
    if times is not None:
        return _in_time_order(src, dst, num_nodes, times, keep, strata, num_strata)
    masks = keep if isinstance(keep, tuple) else (keep, keep)
    sides = [np.ones(0, bool) if mask is None else np.ascontiguousarray(mask) for mask in masks]
    stratum = np.zeros(0, np.int16) if strata is None else strata.astype(np.int16, copy=False)
    size = small_int(max(len(src), num_nodes))
    indptr = np.zeros(num_nodes * num_strata + 1, np.int64)
    group = jit(group_edges, 2 * len(src))
    group(src, dst, *sides, stratum, num_strata, indptr[1:], np.empty((0, 2), size))
    np.cumsum(indptr, out=indptr)
    shape = (int(indptr[-1]), 2)
    links = open_memmap(links_file, "w+", size, shape) if links_file else scratch_array(shape, size)
    group(src, dst, *sides, stratum, num_strata, indptr[:-1].copy(), links)
    return Adjacency(indptr=indptr, links=links, num_strata=num_strata)


def _in_time_order(
    src: IntArray,
    dst: IntArray,
    num_nodes: int,
    times: Ids,
    keep: NDArray[np.bool_] | tuple[NDArray[np.bool_], NDArray[np.bool_]] | None,
    strata: IntArray | None,
    num_strata: int,
) -> Adjacency:
    """The adjacency of edges that are taken in time order; ties keep the order of edges."""
    order = np.argsort(times, kind="stable")
    masks = keep if isinstance(keep, tuple) else (keep, keep)
    first, second = (None if mask is None else mask[order] for mask in masks)
    adjacency = build_adjacency(
        src[order],
        dst[order],
        num_nodes,
        keep=None if first is None or second is None else (first, second),
        strata=None if strata is None else strata[order],
        num_strata=num_strata,
    )
    adjacency.links[:, 0] = order[adjacency.links[:, 0]]
    return replace(adjacency, times=np.asarray(times[adjacency.links[:, 0]], np.int64))


def small_int(count: int) -> type[np.signedinteger]:
    """int32 if it can number `count` items, else int64."""
    return np.int32 if count < 2**31 else np.int64
