"""Text similarity: recommend candidates whose texts resemble the query's."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgeformers.baselines.base import GridLinkBaseline, Scores
from edgeformers.baselines.text.frozen_vectors import BACKBONE, MAX_TOKENS, Vectors, text_vectors
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE, TRAIN
from edgeformers.data.types import Ids


class TextSimilarity(GridLinkBaseline[bool, Scores]):
    """The cosine similarity of two nodes, each the mean text vector of its positive training edges.

    A cold node is the mean of its profile's texts. Whether vectors are centered first is chosen on
    validation. Takes seconds once every text is encoded (see `text_vectors`).
    """

    def __init__(
        self,
        backbone: str = BACKBONE,
        *,
        max_tokens: int = MAX_TOKENS,
        centered: Sequence[bool] = (True, False),
        show: bool = False,
    ) -> None:
        super().__init__(centered)
        self.backbone, self.max_tokens, self.show = backbone, max_tokens, show

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        vectors = text_vectors(graph, self.backbone, max_tokens=self.max_tokens, show=self.show)
        self._data = graph, split, vectors

    def _fit(self, setting: bool) -> Scores:
        return mean_text_vectors(*self._data, centered=setting)

    def _score(self, fitted: Scores, rows: Ids, columns: Ids) -> Scores:
        return fitted[rows] @ fitted[columns + self.links.first_candidate].T

    def _describe(self, setting: bool, fitted: Scores) -> dict[str, Any]:
        return {"backbone": self.backbone, "max_tokens": self.max_tokens, "centered": setting}


def mean_text_vectors(
    graph: EdgeTextGraph, split: str, vectors: Vectors, *, centered: bool
) -> Scores:
    """The mean text vector of each node, of unit length [N, D]; zeros for a node without texts."""
    from scipy import sparse

    codes = graph.split(split)
    chosen = np.flatnonzero(np.isin(codes, (TRAIN, PROFILE)) & graph.is_positive)
    is_train = codes[chosen] == TRAIN
    texts = vectors[chosen].astype(np.float32)
    if centered:
        texts -= texts[is_train].mean(axis=0)
    is_cold = ~graph.seen_in_training(split)
    ends = np.stack([graph.src[chosen], graph.dst[chosen]])  # [2, texts]
    side, text = np.nonzero(is_train | is_cold[ends])  # profile texts count for cold nodes only
    cells = (np.ones(len(text), np.float32), (ends[side, text], text))
    sums = sparse.csr_array(cells, shape=(graph.num_nodes, len(chosen))) @ texts
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.maximum(lengths, np.finfo(np.float32).tiny), np.float32)
