"""Gradient boosting on frozen text vectors and on what is known of both ends of an edge."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from edgeformers.baselines.base import GridTrial, best_setting, grid_search
from edgeformers.baselines.text.edge_classifiers import (
    ClassifiedEdges,
    LabeledParts,
    NodeColumns,
    labeled_parts,
    validation_f1,
)
from edgeformers.baselines.text.frozen_vectors import BACKBONE, MAX_TOKENS, Vectors, text_vectors
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.random import hash_keys
from edgeformers.data.types import Ids
from edgeformers.errors import require

Floats = NDArray[np.float32]

COMPONENTS = 64  # of the text vectors, by variance
FOLDS = 10  # parts of the training edges, each seen by the statistics of the others alone
PRIOR_EDGES = 5.0  # the shares of all classes count as so many edges of every node

_FOLD_STREAM = 0xF01D  # names the draws of folds among all that use a seed


@dataclass(frozen=True, kw_only=True)
class BoostingConfig:
    """Settings of one boosting."""

    trees: int = 200  # of each class
    leaves: int = 15
    leaf_edges: int = 20  # training edges of a leaf at least
    rate: float = 0.05


GRID = (
    BoostingConfig(),
    BoostingConfig(leaf_edges=100),
    BoostingConfig(leaf_edges=100, trees=400),
    BoostingConfig(trees=100),
)


class FrozenBoosting(ClassifiedEdges):
    """Boosted trees that see the text, and how the other edges of both ends were labeled.

    Features of an edge: 64 principal components of its text vector and, for each end, the number
    of its other training edges, the shares of their classes, and how much the text is like
    theirs. An edge's own label is never among its features: see `NodeStatistics`. About a minute
    for 35,000 edges of 5 classes on one core, beside reading every text once.
    """

    def __init__(
        self,
        backbone: str = BACKBONE,
        *,
        max_tokens: int = MAX_TOKENS,
        grid: Sequence[BoostingConfig] = GRID,
        seed: int = 0,
        show: bool = False,
    ) -> None:
        self.backbone = backbone
        self.max_tokens = max_tokens
        self.grid = grid
        self.seed = seed
        self.show = show
        self.trials: list[GridTrial[BoostingConfig]] = []
        self.setting: dict[str, Any] = {}

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Learn from the training edges that have a label; keep the best by Macro-F1."""
        parts = labeled_parts(graph, split)
        self.graph = graph
        vectors = text_vectors(graph, self.backbone, max_tokens=self.max_tokens, show=self.show)
        self._components = Components(vectors, parts.train)
        self._statistics = NodeStatistics(graph, split, parts, self._components, seed=self.seed)
        features = self._features(parts.train)
        held = self._features(parts.val)
        self._model, self.trials = grid_search(
            self.grid,
            lambda config: self._boost(features, parts.train_labels, config),
            lambda model: validation_f1(model, held, parts.val_labels),
        )
        read = {"backbone": self.backbone, "max_tokens": self.max_tokens}
        self.setting = {**read, **asdict(best_setting(self.trials))}
        return self

    def _features(self, edges: Ids) -> Floats:
        return np.hstack([self._components.of(edges), self._statistics.of(edges)])

    def _boost(self, features: Floats, labels: Ids, config: BoostingConfig) -> Any:
        ensemble = require("sklearn.ensemble", "baselines")
        model = ensemble.HistGradientBoostingClassifier(
            max_iter=config.trees,
            max_leaf_nodes=config.leaves,
            min_samples_leaf=config.leaf_edges,
            learning_rate=config.rate,
            early_stopping=False,
            random_state=self.seed,
        )
        return model.fit(features, labels)


class Components:
    """The directions in which the training texts differ most."""

    def __init__(self, vectors: Vectors, train: Ids, count: int = COMPONENTS) -> None:
        texts = vectors[train].astype(np.float32)
        self.vectors, self.mean = vectors, texts.mean(axis=0)
        texts -= self.mean
        _, directions = np.linalg.eigh(texts.T @ texts)  # by rising variance
        self.directions = directions[:, ::-1][:, :count]  # [D, components]

    def of(self, edges: Ids) -> Floats:
        """[n] edges -> [n, components]."""
        texts = self.vectors[edges].astype(np.float32) - self.mean
        return np.asarray(texts @ self.directions, np.float32)


class NodeStatistics:
    """What the other training edges of an edge's two ends say: how many, their classes, texts.

    Training edges are dealt into folds, and the shares of a fold's edges are counted on the other
    folds alone, the shares of all classes that smooth them included. Leaving out only the edge
    itself would not do: where the trees can tell a node, by the number of its edges, what is
    missing from its shares gives the label away. Other edges see all folds.
    """

    def __init__(
        self,
        graph: EdgeTextGraph,
        split: str,
        parts: LabeledParts,
        texts: Components,
        *,
        folds: int = FOLDS,
        seed: int = 0,
    ) -> None:
        self.graph, self.texts = graph, texts
        self.nodes = NodeColumns(graph, split)
        self.fold = np.full(graph.num_edges, folds, np.int64)  # the last: edges of no fold
        self.fold[parts.train] = hash_keys(seed, _FOLD_STREAM, parts.train) % np.uint64(folds)
        self.counts, self.prior = self._count(parts, folds)
        incidence = self.nodes.of(parts.train)
        sums = incidence.T @ texts.of(parts.train)
        self.sums = np.pad(sums, ((0, 1), (0, 0)))  # [nodes + 1, components]
        self.degree = np.append(incidence.sum(axis=0), 0.0)  # [nodes + 1]

    def of(self, edges: Ids) -> Floats:
        """[n] edges -> [n, 2 (C + 2)]: of each end the class shares, the degree, the likeness."""
        ends = self._ends(edges)
        return np.hstack([self._of_end(edges, end) for end in ends]).astype(np.float32)

    def _ends(self, edges: Ids) -> tuple[Ids, Ids]:
        """Both ends; a node that training has not seen is -1, the last row, which is empty."""
        graph, nodes = self.graph, self.nodes
        return nodes.source[graph.src[edges]], nodes.target[graph.dst[edges]]

    def _of_end(self, edges: Ids, end: Ids) -> NDArray[np.float64]:
        fold = self.fold[edges]
        counts, prior = self.counts[fold, end], self.prior[fold]  # [n, C]
        shares = (counts + PRIOR_EDGES * prior) / (counts.sum(1, keepdims=True) + PRIOR_EDGES)
        is_own = fold < len(self.prior) - 1  # the edge itself is one of its ends' edges
        degree = self.degree[end] - is_own
        texts = self.texts.of(edges)
        others = self.sums[end] - is_own[:, None] * texts
        lengths = np.linalg.norm(texts, axis=1) * np.linalg.norm(others, axis=1)
        likeness = np.where(degree > 0, (texts * others).sum(1) / np.maximum(lengths, 1e-12), 0.0)
        return np.column_stack([shares, np.log1p(degree), likeness])

    def _count(self, parts: LabeledParts, folds: int) -> tuple[Floats, NDArray[np.float64]]:
        """How often each node has each class outside a fold [folds + 1, nodes + 1, C], and the
        shares of all classes there [folds + 1, C].
        """
        classes, fold = len(self.graph.label_names), self.fold[parts.train]
        counts = np.zeros((folds, self.nodes.width + 1, classes), np.float32)
        for end in self._ends(parts.train):
            np.add.at(counts, (fold, end, parts.train_labels), 1)
        of_class = np.zeros((folds, classes))
        np.add.at(of_class, (fold, parts.train_labels), 1)
        left = of_class.sum(0) - np.pad(of_class, ((0, 1), (0, 0)))
        prior = left / np.maximum(left.sum(1, keepdims=True), 1)
        return counts.sum(0) - np.pad(counts, ((0, 1), (0, 0), (0, 0))), prior
