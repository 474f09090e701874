"""What edge baselines share: labeled edges, node one-hots, and a grid search over classifiers."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import GridTrial, Setting, best_setting, grid_search
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Floats, Ids, Ints
from edgeformers.errors import InputError
from edgeformers.evaluation.metrics import macro_f1
from edgeformers.evaluation.network_labels import labeled_edge_parts

LBFGS_EDGES = 200_000  # training edges up to which logistic regression is solved by L-BFGS
LBFGS_STEPS, SGD_EPOCHS = 1000, 20  # at most


@dataclass(frozen=True, kw_only=True)
class LabeledEdges:
    """Training and validation edges with their classes."""

    train: Ids
    train_labels: Ints
    val: Ids
    val_labels: Ints


def labeled_edges(graph: EdgeTextGraph, split: str) -> LabeledEdges:
    """Training and validation edges with a known class; training needs two classes."""
    graph.verify()
    if graph.labels is None or graph.label_kind != "class":
        kind = {"multi": "several labels", "number": "a number"}.get(graph.label_kind or "", "none")
        raise InputError(
            f"an edge baseline needs one class per edge, but {graph.path} has {kind}; "
            "prepare it with a column of classes as its label"
        )
    parts = labeled_edge_parts(graph, split, required=())
    train, val, labels = parts["train"], parts["val"], np.asarray(graph.labels, np.int64)
    classes = np.unique(labels[train])
    if len(classes) < 2:
        names = ", ".join(graph.label_names[code] for code in classes) or "none"
        raise InputError(
            f"the training edges of the split '{split}' of {graph.path} have fewer than two "
            f"classes ({names})"
        )
    return LabeledEdges(train=train, train_labels=labels[train], val=val, val_labels=labels[val])


class NodeOneHots:
    """One-hot features of both nodes of an edge; a node unseen in training has none.

    In a directed network with one node type, a node has one column as a source and another as a
    target.
    """

    def __init__(self, graph: EdgeTextGraph, split: str) -> None:
        seen = np.flatnonzero(graph.seen_in_training(split))
        self.source = np.full(graph.num_nodes, -1)
        self.source[seen] = np.arange(len(seen))
        has_roles = graph.is_directed and not graph.is_bipartite
        self.target = np.where(self.source >= 0, self.source + has_roles * len(seen), -1)
        self.width = len(seen) * (2 if has_roles else 1)
        self.graph = graph

    def columns(self, edges: Ids) -> tuple[Ids, Ids]:
        """The columns of the source and of the target of each edge; -1 if unseen."""
        return self.source[self.graph.src[edges]], self.target[self.graph.dst[edges]]

    def of(self, edges: Ids) -> Any:
        """[n] edges -> sparse [n, width]."""
        from scipy import sparse

        columns = np.concatenate(self.columns(edges))
        rows = np.tile(np.arange(len(edges)), 2)
        is_seen = columns >= 0
        ones = np.ones(np.count_nonzero(is_seen), np.float32)
        shape = (len(edges), self.width)
        return sparse.csr_array((ones, (rows[is_seen], columns[is_seen])), shape=shape)


class EdgeClassifierBaseline(ABC, Generic[Setting]):
    """A scikit-learn classifier of edge features, chosen from a grid by Macro-F1 on validation."""

    graph: EdgeTextGraph
    model: Any

    def __init__(self, grid: Sequence[Setting], *, seed: int) -> None:
        self.grid = grid
        self.seed = seed
        self.trials: list[GridTrial[Setting]] = []
        self.setting: dict[str, Any] = {}

    @abstractmethod
    def _train_features(self, split: str, edges: LabeledEdges) -> Any:
        """Fit whatever features depend on; return those of the training edges [n, F]."""

    @abstractmethod
    def _features(self, edges: Ids) -> Any:
        """The features of at least one edge [n, F], dense or sparse."""

    @abstractmethod
    def _classifier(self, setting: Setting, num_edges: int) -> Any:
        """An unfitted scikit-learn classifier for `num_edges` training edges."""

    @abstractmethod
    def _describe(self, setting: Setting, num_edges: int) -> dict[str, Any]:
        """The chosen setting by name."""

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Fit every setting of the grid on labeled training edges; keep the best on validation."""
        self.graph, edges = graph, labeled_edges(graph, split)
        train = self._train_features(split, edges)
        val = self._features(edges.val) if len(edges.val) else None

        def fit_one(setting: Setting) -> Any:
            from sklearn.exceptions import ConvergenceWarning

            with warnings.catch_warnings():  # stopping at the limit of steps is fine
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = self._classifier(setting, len(edges.train))
                return model.fit(train, edges.train_labels)

        def score(model: Any) -> float:
            return float("nan") if val is None else macro_f1(edges.val_labels, model.predict(val))

        self.model, self.trials = grid_search(self.grid, fit_one, score)
        self.setting = self._describe(best_setting(self.trials), len(edges.train))
        return self

    def predict_proba(self, edge_ids: ArrayLike) -> Floats:
        """[n] edges -> [n, C]; a class without training edges has probability 0."""
        edges = np.asarray(edge_ids, np.int64)
        table = np.zeros((len(edges), len(self.graph.label_names)))
        if len(edges):
            table[:, self.model.classes_] = self.model.predict_proba(self._features(edges))
        return table

    def predict(self, edge_ids: ArrayLike) -> Ints:
        """The most probable class of each edge."""
        return np.asarray(self.predict_proba(edge_ids).argmax(axis=1))


class LogisticEdgeBaseline(EdgeClassifierBaseline[float]):
    """Logistic regression over features of edges; the grid holds scikit-learn's C.

    With up to `lbfgs_edges` training edges the regression is multinomial and solved to the optimum
    by L-BFGS. With more, which would take many minutes for each C, it is one-vs-rest by averaged
    stochastic gradient descent: much faster and slightly less accurate.
    """

    def __init__(
        self, grid: Sequence[float], *, lbfgs_edges: int = LBFGS_EDGES, seed: int = 0
    ) -> None:
        super().__init__(grid, seed=seed)
        self.lbfgs_edges = lbfgs_edges

    def _classifier(self, setting: float, num_edges: int) -> Any:
        from sklearn.linear_model import LogisticRegression, SGDClassifier

        if num_edges <= self.lbfgs_edges:
            return LogisticRegression(C=setting, max_iter=LBFGS_STEPS)
        return SGDClassifier(
            loss="log_loss",
            alpha=1 / (setting * num_edges),
            average=True,
            max_iter=SGD_EPOCHS,
            random_state=self.seed,
        )

    def _describe(self, setting: float, num_edges: int) -> dict[str, Any]:
        return {"C": setting, "solver": "lbfgs" if num_edges <= self.lbfgs_edges else "sgd"}
