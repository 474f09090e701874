"""Service: everything the server answers, without HTTP. Its methods may be called by any thread."""

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from edgeformers import __version__
from edgeformers.data.edge_store import StoredEdge, edge_times
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Side
from edgeformers.errors import InputError
from edgeformers.inference.candidate_filter import CandidateFilter
from edgeformers.inference.encode import Vectors
from edgeformers.inference.explain import Recommendation
from edgeformers.inference.fitted_links import FittedLinkPredictor, SimilarNode, WhatIf
from edgeformers.inference.word_attention import AttendedText
from edgeformers.serve.batching import OverloadedError, Pending, Worker
from edgeformers.serve.limits import Limits
from edgeformers.serve.live_edges import LiveEdges, default_store
from edgeformers.serve.metrics import Metrics
from edgeformers.serve.nodes import Nodes
from edgeformers.serve.schemas import (
    Added,
    ChangedRecommendations,
    EdgeIn,
    EdgePrediction,
    Info,
    Models,
    NewEdge,
    NodeIn,
    OwnEdge,
    Prediction,
    Predictions,
    Recommendations,
    Removed,
    SimilarNodes,
)
from edgeformers.serve.versions import ServedModel, Versions

READY_SECONDS = 1.0  # for which the answer to a health check is reused
NODE_TOKENS = 128  # what ranking for a known node counts as
BYTES_PER_TOKEN = 3  # of texts, about


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """Vectors [n, D] of inputs, with the model and the number of tokens it has read."""

    model: str
    version: str
    vectors: Vectors
    tokens: int


class Service:
    """Answers requests about one or more runs; every answer names its model and version."""

    def __init__(
        self,
        runs: Sequence[Path],
        *,
        store: Path | None = None,
        network: Path | None = None,
        all_edges: bool = False,
        device: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.live = LiveEdges(store or default_store(runs[0]))
        self.versions = Versions(
            runs,
            network=network,
            all_edges=all_edges,
            device=device,
            prepare=self.live.catch_up,
        )
        self.nodes = Nodes(self.versions, self.live)
        self.metrics = Metrics()
        self.worker = Worker(
            queue_tokens=self.limits.queue_tokens, observe=self.metrics.observe_batch
        )
        worker = self.worker
        self.metrics.observe_queue(lambda: len(worker), lambda: worker.waiting_tokens)
        self._show_versions()
        self._ready_until = 0.0

    def close(self) -> None:
        """Finish the waiting requests and stop."""
        self.worker.close()
        self.live.close()

    def models(self) -> Models:
        """The served runs."""
        return Models(
            models=[each.info() for each in self.versions.current],
            previous=[each.info() for each in self.versions.previous],
        )

    def reload(self) -> Models:
        """Load the runs whose files have changed; requests are answered all the while."""
        self.versions.reload()
        self._catch_up()
        self._show_versions()
        return self.models()

    def rollback(self) -> Models:
        """Answer with the versions before the last reload again."""
        self.versions.rollback()
        self._catch_up()
        self._show_versions()
        return self.models()

    def _show_versions(self) -> None:
        self.metrics.set_models({each.name: each.version for each in self.versions.current})

    def info(self) -> Info:
        """What is served: models, data, evaluations, limits."""
        return Info(
            edgeformers=__version__,
            models=[each.details() for each in self.versions.current],
            limits=asdict(self.limits),
        )

    def ready(self) -> None:
        """Encode a text with every model; raises if one cannot."""
        if time.monotonic() < self._ready_until:  # anybody may ask
            return
        self._encode_with_all()
        self._ready_until = time.monotonic() + READY_SECONDS

    def _encode_with_all(self) -> None:
        for model in self.versions.current:
            if model.task == "edge-classification":
                self.predict_edges([EdgeIn(source="", target="", text="ready")], model=model.name)
            else:
                self.recommend_new([OwnEdge(target="", text="ready")], k=1, model=model.name)

    def predict_edges(
        self, edges: Sequence[EdgeIn], *, ablations: bool = False, model: str | None = None
    ) -> Predictions:
        """The labels of edges; with `ablations` also from the text and from the nodes alone."""
        self.limits.check_items(edges, "edges")
        self.limits.check_texts([edge.text for edge in edges])
        served = self.versions.find("edge-classification", model)
        rows = [(edge.source, edge.target, edge.text) for edge in edges]
        if ablations:  # an unknown node has an empty id
            rows += [("", "", edge.text) for edge in edges]
            rows += [(edge.source, edge.target, "") for edge in edges]
        predicted = self.worker.compute(
            lambda batch: _predictions(served, batch),
            rows,
            key=(id(served), "predict"),
            tokens=[_tokens(text) for *_, text in rows],
        )
        count = len(edges)
        answers = [EdgePrediction(**vars(prediction)) for prediction in predicted[:count]]
        if ablations:
            for at, answer in enumerate(answers):
                answer.text_only, answer.node_only = (
                    predicted[count + at],
                    predicted[2 * count + at],
                )
        return Predictions(**served.signature, predictions=answers)

    def recommend(
        self, node: str, k: int = 10, *, explain: int = 0, model: str | None = None
    ) -> Recommendations:
        """The k best targets of a node of the network."""
        return self.start_recommend([node], k, explain=explain, model=model).result()[0]

    def start_recommend(
        self,
        nodes: Sequence[str],
        k: int = 10,
        *,
        exclude_seen: bool = True,
        explain: int = 0,
        candidates: CandidateFilter | None = None,
        model: str | None = None,
    ) -> Pending[list[Recommendations]]:
        """The k best targets of each of several nodes, for a thread or a coroutine that waits."""
        self.limits.check_items(nodes, "nodes")
        served = self.versions.find("link-prediction", model)
        options: dict[str, Any] = {"exclude_seen": exclude_seen, "candidates": candidates}

        def run(batch: Sequence[str]) -> list[list[Recommendation] | None]:
            numbers = served.links.live_nodes.numbers(batch, "source")
            known = numbers >= 0
            if explain:
                ids = [node for node, own in zip(batch, known.tolist(), strict=True) if own]
                found = [served.links.recommend(n, k, explain=explain, **options) for n in ids]
            else:
                found = served.links.recommend_many(numbers[known], k, **options)
            each = iter(found)
            return [next(each) if own else None for own in known.tolist()]

        def finish(answers: list[list[Recommendation] | None]) -> list[Recommendations]:
            if None in answers:
                served.node_numbers(nodes, "source")  # raises
            return [
                _recommendations(served, node, answer or [])
                for node, answer in zip(nodes, answers, strict=True)
            ]

        key = (id(served), "recommend", k, exclude_seen, explain, _filter_key(candidates))
        costs = [NODE_TOKENS * max(1, explain)] * len(nodes)
        return self.worker.start(run, nodes, finish, key=key, tokens=costs)

    def recommend_new(
        self,
        edges: Sequence[OwnEdge],
        k: int = 10,
        *,
        exclude_seen: bool = True,
        explain: int = 0,
        candidates: CandidateFilter | None = None,
        model: str | None = None,
    ) -> Recommendations:
        """The k best targets of a new node, which is described by its edges."""
        self.limits.check_items(edges, "edges")
        self.limits.check_texts([edge.text for edge in edges])
        served = self.versions.find("link-prediction", model)
        pairs = [(edge.target, edge.text) for edge in edges]
        options: dict[str, Any] = {"exclude_seen": exclude_seen, "candidates": candidates}

        def run(batch: Sequence[list[tuple[str, str]]]) -> list[list[Recommendation]]:
            if not explain:
                return served.links.recommend_new(batch, k, **options)
            return [
                served.links.recommend(k=k, edges=own, explain=explain, **options) for own in batch
            ]

        key = (id(served), "new", k, exclude_seen, explain, _filter_key(candidates))
        tokens = [sum(_tokens(edge.text) for edge in edges)]
        (answer,) = self.worker.compute(run, [pairs], key=key, tokens=tokens)
        return _recommendations(served, None, answer)

    def similar(
        self, node: str, k: int = 10, *, side: Side = "source", model: str | None = None
    ) -> SimilarNodes:
        """The nodes on the same side whose vectors are most like that of a node."""
        served = self.versions.find("link-prediction", model)
        served.node_numbers([node], side)  # raises before it could make a batch fail

        def run(batch: Sequence[str]) -> list[list[SimilarNode]]:
            return served.links.similar_to_each(batch, k, side=side)

        key = (id(served), "similar", k, side)
        (answer,) = self.worker.compute(run, [node], key=key, tokens=[NODE_TOKENS])
        return SimilarNodes(**served.signature, node=node, similar=answer)

    def what_if(
        self, node: str, k: int = 10, *, without: Sequence[str], model: str | None = None
    ) -> ChangedRecommendations:
        """The k best targets of a node before and after it loses its edges with other nodes."""
        served = self.versions.find("link-prediction", model)
        change: WhatIf = self._call(
            lambda: served.links.what_if(node, k, without=without), tokens=2 * NODE_TOKENS
        )
        return ChangedRecommendations(
            **served.signature, node=node, before=change.before, after=change.after
        )

    def word_attention(
        self,
        node: str | None = None,
        *,
        side: Side = "source",
        edges: Sequence[OwnEdge] | None = None,
        model: str | None = None,
    ) -> list[AttendedText]:
        """Where a link model looked in the texts of a node, known or given by its edges.

        Empty if the model has no attention to words.
        """
        served = self.versions.find("link-prediction", model)
        pairs = None if edges is None else [(edge.target, edge.text) for edge in edges]
        return self._attended(lambda: served.links.word_attention(node, side=side, edges=pairs))

    def edge_attention(self, edge: EdgeIn, *, model: str | None = None) -> list[AttendedText]:
        """Where an edge model looked in the text of an edge; empty as for `word_attention`."""
        served = self.versions.find("edge-classification", model)
        row = (edge.source, edge.target, edge.text)
        return self._attended(lambda: served.edges.word_attention([row]))

    def _attended(self, function: Callable[[], list[AttendedText]]) -> list[AttendedText]:
        try:
            found: list[AttendedText] = self._call(function, tokens=NODE_TOKENS)
        except InputError:  # not an Edgeformer
            return []
        return found

    def embed(
        self, inputs: Sequence[EdgeIn] | Sequence[NodeIn], *, model: str | None = None
    ) -> Embedded:
        """The vectors of edges, or of nodes of the network."""
        self.limits.check_items(inputs, "inputs")
        rows = [
            (each.source, each.target, each.text) for each in inputs if isinstance(each, EdgeIn)
        ]
        if len(rows) == len(inputs):
            self.limits.check_texts([text for *_, text in rows])
            served = self.versions.find("edge-classification", model)
            edges = served.edges
            vectors = self.worker.compute(
                lambda batch: list(edges.embed_edges(list(batch))),
                rows,
                key=(id(served), "embed"),
                tokens=[_tokens(text) for *_, text in rows],
            )
        elif not rows:
            served = self.versions.find("link-prediction", model)
            vectors = self._embed_nodes(
                served, [each for each in inputs if isinstance(each, NodeIn)]
            )
        else:
            raise InputError("some inputs are edges and some are nodes; send two requests")
        tokens = served.fitted.pack([text for *_, text in rows]).num_tokens if rows else 0
        return Embedded(**served.signature, vectors=np.stack(vectors), tokens=tokens)

    def _embed_nodes(self, served: ServedModel, nodes: Sequence[NodeIn]) -> list[Vectors]:
        by_side: dict[Side, Iterator[Vectors]] = {}
        for side in get_args(Side):
            ids = [node.node for node in nodes if node.side == side]
            served.node_numbers(ids, side)  # raises if one is unknown
            answers = self.worker.compute(
                partial(_node_vectors, served.links, side),
                ids,
                key=(id(served), "embed", side),
                tokens=[NODE_TOKENS] * len(ids),
            )
            by_side[side] = iter(answers)
        return [next(by_side[node.side]) for node in nodes]

    def add_edges(self, edges: Sequence[NewEdge], key: str | None = None) -> Added:
        """Store edges on disk and take them in; `key` makes a repeated request harmless."""
        self.limits.check_items(edges, "edges")
        self.limits.check_texts([edge.text for edge in edges])
        stored = [
            StoredEdge(
                source=edge.source,
                target=edge.target,
                text=edge.text,
                label=edge.label,
                time=when,
            )
            for edge, when in zip(edges, edge_times([edge.time for edge in edges]), strict=True)
        ]
        appended = self.live.append(stored, key)
        self._catch_up()
        return Added(
            **self.versions.find().signature,
            added=appended.added,
            duplicates=appended.duplicates,
        )

    def remove_edges(self, node: str, *, side: Side | None = None) -> Removed:
        """Forget all edges of a node, on both sides by default, for good."""
        served = self.versions.find()
        count = max(self._count_edges(each, node, side) for each in self.versions.current)
        if not count and not any(each.has_node(node, side) for each in self.versions.current):
            served.node_numbers([node], side)  # raises
        self.live.remove(node, side if served.graph.is_bipartite else None)
        self._catch_up()
        return Removed(**served.signature, node=node, removed=count)

    def _count_edges(self, model: ServedModel, node: str, side: Side | None) -> int:
        """The number of edges of a node in the network of a model and in the store."""
        one_count = side or not model.graph.is_bipartite
        sides = [side] if one_count else get_args(Side)
        return sum(self.nodes.count_edges(model, node, each) for each in sides)

    def _catch_up(self) -> None:
        """Let all models take in what is new in the store, also if the queue is full.

        The change is on disk: a worker that takes too long is no reason to refuse it.
        """

        def run(batch: Sequence[None]) -> Sequence[None]:
            for model in self.versions.current:
                self.live.catch_up(model)
            return batch

        with suppress(OverloadedError):
            self.worker.compute(run, [None], key="catch up", tokens=[0])

    def graph(self, model: str | None = None) -> EdgeTextGraph:
        """The network of a run."""
        return self.versions.find(name=model).graph

    def _call(self, function: Callable[[], Any], *, tokens: int) -> Any:
        """The result of a function that the worker runs on its own."""
        (answer,) = self.worker.compute(
            lambda _: [function()], [None], key=object(), tokens=[tokens]
        )
        return answer


def _recommendations(
    model: ServedModel, node: str | None, recommendations: list[Recommendation]
) -> Recommendations:
    """An answer that need not be validated."""
    values: dict[str, Any] = {**model.signature, "node": node, "recommendations": recommendations}
    return Recommendations.model_construct(**values)


def _predictions(model: ServedModel, rows: Sequence[tuple[str, str, str]]) -> list[Prediction]:
    fitted = model.edges
    output = fitted.predictions(list(rows))
    probs = [None] * len(rows) if output.probs is None else output.probs.tolist()
    return [
        Prediction(
            label=label, probabilities=own and dict(zip(fitted.label_names, own, strict=True))
        )
        for label, own in zip(fitted.label_values(output), probs, strict=True)
    ]


def _node_vectors(links: FittedLinkPredictor, side: Side, nodes: Sequence[str]) -> list[Vectors]:
    return list(links.embed_nodes(list(nodes), side=side))


def _filter_key(candidates: CandidateFilter | None) -> Hashable:
    """Equal for requests whose filters let the same candidates pass."""
    if candidates is None:
        return None
    allow = None if candidates.allow is None else frozenset(candidates.allow)
    return allow, frozenset(candidates.deny), frozenset(candidates.labels)


def _tokens(text: str) -> int:
    """About the number of tokens of a text, with special tokens."""
    return 2 + len(text.encode(errors="replace")) // BYTES_PER_TOKEN
