"""What baselines with frozen text vectors share: the vectors of links, their means, a loss."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from edgeformers.baselines.base import Scores
from edgeformers.baselines.temporal.base import RECENCY, Config, Recency, TemporalBaseline
from edgeformers.baselines.temporal.history import LinkHistory, TimedLinks
from edgeformers.baselines.text.frozen_vectors import BACKBONE, MAX_TOKENS, Vectors, text_vectors
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids

SOFTMAX_CANDIDATES = 8_192  # with more candidates, so many are drawn as negatives for each batch


@dataclass(frozen=True)
class LinkTexts:
    """The text vector of every edge of a network; a model asks only for edges that it has read."""

    vectors: Vectors  # [E, D]
    center: Scores  # [D]

    def of(self, edges: Ids) -> Scores:
        """Edges [m] -> centered vectors [m, D]."""
        return self.vectors[edges].astype(np.float32) - self.center


class TextBaseline(TemporalBaseline[Config]):
    """A time-aware baseline over frozen text vectors, centered on those of the training links."""

    def __init__(
        self,
        grid: Sequence[Config] | None = None,
        recency: Sequence[Recency] = RECENCY,
        *,
        backbone: str = BACKBONE,
        max_tokens: int = MAX_TOKENS,
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(grid, recency, seed=seed, device=device)
        self.backbone, self.max_tokens = backbone, max_tokens

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        vectors = text_vectors(graph, self.backbone, max_tokens=self.max_tokens)
        center = vectors[np.unique(self.history.edges)].astype(np.float32).mean(0)
        self._texts = LinkTexts(vectors, center)


class MeanTexts:
    """The mean text vector of the links of each node, which changes as links arrive."""

    def __init__(self, texts: LinkTexts, num_nodes: int) -> None:
        self._texts = texts
        self._sums = np.zeros((num_nodes, len(texts.center)), np.float32)

    def add(self, nodes: Ids, edges: Ids) -> None:
        """Add the texts of links [m] to these nodes [m]."""
        np.add.at(self._sums, nodes, self._texts.of(edges))

    def means(self, nodes: Ids | None = None) -> Scores:
        """Vectors of unit length [n, D]; zeros for a node without links."""
        sums = self._sums if nodes is None else self._sums[nodes]
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.asarray(sums / np.maximum(lengths, np.finfo(np.float32).tiny))


def candidate_texts(texts: LinkTexts, history: LinkHistory) -> MeanTexts:
    """The mean texts of the links to each candidate so far."""
    means = MeanTexts(texts, history.num_candidates)
    means.add(history.columns, history.edges)
    return means


def add_to_candidates(means: MeanTexts | None, links: TimedLinks) -> None:
    """Add links that arrived to the texts of their candidates."""
    if means is not None:
        means.add(links.columns, links.edges)


def softmax_loss(queries: Tensor, keys: Tensor, positives: Tensor) -> Tensor:
    """Cross-entropy of the positive [b] among all candidates, given vectors [b, K] and [C, K].

    Of many candidates, a random part and all positives of the batch are compared.
    """
    if len(keys) > SOFTMAX_CANDIDATES:
        drawn = torch.randint(len(keys), (SOFTMAX_CANDIDATES,), device=keys.device)
        chosen, positives = torch.unique(torch.cat([positives, drawn]), return_inverse=True)
        keys, positives = keys[chosen], positives[: len(queries)]
    return F.cross_entropy(queries @ keys.T, positives)
