"""A component of a link score that knows what the texts of targets are about."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids, Side
from edgeformers.inference.audience import AudienceComponent, unit
from edgeformers.inference.edge_history import Arrivals, Departures, NewEdges

HASHED_WORDS = 1 << 15  # a word is a row of a table, by its hash: no vocabulary is kept
RANK = 64
LEAST_TEXTS = 3  # a rarer word is ignored
FIT_TEXTS = 50_000  # texts that topics are found in
TEXTS_PER_TARGET = 64  # the newest ones of training are read
CHUNK = 10_000  # texts at a time
NOISE = 1e-5  # relative size of singular values that are rounding errors of single precision


class TopicsComponent(AudienceComponent):
    """The cosine of a source with the texts of a target, and with the sources that it has so far.

    A text is a vector of topics: its words, weighted by tf-idf, in the directions in which training
    texts differ most (latent semantic analysis). A source is the sum of the topics of its targets.
    A target is the direction of its texts plus that of its sources. A target that training never
    saw is known by the texts of its first edges.

    `words` [W, R] are the topics of each hashed word, `mean` [R] those of the mean text, and
    `topics` [N, R] the sums over the texts of each target.
    """

    name = "topics"

    def __init__(
        self, query: Tensor, key: Tensor, topics: Tensor, words: Tensor, mean: Tensor
    ) -> None:
        super().__init__(query, key, item=unit(topics.float()))
        self.topics, self.words, self.mean = topics.float(), words.float(), mean.float()
        self._topics: dict[int, Tensor] = {}  # of targets with later texts
        #: source -> target -> the topics of later edges
        self._texts: dict[int, dict[int, Tensor]] = defaultdict(dict)

    @classmethod
    def read(
        cls, graph: EdgeTextGraph, sources: Ids, targets: Ids, edges: Ids
    ) -> "TopicsComponent | None":
        """From links [m] in time order; None if their texts have no words in common."""
        words = _word_topics(graph.texts(_spaced(edges, FIT_TEXTS)))
        if words is None:
            return None
        newest = _newest(targets, TEXTS_PER_TARGET)
        topics = torch.zeros(graph.num_nodes, words.size(1))
        counts = torch.zeros(graph.num_nodes)
        for start in range(0, len(newest), CHUNK):
            own = newest[start : start + CHUNK]
            rows, read = (
                torch.from_numpy(targets[own]),
                _read_topics(graph.texts(edges[own]), words),
            )
            topics.index_add_(0, rows, read)
            counts.index_add_(0, rows, read.any(1).float())
        mean = topics.sum(0) / counts.sum().clamp(min=1.0)
        topics -= counts[:, None] * mean
        fitted = AudienceComponent.fit(sources, targets, unit(topics))
        return cls(fitted.query, fitted.key, topics, words, mean)

    def tensors(self) -> dict[str, Tensor]:
        return {name: t for name, t in super().tensors().items() if name != "item"}

    def check(self, num_nodes: int) -> None:
        width = self.topics.size(-1)
        for name, tensor in self.tensors().items():
            rows = {"words": (len(self.words),), "mean": ()}.get(name, (num_nodes,))
            if tensor.shape != (*rows, width) or not len(tensor):
                raise ValueError(f"{self.name}.{name} is {list(tensor.shape)}")

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        vectors = super().vectors(nodes, side)
        if side == "source":
            return vectors
        topics = self.topics[torch.from_numpy(np.minimum(nodes, len(self.topics) - 1))]
        topics[torch.from_numpy(nodes >= len(self.topics))] = 0.0
        for at, node in enumerate(nodes.tolist() if self._topics else ()):
            if node in self._topics:
                topics[at] = self._topics[node]
        return unit(vectors + unit(topics))

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        folded = super().fold_in(edges, side)
        if side == "source":
            return folded
        return unit(folded + unit(self._read(edges.texts).sum(0)))

    def update(self, arrivals: Arrivals) -> None:
        edges, place = np.unique(arrivals.link_edges, return_inverse=True)
        read = self._read([arrivals.edges.texts[edge] for edge in edges.tolist()])
        ends = arrivals.link_sources.tolist(), arrivals.link_targets.tolist()
        for source, target, topics in zip(*ends, read[torch.from_numpy(place)], strict=True):
            self._topics[target] = self._topics_of(target) + topics
            self._texts[source][target] = self._texts[source].get(target, 0.0) + topics
            self._add_link(source, target)

    def remove(self, departures: Departures) -> None:
        super().remove(departures)
        history, newest = departures.history, {}
        for target in np.unique(departures.link_targets).tolist():
            newest[target] = set(history.newest_edges_to(target, TEXTS_PER_TARGET).tolist())
        links = zip(departures.link_targets.tolist(), departures.link_edges.tolist(), strict=True)
        read = [(target, edge) for target, edge in links if edge in newest[target]]
        forgotten = self._read(history.texts(np.array([edge for _, edge in read], np.int64)))
        for (target, _), topics in zip(read, forgotten, strict=True):
            self._topics[target] = self._topics_of(target) - topics
        for target, topics in self._texts.pop(departures.node, {}).items():
            self._topics[target] = self._topics_of(target) - topics
        for neighbor in departures.neighbors.tolist():
            self._texts.get(neighbor, {}).pop(departures.node, None)
        empty = [target for target in departures.lost if not history.popularity[target]]
        for target in (departures.node, *empty):  # only rounding error is left
            self._topics[target] = torch.zeros(self.topics.size(1))

    def _new_item(self, target: int) -> Tensor:
        return unit(self._topics_of(target))

    def _topics_of(self, target: int) -> Tensor:
        """The sum [R] over the texts of a target so far."""
        if target in self._topics or target >= len(self.topics):
            return self._topics.get(target, torch.zeros(self.topics.size(1)))
        return self.topics[target]

    def _read(self, texts: Sequence[str | None]) -> Tensor:
        """The topics of texts [n, R], without those of the mean text; 0 without known words."""
        topics = _read_topics(texts, self.words)
        return (topics - self.mean) * topics.any(1, keepdim=True)


def _word_topics(texts: Sequence[str | None]) -> Tensor | None:
    """The topics [W, R] of each hashed word: idf times singular vectors of the tf-idf matrix."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    counts = _counts(texts, HASHED_WORDS)
    frequency = np.bincount(counts.indices, minlength=HASHED_WORDS)
    used = np.flatnonzero((frequency >= LEAST_TEXTS) & (frequency < len(texts)))
    rank = min(RANK, len(used) - 1, len(texts) - 1)
    if rank < 1:
        return None
    idf = np.log((1 + len(texts)) / (1 + frequency[used])).astype(np.float32)
    weighted = normalize(counts[:, used].multiply(idf[None]).tocsr())
    svd = TruncatedSVD(rank, random_state=0).fit(weighted)
    is_noise = svd.singular_values_ < NOISE * svd.singular_values_[0]  # as when few texts differ
    topics = idf[:, None] * svd.components_[~is_noise].T
    words = torch.zeros(HASHED_WORDS, topics.shape[1])
    words[torch.from_numpy(used)] = torch.from_numpy(topics).float()
    return words


def _read_topics(texts: Sequence[str | None], words: Tensor) -> Tensor:
    """Topics of unit length [n, R]; 0 for a text without known words."""
    if not len(texts):
        return words.new_zeros(0, words.size(1))
    return unit(torch.from_numpy(_counts(texts, len(words)) @ words.numpy()).float())


def _counts(texts: Sequence[str | None], num_words: int) -> Any:
    """1 + log of how often each hashed word occurs in each text, as a sparse matrix [n, W]."""
    from sklearn.feature_extraction.text import HashingVectorizer  # slow to import

    hashing = HashingVectorizer(n_features=num_words, alternate_sign=False, norm=None)
    counts = hashing.transform([text or "" for text in texts])
    counts.data = (1 + np.log(counts.data)).astype(np.float32)  # as topics are
    return counts


def _spaced(values: Ids, count: int) -> Ids:
    """At most `count` of the values, evenly spaced."""
    return values[:: max(1, -(-len(values) // count))]


def _newest(targets: Ids, count: int) -> Ids:
    """The positions of the last `count` links of each target, from targets [m] in time order."""
    order = np.argsort(targets[::-1], kind="stable")  # newest first within a target
    grouped = targets[::-1][order]
    rank = np.arange(len(order)) - np.searchsorted(grouped, grouped)
    return np.sort(len(targets) - 1 - order[rank < count])
