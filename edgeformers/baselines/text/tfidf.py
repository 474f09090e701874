"""TF-IDF words, with or without the ids of both ends, under logistic regression."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from edgeformers.baselines.text.edge_classifiers import MANY_EDGES, LogisticEdges, NodeColumns
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.storage import TEXT_ROWS
from edgeformers.data.types import Ids
from edgeformers.errors import InputError, require

WORDS = 2000  # bag-of-words dimension of the paper's appendix
INVERSE_PENALTIES = (1.0, 0.3, 3.0, 10.0, 30.0)  # the C of scikit-learn: larger is freer


class Tfidf(LogisticEdges):
    """Logistic regression on the TF-IDF of 2,000 words: the text alone. Seconds on one core."""

    uses_nodes: ClassVar[bool] = False

    def __init__(
        self,
        *,
        words: int = WORDS,
        inverse_penalties: Sequence[float] = INVERSE_PENALTIES,
        many_edges: int = MANY_EDGES,
        seed: int = 0,
    ) -> None:
        super().__init__(inverse_penalties=inverse_penalties, many_edges=many_edges, seed=seed)
        self.words = words

    def _learn(self, split: str, train: Ids) -> Any:
        self._nodes = NodeColumns(self.graph, split) if self.uses_nodes else None
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

    def _features(self, edges: Ids) -> Any:
        """Words, and the one-hots of both ends where they are used: sparse [n, W (+ nodes)]."""
        return self._beside_nodes(self._vectorizer.transform(_texts(self.graph, edges)), edges)

    def _beside_nodes(self, words: Any, edges: Ids) -> Any:
        if self._nodes is None:
            return words
        return require("scipy.sparse", "baselines").hstack([words, self._nodes.of(edges)], "csr")


class TfidfNodes(Tfidf):
    """The same with the ids of both ends, one-hot, beside the words."""

    uses_nodes: ClassVar[bool] = True


def _texts(graph: EdgeTextGraph, edges: Ids) -> Iterator[str]:
    """Texts a chunk at a time: a million are never in memory together."""
    for start in range(0, len(edges), TEXT_ROWS):
        yield from graph.texts(edges[start : start + TEXT_ROWS])
