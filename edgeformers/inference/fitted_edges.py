"""FittedEdgeClassifier: predicts, embeds and evaluates edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.config import EdgeSettings, RunConfig
from edgeformers.data.batch import EdgeBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EdgeLoader
from edgeformers.data.readers.sources import is_frame
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.evaluation import f1_intervals
from edgeformers.inference.encode import EncodeOptions, Vectors, encode_edges
from edgeformers.inference.fitted import FittedModel, saved_fields
from edgeformers.inference.network import AttachedNetwork, attach_edges
from edgeformers.inference.saved_model import SavedModel
from edgeformers.models.edge_head import EdgeHead, Kind, Predictions
from edgeformers.models.linear_edge_model import LinearEdgeModel
from edgeformers.registry import find_entry, model_name

Edges = Any  # edge numbers, a table, or a list of (source, target, text)


@dataclass(frozen=True, kw_only=True)
class _TextBatch:
    """Texts of new edges and the numbers of their nodes; an unknown node is -1."""

    texts: list[str | None]
    src: Tensor
    dst: Tensor


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FittedEdgeClassifier(FittedModel[EdgeLoader]):
    """An edge model with a head for classes, several labels, ordered classes or numbers.

    Shapes: n edges, C classes, D width.
    """

    head: EdgeHead

    @classmethod
    def from_saved(cls, saved: SavedModel, config: RunConfig, options: EncodeOptions) -> Self:
        """The classifier in a saved model."""
        fields, kind = saved_fields(saved, options), saved.extra["kind"]
        classes = 1 if kind == "number" else len(saved.label_names)
        width = int(saved.model.width)  # type: ignore[arg-type]
        head = EdgeHead(width, classes, kind=kind, **head_settings(config.edges, kind))
        head.ensemble = LinearEdgeModel.from_tensors(saved.head)
        head.load_state_dict(saved.head)
        return cls(config=config, head=head.to(options.device).eval(), **fields)

    def head_tensors(self) -> dict[str, Tensor]:
        return self.head.state_dict()

    @property
    def select_metric(self) -> str:
        """The validation metric by which epochs and settings are chosen."""
        return self.config.train.select_metric or self.head.primary_metric

    def evaluate(self, part: str = "test", *, intervals: bool = True) -> dict[str, Any]:
        """Metrics on a part of the split, with 95 % intervals of F1; kept in `results`."""
        edges = self.network.part(part)
        predictions = self.predict_known(edges)
        metrics: dict[str, Any] = self.head.metrics(predictions, self.labels_of(edges))
        if intervals and self.head.kind in ("class", "ordered"):
            truth, value = self.labels_of(edges).numpy(), predictions.value.numpy()
            metrics |= f1_intervals(truth, value, self.config.train.seed)
        self.results[part] = metrics
        return metrics

    def labels_of(self, edge_ids: Ids) -> Tensor:
        """The labels of edges of the network, as the head takes them."""
        assert self.network.graph.labels is not None
        labels = torch.from_numpy(np.asarray(self.network.graph.labels[edge_ids]))
        return labels if labels.is_floating_point() else labels.long()

    def predict(self, edges: Edges = None, **columns: Any) -> list[Any]:
        """The label of each edge: of the test part, of edge numbers, or of new edges."""
        return self.label_values(self.predictions(edges, **columns))

    def predict_proba(self, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """Probabilities [n, C], in the order of `label_names`."""
        probs = self.predictions(edges, **columns).probs
        if probs is None:
            raise InputError("a model of numbers has no probabilities; use predict")
        return probs.numpy()

    def predictions(self, edges: Edges = None, **columns: Any) -> Predictions:
        """The head's output for edges given as for `predict`."""
        if (numbers := self._edge_numbers(edges)) is not None:
            return self.predict_known(numbers)
        with torch.inference_mode():
            return Predictions.cat(
                [
                    self.head.predict(self._encode_new(batch), self._linear_logits(batch))
                    for batch in self._new_batches(edges, columns)
                ]
            )

    def predict_known(self, edge_ids: Ids) -> Predictions:
        """The head's output for edges of the network."""
        vectors = torch.from_numpy(self.encode_known(edge_ids)).to(self.device)
        self.head.eval()
        with torch.inference_mode():
            linear = self.linear_logits(edge_ids)
            return Predictions.cat([self.head.predict(vectors, linear)])

    def embed_edges(self, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """edge_repr [n, D] of edges given as for `predict`."""
        if (numbers := self._edge_numbers(edges)) is not None:
            return self.encode_known(numbers)
        parts = [self._encode_new(batch) for batch in self._new_batches(edges, columns)]
        return torch.cat(parts).cpu().numpy()

    def encode_known(self, edge_ids: Ids) -> Vectors:
        """edge_repr [n, D] of edges of the network."""
        return encode_edges(self.model, self.network.loader, edge_ids, **vars(self.options))

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

    @property
    def _reads_context(self) -> bool:
        return find_entry(model_name(self.model)).context

    def _attach(self, graph: EdgeTextGraph, tokens: TokenStore) -> AttachedNetwork[EdgeLoader]:
        return attach_edges(self.config, graph, tokens, context=self._reads_context)

    def _extra(self) -> dict[str, Any]:
        return {**super()._extra(), "kind": self.head.kind}

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

    def _new_batches(self, edges: Edges, columns: dict[str, Any]) -> list[_TextBatch]:
        """New edges in batches; at least one, which may be empty."""
        sources, targets, texts = _new_columns(edges, columns)
        src = torch.from_numpy(self.nodes.numbers(sources, "source"))
        dst = torch.from_numpy(self.nodes.numbers(targets, "target"))
        return [
            _TextBatch(texts=texts[rows], src=src[rows], dst=dst[rows])
            for at in range(0, max(1, len(texts)), self.options.batch)
            for rows in [slice(at, at + self.options.batch)]
        ]

    def _encode_new(self, new: _TextBatch) -> Tensor:
        """[n, D]"""
        edges = EdgeBatch(text=self.pack(new.texts), src=new.src, dst=new.dst)
        if not len(edges):
            return torch.empty(0, self.width, device=self.device)
        batch = self.network.loader.with_context(edges) if self._reads_context else edges
        with torch.inference_mode(), self.options.autocast():
            vectors: Tensor = self.model(batch.to(self.device))
        return vectors.float()

    def _linear_logits(self, new: _TextBatch) -> Tensor | None:
        """Logits [n, C] of the linear model, which reads full texts; None without one."""
        if self.head.ensemble is None:
            return None
        text = self.pack(new.texts, full=True)
        logits: Tensor = self.head.ensemble(
            *(part.to(self.device) for part in (text, new.src, new.dst))
        )
        return logits


def head_settings(settings: EdgeSettings, kind: Kind) -> dict[str, Any]:
    """The arguments of an EdgeHead that settings determine."""
    return {
        "loss": settings.loss if kind == "class" else None,
        "label_smoothing": settings.label_smoothing,
        "rdrop": settings.rdrop,
        "dropout": settings.dropout,
    }


def _new_columns(edges: Edges, columns: dict[str, Any]) -> tuple[list[Any], ...]:
    """Sources, targets and texts of new edges, from a list or a table."""
    if is_frame(edges) or isinstance(edges, str | PathLike):
        table = read_edges(edges, **columns).to_arrow()
        return tuple(table.column(name).to_pylist() for name in ("source", "target", "text"))
    rows = list(edges)
    for row in rows:
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 3:
            raise InputError(f"new edges must be (source, target, text) (got {row!r})")
    return tuple([row[i] for row in rows] for i in range(3))
