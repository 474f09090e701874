"""Text similarity: a candidate is recommended whose texts read like the query's."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.baselines.base import (
    Scores,
    TrainingLinks,
    Trial,
    ValidationRanking,
    best_setting,
    choose,
    training_links,
)
from edgeformers.baselines.text.vectors import BACKBONE, MAX_TOKENS, Vectors, text_vectors
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN
from edgeformers.errors import require


class TextSimilarity:
    """The cosine between two nodes, each the mean text vector of its positive training edges.

    A node that is held out is the mean of the texts of its profile. Whether the mean of all texts
    is taken off first is chosen on validation. A query without any link gets the candidates in
    the order of popularity. Seconds, once every text is read (see `text_vectors`).
    """

    def __init__(
        self,
        backbone: str = BACKBONE,
        *,
        max_tokens: int = MAX_TOKENS,
        centered: Sequence[bool] = (True, False),
        show: bool = False,
    ) -> None:
        self.backbone = backbone
        self.max_tokens = max_tokens
        self.centered = centered
        self.show = show
        self.trials: list[Trial[bool]] = []
        self.setting: dict[str, Any] = {}

    links: TrainingLinks

    def fit(self, graph: EdgeTextGraph, split: str) -> Self:
        """Make the profile of every node; keep the better kind by MRR on validation."""
        self.links = training_links(graph, split)
        vectors = text_vectors(graph, self.backbone, max_tokens=self.max_tokens, show=self.show)
        ranking = ValidationRanking(graph, split)
        self.profiles, self.trials = choose(
            self.centered,
            lambda centered: node_profiles(graph, split, vectors, centered),
            lambda profiles: ranking.mrr(lambda q, c: self._scores(profiles, q, c)),
        )
        read = {"backbone": self.backbone, "max_tokens": self.max_tokens}
        self.setting = {**read, "centered": best_setting(self.trials)}
        return self

    def scores(self, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        """Node numbers [q] and [c] -> [q, c]."""
        return self._scores(self.profiles, queries, candidates)

    def _scores(self, profiles: Scores, queries: ArrayLike, candidates: ArrayLike) -> Scores:
        rows, columns = self.links.rows(queries), self.links.columns(candidates)
        table = profiles[rows] @ profiles[columns + self.links.first_candidate].T
        return self.links.fill_with_popularity(table, rows, columns)


def node_profiles(graph: EdgeTextGraph, split: str, vectors: Vectors, centered: bool) -> Scores:
    """The mean text vector of each node, of length one [N, D]; zeros for a node without a text."""
    codes = graph.split(split)
    chosen = np.flatnonzero(np.isin(codes, (TRAIN, PROFILE)) & graph.is_positive)
    trained = codes[chosen] == TRAIN
    texts = vectors[chosen].astype(np.float32)
    if centered:
        texts -= texts[trained].mean(axis=0)
    sparse = require("scipy.sparse", "baselines")
    unseen = ~graph.splits.seen_in_training(split)
    ends = np.stack([graph.src[chosen], graph.dst[chosen]])  # [2, texts]
    side, text = np.nonzero(trained | unseen[ends])  # a profile is read around who was held out
    cells = (np.ones(len(text), np.float32), (ends[side, text], text))
    sums = sparse.csr_array(cells, shape=(graph.num_nodes, len(chosen))) @ texts
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.maximum(lengths, np.finfo(np.float32).tiny), np.float32)
