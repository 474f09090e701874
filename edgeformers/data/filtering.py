"""Thinning a table of edges before it is written: exact repeats, and nodes with few edges."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tqdm.auto import tqdm

from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.columns import WordCodes
from edgeformers.data.numba_kernels import peel_nodes
from edgeformers.data.table import EdgeTable, check_ends
from edgeformers.data.types import IntArray
from edgeformers.errors import InputError

DIGEST = 16  # bytes that stand for a text: two texts share them once in 2^128 pairs

Mask = NDArray[np.bool_]


def thin(
    table: EdgeTable, *, drop_repeats: bool = False, min_degree: int = 1, progress: bool = False
) -> tuple[EdgeTable, list[str]]:
    """The edges that stay, in their order, and a note on each step; repeats are dropped first.

    The table is read once more than otherwise; what is held of an edge is two node numbers and,
    where repeats are dropped, 16 bytes for its text.
    """
    if not drop_repeats and min_degree == 1:  # whoever is a node has an edge
        return table, []
    src, dst, digests = _read(table, digest=drop_repeats, progress=progress)
    keep, notes = np.ones(len(src), bool), []
    if drop_repeats:
        keep = first_of_repeats(src, dst, digests)
        notes.append(f"repeated edges were dropped: {_counts(src, dst, keep)}")
    if min_degree > 1:
        before, keep = keep, core_edges(src, dst, min_degree, keep)
        if before.any() and not keep.any():
            raise InputError(
                f"{table.origin}: none of its {int(before.sum()):,} edges is left when every node "
                f"must have {min_degree:,} edges; choose a smaller --min-degree"
            )
        counts = _counts(src, dst, keep, before)
        notes.append(f"nodes with fewer than {min_degree:,} edges were dropped: {counts}")
    return replace(table, open=lambda: _filtered(table.open(), keep)), notes


def first_of_repeats(src: IntArray, dst: IntArray, digests: NDArray[np.uint64]) -> Mask:
    """Which edges [E] are the first of their source, target and text; digests are [E, 2]."""
    keys = (digests[:, 1], digests[:, 0], dst, src)
    order = np.lexsort(keys)  # stable: equal ones stay in their order
    is_first = np.ones(len(src), bool)
    is_first[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    keep = np.empty_like(is_first)
    keep[order] = is_first
    return keep


def core_edges(src: IntArray, dst: IntArray, min_degree: int, keep: Mask | None = None) -> Mask:
    """Which edges [E] belong to the k-core: the most nodes that all have so many edges in it.

    Each of several edges between two nodes counts, a self-loop once.
    """
    keep = np.ones(len(src), bool) if keep is None else keep
    num_nodes = 1 + int(max(src.max(initial=-1), dst.max(initial=-1)))
    adjacency = build_adjacency(src, dst, num_nodes, keep=keep)
    stays = peel_nodes(adjacency.indptr, adjacency.links, min_degree)
    core: Mask = keep & stays[src] & stays[dst]
    return core


def _read(
    table: EdgeTable, *, digest: bool, progress: bool
) -> tuple[IntArray, IntArray, NDArray[np.uint64]]:
    """Both ends [E] of all edges as node numbers, and digests [E, 2] of their texts if wanted."""
    sources = WordCodes("source")
    targets = WordCodes("target") if table.bipartite else sources
    src, dst, digests = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [b""]
    rows = 0
    with tqdm(desc="thinning edges", unit=" edges", disable=not progress) as bar:
        for batch in table.batches():
            check_ends(batch, table.origin, rows)
            src.append(sources.encode(batch.column("source")))
            dst.append(targets.encode(batch.column("target")))
            if digest:
                digests.append(b"".join(map(_digest, batch.column("text").to_pylist())))
            rows += batch.num_rows
            bar.update(batch.num_rows)
    offset = len(sources.codes) if table.bipartite else 0
    hashed = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
    return np.concatenate(src), np.concatenate(dst) + offset, hashed


def _digest(text: str | None) -> bytes:
    """A missing text is an empty one."""
    return hashlib.blake2b((text or "").encode(), digest_size=DIGEST).digest()


def _counts(src: IntArray, dst: IntArray, keep: Mask, before: Mask | None = None) -> str:
    """How many edges and nodes there were, and are left."""
    before = np.ones(len(src), bool) if before is None else before
    edges, left = int(before.sum()), int(keep.sum())
    nodes, nodes_left = (len(np.union1d(src[mask], dst[mask])) for mask in (before, keep))
    return (
        f"{edges - left:,} of {edges:,} edges and {nodes - nodes_left:,} of {nodes:,} nodes; "
        f"{left:,} edges and {nodes_left:,} nodes are left"
    )


def _filtered(batches: Iterator[pa.RecordBatch], keep: Mask) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        yield batch.filter(pa.array(keep[start : start + batch.num_rows]))
        start += batch.num_rows
