"""FittedEdgeClassifier: predicts, embeds and evaluates edges.

Next to it, `fit_linear_model` fits the linear model of words and nodes that it is combined with.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.config import EdgeSettings
from edgeformers.data.batch import UNKNOWN, EdgeBatch
from edgeformers.data.loader import EdgeLoader
from edgeformers.data.readers.sources import is_frame
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.types import Floats, Ids, Mask, Side
from edgeformers.errors import InputError
from edgeformers.evaluation import f1_intervals
from edgeformers.evaluation.beyond_accuracy import calibration, expected_calibration_error
from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.inference.encode import Vectors, encode_edges
from edgeformers.inference.fitted import FittedModel
from edgeformers.inference.word_attention import AttendedText
from edgeformers.models.edge_head import EdgeHead, Kind, Predictions
from edgeformers.models.linear_edge_model import LinearEdgeModel
from edgeformers.nn.bag_of_words import BagOfWords

if TYPE_CHECKING:
    from scipy import sparse

MAX_EDGES = 200_000  # training edges; above, fitting takes minutes
MAX_WEIGHTS = 5_000_000  # of words and nodes for all classes; more take gigabytes to fit
WORDS = 20_000
INVERSE_PENALTY = 5.0  # C of scikit-learn
ITERATIONS = 300
CHUNK = 8_192  # edges whose words are counted at once
SHARES = (0.5, 0.35, 0.65, 0.2, 0.8, 0.0)  # of the linear model; the first of equal ones is used

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


def fit_linear_model(
    fitted: FittedEdgeClassifier, vectors: Tensor, metric: str
) -> LinearEdgeModel | None:
    """Fit a logistic regression on training edges; choose its share of decisions on validation.

    `vectors` are those of the validation edges. The head gets the model as its `ensemble`. None
    if it does not help, if edges do not have one class each, or if the network is too large.
    """
    head, network = fitted.head, fitted.network
    train, val = network.parts["train"], network.parts["val"]
    ends = (network.graph.src[train], network.graph.dst[train])
    weights = (WORDS + sum(len(np.unique(nodes)) for nodes in ends)) * head.num_classes
    is_small = len(train) <= MAX_EDGES and weights <= MAX_WEIGHTS
    if head.kind not in ("class", "ordered") or not is_small:
        return None
    class_weights = head.class_weights.cpu().double().numpy()
    linear = _fit(network.loader, train, class_weights).to(fitted.device)
    head.ensemble = linear
    logits, labels = fitted.linear_logits(val), fitted.labels_of(val)
    scores = {}
    for share in SHARES:
        linear.share.fill_(share)
        with torch.inference_mode():
            scores[share] = head.metrics(head.predict(vectors, logits), labels)[metric]
    sign = -1 if metric in SMALLER_IS_BETTER else 1
    best = max(SHARES, key=lambda share: sign * scores[share])
    linear.share.fill_(best)
    head.ensemble = linear if best else None
    return head.ensemble


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


def _fit(loader: EdgeLoader, edges: Ids, class_weights: Floats) -> LinearEdgeModel:
    """The logistic regression on words and nodes of edges, with weighted classes [C]."""
    from scipy import sparse

    graph, classes = loader.graph, len(class_weights)
    counts = loader.tokens.count_documents(edges, loader.tokens.max_tokens)
    bag = BagOfWords.from_counts(counts, len(edges), words=WORDS, width=classes)
    ends = [np.unique(nodes[edges], return_inverse=True) for nodes in (graph.src, graph.dst)]
    features = sparse.hstack(
        [
            _word_features(bag, loader, edges),
            *(sparse.eye_array(len(nodes), format="csr")[columns] for nodes, columns in ends),
        ],
        "csr",
    )
    labels = np.asarray(graph.labels)[edges].astype(np.int64)
    weights, bias = logistic_regression(features, labels, class_weights)
    words, *node_weights = np.split(weights, np.cumsum([bag.config.words, len(ends[0][0])]))
    with torch.no_grad():
        bag.table.copy_(torch.from_numpy(words))
        bag.bias.copy_(torch.from_numpy(bias))
    tables = []
    for (nodes, _), rows in zip(ends, node_weights, strict=True):
        table = torch.zeros(graph.num_nodes, classes)
        table[torch.from_numpy(nodes.astype(np.int64))] = torch.from_numpy(rows).float()
        tables.append(table)
    return LinearEdgeModel(bag, *tables)


def logistic_regression(
    features: "sparse.csr_array", labels: NDArray[np.int64], class_weights: Floats
) -> tuple[Floats, Floats]:
    """Multinomial logistic regression: weights [F, C] with an L2 penalty, and biases [C].

    A class that does not occur has weights of 0 and a low bias.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression  # takes a second to import

    present, target = np.unique(labels, return_inverse=True)
    weights, bias = np.zeros((features.shape[1], len(class_weights))), np.zeros(len(class_weights))
    if len(present) > 1:
        # With two classes, scikit-learn fits their difference, which it penalizes twice as much.
        is_binary = len(present) == 2
        model = LogisticRegression(
            C=INVERSE_PENALTY * (1 + is_binary), max_iter=ITERATIONS, tol=1e-5
        )
        weight = class_weights[labels] / class_weights[labels].mean()
        with warnings.catch_warnings():  # validation decides what it is worth, converged or not
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(features, target, sample_weight=weight)
        coefficients, intercepts = model.coef_, model.intercept_
        if is_binary:
            coefficients, intercepts = (
                np.concatenate([-half, half]) for half in (coefficients / 2, intercepts / 2)
            )
        weights[:, present], bias[present] = coefficients.T, intercepts
    bias[np.setdiff1d(np.arange(len(bias)), present)] = bias.min() - 10.0
    return weights, bias


def _word_features(bag: BagOfWords, loader: EdgeLoader, edges: Ids) -> "sparse.csr_array":
    """The tf-idf vectors of full texts, sparse [n, W]."""
    from scipy import sparse

    parts = []
    for at in range(0, len(edges), CHUNK):
        text = loader.untruncated(edges[at : at + CHUNK]).text
        columns, weights = bag.tfidf_weights(text)
        known = columns >= 0
        cells = (text.text_ids[known].numpy(), columns[known].numpy())
        shape = (text.num_texts, bag.config.words)
        parts.append(sparse.csr_array((weights[known].double().numpy(), cells), shape=shape))
    return sparse.vstack(parts, "csr")
