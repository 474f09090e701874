"""What edge baselines share: labeled edges, one-hot nodes, and a logistic regression over them."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.baselines.base import GridTrial, best_setting, grid_search
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import TRAIN, VAL
from edgeformers.data.types import Ids
from edgeformers.errors import InputError, require

MANY_EDGES = 200_000  # training edges above which the regression is fitted by stochastic gradients
STEPS, EPOCHS = 1000, 20  # at most, of L-BFGS and of stochastic gradients


@dataclass(frozen=True, kw_only=True)
class LabeledParts:
    """The edges to learn from and to choose settings on, with their classes."""

    train: Ids
    train_labels: Ids
    val: Ids
    val_labels: Ids


def labeled_parts(graph: EdgeTextGraph, split: str) -> LabeledParts:
    """Training and validation edges whose class is known; training must have two classes."""
    graph.verify()
    train, val = (labeled_edges(graph, split, part) for part in (TRAIN, VAL))
    labels = np.asarray(graph.labels, np.int64)
    found = np.unique(labels[train])
    if len(found) < 2:
        names = ", ".join(graph.label_names[code] for code in found) or "none"
        raise InputError(
            f"the training edges of the split '{split}' of {graph.path} have fewer than two "
            f"classes ({names}); there is nothing to tell apart"
        )
    return LabeledParts(train=train, train_labels=labels[train], val=val, val_labels=labels[val])


def labeled_edges(graph: EdgeTextGraph, split: str, part: int) -> Ids:
    """The edges of a part whose class is known."""
    if graph.labels is None or graph.label_kind != "class":
        kind = {"multi": "several labels", "number": "a number"}.get(graph.label_kind or "", "none")
        raise InputError(
            f"an edge baseline needs one class per edge; {graph.path} has {kind}; "
            "prepare it with a column of classes as its label"
        )
    return np.flatnonzero((graph.split(split) == part) & (graph.labels >= 0))


def validation_f1(model: Any, features: Any, labels: Ids) -> float:
    """Macro-F1 of a fitted model on validation; nan where there is nothing to try on."""
    if not len(labels):
        return float("nan")
    metrics = require("sklearn.metrics", "baselines")
    predicted = model.predict(features)
    return float(metrics.f1_score(labels, predicted, average="macro", zero_division=0))


def spread_classes(table: NDArray[Any], classes: Ids, num_classes: int) -> NDArray[np.float64]:
    """[n, classes seen in training] -> [n, C]; a class that training never showed has 0."""
    spread = np.zeros((len(table), num_classes))
    spread[:, classes] = table
    return spread


class NodeColumns:
    """One-hot features of an edge's two ends; a node that training has not seen has none.

    Where source and target are one kind of node and edges have a direction, a node has one column
    as a source and another as a target.
    """

    def __init__(self, graph: EdgeTextGraph, split: str) -> None:
        seen = np.flatnonzero(graph.splits.seen_in_training(split))
        self.source = np.full(graph.num_nodes, -1)
        self.source[seen] = np.arange(len(seen))
        both = graph.is_directed and not graph.is_bipartite
        self.target = np.where(self.source >= 0, self.source + both * len(seen), -1)
        self.width = len(seen) * (2 if both else 1)
        self.graph = graph

    def of(self, edges: Ids) -> Any:
        """[n] edges -> sparse ones [n, width]."""
        graph = self.graph
        columns = np.concatenate([self.source[graph.src[edges]], self.target[graph.dst[edges]]])
        rows = np.tile(np.arange(len(edges)), 2)
        known = columns >= 0
        ones = np.ones(np.count_nonzero(known), np.float32)
        sparse = require("scipy.sparse", "baselines")
        shape = (len(edges), self.width)
        return sparse.csr_array((ones, (rows[known], columns[known])), shape=shape)


class ClassifiedEdges(ABC):
    """What a fitted classifier of scikit-learn says of edges; a baseline says what it reads."""

    graph: EdgeTextGraph
    _model: Any

    @abstractmethod
    def _features(self, edges: Ids) -> Any:
        """The features of at least one edge [n, F], dense or sparse."""

    def predict_proba(self, edge_ids: ArrayLike) -> NDArray[np.float64]:
        """[n] edges -> [n, C]; a class that training never showed has probability 0."""
        edges = np.asarray(edge_ids, np.int64)
        classes = len(self.graph.label_names)
        if not len(edges):
            return np.zeros((0, classes))
        table = self._model.predict_proba(self._features(edges))
        return spread_classes(table, self._model.classes_, classes)

    def predict(self, edge_ids: ArrayLike) -> Ids:
        """The likeliest class of each edge."""
        return np.asarray(self.predict_proba(edge_ids).argmax(axis=1))


class LogisticEdges(ClassifiedEdges):
    """Logistic regression over features of edges; a baseline says what these are.

    C is chosen from a grid by Macro-F1 on validation. Up to 200,000 training edges the regression
    is multinomial and solved to the optimum (L-BFGS). Above, where that takes many minutes for
    each C, it is one class against the rest by averaged stochastic gradients: much faster, and a
    little behind.
    """

    def __init__(self, *, inverse_penalties: Sequence[float], many_edges: int, seed: int) -> None:
        self.inverse_penalties = inverse_penalties
        self.many_edges = many_edges
        self.seed = seed
        self.trials: list[GridTrial[float]] = []
        self.setting: dict[str, Any] = {}

    @abstractmethod
    def _learn(self, split: str, train: Ids) -> Any:
        """Learn what features are; gives those of the training edges [n, F]."""

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Learn from the training edges that have a label."""
        parts = labeled_parts(graph, split)
        self.graph = graph
        features = self._learn(split, parts.train)
        held = self._features(parts.val) if len(parts.val) else None
        solver = "lbfgs" if len(parts.train) <= self.many_edges else "sgd"
        self._model, self.trials = grid_search(
            self.inverse_penalties,
            lambda inverse: self._regress(solver, features, parts.train_labels, inverse),
            lambda model: validation_f1(model, held, parts.val_labels),
        )
        self.setting = {"C": best_setting(self.trials), "solver": solver}
        return self

    def _regress(self, solver: str, features: Any, labels: Ids, inverse: float) -> Any:
        linear = require("sklearn.linear_model", "baselines")
        if solver == "lbfgs":
            model = linear.LogisticRegression(C=inverse, max_iter=STEPS)
        else:
            model = linear.SGDClassifier(
                loss="log_loss",
                alpha=1 / (inverse * len(labels)),
                average=True,
                max_iter=EPOCHS,
                random_state=self.seed,
            )
        limit = require("sklearn.exceptions", "baselines").ConvergenceWarning
        with warnings.catch_warnings():  # a model that stops at its limit of steps is as good
            warnings.simplefilter("ignore", limit)
            return model.fit(features, labels)
