"""Training to predict links: pairs of ego-graphs, the softmax over keys, ranking."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.data.batch import LinkBatch
from edgeformers.data.loader import EgoLoader, epoch_batches
from edgeformers.data.random import hash_keys, uniform
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError, suggest
from edgeformers.evaluation import (
    PROTOCOLS,
    RANK_METRICS,
    InnerProductScorer,
    LinkProtocol,
    LinkReport,
    LinkTable,
    Scorer,
)
from edgeformers.evaluation.network_links import drawable_nodes, rank_links
from edgeformers.inference.components import Side as Role
from edgeformers.inference.encode import Autocast, encode_nodes
from edgeformers.models.link_head import LinkHead, sampling_log_q


class LinkObjective:
    """Links of a network, a node model and the task's score, as the trainer wants them.

    A batch too large for memory is cut into pieces without changing its loss: all pieces are
    encoded first, the loss is taken over all of them, and each piece is encoded again to carry
    its share of the gradient back (gradient caching).
    """

    def __init__(
        self,
        model: nn.Module,
        task: LinkHead,
        loader: EgoLoader,
        parts: dict[str, Ids],
        *,
        device: torch.device,
        batch_size: int,
        seed: int,
        autocast: Autocast = nullcontext,
        eval_batch: int = 256,
        eval_pairs: int | None = None,
        select: str | None = None,
        cold_node_rate: float = 0.0,
    ) -> None:
        self.model, self.task, self.loader, self.parts = model, task, loader, parts
        self.modules: nn.Module = nn.ModuleDict({"model": model, "head": task})
        self.read: Callable[[Any], Tensor] = model  # or a faster way to call it
        self.device, self.autocast = device, autocast
        self.batch_size, self.eval_batch, self.eval_pairs = batch_size, eval_batch, eval_pairs
        self.seed, self.cold_node_rate = seed, cold_node_rate
        self.select = _checked_metric(select or task.primary_metric)
        graph, train = loader.graph, parts["train"]
        src, dst = _long(graph.src[train]), _long(graph.dst[train])
        self._known = LinkTable.from_pairs(src, dst, graph.num_nodes).to(device)
        self._drawable = drawable_nodes(graph, loader.source_sampler.adjacency)
        counts = torch.bincount(dst, minlength=graph.num_nodes)[self._drawable]
        self._log_q = torch.zeros(graph.num_nodes)
        self._log_q[self._drawable] = sampling_log_q(
            counts, batch_size=batch_size, uniform_negatives=task.uniform_negatives
        )
        self._log_q = self._log_q.to(device)
        self._hidden = torch.zeros(0, dtype=torch.bool)

    def start_bias(self) -> None:
        """Let the popularity in the score start from the training links of each node."""
        graph = self.loader.graph
        dst = _long(graph.dst[self.parts["train"]])
        self.task.start_bias(torch.bincount(dst, minlength=graph.num_nodes).to(self.device))

    def batches(self, epoch: int) -> list[Ids]:
        """The training links of every batch of an epoch; one alone would have no negatives.

        Some nodes are hidden for the epoch: read as new ones, from their edges alone.
        """
        if self.cold_node_rate:
            drawn = uniform(hash_keys(self.seed, 0x4E0, epoch, np.arange(len(self._log_q))))
            self._hidden = torch.from_numpy(drawn < self.cold_node_rate).to(self.device)
        train = self.parts["train"]
        places = epoch_batches(len(train), self.batch_size, seed=self.seed, epoch=epoch)
        least = 1 if self.task.uniform_negatives else 2
        return [train[place] for place in places if len(place) >= least]

    def make(self, ids: Ids, epoch: int, micro: int | None) -> list[LinkBatch]:
        """The pairs this process has and its share of the negatives, at once or in pieces."""
        mine = distributed.shard(ids)
        drawn = distributed.shard(self._draw_negatives(int(ids[0]), epoch))
        if micro is None or micro >= max(len(mine), len(drawn)):
            return [self.loader.links(mine, drawn, epoch=epoch)]
        some, none = range(0, max(len(mine), len(drawn)), micro), mine[:0]
        cut = [(mine[at : at + micro], none) for at in some if at < len(mine)]
        cut += [(none, drawn[at : at + micro]) for at in some if at < len(drawn)]
        return [self.loader.links(pairs, nodes, epoch=epoch) for pairs, nodes in cut]

    def backward(self, batches: list[list[LinkBatch]]) -> Tensor:
        """Gradients of the mean loss over all links, each among the keys of its own batch."""
        counts = [sum(piece.num_pairs for piece in pieces) for pieces in batches]
        everyone = distributed.all_sum(sum(counts))
        whole = torch.zeros((), device=self.device)
        for pieces, count in zip(batches, counts, strict=True):
            share = count * distributed.world_size() / everyone
            whole += self._backward_batch([piece.to(self.device) for piece in pieces], share)
        return whole

    @torch.no_grad()
    def find_nonfinite(self, ids: Ids, epoch: int) -> Ids:
        """Those of the links of which an end is read as something that is no number."""
        pairs = self.loader.links(ids, ids[:0], epoch=epoch).to(self.device)
        with self.autocast():
            found = pairs.by_role(self.model(pairs.egos))
        finite = torch.ones(len(ids), dtype=torch.bool, device=self.device)
        sides: tuple[Role, ...] = ("query", "key")
        for side, rows, nodes in zip(sides, found, pairs.centers, strict=False):  # none is drawn
            finite &= self.task_factors(side, rows, nodes).isfinite().all(1)
        return np.asarray(ids[~finite.cpu().numpy()])

    def evaluate(self, part: str) -> dict[str, float]:
        """Overall metrics of a part under the protocols that its size allows."""
        pairs = self.parts[part]
        if self.eval_pairs is not None and len(pairs) > self.eval_pairs:
            keep = np.argsort(hash_keys(self.seed, 0xE7A1, pairs), kind="stable")[: self.eval_pairs]
            pairs = pairs[np.sort(keep)]  # file order is part of the protocol `paper`
        wanted = ("full", "paper", self.select.partition("/")[0])
        return self.report(pairs, protocols=tuple(p for p in PROTOCOLS if p in wanted)).flat()

    def report(
        self, pairs: Ids, *, protocols: tuple[LinkProtocol, ...] = PROTOCOLS, show: bool = False
    ) -> LinkReport:
        """Ranks of links, given as edges of the network, under each protocol."""
        return rank_links(
            self.loader.graph,
            self.parts,
            pairs,
            partial(self.scorer, show=show),
            adjacency=self.loader.source_sampler.adjacency,
            protocols=protocols,
            seed=self.seed,
        )

    def scorer(self, queries: Ids, candidates: Ids, *, show: bool = False) -> Scorer:
        """The score of chosen queries and candidates."""
        products = InnerProductScorer(
            self.factors("query", queries, show=show), self.factors("key", candidates, show=show)
        )
        return self.task.whole(products, queries, candidates)

    def factors(self, side: Role, nodes: Ids, *, show: bool = False) -> np.ndarray:
        """Vectors whose products are scores, of nodes in the role of queries or of keys."""
        vectors = encode_nodes(
            self.model,
            self.loader,
            nodes,
            device=self.device,
            autocast=self.autocast,
            batch=self.eval_batch,
            side="source" if side == "query" else "target",
            show=show,
        )
        with torch.inference_mode():
            numbers = _long(nodes).to(self.device)
            made = self.task_factors(side, torch.from_numpy(vectors).to(self.device), numbers)
        return made.cpu().numpy()

    def task_factors(self, side: Role, node_repr: Tensor, nodes: Tensor) -> Tensor:
        """Factors of nodes whose representations [n, D] are there already; -1: a new node."""
        return self.task.factors(side, node_repr, nodes, self._node_vectors(nodes))

    def new_query(self, node_repr: Tensor, linked: Tensor) -> Tensor:
        """Factors of a source never met: its representation [1, D], the nodes of its edges [m]."""
        unknown = torch.full((1,), -1, device=self.device)
        return self.task.new_query(node_repr, linked, self._node_vectors(unknown))

    def _backward_batch(self, pieces: list[LinkBatch], share: float) -> Tensor:
        if len(pieces) == 1:  # not cut
            loss = self._loss(pieces, [self._encode(pieces[0])]) * share
            loss.backward()
            return loss.detach()
        found, states = [], []
        for piece in pieces:  # as the second time, so that the same is dropped
            states.append(_RandomState(self.device))
            found.append([part.detach().requires_grad_() for part in self._encode(piece)])
        loss = self._loss(pieces, found) * share
        loss.backward()
        after = _RandomState(self.device)
        for piece, one, state in zip(pieces, found, states, strict=True):
            state.restore()  # so that what was dropped the first time is dropped again
            grads = [cast(Tensor, part.grad) for part in one]
            torch.autograd.backward(self._encode(piece), grads)
        after.restore()
        return loss.detach()

    def _encode(self, piece: LinkBatch) -> list[Tensor]:
        """The queries, keys and drawn nodes of a piece; all are read at once."""
        center = self._shown(piece.egos.center)
        with self.autocast():
            return piece.by_role(self.read(replace(piece.egos, center=center)))

    def _loss(self, pieces: list[LinkBatch], found: list[list[Tensor]]) -> Tensor:
        query_nodes, key_nodes, drawn_nodes = _joined([piece.centers for piece in pieces])
        query, key, drawn = (part.float() for part in _joined(found))
        more, more_nodes = self._other_keys(key, key_nodes, drawn, drawn_nodes)
        return self.task.loss(
            query,
            key,
            query_nodes=query_nodes,
            key_nodes=key_nodes,
            key_log_q=self._log_q[key_nodes],
            extra_key_repr=more,
            extra_nodes=more_nodes,
            extra_log_q=self._log_q[more_nodes],
            known_pairs=self._known,
            query_z=self._node_vectors(self._shown(query_nodes)),
            key_z=self._node_vectors(self._shown(key_nodes)),
            extra_z=self._node_vectors(self._shown(more_nodes)),
        )

    def _shown(self, nodes: Tensor) -> Tensor:
        """Nodes as the model meets them in this epoch: -1 where they are hidden."""
        return torch.where(self._hidden[nodes], -1, nodes) if self.cold_node_rate else nodes

    def _other_keys(
        self, key: Tensor, key_nodes: Tensor, drawn: Tensor, drawn_nodes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keys beside this process's own: drawn ones, and all of the other processes.

        Gradients flow back to where each key was encoded.
        """
        rows = distributed.gather_rows(torch.cat([key, drawn]))
        nodes = distributed.gather_rows(torch.cat([key_nodes, drawn_nodes]))
        mine = distributed.rank()
        rows[mine], nodes[mine] = drawn, drawn_nodes
        return torch.cat(rows), torch.cat(nodes)

    def _draw_negatives(self, first: int, epoch: int) -> Ids:
        """Nodes drawn evenly for the batch that begins with link `first`."""
        count, nodes = self.task.uniform_negatives, self._drawable
        keys = hash_keys(self.seed, 0x4E6, epoch, first, np.arange(count))
        return nodes[(keys % np.uint64(len(nodes))).astype(np.int64)]

    def _node_vectors(self, nodes: Tensor) -> Tensor | None:
        """Vectors z of nodes, for the collaborative term."""
        if not self.task.collaborative:
            return None
        return cast(Tensor, self.model.get_submodule("nodes")(nodes))


def _joined(pieces: list[list[Tensor]]) -> list[Tensor]:
    """Rows of queries, of keys and of drawn nodes, of all pieces."""
    return (
        pieces[0] if len(pieces) == 1 else [torch.cat(rows) for rows in zip(*pieces, strict=True)]
    )


class _RandomState:
    """Where the random numbers stand, to be gone back to."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.host = torch.get_rng_state()
        self.gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore(self) -> None:
        torch.set_rng_state(self.host)
        if self.gpu is not None:
            torch.cuda.set_rng_state(self.gpu, self.device)


def _checked_metric(name: str) -> str:
    known = [f"{protocol}/{metric}" for protocol in PROTOCOLS for metric in RANK_METRICS]
    if name not in known:
        raise ConfigError(
            f"train.select_metric names no metric of links: '{name}'; {suggest(name, known)}"
        )
    return name


def _long(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values).astype(np.int64))
