"""Summaries of the labeled training edges of nodes, of which each edge can be left out exactly.

The summary of a node (`nn.node_prior`) is a sum over its training edges, so that the one without an
edge is a difference. What texts let one expect comes from a linear model of the words, fitted on
other edges (cross-fitting). Its probabilities are rounded to multiples of 2^-10, so that sums of
up to 2^14 edges are exact, and rounding leaves no trace of the edge left out. A small trace
remains: the words of a node's other edges may be judged by a model that was fitted on the edge.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from edgeformers import distributed
from edgeformers.data.batch import EdgeBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EpochBatches
from edgeformers.data.random import hash_keys
from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids

FOLDS = 2
FOLD = 0xF01D  # random stream
STEPS = 1 << 10  # in which probabilities are counted
CHUNK = 1 << 13  # edges at once
EPOCHS = 3
LEARNING_RATE = 0.2
MAX_BATCH = 1_024
MIN_BATCH = 16
UPDATES = 200  # per epoch, at least, if the batches allow it


@dataclass(frozen=True, kw_only=True)
class NodeSummaries:
    """Summaries of all nodes, and the contributions of n training edges to them.

    Shapes: N nodes, C classes.
    """

    edges: Ids  # [n], sorted
    labels: Tensor  # [n]
    expected: Tensor  # [n, C], from the texts; 16-bit floats
    source: Tensor  # [N, C, C+1]
    target: Tensor  # [N, C, C+1]

    def without(self, batch: EdgeBatch) -> Tensor:
        """The summaries of the nodes of B training edges, each without the edge [B, 2, C, C+1]."""
        assert batch.edge_ids is not None
        at = torch.from_numpy(np.searchsorted(self.edges, batch.edge_ids.numpy()))
        own = contributions(self.labels[at], self.expected[at])
        return torch.stack([self.source[batch.src] - own, self.target[batch.dst] - own], dim=1)


def summarize_nodes(
    graph: EdgeTextGraph,
    tokens: TokenStore,
    edges: Ids,
    classes: int,
    *,
    max_tokens: int,
    seed: int = 0,
) -> NodeSummaries:
    """The summaries of all nodes by labeled training edges, which are sorted."""
    assert graph.labels is not None
    labels = torch.from_numpy(np.asarray(graph.labels[edges]).astype(np.int64))
    expected = torch.empty(len(edges), classes, dtype=torch.float16)
    if distributed.is_main():
        expected = expect_labels(tokens, edges, labels, classes, max_tokens=max_tokens, seed=seed)
    if distributed.world_size() > 1:
        expected = distributed.broadcast_rows(expected)
    sums = partial(_sums, labels=labels, expected=expected, num_nodes=graph.num_nodes)
    return NodeSummaries(
        edges=edges,
        labels=labels,
        expected=expected,
        source=sums(graph.src[edges]),
        target=sums(graph.dst[edges]),
    )


def contributions(labels: Tensor, expected: Tensor) -> Tensor:
    """What edges add to summaries: labels [B] and expectations [B, C] -> [B, C, C+1]."""
    own = F.one_hot(labels, expected.size(1)).float()  # [B, C]
    return own[:, :, None] * F.pad(expected.float(), (0, 1), value=1.0)[:, None]


def expect_labels(
    tokens: TokenStore, edges: Ids, labels: Tensor, classes: int, *, max_tokens: int, seed: int = 0
) -> Tensor:
    """The probability of each class given the text of each edge [n, C], as 16-bit floats.

    The texts of a part of the edges are judged by a model that was fitted on the other parts.
    """
    expected = torch.empty(len(edges), classes, dtype=torch.float16)
    folds = hash_keys(seed, FOLD, edges) % np.uint64(FOLDS)
    for fold in range(FOLDS):
        fitted, judged = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        words = WordClassifier(tokens, classes, max_tokens)
        words.fit(edges[fitted], labels[fitted], seed=seed)
        for at in range(0, len(judged), CHUNK):
            rows = judged[at : at + CHUNK]
            probs = words.logits(edges[rows]).detach().softmax(1)
            expected[rows] = ((probs * STEPS).round() / STEPS).half()
    return expected


class WordClassifier:
    """A multinomial logistic regression on the words of texts, fitted by Adam in a few epochs.

    Shapes: B texts, C classes, V tokens of the vocabulary.
    """

    def __init__(self, tokens: TokenStore, classes: int, max_tokens: int) -> None:
        self.tokens, self.max_tokens = tokens, max_tokens
        self.weights = torch.zeros(tokens.vocab_size, classes, requires_grad=True)  # [V, C]
        self.bias = torch.zeros(classes, requires_grad=True)

    def fit(self, edges: Ids, labels: Tensor, *, seed: int = 0) -> None:
        """Learn the labels [n] of the texts of edges [n]."""
        size = min(MAX_BATCH, max(MIN_BATCH, len(edges) // UPDATES))
        optimizer = torch.optim.Adam([self.weights, self.bias], lr=LEARNING_RATE)
        steps = EPOCHS * -(-len(edges) // size)
        decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
        for epoch in range(EPOCHS):
            for rows in EpochBatches(np.arange(len(edges)), size, seed=seed, epoch=epoch):
                optimizer.zero_grad()
                F.cross_entropy(self.logits(edges[rows]), labels[rows]).backward()
                optimizer.step()
                decay.step()

    def logits(self, edges: Ids) -> Tensor:
        """[B, C], from the sum over the tokens of each text divided by the root of their number."""
        ids, offsets = self.tokens.take(edges, self.max_tokens)
        starts = torch.from_numpy(offsets)
        words = torch.from_numpy(ids.astype(np.int64))
        total = F.embedding_bag(words, self.weights, starts[:-1], mode="sum")
        return total / starts.diff()[:, None].sqrt() + self.bias


def _sums(nodes: NDArray[np.integer], labels: Tensor, expected: Tensor, num_nodes: int) -> Tensor:
    """The contributions of edges, summed by their nodes [n]: [N, C, C+1]."""
    classes = expected.size(1)
    total = torch.zeros(num_nodes, classes, classes + 1)
    for at in range(0, len(nodes), CHUNK):
        rows = slice(at, at + CHUNK)
        index = torch.from_numpy(nodes[rows].astype(np.int64))
        total.index_add_(0, index, contributions(labels[rows], expected[rows]))
    return total
