"""EdgeClassifier: learns what edges are from their words and their nodes."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from edgeformers.config import Task
from edgeformers.data.batch import EdgeBatch
from edgeformers.data.loader import EdgeLoader, Ids
from edgeformers.data.readers.sources import as_frame
from edgeformers.data.readers.tables import read_edges
from edgeformers.errors import InputError
from edgeformers.estimators.base import Estimator, Network, write_results
from edgeformers.evaluation import bootstrap_f1
from edgeformers.models.io import SavedModel
from edgeformers.tasks.edge_classification import EdgeTask, Predictions
from edgeformers.train.edge_objective import EdgeObjective, labelled_parts
from edgeformers.train.encode import encode_edges

Average = Literal["macro", "micro"]
Edges = Any  # edge numbers, a frame, or a list of (source, target, text)


class EdgeClassifier(Estimator):
    """Classes, several labels, ordered classes or numbers of edges, by Edgeformer-E.

    classifier = EdgeClassifier().fit("network")
    classifier.evaluate()
    classifier.predict([("ada", "tent", "Too small for two.")])
    """

    task: Task = "edge-classification"
    head: EdgeTask

    def fit(
        self, network: Network, *, run: str | PathLike[str] | None = None, **columns: Any
    ) -> Self:
        """Learn from a prepared network, its path, or a frame whose `columns` are named.

        With `run`, a folder, everything is logged and checkpointed there, and a run that was
        interrupted goes on where it stopped.
        """
        graph = self._open(network, columns)
        split = self._split(graph, "edge")
        tokens = self._build(graph, split, "edgeformer-e")
        loader = EdgeLoader(graph=graph, tokens=tokens, max_tokens=self.config.data.max_tokens)
        parts = labelled_parts(loader, split)
        self.label_names = list(graph.label_names)
        self.head = self._make_head(graph.labels[parts["train"]], graph.label_kind)  # type: ignore[index]
        train = self.config.train
        self.objective = EdgeObjective(
            self.model,
            self.head,
            loader,
            parts,
            device=self.device,
            batch_size=train.batch_size,
            seed=train.seed,
            autocast=self.autocast,
            eval_batch=train.eval_batch,
            select=train.select,
        )
        self._train(self.objective, run)
        if run is not None:
            self.save(Path(run).expanduser() / "model")
        return self

    def evaluate(self, part: str = "test", *, intervals: bool = True) -> dict[str, Any]:
        """Metrics on a part of the split the model was fitted with, with 95 % intervals of F1."""
        objective = self._objective()
        edges = objective.parts[part]
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
        target, text); nodes never met are read from the text alone.
        """
        return self._names_of(self._predictions(edges, columns))

    def predict_proba(self, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """Probabilities [n, C], in the order of `label_names`."""
        found = self._predictions(edges, columns)
        if found.probs is None:
            raise InputError("a model of numbers has no probabilities; call predict")
        return found.probs.numpy()

    def embed_edges(self, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """edge_repr [n, D] of edges given as for `predict`."""
        self._require_fitted()
        if (numbers := self._edge_numbers(edges)) is not None:
            objective = self._objective()
            return encode_edges(
                self.model,
                objective.loader,
                numbers,
                device=self.device,
                autocast=self.autocast,
                batch=self.config.train.eval_batch,
                show=self.show,
            )
        parts = [self._encode_new(batch) for batch in self._new_batches(edges, columns)]
        return np.concatenate(parts) if parts else np.empty((0, self._width()), np.float32)

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the model as one folder that `edgeformers.load` reads."""
        self._require_fitted()
        return self._save(folder, self.label_names, {"kind": self.head.kind, "task": self.task})

    def write_results(self, run: str | PathLike[str]) -> None:
        """results.json with what `evaluate` found."""
        write_results(Path(run).expanduser(), self.results)

    @classmethod
    def from_saved(cls, saved: SavedModel, *, device: Any = None) -> Self:
        made = super().from_saved(saved, device=device)
        made.label_names = list(saved.label_names)
        kind = saved.extra["kind"]
        count = 1 if kind == "number" else len(saved.label_names)
        made.head = EdgeTask(made._width(), count, kind=kind)
        made.head.load_state_dict(saved.head)
        made.head.to(made.device).eval()
        return made

    def _make_head(self, labels: NDArray[Any], kind: str | None) -> EdgeTask:
        settings = self.config.edges
        chosen = settings.kind or kind or "class"
        balanced = "balanced" if settings.class_weights == "balanced" else None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.train.seed)
            head = EdgeTask.for_labels(
                torch.from_numpy(
                    np.asarray(labels, np.int64 if labels.dtype.kind == "i" else None)
                ),
                self._width(),
                None if chosen == "number" else len(self.label_names),
                kind=chosen,  # type: ignore[arg-type]
                class_weights=balanced,  # type: ignore[arg-type]
                loss=settings.loss if chosen == "class" else None,
                label_smoothing=settings.label_smoothing,
                dropout=settings.dropout,
            )
        return head.to(self.device)

    def _width(self) -> int:
        return int(self.model.width)  # type: ignore[arg-type]

    def _objective(self) -> EdgeObjective:
        self._require_fitted()
        if not hasattr(self, "objective"):
            raise InputError("a loaded model knows no network; give the edges, or fit it")
        return self.objective

    def _edge_numbers(self, edges: Edges) -> Ids | None:
        """Edges of the fitted network, where that is what was given."""
        if edges is None:
            return self._objective().parts["test"]
        if isinstance(edges, np.ndarray | range):
            return np.asarray(edges, np.int64)
        whole = (
            isinstance(edges, Sequence) and len(edges) and isinstance(edges[0], int | np.integer)
        )
        return np.asarray(edges, np.int64) if whole else None

    def _predictions(self, edges: Edges, columns: dict[str, Any]) -> Predictions:
        vectors = torch.from_numpy(self.embed_edges(edges, **columns)).to(self.device)
        with torch.inference_mode():
            return Predictions.cat([self.head.predict(vectors)])

    def _new_batches(self, edges: Edges, columns: dict[str, Any]) -> list[EdgeBatch]:
        if as_frame(edges) is None and not isinstance(edges, str | PathLike):
            rows = [tuple(edge) for edge in edges]
            if any(len(row) != 3 for row in rows):
                raise InputError("new edges are (source, target, text); give three of each")
            sources, targets, texts = (
                (list(one) for one in zip(*rows, strict=True)) if rows else ([], [], [])
            )
        else:
            table = read_edges(edges, **columns).to_arrow()
            sources, targets, texts = (
                table.column(name).to_pylist() for name in ("source", "target", "text")
            )
        src = self.names.numbers(sources, "source")
        dst = self.names.numbers(targets, "target")
        size = self.config.train.eval_batch
        return [
            EdgeBatch(
                text=self._pack(texts[at : at + size]),
                src=torch.from_numpy(src[at : at + size]),
                dst=torch.from_numpy(dst[at : at + size]),
            )
            for at in range(0, len(texts), size)
        ]

    def _encode_new(self, batch: EdgeBatch) -> NDArray[np.float32]:
        with torch.inference_mode(), self.autocast():
            vectors: NDArray[np.float32] = self.model(batch.to(self.device)).float().cpu().numpy()
        return vectors

    def _names_of(self, found: Predictions) -> list[Any]:
        if self.head.kind == "number":
            return [float(value) for value in found.value]
        if self.head.kind == "multi":
            table = found.value.numpy()
            return [[self.label_names[i] for i in np.flatnonzero(row)] for row in table]
        return [self.label_names[int(value)] for value in found.value]
