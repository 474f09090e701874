"""LinkPredictor: learns who will be linked to whom, and recommends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from edgeformers.config import LinkSettings, Task
from edgeformers.data.batch import EgoBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EgoLoader, Ids
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.splits import Side
from edgeformers.data.tokens import TokenStore
from edgeformers.errors import InputError
from edgeformers.estimators.base import Estimator, Network
from edgeformers.evaluation import LinkProtocol, LinkReport, bootstrap_interval
from edgeformers.models.io import SavedModel
from edgeformers.tasks.link_prediction import LinkTask
from edgeformers.train.encode import encode_nodes
from edgeformers.train.link_objective import (
    PROTOCOLS,
    LinkObjective,
    candidate_nodes,
    link_parts,
)
from edgeformers.train.start import open_backbone

NewEdges = Sequence[tuple[str, str]]  # (the node at the other end, the text)


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A text that speaks for a recommendation: who wrote it or whom it is about, and how much."""

    text: str
    node: str
    weight: float


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """A node recommended, its score, and the texts that caused it, the strongest first."""

    node: str
    score: float
    because: list[Reason] = field(default_factory=list)


class LinkPredictor(Estimator):
    """Links between nodes, from the texts of their edges, by Edgeformer-N.

    predictor = LinkPredictor().fit("network")
    predictor.evaluate()
    predictor.recommend("ada", k=5)
    """

    task: Task = "link-prediction"
    head: LinkTask

    def fit(
        self, network: Network, *, run: str | PathLike[str] | None = None, **columns: Any
    ) -> Self:
        """Learn from a prepared network, its path, or a frame whose `columns` are named.

        With `run`, a folder, everything is logged and checkpointed there, and a run that was
        interrupted goes on where it stopped.
        """
        graph = self._open(network, columns)
        split = self._split(graph, "link")
        tokens = self._build(graph, split, "edgeformer-n")
        self.head = self._make_head(graph.num_nodes)
        self._attach(graph, tokens, split)
        self._train(self.objective, run)
        if run is not None:
            self.save(Path(run).expanduser() / "model")
        return self

    def attach(self, network: EdgeTextGraph | str | PathLike[str]) -> Self:
        """Give a loaded model its network, where it is no longer at the place it was."""
        graph = network if isinstance(network, EdgeTextGraph) else EdgeTextGraph.open(network)
        if graph.num_nodes != len(self.names.names):
            raise InputError(
                f"{graph.path} has {graph.num_nodes:,} nodes, the model was trained on "
                f"{len(self.names.names):,}; give the network it was trained on"
            )
        store = self._token_store(graph)
        self._attach(graph, store, self._split(graph, "link"))
        self.graph = graph
        return self

    def evaluate(
        self, part: str = "test", *, protocols: Sequence[LinkProtocol] = PROTOCOLS
    ) -> dict[str, Any]:
        """Ranking metrics of a part under each protocol, by degree, with 95 % intervals of MRR."""
        report = self.report(part, protocols=protocols)
        found: dict[str, Any] = dict(report.flat())
        for protocol in protocols:
            interval = bootstrap_interval(report.values(protocol, "mrr"), self.config.train.seed)
            found[f"{protocol}/mrr_interval"] = [interval.low, interval.high]
        found["groups"] = {p: report.to_dict()[p]["groups"] for p in protocols}
        self.results[part] = found
        return found

    def report(
        self, part: str = "test", *, protocols: Sequence[LinkProtocol] = PROTOCOLS
    ) -> LinkReport:
        """The ranks of a part's links, for comparisons of two models pair by pair."""
        objective = self._objective()
        pairs = objective.parts[part]
        return objective.report(pairs, protocols=tuple(protocols), show=self.show)

    def embed_nodes(
        self, nodes: Sequence[str] | Ids | None = None, *, side: Side = "source"
    ) -> NDArray[np.float32]:
        """node_repr [n, D] of nodes given by id (on one side) or number; of all nodes if none."""
        objective = self._objective()
        return encode_nodes(
            self.model,
            objective.loader,
            self._numbers(nodes, side),
            device=self.device,
            autocast=self.autocast,
            batch=self.config.train.eval_batch,
            show=self.show,
        )

    def embed_new_nodes(
        self, nodes: Sequence[NewEdges], *, side: Side = "source"
    ) -> NDArray[np.float32]:
        """node_repr [n, D] of nodes never met, each given by its edges: (other node, text)."""
        self._require_fitted()
        batch = self._new_egos(nodes, side)
        with torch.inference_mode(), self.autocast():
            vectors: NDArray[np.float32] = self.model(batch.to(self.device)).float().cpu().numpy()
        return vectors

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """The score of (source, target) pairs; the higher, the likelier the link."""
        objective = self._objective()
        src = np.array([self.names.number(source, "source") for source, _ in pairs], np.int64)
        dst = np.array([self.names.number(target, "target") for _, target in pairs], np.int64)
        queries, rows = np.unique(src, return_inverse=True)
        keys, columns = np.unique(dst, return_inverse=True)
        left = objective.factors("query", queries)[rows]
        right = objective.factors("key", keys)[columns]
        return np.asarray(np.einsum("nd,nd->n", left, right), np.float32)

    def recommend(
        self,
        node: str | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        edges: NewEdges | None = None,
        explain: int = 0,
    ) -> list[Recommendation]:
        """The k targets that fit a source best, best first.

        `edges` describes a source never met by its texts, in place of `node`. `exclude_seen`
        leaves out what the source is linked to already. `explain` gives so many texts on edges
        of each recommended node that speak for it.
        """
        if (node is None) == (edges is None):
            raise InputError("give either a node of the network or the edges of a new one")
        if k < 1:
            raise InputError(f"k must be at least 1 (got {k})")
        objective = self._objective()
        graph, candidates = objective.loader.graph, candidate_nodes(objective.loader.graph)
        query, seen = self._query(node, edges, graph)
        scores = self._candidate_factors() @ query  # [C]
        if exclude_seen:
            scores[seen - candidates[0]] = -np.inf
        k = min(k, int(np.isfinite(scores).sum()))
        best = np.argpartition(-scores, k - 1)[:k] if k else np.empty(0, int)
        best = best[np.argsort(-scores[best], kind="stable")]
        reasons = self._reasons(query, candidates[best], explain) if explain else [[]] * len(best)
        names = self.names.of(candidates[best])
        return [
            Recommendation(node=name, score=float(scores[i]), because=why)
            for name, i, why in zip(names, best, reasons, strict=True)
        ]

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the model as one folder that `edgeformers.load` reads."""
        return self._save(folder, (), {"task": self.task})

    @classmethod
    def from_saved(cls, saved: SavedModel, *, device: Any = None, network: Any = None) -> Self:
        made = super().from_saved(saved, device=device)
        made.head = made._make_head(len(made.names.names))
        made.head.load_state_dict(saved.head)
        made.head.eval()
        trained_on = saved.extra.get("network")
        if network is not None:
            made.attach(network)
        elif trained_on is not None and Path(trained_on).is_dir():
            made.attach(trained_on)
        return made

    def _make_head(self, num_nodes: int) -> LinkTask:
        settings: LinkSettings = self.config.links
        temperature: float | Literal["learned"] | None = settings.temperature
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.train.seed)
            head = LinkTask(
                temperature="learned" if settings.learn_temperature else temperature,
                normalize=settings.normalize,
                logq=settings.logq,
                mask_false_negatives=settings.mask_false_negatives,
                uniform_negatives=settings.uniform_negatives,
                collaborative="given" if settings.collaborative else None,
                popularity_bias=settings.popularity_bias,
                num_nodes=num_nodes,
            )
        return head.to(self.device)

    def _attach(self, graph: EdgeTextGraph, tokens: TokenStore, split: str) -> None:
        data, train = self.config.data, self.config.train
        adjacency = graph.training_adjacency(split, strata=data.strata)
        sizes = {
            "source": _per_stratum(data.source_neighbors, adjacency.num_strata),
            "target": _per_stratum(data.target_neighbors, adjacency.num_strata),
        }
        loader = EgoLoader(
            graph=graph,
            tokens=tokens,
            max_tokens=data.max_tokens,
            source_sampler=EgoSampler(adjacency, sizes["source"], seed=train.seed),
            target_sampler=EgoSampler(adjacency, sizes["target"], seed=train.seed),
        )
        self.objective = LinkObjective(
            self.model,
            self.head,
            loader,
            link_parts(graph, split),
            device=self.device,
            batch_size=train.batch_size,
            seed=train.seed,
            autocast=self.autocast,
            eval_batch=train.eval_batch,
            eval_pairs=train.eval_pairs,
            select=train.select,
        )
        self._candidates: NDArray[np.float32] | None = None

    def _token_store(self, graph: EdgeTextGraph) -> TokenStore:
        return open_backbone_tokens(self.config.model.backbone, graph, show=self.show)

    def _objective(self) -> LinkObjective:
        self._require_fitted()
        if not hasattr(self, "objective"):
            raise InputError(
                "this model has no network to read neighborhoods from; call attach(NETWORK)"
            )
        return self.objective

    def _numbers(self, nodes: Sequence[str] | Ids | None, side: Side) -> Ids:
        if nodes is None:
            return np.arange(self._objective().loader.graph.num_nodes, dtype=np.int64)
        if isinstance(nodes, np.ndarray) and nodes.dtype.kind in "iu":
            return nodes.astype(np.int64)
        return np.array([self.names.number(str(name), side) for name in nodes], np.int64)

    def _candidate_factors(self) -> NDArray[np.float32]:
        """Key factors of every candidate, made once and kept."""
        if self._candidates is None:
            nodes = candidate_nodes(self._objective().loader.graph)
            self._candidates = self._objective().factors("key", nodes, show=self.show)
        return self._candidates

    def _query(
        self, node: str | None, edges: NewEdges | None, graph: EdgeTextGraph
    ) -> tuple[NDArray[np.float32], Ids]:
        """The query factors of a source, and the targets it is linked to already."""
        if node is not None:
            number = self.names.number(node, "source")
            seen = np.unique(graph.adjacency.neighbors_of(number)).astype(np.int64)
            if not graph.is_bipartite:
                seen = np.append(seen, number)
            return self._objective().factors("query", np.array([number]))[0], seen
        assert edges is not None
        seen = self.names.numbers([other for other, _ in edges], "target")
        vectors = torch.from_numpy(self.embed_new_nodes([edges])).to(self.device)
        unknown = torch.full((1,), -1, device=self.device)
        with torch.inference_mode():
            z = self._objective()._node_vectors(unknown)
            factors = self.head.factors("query", vectors, unknown, z)
        return factors[0].cpu().numpy(), seen[seen >= 0]

    def _new_egos(self, nodes: Sequence[NewEdges], side: Side) -> EgoBatch:
        other: Side = "target" if side == "source" else "source"
        flat = [edge for edges in nodes for edge in edges]
        return EgoBatch.from_counts(
            text=self._pack([text for _, text in flat]),
            center=torch.full((len(nodes),), -1),
            counts=torch.tensor([len(edges) for edges in nodes]),
            neighbor=torch.from_numpy(self.names.numbers([name for name, _ in flat], other)),
            is_out=torch.full((len(flat),), side == "source"),
        )

    def _reasons(self, query: NDArray[np.float32], targets: Ids, count: int) -> list[list[Reason]]:
        """Of each target, the edges whose states agree most with the query."""
        loader = self._objective().loader
        found = loader.target_sampler.sample(targets)
        if not found.mask.any():
            return [[] for _ in targets]
        batch = loader.nodes(targets)
        with torch.inference_mode(), self.autocast():
            states = self.model.encode_ego_edges(batch.to(self.device))  # type: ignore[operator]
            owner = batch.owner.to(self.device)
            centers = batch.center.to(self.device)[owner]
            keys = self.head.factors(
                "key", states.float(), centers, self._objective()._node_vectors(centers)
            )
        agree = keys.float().cpu().numpy() @ query
        edges = found.edge_ids[found.mask]
        others = self.names.of(found.neighbors[found.mask])
        texts = loader.graph.texts(edges)
        reasons: list[list[Reason]] = [[] for _ in targets]
        for i in np.argsort(-agree, kind="stable"):
            mine = reasons[int(owner[i])]
            if len(mine) < count and texts[i]:
                mine.append(Reason(text=texts[i], node=others[i], weight=float(agree[i])))
        return reasons


def open_backbone_tokens(backbone: str, graph: EdgeTextGraph, *, show: bool) -> TokenStore:
    """The network's texts in the tokens of a backbone."""
    return open_backbone(backbone, graph, show=show)[1]


def _per_stratum(sizes: list[int], strata: int) -> list[int]:
    """One number per stratum: a single one is shared among them."""
    if len(sizes) == strata:
        return sizes
    if len(sizes) == 1:
        return [max(1, sizes[0] // strata)] * strata
    raise InputError(
        f"neighbors are given for {len(sizes)} strata, the network has {strata}: {sizes}"
    )
