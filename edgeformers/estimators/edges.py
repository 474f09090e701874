"""EdgeClassifier: learns what edges are from their words and their nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.config import Task
from edgeformers.data.batch import EdgeBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EdgeLoader, default_batch_size
from edgeformers.data.readers.sources import is_frame
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.estimators.base import Estimator, Network
from edgeformers.evaluation import bootstrap_f1
from edgeformers.evaluation.network_labels import labeled_edge_parts
from edgeformers.inference.fit_linear_edge_model import fit_ensemble
from edgeformers.inference.saved_model import SavedModel
from edgeformers.models.edge_head import (
    EdgeHead,
    Kind,
    Predictions,
    balanced_weights,
)
from edgeformers.models.linear_edge_model import LinearEdgeModel
from edgeformers.progress import print_message
from edgeformers.training.edge_objective import EdgeObjective

Average = Literal["macro", "micro"]
INTEGERS = (int, np.integer)
Edges = Any  # edge numbers, a frame, or a list of (source, target, text)


@dataclass(frozen=True, kw_only=True)
class NewBatch:
    """Texts of new edges and the numbers of their nodes; -1 is a node never met."""

    texts: list[str | None]
    src: Tensor
    dst: Tensor


class EdgeClassifier(Estimator):
    """Classes, several labels, ordered classes or numbers of edges, by Edgeformer-E or another.

    classifier = EdgeClassifier().fit("network")
    classifier.evaluate()
    classifier.predict([("ada", "tent", "Too small for two.")])
    """

    task: Task = "edge-classification"
    default_split = "edge"
    head: EdgeHead
    objective: EdgeObjective

    def fit(
        self, network: Network, *, run: str | PathLike[str] | None = None, **columns: Any
    ) -> Self:
        """Learn from a prepared network, its path, or a frame whose `columns` are named.

        With `run`, a folder, everything is logged and checkpointed there, and a run that was
        interrupted goes on where it stopped.
        """
        self.set_up(network, **columns)
        self._train(self.objective, run, self._decide)
        return self

    def set_up(self, network: Network, **columns: Any) -> Self:
        """All that `fit` does before it trains: the model as it starts, its head, its batches."""
        graph = self._open(network, columns)
        parts = labeled_edge_parts(graph, self._split(graph))
        kind = self._label_kind(graph)
        tokens = self._build(graph)
        self.label_names = list(graph.label_names)
        assert graph.labels is not None
        self.head = self._make_head(graph.labels[parts["train"]], kind)
        self._attach(graph, tokens)
        return self

    def evaluate(self, part: str = "test", *, intervals: bool = True) -> dict[str, Any]:
        """Metrics on a part of the split the model was fitted with, with 95 % intervals of F1."""
        edges, objective = self._part(part), self._objective()
        predictions = objective.predict(edges, show=self.show)
        labels = objective.loader.graph.labels
        assert labels is not None
        truth = np.asarray(labels[edges])
        as_tensor = torch.from_numpy(truth if truth.dtype.kind == "f" else truth.astype(np.int64))
        found: dict[str, Any] = dict(self.head.metrics(predictions, as_tensor))
        if intervals and self.head.kind in ("class", "ordered") and len(edges):
            for average in get_args(Average):
                interval = bootstrap_f1(
                    truth, predictions.value.numpy(), self.config.train.seed, average=average
                )
                found[f"{average}_f1_interval"] = [interval.low, interval.high]
        self.results[part] = found
        return found

    def predict(self, edges: Edges = None, **columns: Any) -> list[Any]:
        """The label of each edge: of the test part, of edge numbers, or of new edges.

        New edges are a frame (name its columns as for `read_edges`) or a list of (source,
        target, text); nodes never met are read from the text alone. What else a model reads
        around known nodes comes from the network it was fitted on.
        """
        return self._names_of(self.predictions(edges, **columns))

    def predict_proba(self, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """Probabilities [n, C], in the order of `label_names`."""
        found = self.predictions(edges, **columns)
        if found.probs is None:
            raise InputError("a model of numbers has no probabilities; call predict")
        return found.probs.numpy()

    def embed_edges(self, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """edge_repr [n, D] of edges given as for `predict`."""
        self._require_fitted()
        if (numbers := self._edge_numbers(edges)) is not None:
            return self._objective().encode(numbers, show=self.show)
        parts = [self._encode_new(batch) for batch in self._new_batches(edges, columns)]
        return torch.cat(parts).cpu().numpy()

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the model as one folder that `edgeformers.load` reads.

        The network of a model that was fitted on a data frame is saved with it; of another one,
        the path is.
        """
        self._require_fitted()
        return self._save(folder, {"kind": self.head.kind})

    @classmethod
    def from_saved(cls, saved: SavedModel, *, device: Any = None, network: Any = None) -> Self:
        made = super().from_saved(saved, device=device)
        kind = saved.extra["kind"]
        count = 1 if kind == "number" else len(made.label_names)
        made.head = EdgeHead(made._width(), count, kind=kind, **made._head_settings(kind))
        made.head.set_ensemble(LinearEdgeModel.like(saved.head))
        made.head.load_state_dict(saved.head)
        made.head.to(made.device).eval()
        return made if network is None else made.attach(network)

    def _decide(self) -> None:
        """Let validation say what counts beside the trained model, and how much rare classes do."""
        settings, objective = self.config.edges, self._objective()
        if not (settings.ensemble or settings.tune_decision):
            return
        vectors = torch.from_numpy(objective.encode(objective.parts["val"])).to(self.device)
        ensemble = fit_ensemble(objective, vectors) if settings.ensemble else None
        if ensemble is not None and ensemble.share > 0.5:
            print_message(
                "the trained model adds little here to what words and nodes say one by one: by "
                "validation, a linear model of these makes up "
                f"{ensemble.share:.0%} of each decision",
                show=self.show,
            )
        if settings.tune_decision and self.head.kind == "class":
            self._tune_decision(vectors)

    def _tune_decision(self, vectors: Tensor) -> None:
        """Let validation say how much rare classes are favored."""
        objective, ensemble = self._objective(), self.head.ensemble
        labels = torch.from_numpy(np.asarray(objective.loader.graph.labels).astype(np.int64))
        train, held = objective.parts["train"], objective.parts["val"]
        counts = torch.bincount(labels[train], minlength=self.head.num_classes)
        linear = None if ensemble is None else objective.linear_logits(ensemble, held)
        shares = (counts / counts.sum()).to(self.device)
        self.head.tune_decision(vectors, labels[held], shares, objective.select, linear)

    def _attach(self, graph: EdgeTextGraph, tokens: TokenStore) -> None:
        train, limit = self.config.train, self.config.data.max_tokens
        samplers = self._samplers(graph) if self.entry.context else {}
        parts = labeled_edge_parts(graph, self._split(graph))
        self.objective = EdgeObjective(
            self.model,
            self.head,
            EdgeLoader(graph=graph, tokens=tokens, max_tokens=limit, **samplers),
            parts,
            device=self.device,
            batch_size=train.batch_size or default_batch_size(len(parts["train"])),
            seed=train.seed,
            autocast=self.autocast,
            eval_batch=train.eval_batch_size,
            select=train.select_metric,
        )

    def _label_kind(self, graph: EdgeTextGraph) -> Kind:
        """The kind of label to learn: as the labels are, or the other way of reading classes."""
        found: Kind = graph.label_kind or "class"
        chosen = self.config.edges.kind or found
        if chosen != found and not {chosen, found} <= {"class", "ordered"}:
            raise InputError(
                f"{graph.path} has labels of kind '{found}', which cannot be learned as "
                f"edges.kind='{chosen}'; prepare it with --label-kind {chosen}"
            )
        return chosen

    def _make_head(self, labels: NDArray[Any], kind: Kind) -> EdgeHead:
        whole = np.asarray(labels, np.int64 if labels.dtype.kind == "i" else None)
        plain = kind != "number" and self.config.edges.loss == "cross_entropy"
        balance = self.config.edges.class_balance if plain else 0.0
        count = None if kind == "number" else len(self.label_names)
        weights = balanced_weights(torch.from_numpy(whole), count or 1) if balance else None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.train.seed)
            head = EdgeHead.for_labels(
                torch.from_numpy(whole),
                self._width(),
                count,
                kind=kind,
                class_weights=None if weights is None else weights**balance,
                **self._head_settings(kind),
            )
        return head.to(self.device)

    def _head_settings(self, kind: Kind) -> dict[str, Any]:
        settings = self.config.edges
        return {
            "loss": settings.loss if kind == "class" else None,
            "label_smoothing": settings.label_smoothing,
            "rdrop": settings.rdrop,
            "dropout": settings.dropout,
        }

    def _width(self) -> int:
        return int(self.model.width)  # type: ignore[arg-type]

    def _objective(self) -> EdgeObjective:
        objective: EdgeObjective = self._ready_objective()
        return objective

    def _edge_numbers(self, edges: Edges) -> Ids | None:
        """Edges of the fitted network, where that is what was given."""
        if edges is None:
            return self._part("test")
        is_array = isinstance(edges, np.ndarray) and edges.dtype.kind in "iu" and edges.ndim == 1
        is_list = isinstance(edges, list | tuple) and len(edges) and isinstance(edges[0], INTEGERS)
        if not (is_array or is_list or isinstance(edges, range)):
            return None
        numbers, count = np.asarray(edges, np.int64), self._objective().loader.graph.num_edges
        if outside := numbers[(numbers < 0) | (numbers >= count)].tolist():
            raise InputError(f"edges are numbered 0 to {count - 1:,} (got {outside[0]:,})")
        return numbers

    def predictions(self, edges: Edges = None, **columns: Any) -> Predictions:
        """What the head says of edges given as for `predict`."""
        self._require_fitted()
        if (numbers := self._edge_numbers(edges)) is not None:
            return self._objective().predict(numbers, show=self.show)
        parts = []
        for batch in self._new_batches(edges, columns):
            with torch.inference_mode():
                parts.append(self.head.predict(self._encode_new(batch), self._linear_logits(batch)))
        return Predictions.cat(parts)

    def _new_batches(self, edges: Edges, columns: dict[str, Any]) -> list[NewBatch]:
        """New edges in batches of which there is one at least, be it empty."""
        sources, targets, texts = self._new_columns(edges, columns)
        src = self.names.numbers(sources, "source")
        dst = self.names.numbers(targets, "target")
        size = self.config.train.eval_batch_size
        return [
            NewBatch(
                texts=texts[at : at + size],
                src=torch.from_numpy(src[at : at + size]),
                dst=torch.from_numpy(dst[at : at + size]),
            )
            for at in range(0, max(1, len(texts)), size)
        ]

    def _new_columns(self, edges: Edges, columns: dict[str, Any]) -> tuple[list[Any], ...]:
        """Sources, targets and texts of new edges, from rows or a table."""
        if is_frame(edges) or isinstance(edges, str | PathLike):
            table = read_edges(edges, **columns).to_arrow()
            return tuple(table.column(name).to_pylist() for name in ("source", "target", "text"))
        rows = list(edges)
        for row in rows:
            if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 3:
                raise InputError(
                    f"new edges are a list of (source, target, text), three of each (got {row!r})"
                )
        return tuple([row[i] for row in rows] for i in range(3))

    def _encode_new(self, new: NewBatch) -> Tensor:
        """[n, D]"""
        edges = EdgeBatch(text=self._pack(new.texts), src=new.src, dst=new.dst)
        if not len(edges):
            return torch.empty(0, self._width(), device=self.device)
        batch = self._objective().loader.with_context(edges) if self.entry.context else edges
        with torch.inference_mode(), self.autocast():
            vectors: Tensor = self.model(batch.to(self.device))
        return vectors.float()

    def _linear_logits(self, new: NewBatch) -> Tensor | None:
        """What a linear model beside the trained one says [n, C], by whole texts."""
        if self.head.ensemble is None:
            return None
        text = self._pack(new.texts, whole=True)
        given = (part.to(self.device) for part in (text, new.src, new.dst))
        linear: Tensor = self.head.ensemble(*given)
        return linear

    def _names_of(self, found: Predictions) -> list[Any]:
        if self.head.kind == "number":
            return [float(value) for value in found.value]
        if self.head.kind == "multi":
            table = found.value.numpy()
            return [[self.label_names[i] for i in np.flatnonzero(row)] for row in table]
        return [self.label_names[int(value)] for value in found.value]
