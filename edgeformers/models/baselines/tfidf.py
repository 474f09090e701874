"""TF-IDF words, with or without the ids of both ends, under logistic regression."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.graph import TEXT_ROWS, EdgeTextGraph
from edgeformers.data.splits import TRAIN, VAL, seen_in_training
from edgeformers.errors import InputError, require
from edgeformers.models.baselines.base import Ints, Trial, best_setting, choose

WORDS = 2000  # bag-of-words dimension of the paper's appendix
INVERSE_PENALTIES = (1.0, 0.1, 0.3, 3.0, 10.0)  # the C of scikit-learn: larger is freer
MANY_EDGES = 200_000  # training edges above which the regression is fitted by stochastic gradients
STEPS, EPOCHS = 1000, 20  # at most, of L-BFGS and of stochastic gradients


class Tfidf:
    """Logistic regression on the TF-IDF of 2,000 words: the text alone.

    C is chosen from a grid by Macro-F1 on validation. Up to 200,000 training edges the regression
    is multinomial and solved to the optimum (L-BFGS). Above, where that takes many minutes for
    each C, it is one class against the rest by averaged stochastic gradients: much faster, and a
    little behind.
    """

    uses_nodes: ClassVar[bool] = False
    graph: EdgeTextGraph

    def __init__(
        self,
        *,
        words: int = WORDS,
        inverse_penalties: Sequence[float] = INVERSE_PENALTIES,
        many_edges: int = MANY_EDGES,
        seed: int = 0,
    ) -> None:
        self.words = words
        self.inverse_penalties = inverse_penalties
        self.many_edges = many_edges
        self.seed = seed
        self.trials: list[Trial[float]] = []

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Learn words and weights from the training edges that have a label."""
        train, val = (labelled_edges(graph, split, part) for part in (TRAIN, VAL))
        _check_classes(graph, split, train)
        self.graph = graph
        self._nodes = NodeColumns(graph, split) if self.uses_nodes else None
        features, labels = self._learn_words(train), np.asarray(graph.labels)[train]
        held, truth = self._features(val), np.asarray(graph.labels)[val]
        self.solver = "lbfgs" if len(train) <= self.many_edges else "sgd"
        self._model, self.trials = choose(
            self.inverse_penalties,
            lambda inverse: self._regress(features, labels, inverse),
            lambda model: _macro_f1(truth, model, held),
        )
        return self

    @property
    def setting(self) -> dict[str, Any]:
        """What was chosen."""
        return {"words": self.words, "C": best_setting(self.trials), "solver": self.solver}

    def predict_proba(self, edge_ids: ArrayLike) -> NDArray[np.float64]:
        """[n] edges -> [n, C]; a class that training never showed has probability 0."""
        edges = np.asarray(edge_ids, np.int64)
        table = np.zeros((len(edges), len(self.graph.label_names)))
        if len(edges):
            table[:, self._model.classes_] = self._model.predict_proba(self._features(edges))
        return table

    def predict(self, edge_ids: ArrayLike) -> Ints:
        """The likeliest class of each edge."""
        return np.asarray(self.predict_proba(edge_ids).argmax(axis=1))

    def _learn_words(self, train: Ints) -> Any:
        text = require("sklearn.feature_extraction.text", "baselines")
        self._vectorizer = text.TfidfVectorizer(max_features=self.words, dtype=np.float32)
        try:
            words = self._vectorizer.fit_transform(_texts(self.graph, train))
        except ValueError as error:
            raise InputError(
                f"the training texts of {self.graph.path} have no words ({error}); "
                "TF-IDF needs some"
            ) from error
        return self._beside_nodes(words, train)

    def _features(self, edges: Ints) -> Any:
        """Words, and the one-hots of both ends where they are used: sparse [n, W (+ nodes)]."""
        if not len(edges):
            return None
        return self._beside_nodes(self._vectorizer.transform(_texts(self.graph, edges)), edges)

    def _beside_nodes(self, words: Any, edges: Ints) -> Any:
        if self._nodes is None:
            return words
        return require("scipy.sparse", "baselines").hstack([words, self._nodes.of(edges)], "csr")

    def _regress(self, features: Any, labels: Ints, inverse: float) -> Any:
        linear = require("sklearn.linear_model", "baselines")
        if self.solver == "lbfgs":
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


class TfidfNodes(Tfidf):
    """The same with the ids of both ends, one-hot, beside the words."""

    uses_nodes: ClassVar[bool] = True


class NodeColumns:
    """One-hot features of an edge's two ends; a node that training has not seen has none.

    Where source and target are one kind of node and edges have a direction, a node has one column
    as a source and another as a target.
    """

    def __init__(self, graph: EdgeTextGraph, split: str) -> None:
        seen = np.flatnonzero(seen_in_training(graph.split(split), graph.facts))
        self.source = np.full(graph.num_nodes, -1)
        self.source[seen] = np.arange(len(seen))
        both = graph.is_directed and not graph.is_bipartite
        self.target = np.where(self.source >= 0, self.source + both * len(seen), -1)
        self.width = len(seen) * (2 if both else 1)
        self.graph = graph

    def of(self, edges: Ints) -> Any:
        """[n] edges -> sparse ones [n, width]."""
        graph = self.graph
        columns = np.concatenate([self.source[graph.src[edges]], self.target[graph.dst[edges]]])
        rows = np.tile(np.arange(len(edges)), 2)
        known = columns >= 0
        ones = np.ones(np.count_nonzero(known), np.float32)
        sparse = require("scipy.sparse", "baselines")
        shape = (len(edges), self.width)
        return sparse.csr_array((ones, (rows[known], columns[known])), shape=shape)


def labelled_edges(graph: EdgeTextGraph, split: str, part: int) -> Ints:
    """The edges of a part whose class is known."""
    if graph.labels is None or graph.label_kind != "class":
        kind = {"multi": "several labels", "number": "a number"}.get(graph.label_kind or "", "none")
        raise InputError(
            f"TF-IDF under logistic regression needs one class per edge; {graph.path} has {kind}; "
            "prepare it with a column of classes as its label"
        )
    return np.flatnonzero((graph.split(split) == part) & (graph.labels >= 0))


def _check_classes(graph: EdgeTextGraph, split: str, train: Ints) -> None:
    found = np.unique(np.asarray(graph.labels)[train])
    if len(found) < 2:
        names = ", ".join(graph.label_names[code] for code in found) or "none"
        raise InputError(
            f"the training edges of the split '{split}' of {graph.path} have fewer than two "
            f"classes ({names}); there is nothing to tell apart"
        )


def _texts(graph: EdgeTextGraph, edges: Ints) -> Iterator[str]:
    """Texts a chunk at a time: a million are never in memory together."""
    for start in range(0, len(edges), TEXT_ROWS):
        yield from graph.texts(edges[start : start + TEXT_ROWS])


def _macro_f1(truth: Ints, model: Any, features: Any) -> float:
    if not len(truth):
        return float("nan")
    metrics = require("sklearn.metrics", "baselines")
    return float(metrics.f1_score(truth, model.predict(features), average="macro", zero_division=0))
