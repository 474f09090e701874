"""Training to predict links: pairs of ego-graphs, the softmax over keys, ranking."""

from contextlib import nullcontext
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers.data.batch import EgoBatch, PairBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EgoLoader, Ids, epoch_batches
from edgeformers.data.random import hash_keys
from edgeformers.data.splits import TEST, TRAIN, VAL
from edgeformers.errors import InputError
from edgeformers.evaluation import (
    Factors,
    KnownLinks,
    LinkProtocol,
    LinkReport,
    columns_of,
    evaluate_links,
)
from edgeformers.tasks.link_prediction import KnownPairs, LinkTask, sampling_log_q
from edgeformers.train import distributed
from edgeformers.train.encode import Autocast, encode_nodes

PROTOCOLS: tuple[LinkProtocol, ...] = ("full", "sampled", "paper")


class LinkObjective:
    """Links of a network, a node model and the task's score, as the trainer wants them.

    A batch too large for memory is cut into pieces without changing its loss: all pieces are
    encoded first, the loss is taken over all of them, and each piece is encoded again to carry
    its share of the gradient back (gradient caching).
    """

    def __init__(
        self,
        model: nn.Module,
        task: LinkTask,
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
    ) -> None:
        self.model, self.task, self.loader, self.parts = model, task, loader, parts
        self.modules: nn.Module = nn.ModuleDict({"model": model, "head": task})
        self.device, self.autocast = device, autocast
        self.batch_size, self.eval_batch, self.eval_pairs = batch_size, eval_batch, eval_pairs
        self.seed = seed
        self.select = select or task.primary_metric
        graph, train = loader.graph, parts["train"]
        src, dst = _long(graph.src[train]), _long(graph.dst[train])
        self._known = KnownPairs.from_pairs(src, dst, graph.num_nodes).to(device)
        counts = torch.bincount(dst, minlength=graph.num_nodes)[candidate_nodes(graph)]
        self._log_q = torch.zeros(graph.num_nodes)
        self._log_q[candidate_nodes(graph)] = sampling_log_q(
            counts, batch_size=batch_size, uniform_negatives=task.uniform_negatives
        )
        self._log_q = self._log_q.to(device)

    def batches(self, epoch: int) -> list[Ids]:
        """The training links of every batch of an epoch, each process's share equally large."""
        train, world = self.parts["train"], distributed.world_size()
        places = epoch_batches(len(train), self.batch_size, seed=self.seed, epoch=epoch)
        whole = [train[place[: len(place) // world * world]] for place in places]
        return [ids for ids in whole if len(ids) > 1]

    def make(self, ids: Ids, epoch: int, micro: int | None) -> list[PairBatch | EgoBatch]:
        """The pairs, whole or in pieces of at most `micro`, and the nodes drawn as negatives."""
        size = micro or max(1, len(ids))
        pieces: list[PairBatch | EgoBatch] = [
            self.loader.pairs(ids[at : at + size], epoch=epoch) for at in range(0, len(ids), size)
        ]
        if self.task.uniform_negatives:
            nodes = candidate_nodes(self.loader.graph)
            keys = hash_keys(
                self.seed, 0x4E6, epoch, int(ids[0]), np.arange(self.task.uniform_negatives)
            )
            drawn = nodes[(keys % np.uint64(len(nodes))).astype(np.int64)]
            at = range(0, len(drawn), size)
            pieces += [self.loader.nodes(drawn[i : i + size], epoch=epoch) for i in at]
        return pieces

    def backward(self, pieces: list[PairBatch | EgoBatch], share: float) -> float:
        """Gradients of the batch's loss times `share`, however it is cut."""
        moved = [piece.to(self.device) for piece in pieces]
        if len(moved) == 1:
            found = [self._encode(moved[0], 0)]
            loss = self._loss(moved, found)
            (loss * share).backward()
            return float(loss.detach())
        with torch.no_grad():
            found = [self._encode(piece, i) for i, piece in enumerate(moved)]
        found = [[part.requires_grad_() for part in one] for one in found]
        loss = self._loss(moved, found)
        (loss * share).backward()
        for i, (piece, one) in enumerate(zip(moved, found, strict=True)):
            again = self._encode(piece, i)
            torch.autograd.backward(again, [cast(Tensor, part.grad) for part in one])
        return float(loss.detach())

    def evaluate(self, part: str) -> dict[str, float]:
        """Overall metrics of a part under the protocols that its size allows."""
        pairs = self.parts[part]
        if self.eval_pairs is not None and len(pairs) > self.eval_pairs:
            keep = np.argsort(hash_keys(self.seed, 0xE7A1, pairs), kind="stable")[: self.eval_pairs]
            pairs = pairs[np.sort(keep)]  # file order is part of the protocol `paper`
        return self.report(pairs, protocols=("full", "paper")).flat()

    def report(
        self, pairs: Ids, *, protocols: tuple[LinkProtocol, ...] = PROTOCOLS, show: bool = False
    ) -> LinkReport:
        """Ranks of links, given as edges of the network, under each protocol."""
        graph = self.loader.graph
        queries, rows = np.unique(graph.src[pairs].astype(np.int64), return_inverse=True)
        candidates = candidate_nodes(graph)
        scorer = self.scorer(queries, candidates, show=show)
        degrees = self.loader.source_sampler.adjacency.degrees()
        return evaluate_links(
            scorer,
            columns_of(graph.dst[pairs], candidates),
            queries=rows,
            known=known_links(graph, queries, candidates),
            protocols=protocols,
            query_degree=degrees[graph.src[pairs]],
            key_degree=degrees[graph.dst[pairs]],
            seed=self.seed,
        )

    def scorer(self, queries: Ids, candidates: Ids, *, show: bool = False) -> Factors:
        """The trained score of chosen queries and candidates."""
        return Factors(
            self.factors("query", queries, show=show), self.factors("key", candidates, show=show)
        )

    def factors(self, side: str, nodes: Ids, *, show: bool = False) -> np.ndarray:
        """Vectors whose products are scores, of nodes in the role of queries or of keys."""
        vectors = encode_nodes(
            self.model,
            self.loader,
            nodes,
            device=self.device,
            autocast=self.autocast,
            batch=self.eval_batch,
            show=show,
        )
        with torch.inference_mode():
            numbers = _long(nodes).to(self.device)
            made = self.task.factors(
                "query" if side == "query" else "key",
                torch.from_numpy(vectors).to(self.device),
                numbers,
                self._node_vectors(numbers),
            )
        return made.cpu().numpy()

    def _encode(self, piece: PairBatch | EgoBatch, number: int) -> list[Tensor]:
        """Representations of a piece; its dropout depends on (step, piece) and can be repeated."""
        torch.manual_seed((torch.initial_seed() // 4096) * 4096 + number)
        with self.autocast():
            if isinstance(piece, PairBatch):
                return [self.model(piece.query), self.model(piece.key)]
            return [self.model(piece)]

    def _loss(self, pieces: list[PairBatch | EgoBatch], found: list[list[Tensor]]) -> Tensor:
        pairs = [p for p in pieces if isinstance(p, PairBatch)]
        extra = [p for p in pieces if isinstance(p, EgoBatch)]
        query_nodes = torch.cat([p.query.center for p in pairs])
        key_nodes = torch.cat([p.key.center for p in pairs])
        query = torch.cat([one[0] for one in found[: len(pairs)]]).float()
        key = torch.cat([one[1] for one in found[: len(pairs)]]).float()
        more = [one[0].float() for one in found[len(pairs) :]]
        more_nodes = [p.center for p in extra]
        others, other_nodes = self._keys_elsewhere(key, key_nodes)
        more, more_nodes = [*others, *more], [*other_nodes, *more_nodes]
        extra_nodes = torch.cat(more_nodes) if more_nodes else None
        return self.task.loss(
            query,
            key,
            query_nodes=query_nodes,
            key_nodes=key_nodes,
            key_log_q=self._log_q[key_nodes],
            extra_key_repr=torch.cat(more) if more else None,
            extra_nodes=extra_nodes,
            extra_log_q=None if extra_nodes is None else self._log_q[extra_nodes],
            known_pairs=self._known,
            query_z=self._node_vectors(query_nodes),
            key_z=self._node_vectors(key_nodes),
            extra_z=None if extra_nodes is None else self._node_vectors(extra_nodes),
        )

    def _keys_elsewhere(self, key: Tensor, nodes: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The keys of the other processes: negatives here, with gradients flowing back there."""
        world, mine = distributed.world_size(), distributed.rank()
        if world == 1:
            return [], []
        keys = distributed.gather_rows(key).chunk(world)
        numbers = distributed.gather_rows(nodes).chunk(world)
        others = [i for i in range(world) if i != mine]
        return [keys[i] for i in others], [numbers[i] for i in others]

    def _node_vectors(self, nodes: Tensor) -> Tensor | None:
        """Vectors z of nodes, for the collaborative term."""
        if self.task.collaborative != "given":
            return None
        return cast(Tensor, self.model.get_submodule("nodes")(nodes))


def link_parts(graph: EdgeTextGraph, split: str) -> dict[str, Ids]:
    """The positive edges of each part of a split; training and validation need some."""
    codes, positive = graph.split(split), graph.is_positive
    parts = {
        part: np.flatnonzero((codes == code) & positive).astype(np.int64)
        for part, code in {"train": TRAIN, "val": VAL, "test": TEST}.items()
    }
    for part in ("train", "val"):
        if not len(parts[part]):
            raise InputError(
                f"{graph.path}: the split '{split}' has no link in '{part}'; choose another with "
                "data.split, or other positive labels when preparing"
            )
    return parts


def candidate_nodes(graph: EdgeTextGraph) -> Ids:
    """The nodes that can be recommended: all targets, or all nodes where there is one kind."""
    first = graph.num_sources if graph.is_bipartite else 0
    return np.arange(first, graph.num_nodes, dtype=np.int64)


def known_links(graph: EdgeTextGraph, queries: Ids, candidates: Ids) -> KnownLinks:
    """Positive links of the queries in any split; in a one-kind network also the node itself."""
    place = np.full(graph.num_nodes, -1, np.int64)
    place[queries] = np.arange(len(queries))
    edges = np.flatnonzero((place[graph.src] >= 0) & graph.is_positive)
    rows, columns = place[graph.src[edges]], columns_of(graph.dst[edges], candidates)
    if not graph.is_bipartite:
        rows = np.concatenate([rows, np.arange(len(queries))])
        columns = np.concatenate([columns, columns_of(queries, candidates)])
    return KnownLinks.from_pairs(rows, columns, len(queries))


def _long(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values).astype(np.int64))
