"""LinkPredictor: learns who will be linked to whom, and recommends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from edgeformers.config import LinkSettings, Task
from edgeformers.data.batch import EgoBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import INFERENCE, EgoLoader, default_batch_size
from edgeformers.data.splits import PROFILE, TRAIN
from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids, Side
from edgeformers.errors import InputError
from edgeformers.estimators.base import Estimator, Network
from edgeformers.evaluation import (
    PROTOCOLS,
    InnerProductScorer,
    LinkProtocol,
    LinkReport,
    Scorer,
    bootstrap_interval,
)
from edgeformers.evaluation.network_links import candidate_nodes, link_parts, seen_nodes
from edgeformers.inference.components import GROUP_NAMES, LinkEnsemble
from edgeformers.inference.encode import encode_nodes
from edgeformers.inference.ensemble import fit_ensemble
from edgeformers.inference.saved_model import SavedModel
from edgeformers.models.link_head import LinkHead
from edgeformers.progress import print_message
from edgeformers.training.link_objective import LinkObjective

NewEdges = Sequence[tuple[str, str]]  # (the node at the other end, the text)
COLD_NODE_RATE = (
    0.3  # share of nodes that an epoch reads as new ones, where a split holds nodes out
)


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
    """Links between nodes, from the texts of their edges, by Edgeformer-N or another model.

    predictor = LinkPredictor().fit("network")
    predictor.evaluate()
    predictor.recommend("ada", k=5)
    """

    task: Task = "link-prediction"
    default_split = "link"
    head: LinkHead
    objective: LinkObjective

    def fit(
        self, network: Network, *, run: str | PathLike[str] | None = None, **columns: Any
    ) -> Self:
        """Learn from a prepared network, its path, or a frame whose `columns` are named.

        With `run`, a folder, everything is logged and checkpointed there, and a run that was
        interrupted goes on where it stopped.
        """
        self.set_up(network, **columns)
        self._train(self.objective, run, self._fit_ensemble if self.config.links.ensemble else None)
        return self

    def set_up(self, network: Network, **columns: Any) -> Self:
        """All that `fit` does before it trains: the model as it starts, its head, its batches."""
        graph = self._open(network, columns)
        link_parts(graph, self._split(graph))  # refuses before anything is made
        tokens = self._build(graph)
        self.head = self._make_head(graph.num_nodes)
        self._attach(graph, tokens)
        self.objective.start_bias()
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
        pairs, objective = self._part(part), self._objective()
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
            batch=self.config.train.eval_batch_size,
            side=side,
            show=self.show,
        )

    def embed_new_nodes(
        self, nodes: Sequence[NewEdges], *, side: Side = "source"
    ) -> NDArray[np.float32]:
        """node_repr [n, D] of nodes never met, each given by its edges: (other node, text)."""
        self._require_fitted()
        size, parts = self.config.train.eval_batch_size, []
        with torch.inference_mode(), self.autocast():
            for at in range(0, len(nodes), size):
                batch = self._new_egos(nodes[at : at + size], side).to(self.device)
                parts.append(self.model(batch).float().cpu().numpy())
        width = int(self.model.width)  # type: ignore[arg-type]
        return np.concatenate([np.empty((0, width), np.float32), *parts])

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """The score of (source, target) pairs; the higher, the likelier the link."""
        objective = self._objective()
        src = self.names.known_numbers([source for source, _ in pairs], "source")
        dst = self.names.known_numbers([target for _, target in pairs], "target")
        queries, rows = np.unique(src, return_inverse=True)
        keys, columns = np.unique(dst, return_inverse=True)
        scores = objective.scorer(queries, keys).pick(rows, columns[:, None])
        return np.asarray(scores[:, 0], np.float32)

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
        leaves out what the source is linked to already. `explain` gives so many texts of each
        recommended node's edges, those that contribute most to its score; where texts do not
        count for such a source, by validation, those nearest to its own, with a weight of 0. What
        a node has written to the source comes first, where it is recommended for that.
        """
        if (node is None) == (edges is None):
            raise InputError("give either a node of the network or the edges of a new one")
        if k < 1:
            raise InputError(f"k must be at least 1 (got {k})")
        objective = self._objective()
        graph, candidates = objective.loader.graph, candidate_nodes(objective.loader.graph)
        query, seen = self._query(node, edges, graph)
        scores = self._scores(query, node, candidates)
        if exclude_seen:
            scores[seen - candidates[0]] = -np.inf
        k = min(k, int(np.isfinite(scores).sum()))
        best = np.argpartition(-scores, k - 1)[:k] if k else np.empty(0, int)
        best = best[np.argsort(-scores[best], kind="stable")]
        reasons: list[list[Reason]] = [[] for _ in best]
        if explain:
            text, counts = self._text_query(query, node, edges)
            reasons = self._reasons(text, candidates[best], explain, counts=counts)
            if node is not None:
                first = self._returned(self._number(node), candidates[best])
                reasons = [
                    [*own, *more][:explain] for own, more in zip(first, reasons, strict=True)
                ]
        names = self.names.ids_of(candidates[best])
        return [
            Recommendation(node=name, score=float(scores[i]), because=why)
            for name, i, why in zip(names, best, reasons, strict=True)
        ]

    @classmethod
    def from_saved(cls, saved: SavedModel, *, device: Any = None, network: Any = None) -> Self:
        made = super().from_saved(saved, device=device)
        made.head = made._make_head(len(made.names))
        made.head.ensemble = LinkEnsemble.like(saved.head)
        made.head.load_state_dict(saved.head)
        made.head.to(made.device)
        made.head.eval()
        if network is not None:
            return made.attach(network)
        made._attach_where_it_was()
        return made

    def _make_head(self, num_nodes: int) -> LinkHead:
        settings: LinkSettings = self.config.links
        temperature, learned = settings.temperature, settings.learn_temperature
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.train.seed)
            head = LinkHead(
                temperature="learned" if learned else temperature,
                normalize=settings.normalize,
                logq=settings.logq,
                mask_false_negatives=settings.mask_false_negatives,
                uniform_negatives=settings.uniform_negatives,
                collaborative=settings.collaborative,
                popularity_bias=settings.popularity_bias,
                num_nodes=num_nodes,
            )
        if head.log_scale is not None and temperature is not None:  # where learning starts from
            torch.nn.init.constant_(head.log_scale, -math.log(temperature))
        return head.to(self.device)

    def _fit_ensemble(self) -> None:
        """Let collaborative models count beside the trained one."""
        objective, seed = self._objective(), self.config.train.seed
        graph = objective.loader.graph
        found = fit_ensemble(objective, graph, self._split(graph), seed=seed)
        if found is None:
            return
        self.head.set_ensemble(found.to(self.device))
        own = zip(GROUP_NAMES, found.weights[:, 0], strict=True)
        if silent := [name for name, weight in own if not weight]:
            some = f" for sources with {' or '.join(silent)}"
            who = some if len(silent) < len(GROUP_NAMES) else ""
            print_message(
                f"the texts add nothing to who is linked to whom here{who}: by validation, models "
                "of the links alone rank better, so they alone rank from now on",
                show=self.show,
            )

    def _attach(self, graph: EdgeTextGraph, tokens: TokenStore) -> None:
        data, train, split = self.config.data, self.config.train, self._split(graph)
        loader = EgoLoader(
            graph=graph, tokens=tokens, max_tokens=data.max_tokens, **self._samplers(graph)
        )
        parts = link_parts(graph, split)
        self.objective = LinkObjective(
            self.model,
            self.head,
            loader,
            parts,
            device=self.device,
            batch_size=train.batch_size or default_batch_size(len(parts["train"])),
            seed=train.seed,
            autocast=self.autocast,
            eval_batch=train.eval_batch_size,
            eval_pairs=train.eval_pairs,
            select=train.select_metric,
            cold_node_rate=self._cold_node_rate(graph, split),
        )
        self._candidates: NDArray[np.float32] | None = None

    def _cold_node_rate(self, graph: EdgeTextGraph, split: str) -> float:
        """The share of nodes an epoch reads as new ones; unless given, by what the split asks."""
        if (given := self.config.links.cold_node_rate) is not None:
            return given
        return COLD_NODE_RATE if (graph.split(split) == PROFILE).any() else 0.0

    def _objective(self) -> LinkObjective:
        objective: LinkObjective = self._ready_objective()
        return objective

    def _numbers(self, nodes: Sequence[str] | Ids | None, side: Side) -> Ids:
        if nodes is None:
            return np.arange(len(self.names), dtype=np.int64)
        if isinstance(nodes, np.ndarray) and nodes.dtype.kind in "iu":
            return nodes.astype(np.int64)
        if isinstance(nodes, str):
            raise InputError(f"give nodes as a list of ids (got '{nodes}')")
        return self.names.known_numbers(list(nodes), side)

    def _number(self, source: str) -> int:
        return int(self.names.known_numbers([source], "source")[0])

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
            number = self._number(node)
            factors = self._objective().factors("query", np.array([number]))[0]
            return factors, seen_nodes(graph, number)
        assert edges is not None
        seen = self.names.numbers([other for other, _ in edges], "target")
        vectors = torch.from_numpy(self.embed_new_nodes([edges])).to(self.device)
        linked = torch.from_numpy(seen).to(self.device)
        with torch.inference_mode():
            made = self._objective().new_query(vectors, linked)
        return made.cpu().numpy(), seen[seen >= 0]

    def _scores(
        self, query: NDArray[np.float32], node: str | None, candidates: Ids
    ) -> NDArray[np.float32]:
        """The scores of all candidates [C]; nobody is linked to a source never met."""
        scorer: Scorer = InnerProductScorer(query[None], self._candidate_factors())
        if node is not None:
            scorer = self.head.whole(scorer, np.array([self._number(node)]), candidates)
        scores: NDArray[np.float32] = scorer.scores(np.zeros(1, np.int64))[0]
        return scores

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

    def _text_query(
        self, query: NDArray[np.float32], node: str | None, edges: NewEdges | None
    ) -> tuple[NDArray[np.float32], bool]:
        """What a source's texts are asked with [D], and whether they count in its ranking."""
        text = query[: int(self.model.width)]  # type: ignore[arg-type]
        if text.any():
            return text, True
        own = self.embed_nodes([node]) if node is not None else self.embed_new_nodes([edges or []])
        print_message(
            "the texts named do not count in this ranking: by validation, models of the links "
            "alone rank better for a source with so many edges",
            show=self.show,
        )
        return own[0], False

    def _returned(self, node: int, targets: Ids) -> list[list[Reason]]:
        """Of each target that is raised for its edges to the source, the text of the last one."""
        graph, ensemble = self._objective().loader.graph, self.head.ensemble
        reasons: list[list[Reason]] = [[] for _ in targets]
        if ensemble is None or not (amount := ensemble.returned_amount(node)):
            return reasons
        edges = graph.adjacency.edges_of(node)
        is_trained = (graph.split(self._split(graph)) == TRAIN) & graph.is_positive
        edges = np.sort(edges[(graph.dst[edges] == node) & is_trained[edges]])
        last = dict(zip(graph.src[edges].tolist(), edges.tolist(), strict=True))
        (name,) = self.names.ids_of(np.array([node]))
        for mine, target in zip(reasons, targets.tolist(), strict=True):
            if target in last and (text := graph.texts(np.array([last[target]]))[0]):
                mine.append(Reason(text=text, node=name, weight=amount))
        return reasons

    @torch.inference_mode()
    def _reasons(
        self, query: NDArray[np.float32], targets: Ids, count: int, *, counts: bool
    ) -> list[list[Reason]]:
        """Of each target, the edges that contribute most to its score.

        A target is the sum of its edges' shares, so the text's part of its score is the sum of
        theirs. What a share contributes is its product with the query, of a target whose vector
        is made of length 1 divided by that length.
        """
        if not hasattr(self.model, "edge_shares"):
            raise InputError(
                f"'{self.config.model.name}' cannot say which texts speak for a node; take "
                "explain=0, or an edgeformer-n"
            )
        reasons: list[list[Reason]] = [[] for _ in targets]
        loader = self._objective().loader
        found = loader.target_sampler.sample(targets, epoch=INFERENCE)
        batch = loader.nodes(targets, side="target").to(self.device)
        if not batch.text.num_texts:
            return reasons
        with self.autocast():
            states = self.model.encode_ego_edges(batch)  # type: ignore[operator]
            shares = self.model.edge_shares(batch, states).float()  # type: ignore[operator]
        given = shares @ torch.from_numpy(query).to(self.device)  # [E]
        if self.head.normalize:
            sums = shares.new_zeros(len(targets), shares.size(1))
            lengths = sums.index_add(0, batch.owner, shares).norm(dim=1).clamp(min=1e-12)
            given = given / lengths[batch.owner]
        weights, owner = given.cpu().numpy(), batch.owner.cpu().numpy()
        others = self.names.ids_of(found.neighbors[found.mask])
        texts = loader.graph.texts(found.edge_ids[found.mask])
        for i in np.argsort(-weights, kind="stable"):
            mine = reasons[owner[i]]
            if len(mine) < count and texts[i]:
                weight = float(weights[i]) if counts else 0.0
                mine.append(Reason(text=texts[i], node=others[i], weight=weight))
        return reasons
