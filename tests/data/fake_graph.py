"""A network in memory, to be described without preparing one."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from edgeformers.data.splits import NO_TIME


@dataclass
class FakeTokens:
    lengths: np.ndarray
    name: str = "tiny"
    vocab_size: int = 30


@dataclass
class FakeGraph:
    """A network in memory with the attributes of EdgeTextGraph that the card reads."""

    ends: list
    words: list
    num_sources: int
    num_targets: int
    is_bipartite: bool = True
    is_directed: bool = True
    label_kind: str | None = None
    label_names: list = field(default_factory=list)
    labels: np.ndarray | None = None
    times: np.ndarray | None = None
    weights: np.ndarray | None = None
    edge_types: np.ndarray | None = None
    edge_type_names: list = field(default_factory=list)
    splits: dict = field(default_factory=dict)
    split_configs: dict = field(default_factory=dict)
    node_labels: tuple | None = None
    node_label_names: list = field(default_factory=list)
    tokens: FakeTokens | None = None
    skipped: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    name: str = "fake"
    origin: str = "reviews.csv"
    shared_names: int = 0

    @property
    def node_index(self):
        return SimpleNamespace(count_shared_ids=lambda: self.shared_names)

    def __post_init__(self):
        pairs = np.array(self.ends, dtype=np.int32).reshape(-1, 2)
        self.src, self.dst = pairs[:, 0], pairs[:, 1]
        self.num_edges = len(self.words)
        numbers = {text: n for n, text in enumerate(dict.fromkeys(self.words), start=1)}
        self.text_hashes = np.array([numbers[text] for text in self.words], dtype=np.uint64)
        self.text_lengths = np.array([len(text) for text in self.words], dtype=np.int32)

    @property
    def is_undirected(self):
        return not self.is_bipartite and not self.is_directed

    @property
    def num_nodes(self):
        return self.num_sources + self.num_targets if self.is_bipartite else self.num_sources

    def texts(self, edge_ids):
        return [self.words[i] for i in edge_ids]

    def node_names(self, nodes):
        return [f"n{i}" for i in nodes]


def microseconds(*days):
    times = [NO_TIME if day is None else np.datetime64(day, "us").astype(np.int64) for day in days]
    return np.array(times, dtype=np.int64)


def six_edges() -> FakeGraph:
    """Sources 0, 1, 2 (2 without an edge), targets 3, 4, 5."""
    return FakeGraph(
        ends=[(0, 3), (0, 3), (0, 4), (1, 3), (1, 5), (0, 4)],
        words=["good", "good", "bad", "", "good", "fine film"],
        num_sources=3,
        num_targets=3,
        label_kind="class",
        label_names=["up", "down"],
        labels=np.array([0, 0, 1, -1, 0, 1], dtype=np.int16),
        times=microseconds(
            "2018-01-05", "2018-01-31", "2018-02-01", None, "2019-12-31", "2020-06-01"
        ),
        splits={"random": np.array([0, 2, 0, 1, 2, 2], dtype=np.uint8)},
        tokens=FakeTokens(np.array([3, 3, 3, 2, 3, 70], dtype=np.int32)),
    )


def findings_about(card, about):
    """The findings of a card about something."""
    return [finding for finding in card.findings if finding.about == about]
