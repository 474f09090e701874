"""FittedEdgeClassifier: predicts, embeds and evaluates edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.config import EdgeSettings
from edgeformers.data.batch import UNKNOWN, EdgeBatch
from edgeformers.data.loader import EdgeLoader
from edgeformers.data.readers.sources import is_frame
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.types import Ids, Mask, Side
from edgeformers.errors import InputError
from edgeformers.evaluation import f1_intervals
from edgeformers.evaluation.beyond_accuracy import calibration, expected_calibration_error
from edgeformers.inference.encode import Vectors, encode_edges
from edgeformers.inference.fitted import FittedModel
from edgeformers.inference.word_attention import AttendedText
from edgeformers.models.edge_head import EdgeHead, Kind, Predictions

Edges = Any  # edge numbers, a table, or a list of (source, target, text)
InputKind = Literal["both", "text", "nodes"]
NewBatch = tuple[list[str | None], Tensor, Tensor]  # texts, sources and targets; -1 is unknown


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FittedEdgeClassifier(FittedModel[EdgeLoader]):
    """An edge model with a head for classes, several labels, ordered classes or numbers.

    Shapes: n edges, C classes, D width.
    """

    head: EdgeHead

    def head_tensors(self) -> dict[str, Tensor]:
        return self.head.state_dict()

    @property
    def select_metric(self) -> str:
        """The validation metric by which epochs and settings are chosen."""
        return self.config.train.select_metric or self.head.primary_metric

    def evaluate(self, part: str = "test", *, intervals: bool = True) -> dict[str, Any]:
        """Metrics on a part of the split the model was fitted with, with 95 % intervals of F1."""
        edges = self.network.part(part)
        predictions = self.predict_known(edges)
        metrics: dict[str, Any] = self.head.metrics(predictions, self.labels_of(edges))
        if intervals and self.head.kind in ("class", "ordered"):
            truth, value = self.labels_of(edges).numpy(), predictions.value.numpy()
            metrics |= f1_intervals(truth, value, self.config.train.seed)
            assert predictions.probs is not None
            known = truth >= 0
            curve = calibration(predictions.probs.numpy()[known], truth[known])
            metrics["ece"] = expected_calibration_error(curve)
            metrics["calibration"] = {**curve, "temperature": float(self.head.temperature)}
        self.results[part] = metrics
        return metrics

    def labels_of(self, edge_ids: Ids) -> Tensor:
        """The labels of edges of the network, as the head takes them."""
        assert self.network.graph.labels is not None
        labels = torch.from_numpy(np.asarray(self.network.graph.labels[edge_ids]))
        return labels if labels.is_floating_point() else labels.long()

    def predict(self, /, edges: Edges = None, **columns: Any) -> list[Any]:
        """The label of each edge: of the test part, of edge numbers, or of new edges.

        New edges are a data frame (name its columns as for `read_edges`) or a list of (source,
        target, text). Edges of unknown nodes are classified by their text. What else a model
        reads around known nodes comes from the network it was fitted on.
        """
        return self.label_values(self.predictions(edges, **columns))

    def predict_proba(self, /, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """Probabilities [n, C], in the order of `label_names`."""
        probs = self.predictions(edges, **columns).probs
        if probs is None:
            raise InputError("a model of numbers has no probabilities; use predict")
        return probs.numpy()

    def predictions(self, /, edges: Edges = None, **columns: Any) -> Predictions:
        """Labels and probabilities as tensors, of edges given as for `predict`."""
        if (numbers := self._edge_numbers(edges)) is not None:
            return self.predict_known(numbers)
        return self._predict_new(self._new_batches(edges, columns))

    def compare_inputs(self, /, edges: Edges, **columns: Any) -> dict[InputKind, Predictions]:
        """Predictions of new edges from all they have, their texts alone, and their nodes alone.

        Without its nodes, an edge is one of unknown nodes; without its text, its text is empty.
        """
        batches = self._new_batches(edges, columns)
        kinds: dict[InputKind, list[NewBatch]] = {
            "both": batches,
            "text": [(texts, _unknown(src), _unknown(dst)) for texts, src, dst in batches],
            "nodes": [([None] * len(texts), src, dst) for texts, src, dst in batches],
        }
        return {kind: self._predict_new(own) for kind, own in kinds.items()}

    def word_attention(self, /, edges: Edges, **columns: Any) -> list[AttendedText]:
        """Where the model looked in the texts of new edges, given as for `predict`."""
        found: list[AttendedText] = []
        for texts, src, dst in self._new_batches(edges, columns):
            batch = EdgeBatch(text=self.pack(texts), src=src, dst=dst)
            found += self._attended(batch, [("", text or "") for text in texts])
        return found

    def _predict_new(self, batches: Sequence[NewBatch]) -> Predictions:
        parts, logits = [], None
        with torch.inference_mode():
            for texts, src, dst in batches:
                if self.head.ensemble is not None:  # reads full texts
                    full = (self.pack(texts, full=True), src, dst)
                    logits = self.head.ensemble(*(part.to(self.device) for part in full))
                parts.append(self.head.predict(self._encode_new(texts, src, dst), logits))
            return Predictions.cat(parts)

    def predict_known(self, edge_ids: Ids) -> Predictions:
        """The head's output for edges of the network."""
        vectors = torch.from_numpy(self.encode_known(edge_ids)).to(self.device)
        self.head.eval()
        with torch.inference_mode():
            linear = self.linear_logits(edge_ids)
            return Predictions.cat([self.head.predict(vectors, linear)])

    def embed_edges(self, /, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """edge_repr [n, D] of edges given as for `predict`."""
        if (numbers := self._edge_numbers(edges)) is not None:
            return self.encode_known(numbers)
        parts = [self._encode_new(*batch) for batch in self._new_batches(edges, columns)]
        return torch.cat(parts).cpu().numpy()

    def encode_known(self, edge_ids: Ids) -> Vectors:
        """edge_repr [n, D] of edges of the network."""
        network = self.network

        def encode(ids: Ids) -> Vectors:
            return encode_edges(self.model, network.loader, ids, self.options)

        if network.vectors is None:
            return encode(edge_ids)
        return network.vectors.vectors("edges", edge_ids, network.graph.num_edges, encode)

    @torch.inference_mode()
    def linear_logits(self, edge_ids: Ids) -> Tensor | None:
        """Logits [n, C] of the linear model for edges of the network; None without one."""
        if (linear := self.head.ensemble) is None:
            return None
        parts = [linear.source.new_empty(0, linear.source.size(1))]
        for at in range(0, len(edge_ids), self.options.batch):
            ids = edge_ids[at : at + self.options.batch]
            batch = self.network.loader.untruncated(ids).to(self.device)
            parts.append(linear(batch.text, batch.src, batch.dst))
        return torch.cat(parts)

    def label_values(self, predictions: Predictions) -> list[Any]:
        """Predictions as labels: names, lists of names, or numbers."""
        if self.head.kind == "number":
            return [float(value) for value in predictions.value]
        if self.head.kind == "multi":
            table = predictions.value.numpy()
            return [[self.label_names[i] for i in np.flatnonzero(row)] for row in table]
        return [self.label_names[int(value)] for value in predictions.value]

    def extra(self) -> dict[str, Any]:
        return {**super().extra(), "kind": self.head.kind}

    def _edge_numbers(self, edges: Edges) -> Ids | None:
        """Edges of the network, if that is what was given."""
        if edges is None:
            return self.network.part("test")
        is_array = isinstance(edges, np.ndarray) and edges.dtype.kind in "iu" and edges.ndim == 1
        is_list = (
            isinstance(edges, list | tuple) and edges and isinstance(edges[0], int | np.integer)
        )
        if not (is_array or is_list or isinstance(edges, range)):
            return None
        numbers, count = np.asarray(edges, np.int64), self.network.graph.num_edges
        if outside := numbers[(numbers < 0) | (numbers >= count)].tolist():
            raise InputError(f"edges are numbered 0 to {count - 1:,} (got {outside[0]:,})")
        return numbers

    def _new_batches(self, edges: Edges, columns: dict[str, Any]) -> list[NewBatch]:
        """New edges in batches; at least one, which may be empty."""
        if is_frame(edges) or isinstance(edges, str | PathLike):
            table = read_edges(edges, **columns).to_arrow()
            sources, targets, texts = (table[n].to_pylist() for n in ("source", "target", "text"))
        else:
            for row in (rows := list(edges)):
                if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 3:
                    raise InputError(f"new edges must be (source, target, text) (got {row!r})")
            sources, targets, texts = ([row[i] for row in rows] for i in range(3))
        src = torch.from_numpy(self.nodes.numbers(sources, "source"))
        dst = torch.from_numpy(self.nodes.numbers(targets, "target"))
        starts = range(0, max(1, len(texts)), self.options.batch)
        parts = [slice(at, at + self.options.batch) for at in starts]
        return [(texts[part], src[part], dst[part]) for part in parts]

    def _encode_new(self, texts: list[str | None], src: Tensor, dst: Tensor) -> Tensor:
        """[n, D]"""
        edges = EdgeBatch(text=self.pack(texts), src=src, dst=dst)
        if not len(edges):
            return torch.empty(0, self.width, device=self.device)
        if not self.entry.context:
            return self.options.encode(self.model, edges)
        batch = self.network.loader.with_context(edges, without=self._removed)
        return self.options.encode(self.model, batch)

    def remove_edges(self, node: str, side: Side | None = None) -> None:
        """Do not read the edges of a node on a side (by default on both) as context any more.

        What was learned from them stays until the next training.
        """
        one_type = not self.network.graph.is_bipartite
        for each in get_args(Side) if one_type or side is None else [side]:
            (number,) = self.nodes.numbers([node], each).tolist()
            if number >= 0:
                self._removed[self.network.graph.adjacency.edges_of(number)] = True

    @cached_property
    def _removed(self) -> Mask:
        return np.zeros(self.network.graph.num_edges, bool)


def _unknown(nodes: Tensor) -> Tensor:
    return torch.full_like(nodes, UNKNOWN)


def head_settings(settings: EdgeSettings, kind: Kind) -> dict[str, Any]:
    """The arguments of an EdgeHead that settings determine."""
    return {
        "loss": settings.loss if kind == "class" else None,
        "label_smoothing": settings.label_smoothing,
        "rdrop": settings.rdrop,
        "dropout": settings.dropout,
    }


def tune_decision(fitted: FittedEdgeClassifier, vectors: Tensor) -> None:
    """Choose the head's preference for rare classes on validation edges with these vectors."""
    head, parts = fitted.head, fitted.network.parts
    if head.kind != "class":
        return
    counts = torch.bincount(fitted.labels_of(parts["train"]), minlength=head.num_classes)
    frequencies = (counts / counts.sum()).to(fitted.device)
    truth, linear = fitted.labels_of(parts["val"]), fitted.linear_logits(parts["val"])
    head.tune_decision(vectors.to(fitted.device), truth, frequencies, fitted.select_metric, linear)


def calibrate(fitted: FittedEdgeClassifier, vectors: Tensor) -> None:
    """Choose the temperature of the head's probabilities on validation edges with these vectors."""
    head, edges = fitted.head, fitted.network.parts["val"]
    if head.kind == "class":
        truth = fitted.labels_of(edges).to(vectors.device)
        head.tune_temperature(vectors, truth, fitted.linear_logits(edges))
