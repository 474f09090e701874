"""The objective of link prediction: pairs of ego-graphs, the softmax over keys, and ranking."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from edgeformers import distributed
from edgeformers.config import RunConfig
from edgeformers.data.batch import EgoBatch, LinkBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EgoLoader, EpochBatches
from edgeformers.data.prefetch import prefetch
from edgeformers.data.random import hash_keys, uniform
from edgeformers.data.scratch import count_values
from edgeformers.data.splits import has_profiles
from edgeformers.data.types import Ids, Side
from edgeformers.errors import ConfigError, suggest
from edgeformers.evaluation import PROTOCOLS, RANK_METRICS, LinkMask
from edgeformers.evaluation.network_links import drawable_nodes, order_links
from edgeformers.evaluation.popularity_correction import spaced_batches
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.models.link_head import EncodedNodes, LinkHead, sampling_log_q
from edgeformers.sharded_nodes import rows_of
from edgeformers.training.negative_cache import REFRESH_BATCH, REFRESH_RATIO, NegativeCache
from edgeformers.training.objective import Objective

COLD_NODE_RATE = 0.3  # default share of nodes read as unknown, for splits that hold nodes out


class LinkObjective(Objective):
    """Trains a node model and its link head on the links of their network.

    A batch too large for memory is cut into pieces without changing its loss (gradient caching):
    all pieces are encoded first, the loss is taken over all of them, and each piece is encoded
    again to propagate its share of the gradient.
    """

    fitted: FittedLinkPredictor
    loader: EgoLoader
    head: LinkHead

    def __init__(self, fitted: FittedLinkPredictor) -> None:
        super().__init__(fitted)
        _check_metric(self.select)
        if self.head.is_collaborative:  # the score trains node vectors that the model does not use
            self.model.nodes.requires_grad_(True)
        self.cold_node_rate = _cold_node_rate(
            fitted.config, fitted.network.graph, fitted.network.split
        )
        self._prepare_links()
        self._hidden = torch.zeros(0, dtype=torch.bool)
        self._spaced: dict[str, Ids] = {}  # part -> links ranked in every epoch

    def _prepare_links(self) -> None:
        """What the loss needs of the training links: masks, sampling probabilities, popularity."""
        graph, train = self.loader.graph, self.parts["train"]
        self._known = LinkMask.of_edges(graph.src, graph.dst, train).to(self.device)
        self._drawable = drawable_nodes(graph, self.loader.source_sampler.adjacency)
        counts = torch.from_numpy(count_values(graph.dst, graph.num_nodes, train))
        self._cache, self._cached = None, 0
        if cached := self.fitted.config.links.cached_negatives:
            self._cache = NegativeCache(
                self._drawable,
                graph.num_nodes,
                self.fitted.width,
                seed=self.seed,
                device=self.device,
            )
            self._cached = min(cached, len(self._cache))
        uniform = self.head.uniform_negatives
        self._log_q = self._sampling_log_q(counts, uniform)
        self._cached_log_q = self._sampling_log_q(counts, uniform + self._cached)
        self.head.initialize_bias(counts.to(self.device))

    def _sampling_log_q(self, counts: Tensor, uniform_negatives: int) -> Tensor:
        """Log q of all nodes [N]: how likely each is a key of a batch."""
        log_q = torch.zeros(len(counts))
        log_q[self._drawable] = sampling_log_q(
            counts[self._drawable],
            batch_size=self.batch_size,
            uniform_negatives=uniform_negatives,
        )
        return log_q.to(self.device)

    def state_dict(self) -> dict[str, Any]:
        return {} if self._cache is None else self._cache.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._cache is not None and state:
            self._cache.load_state_dict(state)

    def batches(self, epoch: int) -> Sequence[Ids]:
        """The training links of every batch of an epoch; a single link would have no negatives.

        With `cold_node_rate`, some nodes are hidden in each epoch: read as unknown nodes.
        """
        if self.cold_node_rate:
            drawn = uniform(hash_keys(self.seed, 0x4E0, epoch, np.arange(len(self._log_q))))
            self._hidden = torch.from_numpy(drawn < self.cold_node_rate).to(self.device)
        least = 1 if self.head.uniform_negatives or self._cached else 2
        size, seed = self.batch_size, self.seed
        return EpochBatches(self.examples, size, seed=seed, epoch=epoch, least=least)

    def make(self, ids: Ids, epoch: int, micro: int | None) -> list[LinkBatch]:
        """The pairs and negatives of a batch for this process, in pieces of at most `micro`."""
        own = distributed.shard(ids)
        drawn = distributed.shard(self._draw_negatives(int(ids[0]), epoch))
        if micro is None or micro >= max(len(own), len(drawn)):
            return [self.loader.links(own, drawn, epoch=epoch)]
        none = own[:0]
        cut = [(own[at : at + micro], none) for at in range(0, len(own), micro)]
        cut += [(none, drawn[at : at + micro]) for at in range(0, len(drawn), micro)]
        return [self.loader.links(pairs, nodes, epoch=epoch) for pairs, nodes in cut]

    def backward(self, batches: list[list[LinkBatch]]) -> Tensor:
        """Add the gradients of the mean loss over all links, each among the keys of its batch."""
        counts = [sum(piece.num_pairs for piece in pieces) for pieces in batches]
        num_pairs = distributed.all_sum(sum(counts))
        total = torch.zeros((), device=self.device)
        for pieces, count in zip(batches, counts, strict=True):
            share = count * distributed.world_size() / num_pairs
            self._refresh_cache()
            total += self._backward_batch([piece.to(self.device) for piece in pieces], share)
        return total

    @torch.no_grad()
    def find_nonfinite(self, ids: Ids, epoch: int) -> Ids:
        """The links with an end whose factors are not finite."""
        pairs = self.loader.links(ids, ids[:0], epoch=epoch).to(self.device)
        with self.autocast():
            states = pairs.by_role(self.model(pairs.egos))
        finite = torch.ones(len(ids), dtype=torch.bool, device=self.device)
        sides: tuple[Side, ...] = ("source", "target")
        for side, rows, nodes in zip(sides, states, pairs.centers, strict=False):  # no negatives
            factors = self.head.factors(side, self._encoded(rows, nodes))
            finite &= factors.isfinite().all(1)
        return np.asarray(ids[~finite.cpu().numpy()])

    def evaluate(self, part: str) -> dict[str, float]:
        """Overall metrics of a part under the protocols that are quick, or selected by."""
        used = ("full", "paper", self.select.partition("/")[0])
        protocols = [protocol for protocol in PROTOCOLS if protocol in used]
        return self.fitted.report(self._evaluated(part), protocols=protocols).flat()

    def _evaluated(self, part: str) -> Ids:
        """At most `train.eval_pairs` links of a part: whole batches of the protocol `paper`."""
        pairs, most = self.parts[part], self.fitted.config.train.eval_pairs
        if most is None or len(pairs) <= most:
            return pairs
        if part not in self._spaced:
            ordered = pairs[order_links(self.loader.graph, pairs)]
            self._spaced[part] = ordered[spaced_batches(len(pairs), limit=most)[:most]]
        return self._spaced[part]

    def _backward_batch(self, pieces: list[LinkBatch], share: float) -> Tensor:
        if len(pieces) == 1:
            loss = self._loss(pieces, [self._encode(pieces[0])]) * share
            loss.backward()
            return loss.detach()
        encoded, random_states = [], []
        for piece in pieces:  # with gradients enabled, so that dropout is the same the second time
            random_states.append(_RandomState(self.device))
            encoded.append([part.detach().requires_grad_() for part in self._encode(piece)])
        loss = self._loss(pieces, encoded) * share
        loss.backward()
        end = _RandomState(self.device)
        for piece, parts, random_state in zip(pieces, encoded, random_states, strict=True):
            random_state.restore()
            grads = [cast(Tensor, part.grad) for part in parts]
            torch.autograd.backward(self._encode(piece), grads)
        end.restore()
        return loss.detach()

    def _encode(self, piece: LinkBatch) -> list[Tensor]:
        """The queries, keys and negatives of a piece, encoded together."""
        center = self._visible(piece.egos.center)
        with self.autocast():
            return piece.by_role(self.read(replace(piece.egos, center=center)))

    def _loss(self, pieces: list[LinkBatch], encoded: list[list[Tensor]]) -> Tensor:
        query_nodes, key_nodes, drawn_nodes = _joined([piece.centers for piece in pieces])
        query, key, drawn = (part.float() for part in _joined(encoded))
        queries, keys = self._encoded(query, query_nodes), self._encoded(key, key_nodes)
        extra = self._other_keys(keys, self._encoded(drawn, drawn_nodes))
        loss = self.head.loss(queries, keys, extra=extra, known_links=self._known)
        if self._cache is not None:
            loss = (loss + self._cached_loss(self._cache, queries, keys.nodes, extra.nodes)) / 2
            self._cache.update(torch.cat([key_nodes, extra.nodes]), torch.cat([key, extra.states]))
        return loss

    def _cached_loss(
        self, cache: NegativeCache, queries: EncodedNodes, keys: Tensor, others: Tensor
    ) -> Tensor:
        """The loss of queries among cached keys only, for those whose own key is cached too.

        Next to fresh keys, a cached one would be recognized as a negative by its state alone.
        """
        drawn, states = cache.draw(self._cached)
        is_cached, others = cache.holds(keys), others[cache.holds(others)]
        own = queries.rows(is_cached)
        nodes = torch.cat([keys[is_cached], others, drawn])
        states = torch.cat([cache.states_of(nodes[: -len(drawn)]), states])
        with rows_of(self.modules, [nodes]):
            encoded = replace(self._encoded(states, nodes), log_q=self._cached_log_q[nodes])
        is_own = torch.arange(len(nodes), device=nodes.device) < len(own)
        loss = self.head.loss(
            own, encoded.rows(is_own), extra=encoded.rows(~is_own), known_links=self._known
        )
        return loss * len(own) / max(len(queries), 1)

    def _refresh_cache(self) -> None:
        """Encode the cached nodes anew, at the start and whenever training encoded enough nodes."""
        cache = self._cache
        if cache is None:
            return
        every = math.ceil(REFRESH_RATIO * len(cache) / (2 * self.batch_size))
        if cache.drawn % every == 0:
            cache.refresh(self._encode_targets)

    @torch.no_grad()
    def _encode_targets(self, nodes: Ids) -> Tensor:
        """States [n, D] of nodes, read as targets without dropout."""
        size, states = REFRESH_BATCH, []
        chunks = [nodes[at : at + size] for at in range(0, len(nodes), size)]
        pin = self.device.type == "cuda"

        def make(chunk: Ids) -> EgoBatch:
            batch = self.loader.nodes(chunk, side="target")
            return batch.pin_memory() if pin else batch

        self.model.eval()
        for batch in prefetch(make, chunks):
            egos = batch.to(self.device)
            with self.autocast(), rows_of(self.modules, [batch]):
                read = self.model(replace(egos, center=self._visible(egos.center)))
            states.append(read.float())
        self.model.train()
        return torch.cat(states)

    def _encoded(self, states: Tensor, nodes: Tensor) -> EncodedNodes:
        z = None
        if self.head.is_collaborative:
            z = self.model.get_submodule("nodes")(self._visible(nodes))
        return EncodedNodes(states, nodes, z, self._log_q[nodes])

    def _visible(self, nodes: Tensor) -> Tensor:
        """Nodes with those that are hidden in this epoch replaced by -1."""
        return torch.where(self._hidden[nodes], -1, nodes) if self.cold_node_rate else nodes

    def _other_keys(self, keys: EncodedNodes, drawn: EncodedNodes) -> EncodedNodes:
        """Keys next to this process's own: its negatives, and all keys of other processes.

        Gradients flow back to the process that encoded a key.
        """
        if distributed.world_size() == 1:
            return drawn
        own, rank = keys.extended(drawn), distributed.rank()
        parts = [own.states] if own.z is None else [own.states, own.z]
        rows = distributed.gather_rows(torch.cat(parts, 1))
        nodes = distributed.gather_rows(own.nodes)
        rows[rank], nodes[rank] = torch.cat(parts, 1)[len(keys) :], drawn.nodes
        states, *z = torch.cat(rows).split([part.size(1) for part in parts], 1)
        numbers = torch.cat(nodes)
        return EncodedNodes(states, numbers, z[0] if z else None, self._log_q[numbers])

    def _draw_negatives(self, first: int, epoch: int) -> Ids:
        """Nodes drawn uniformly for the batch that starts with link `first`."""
        count, nodes = self.head.uniform_negatives, self._drawable
        keys = hash_keys(self.seed, 0x4E6, epoch, first, np.arange(count))
        return nodes[(keys % np.uint64(len(nodes))).astype(np.int64)]


def _joined(pieces: list[list[Tensor]]) -> list[Tensor]:
    """The queries, keys and negatives of all pieces."""
    return (
        pieces[0] if len(pieces) == 1 else [torch.cat(rows) for rows in zip(*pieces, strict=True)]
    )


class _RandomState:
    """The state of the random number generators, to return to."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.host = torch.get_rng_state()
        self.gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore(self) -> None:
        torch.set_rng_state(self.host)
        if self.gpu is not None:
            torch.cuda.set_rng_state(self.gpu, self.device)


def _cold_node_rate(config: RunConfig, graph: EdgeTextGraph, split: str) -> float:
    """The share of nodes hidden in each epoch: as set, or some if the split holds nodes out."""
    if (rate := config.links.cold_node_rate) is not None:
        return rate
    return COLD_NODE_RATE if has_profiles(graph.split(split)) else 0.0


def _check_metric(name: str) -> None:
    known = [f"{protocol}/{metric}" for protocol in PROTOCOLS for metric in RANK_METRICS]
    if name not in known:
        raise ConfigError(
            f"train.select_metric: unknown link metric '{name}'; {suggest(name, known)}"
        )
