"""Batches of a network, in an order that (seed, epoch) settles, made ahead of the step."""

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.batch import (
    EdgeBatch,
    EdgeContextBatch,
    EgoBatch,
    LinkBatch,
    edge_batch,
    ego_batch,
)
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.random import hash_keys
from edgeformers.data.sampler import EgoSampler, Neighborhoods
from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids, Side

Batch = TypeVar("Batch")

INFERENCE = -1  # the epoch whose draws of neighbors no training has
USUAL_BATCHES = (64, 32, 16)  # examples of an update, of many examples and of few
UPDATES = 200  # that an epoch should have at least


def epoch_order(count: int, seed: int, epoch: int) -> Ids:
    """All examples in the order of one epoch, the same wherever it is computed."""
    return np.argsort(hash_keys(seed, 0xE90C, epoch, np.arange(count)), kind="stable")


def default_batch_size(count: int) -> int:
    """The largest usual batch in which an epoch of so many examples has updates enough."""
    return next((size for size in USUAL_BATCHES if count >= size * UPDATES), USUAL_BATCHES[-1])


def epoch_batches(count: int, size: int, *, seed: int, epoch: int) -> list[Ids]:
    """The batches of an epoch, long and short texts mixed: packed texts need no sorting, and
    batches of one length pull the weights now this way, now that.
    """
    return _cut(epoch_order(count, seed, epoch), size)


@dataclass(frozen=True, kw_only=True)
class EdgeLoader:
    """Edges of a network as batches for an edge model.

    With samplers, a batch has the ego-graphs of both ends beside each edge.
    """

    graph: EdgeTextGraph
    tokens: TokenStore
    max_tokens: int
    source_sampler: EgoSampler | None = None
    target_sampler: EgoSampler | None = None

    def batch(self, edge_ids: Ids, *, epoch: int = INFERENCE) -> EdgeBatch | EdgeContextBatch:
        """Chosen edges, with what is drawn around them in this epoch."""
        return self.with_context(self.plain(edge_ids), epoch=epoch)

    def plain(self, edge_ids: Ids) -> EdgeBatch:
        """Chosen edges alone."""
        return edge_batch(self.graph, self.tokens, edge_ids, self.max_tokens)

    def with_context(
        self, batch: EdgeBatch, *, epoch: int = INFERENCE
    ) -> EdgeBatch | EdgeContextBatch:
        """Edges, of this network or new ones, beside the ego-graphs of both ends.

        Nothing is known around a new node (-1). Without samplers the edges stay alone.
        """
        if self.source_sampler is None or self.target_sampler is None:
            return batch
        src, dst = batch.src.numpy(), batch.dst.numpy()
        return EdgeContextBatch(
            edge=batch,
            source=self._egos(self.source_sampler, src, dst, epoch),
            target=self._egos(self.target_sampler, dst, src, epoch),
        )

    def whole(self, edge_ids: Ids) -> EdgeBatch:
        """Chosen edges alone, their texts not cut any further than they are kept."""
        return edge_batch(self.graph, self.tokens, edge_ids, self.tokens.most_tokens)

    def lengths(self, edge_ids: Ids) -> NDArray[np.int32]:
        return np.minimum(self.tokens.lengths[edge_ids], self.max_tokens)

    def _egos(self, sampler: EgoSampler, centers: Ids, partners: Ids, epoch: int) -> EgoBatch:
        known = centers >= 0
        found = sampler.sample(np.where(known, centers, 0), partners=partners, epoch=epoch)
        found = Neighborhoods(
            center=centers,
            edge_ids=found.edge_ids,
            neighbors=found.neighbors,
            mask=found.mask & known[:, None],
        )
        return ego_batch(self.graph, self.tokens, found, max_tokens=self.max_tokens)


@dataclass(frozen=True, kw_only=True)
class EgoLoader:
    """Nodes and pairs of a network as ego-graphs for a node model.

    Sources and targets may be read with different numbers of neighbors.
    """

    graph: EdgeTextGraph
    tokens: TokenStore
    max_tokens: int
    source_sampler: EgoSampler
    target_sampler: EgoSampler

    def links(self, edge_ids: Ids, drawn: Ids, *, epoch: int) -> LinkBatch:
        """Ego-graphs of the sources and targets of edges to be predicted, and of targets drawn.

        No edge between the two ends of an edge to be predicted is in either's.
        """
        src = self.graph.src[edge_ids].astype(np.int64)
        dst = self.graph.dst[edge_ids].astype(np.int64)
        egos = self._pack(
            self.source_sampler.sample(src, partners=dst, epoch=epoch),
            self.target_sampler.sample(dst, partners=src, epoch=epoch),
            self.target_sampler.sample(drawn, epoch=epoch),
        )
        return LinkBatch(egos=egos, num_pairs=len(edge_ids))

    def nodes(self, nodes: Ids, *, epoch: int = INFERENCE, side: Side = "source") -> EgoBatch:
        """Ego-graphs of nodes, all of one side: their own where there are two, else `side`."""
        if self.graph.is_bipartite and len(nodes):
            side = "target" if nodes[0] >= self.graph.num_sources else "source"
        sampler = self.source_sampler if side == "source" else self.target_sampler
        return self._pack(sampler.sample(nodes, epoch=epoch))

    def work(self, nodes: Ids) -> NDArray[np.int64]:
        """About how much there is to read for each node: the edges it will be given."""
        degrees = self.source_sampler.adjacency.degrees()
        return np.minimum(degrees[nodes], sum(self.source_sampler.sizes))

    def _pack(self, *found: Neighborhoods) -> EgoBatch:
        return ego_batch(self.graph, self.tokens, *found, max_tokens=self.max_tokens)


def _cut(order: Ids, size: int) -> list[Ids]:
    return [order[at : at + size] for at in range(0, len(order), size)]


class Prefetch(Generic[Batch]):
    """Makes batches in a thread of its own, a few ahead of whoever consumes them.

    What fails in the thread is raised where the batch was wanted. Leaving the loop early stops
    the thread.
    """

    def __init__(
        self, make: Callable[[Ids], Batch], batches: Sequence[Ids], ahead: int = 4
    ) -> None:
        self.make = make
        self.batches = batches
        self.ahead = ahead

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Generator[Batch]:
        ready: queue.Queue[Batch | BaseException | None] = queue.Queue(self.ahead)
        stop = threading.Event()
        thread = threading.Thread(target=self._fill, args=(ready, stop), daemon=True)
        thread.start()
        try:
            while (batch := ready.get()) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                yield batch
        finally:
            stop.set()
            while thread.is_alive():  # wake it where it waits for room
                try:
                    ready.get(timeout=0.05)
                except queue.Empty:
                    continue

    def _fill(
        self, ready: "queue.Queue[Batch | BaseException | None]", stop: threading.Event
    ) -> None:
        try:
            for ids in self.batches:
                if stop.is_set():
                    return
                ready.put(self.make(ids))
        except BaseException as error:  # handed to the consumer, whatever it is
            ready.put(error)
        else:
            ready.put(None)
