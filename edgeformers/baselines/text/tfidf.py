"""Logistic regression on TF-IDF features, with or without the ids of both nodes."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from edgeformers.baselines.text.edge_classifiers import (
    LBFGS_EDGES,
    LabeledEdges,
    LogisticEdgeBaseline,
    NodeOneHots,
)
from edgeformers.data.graph import TEXT_ROWS
from edgeformers.data.types import Ids
from edgeformers.errors import InputError

WORDS = 2000  # the bag-of-words dimension of the paper's appendix
GRID = (1.0, 0.3, 3.0, 10.0, 30.0)


class NoWordsError(InputError):
    """No training text has a word."""


class Tfidf(LogisticEdgeBaseline):
    """Uses only the text: TF-IDF of the 2,000 most frequent words. Takes seconds on one core."""

    uses_nodes: ClassVar[bool] = False

    def __init__(
        self,
        *,
        words: int = WORDS,
        grid: Sequence[float] = GRID,
        lbfgs_edges: int = LBFGS_EDGES,
        seed: int = 0,
    ) -> None:
        super().__init__(grid, lbfgs_edges=lbfgs_edges, seed=seed)
        self.words = words

    def _train_features(self, split: str, edges: LabeledEdges) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._nodes = NodeOneHots(self.graph, split) if self.uses_nodes else None
        self._vectorizer = TfidfVectorizer(max_features=self.words, dtype=np.float32)
        try:
            words = self._vectorizer.fit_transform(self._texts(edges.train))
        except ValueError as error:
            raise NoWordsError(
                f"TF-IDF needs words, but the training texts of {self.graph.path} have none; "
                "choose a model of nodes, such as node-ids"
            ) from error
        return self._with_nodes(words, edges.train)

    def _features(self, edges: Ids) -> Any:
        """Words and, if used, one-hots of both nodes: sparse [n, W (+ nodes)]."""
        return self._with_nodes(self._vectorizer.transform(self._texts(edges)), edges)

    def _with_nodes(self, words: Any, edges: Ids) -> Any:
        if self._nodes is None:
            return words
        from scipy import sparse

        return sparse.hstack([words, self._nodes.of(edges)], "csr")

    def _texts(self, edges: Ids) -> Iterator[str]:
        """Texts in chunks, so that a million are never in memory at once."""
        for start in range(0, len(edges), TEXT_ROWS):
            yield from self.graph.texts(edges[start : start + TEXT_ROWS])


class TfidfNodes(Tfidf):
    """Uses the text and the one-hot ids of both nodes."""

    uses_nodes: ClassVar[bool] = True
