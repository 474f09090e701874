"""Loaders: batches of a network in an order determined by (seed, epoch), made in advance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray

from edgeformers.config import Task
from edgeformers.data.batch import (
    EdgeBatch,
    EdgeContextBatch,
    EgoBatch,
    LinkBatch,
    edge_batch,
    ego_batch,
    make_node_texts,
)
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.random import hash_keys, permute
from edgeformers.data.sampler import NO_PARTNER, EgoSampler, Neighborhoods
from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids, Mask, Side

INFERENCE = -1  # the epoch number of neighbor samples for inference
#: Default batch sizes, from many training examples to few.
BATCH_SIZES: Mapping[Task, tuple[int, ...]] = {
    "edge-classification": (64, 32, 16),
    "link-prediction": (128,),
}
MIN_UPDATES = 200  # per epoch
#: Updates per epoch that larger batches on a GPU must leave.
GPU_MIN_UPDATES: Mapping[Task, int] = {"edge-classification": 1_000, "link-prediction": 400}
GPU_MAX_BATCH_SIZE = 1_024
MAX_SORTED = 1 << 22  # examples whose order is stored
EPOCH = 0xE90C  # random stream


def epoch_order(count: int, seed: int, epoch: int) -> Ids:
    """A permutation of all examples, determined by seed and epoch."""
    return np.argsort(hash_keys(seed, EPOCH, epoch, np.arange(count)), kind="stable")


def default_batch_size(task: Task, count: int, *, gpu: bool = False) -> int:
    """The largest default batch size with at least `MIN_UPDATES` updates per epoch.

    On a GPU, which small batches do not fill, the largest one is doubled as long as an epoch has
    `GPU_MIN_UPDATES` updates.
    """
    sizes = BATCH_SIZES[task]
    size = next((size for size in sizes if count >= size * MIN_UPDATES), sizes[-1])
    while gpu and size < GPU_MAX_BATCH_SIZE and count >= 2 * size * GPU_MIN_UPDATES[task]:
        size *= 2
    return size


class EpochBatches(Sequence[Ids]):
    """The batches of an epoch in random order, each made when it is needed.

    They are not sorted by length: texts are packed, and batches of texts of similar length would
    bias the updates. Up to `MAX_SORTED` examples are sorted by random keys (`epoch_order`); of
    more, the order is never in memory (`permute`). A last batch of fewer than `least` examples is
    left out.
    """

    def __init__(self, examples: Ids, size: int, *, seed: int, epoch: int, least: int = 1) -> None:
        self.examples, self.size, self.seed, self.epoch = examples, size, seed, epoch
        full, rest = divmod(len(examples), size)
        self._count = (full if size >= least else 0) + (rest >= least)
        is_large = len(examples) > MAX_SORTED
        self._order = None if is_large else epoch_order(len(examples), seed, epoch)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ids]: ...
    def __getitem__(self, index: int | slice) -> Ids | list[Ids]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start = range(len(self))[index] * self.size
        stop = min(start + self.size, len(self.examples))
        if self._order is not None:
            return np.asarray(self.examples[self._order[start:stop]])
        places = permute(np.arange(start, stop), len(self.examples), self.seed, EPOCH, self.epoch)
        return np.asarray(self.examples[places])


@dataclass(frozen=True, kw_only=True)
class EdgeLoader:
    """Batches of edges for an edge model; with samplers, also the ego graphs of both ends.

    With `node_tokens`, each end also has a text of at most so many tokens.
    """

    graph: EdgeTextGraph
    tokens: TokenStore
    max_tokens: int
    source_sampler: EgoSampler | None = None
    target_sampler: EgoSampler | None = None
    node_tokens: int | None = None

    def batch(self, edge_ids: Ids, *, epoch: int = INFERENCE) -> EdgeBatch | EdgeContextBatch:
        """Some edges, with the ego graphs of this epoch if there are samplers."""
        return self.with_context(self.edges(edge_ids), epoch=epoch)

    def edges(self, edge_ids: Ids) -> EdgeBatch:
        """Some edges, without ego graphs."""
        return edge_batch(self.graph, self.tokens, edge_ids, self.max_tokens)

    def with_context(
        self, batch: EdgeBatch, *, epoch: int = INFERENCE, without: Mask | None = None
    ) -> EdgeBatch | EdgeContextBatch:
        """Add ego graphs to edges of this network or to new ones, if there are samplers.

        The ego graph of a new node (-1) is empty. Edges `without` [E] are in none.
        """
        if self.source_sampler is None or self.target_sampler is None:
            return batch
        src, dst = batch.src.numpy(), batch.dst.numpy()
        source = self._egos(self.source_sampler, src, dst, epoch, without)
        target = self._egos(self.target_sampler, dst, src, epoch, without)
        limit, texts = self.node_tokens, None
        if limit is not None:
            texts = make_node_texts(batch, source, target, limit=limit)
        return EdgeContextBatch(edge=batch, source=source, target=target, node_texts=texts)

    def untruncated(self, edge_ids: Ids) -> EdgeBatch:
        """Some edges with all stored tokens of their texts, without ego graphs."""
        return edge_batch(self.graph, self.tokens, edge_ids, self.tokens.max_tokens)

    def lengths(self, edge_ids: Ids) -> NDArray[np.int32]:
        """The number of tokens of each text in a batch."""
        return np.minimum(self.tokens.lengths_of(edge_ids), self.max_tokens)

    def _egos(
        self,
        sampler: EgoSampler,
        centers: Ids,
        partners: Ids,
        epoch: int,
        without: Mask | None,
    ) -> EgoBatch:
        known = centers >= 0
        sample = sampler.sample(np.where(known, centers, 0), partners=partners, epoch=epoch)
        mask = sample.mask & known[:, None]
        if without is not None:
            mask &= ~without[sample.edge_ids]
        sample = replace(sample, center=centers, mask=mask)
        return ego_batch(self.graph, self.tokens, sample, max_tokens=self.max_tokens)


@dataclass(frozen=True, kw_only=True)
class EgoLoader:
    """Batches of ego graphs for a node model.

    Sources and targets may have different numbers of neighbors.
    """

    graph: EdgeTextGraph
    tokens: TokenStore
    max_tokens: int
    source_sampler: EgoSampler
    target_sampler: EgoSampler

    def links(self, edge_ids: Ids, negatives: Ids, *, epoch: int) -> LinkBatch:
        """Ego graphs of the sources and targets of edges to be predicted, and of negatives.

        Edges between the source and the target of a predicted edge are in neither ego graph.
        """
        src = self.graph.src[edge_ids].astype(np.int64)
        dst = self.graph.dst[edge_ids].astype(np.int64)
        sources = self.source_sampler.sample(src, partners=dst, epoch=epoch)
        targets = self.target_sampler.sample(
            np.concatenate([dst, negatives]),
            partners=np.concatenate([src, np.full(len(negatives), NO_PARTNER)]),
            epoch=epoch,
        )
        targets, rows = targets.distinct()
        return LinkBatch(
            egos=self.pack(sources, targets),
            num_pairs=len(edge_ids),
            targets=torch.from_numpy(len(src) + rows),
        )

    def nodes(self, nodes: Ids, *, epoch: int = INFERENCE, side: Side = "source") -> EgoBatch:
        """Ego graphs of nodes, all of one side: theirs if bipartite, else `side`."""
        if self.graph.is_bipartite and len(nodes):
            side = "target" if nodes[0] >= self.graph.num_sources else "source"
        sampler = self.source_sampler if side == "source" else self.target_sampler
        return self.pack(sampler.sample(nodes, epoch=epoch))

    def workload(self, nodes: Ids) -> Ids:
        """The approximate cost of each node: the number of edges in its ego graph."""
        degrees = self.source_sampler.adjacency.degrees()
        return np.minimum(degrees[nodes], sum(self.source_sampler.sizes))

    def pack(self, *samples: Neighborhoods) -> EgoBatch:
        """Sampled ego graphs as one batch."""
        return ego_batch(self.graph, self.tokens, *samples, max_tokens=self.max_tokens)
