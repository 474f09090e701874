"""Gradient boosting on frozen text vectors and on statistics of both nodes of an edge."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.baselines.text.edge_classifiers import (
    EdgeClassifierBaseline,
    LabeledEdges,
    NodeOneHots,
)
from edgeformers.baselines.text.frozen_vectors import BACKBONE, MAX_TOKENS, Vectors, text_vectors
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.random import hash_keys
from edgeformers.data.types import Floats, Ids

Features = NDArray[np.float32]

COMPONENTS = 64  # principal components of the text vectors
FOLDS = 10  # of the training edges, each described by statistics of the other folds
PRIOR_EDGES = 5.0  # weight of the overall class frequencies in those of a node

_FOLD_STREAM = 0xF01D  # distinguishes the draws of folds from others with the same seed


@dataclass(frozen=True, kw_only=True)
class BoostingConfig:
    """Settings of one boosted ensemble."""

    trees: int = 200  # per class
    leaves: int = 15
    leaf_edges: int = 20  # minimum training edges in a leaf
    rate: float = 0.05


GRID = (
    BoostingConfig(),
    BoostingConfig(leaf_edges=100),
    BoostingConfig(leaf_edges=100, trees=400),
    BoostingConfig(trees=100),
)


class FrozenBoosting(EdgeClassifierBaseline[BoostingConfig]):
    """Boosted trees over the text and the labels of other edges of both nodes.

    Features of an edge: 64 principal components of its text vector and, for each node, the number
    of its other training edges, their class frequencies, and how similar the text is to theirs. An
    edge's own label is never among its features: see `NodeStatistics`. Takes about a minute for
    35,000 edges of 5 classes on one core, besides encoding every text once.
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
        super().__init__(grid, seed=seed)
        self.backbone, self.max_tokens, self.show = backbone, max_tokens, show

    def _train_features(self, split: str, edges: LabeledEdges) -> Any:
        vectors = text_vectors(
            self.graph, self.backbone, max_tokens=self.max_tokens, show=self.show
        )
        self._components = TextComponents(vectors, edges.train)
        self._statistics = NodeStatistics(
            self.graph, split, edges, self._components, seed=self.seed
        )
        return self._features(edges.train)

    def _features(self, edges: Ids) -> Features:
        return np.hstack([self._components.of(edges), self._statistics.of(edges)])

    def _classifier(self, setting: BoostingConfig, num_edges: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            max_iter=setting.trees,
            max_leaf_nodes=setting.leaves,
            min_samples_leaf=setting.leaf_edges,
            learning_rate=setting.rate,
            early_stopping=False,
            random_state=self.seed,
        )

    def _describe(self, setting: BoostingConfig, num_edges: int) -> dict[str, Any]:
        return {"backbone": self.backbone, "max_tokens": self.max_tokens, **asdict(setting)}


class TextComponents:
    """Principal components of the training texts."""

    def __init__(self, vectors: Vectors, train: Ids, count: int = COMPONENTS) -> None:
        texts = vectors[train].astype(np.float32)
        self.vectors, self.mean = vectors, texts.mean(axis=0)
        texts -= self.mean
        _, directions = np.linalg.eigh(texts.T @ texts)  # by increasing variance
        self.directions = directions[:, ::-1][:, :count]  # [D, components]

    def of(self, edges: Ids) -> Features:
        """[n] edges -> [n, components]."""
        texts = self.vectors[edges].astype(np.float32) - self.mean
        return np.asarray(texts @ self.directions, np.float32)


class NodeStatistics:
    """Statistics of the other training edges of both nodes: their number, classes and texts.

    Training edges are divided into folds, and the class frequencies of a fold's edges, including
    the overall frequencies that smooth them, are counted on the other folds only. Leaving out only
    the edge itself would leak its label: trees can identify a node by its number of edges, and what
    is missing from its class frequencies then gives the label away. All other edges use all folds.
    """

    def __init__(
        self,
        graph: EdgeTextGraph,
        split: str,
        edges: LabeledEdges,
        texts: TextComponents,
        *,
        folds: int = FOLDS,
        seed: int = 0,
    ) -> None:
        self.num_classes, self.texts = len(graph.label_names), texts
        self.nodes = NodeOneHots(graph, split)
        self.fold = np.full(graph.num_edges, folds, np.int64)  # the last: edges of no fold
        self.fold[edges.train] = hash_keys(seed, _FOLD_STREAM, edges.train) % np.uint64(folds)
        self.counts, self.prior = self._count(edges, folds)
        incidence = self.nodes.of(edges.train)
        sums = incidence.T @ texts.of(edges.train)
        self.sums = np.pad(sums, ((0, 1), (0, 0)))  # [nodes + 1, components]
        self.degree = np.append(incidence.sum(axis=0), 0.0)  # [nodes + 1]

    def of(self, edges: Ids) -> Features:
        """[n] edges -> [n, 2 (C + 2)]: class frequencies, degree and similarity of each node."""
        columns = self.nodes.columns(edges)  # -1 is the last row, which is empty
        return np.hstack([self._of_node(edges, node) for node in columns]).astype(np.float32)

    def _of_node(self, edges: Ids, node: Ids) -> Floats:
        fold = self.fold[edges]
        counts, prior = self.counts[fold, node], self.prior[fold]  # [n, C]
        shares = (counts + PRIOR_EDGES * prior) / (counts.sum(1, keepdims=True) + PRIOR_EDGES)
        is_own = fold < len(self.prior) - 1  # the edge itself is among its nodes' edges
        degree = self.degree[node] - is_own
        texts = self.texts.of(edges)
        others = self.sums[node] - is_own[:, None] * texts
        norms = np.linalg.norm(texts, axis=1) * np.linalg.norm(others, axis=1)
        cosine = np.where(degree > 0, (texts * others).sum(1) / np.maximum(norms, 1e-12), 0.0)
        return np.column_stack([shares, np.log1p(degree), cosine])

    def _count(self, edges: LabeledEdges, folds: int) -> tuple[Features, Floats]:
        """Classes of each node outside a fold [folds + 1, nodes + 1, C], and overall frequencies.

        The latter are [folds + 1, C].
        """
        fold, labels = self.fold[edges.train], edges.train_labels
        counts = np.zeros((folds, self.nodes.width + 1, self.num_classes), np.float32)
        for node in self.nodes.columns(edges.train):
            np.add.at(counts, (fold, node, labels), 1)
        totals = np.zeros((folds, self.num_classes))
        np.add.at(totals, (fold, labels), 1)
        outside = totals.sum(0) - np.pad(totals, ((0, 1), (0, 0)))
        prior = outside / np.maximum(outside.sum(1, keepdims=True), 1)
        return counts.sum(0) - np.pad(counts, ((0, 1), (0, 0), (0, 0))), prior
