"""Filtering a table of edges before it is written: exact repeats, and nodes with few edges."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.id_table import IdTable
from edgeformers.data.jit import jit
from edgeformers.data.numba_kernels import peel_nodes
from edgeformers.data.table import EdgeTable, check_ends
from edgeformers.data.types import IntArray, Mask
from edgeformers.errors import InputError
from edgeformers.progress import progress_bar

DIGEST_BYTES = 16  # per text: two different texts collide with probability 2^-128


def filter_edges(
    table: EdgeTable, *, drop_repeats: bool = False, min_degree: int = 1, progress: bool = False
) -> tuple[EdgeTable, list[str]]:
    """The remaining edges in their order, and a note on each step; repeats are dropped first.

    This reads the table once more. It holds two node numbers per edge in memory and, to drop
    repeats, 16 bytes per text.
    """
    if not drop_repeats and min_degree == 1:  # every node has an edge
        return table, []
    src, dst, digests = _read(table, with_digests=drop_repeats, progress=progress)
    keep, notes = np.ones(len(src), bool), []
    if drop_repeats:
        keep = is_first_occurrence(src, dst, digests)
        notes.append(f"repeated edges were dropped: {_counts(src, dst, keep)}")
    if min_degree > 1:
        before, keep = keep, k_core(src, dst, min_degree, keep)
        if before.any() and not keep.any():
            raise InputError(
                f"{table.origin}: none of its {int(before.sum()):,} edges remains if every node "
                f"must have {min_degree:,} edges; choose a smaller `min_degree=`"
            )
        counts = _counts(src, dst, keep, before)
        notes.append(f"nodes with fewer than {min_degree:,} edges were dropped: {counts}")

    def remaining() -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in table.open():
            yield batch.filter(pa.array(keep[start : start + batch.num_rows]))
            start += batch.num_rows

    def place(row: int) -> str:
        return table.place(int(np.flatnonzero(keep)[row])) if table.place else ""

    return replace(table, open=remaining, place=place), notes


def is_first_occurrence(src: IntArray, dst: IntArray, digests: NDArray[np.uint64]) -> Mask:
    """Whether each edge is the first with its source, target and text digest [E, 2]."""
    keys = (digests[:, 1], digests[:, 0], dst, src)
    order = np.lexsort(keys)  # stable: equal edges keep their order
    is_first = np.ones(len(src), bool)
    is_first[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    keep = np.empty_like(is_first)
    keep[order] = is_first
    return keep


def k_core(src: IntArray, dst: IntArray, k: int, keep: Mask | None = None) -> Mask:
    """Whether each edge belongs to the k-core: the largest subgraph with all degrees >= k.

    Parallel edges count separately, a self-loop once.
    """
    keep = np.ones(len(src), bool) if keep is None else keep
    num_nodes = 1 + int(max(src.max(initial=-1), dst.max(initial=-1)))
    adjacency = build_adjacency(src, dst, num_nodes, keep=keep)
    stays = jit(peel_nodes, num_nodes + len(adjacency.links))(adjacency.indptr, adjacency.links, k)
    core: Mask = keep & stays[src] & stays[dst]
    return core


def _read(
    table: EdgeTable, *, with_digests: bool, progress: bool
) -> tuple[IntArray, IntArray, NDArray[np.uint64]]:
    """Source and target numbers [E] of all edges, and digests [E, 2] of their texts if wanted."""
    sources = IdTable()
    targets = IdTable() if table.bipartite else sources
    src, dst, digests = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [b""]
    rows = 0
    with progress_bar(desc="filtering edges", unit="edges", show=progress) as bar:
        for batch in table.batches():
            check_ends(batch, table.origin, rows)
            src.append(sources.add(batch.column("source")))
            dst.append(targets.add(batch.column("target")))
            if with_digests:
                digests.append(b"".join(map(_digest, batch.column("text").to_pylist())))
            rows += batch.num_rows
            bar.update(batch.num_rows)
    offset = len(sources) if table.bipartite else 0
    hashed = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
    return np.concatenate(src), np.concatenate(dst) + offset, hashed


def _digest(text: str | None) -> bytes:
    """A missing text equals an empty one."""
    return hashlib.blake2b((text or "").encode(), digest_size=DIGEST_BYTES).digest()


def _counts(src: IntArray, dst: IntArray, keep: Mask, before: Mask | None = None) -> str:
    """How many edges and nodes were dropped, and remain."""
    before = np.ones(len(src), bool) if before is None else before
    edges, edges_left = int(before.sum()), int(keep.sum())
    nodes, nodes_left = (len(np.union1d(src[mask], dst[mask])) for mask in (before, keep))
    return (
        f"{edges - edges_left:,} of {edges:,} edges and {nodes - nodes_left:,} of {nodes:,} "
        f"nodes; {edges_left:,} edges and {nodes_left:,} nodes remain"
    )
