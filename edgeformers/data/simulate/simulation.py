"""Simulation: the network as tables, and the best scores it allows."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.simulate import words
from edgeformers.data.simulate.best import BestRules, BestScores
from edgeformers.data.simulate.config import SimulationConfig
from edgeformers.data.simulate.links import BestLinkScores, best_link_scores
from edgeformers.data.simulate.model import Ints, Model
from edgeformers.data.simulate.writer import SCHEMA, Writer, format_ids
from edgeformers.data.table import BATCH_ROWS, NODE_FIELDS, EdgeTable, NodeTable
from edgeformers.errors import InputError

MAX_BATCH_ROWS = 1_000_000  # keeps the texts of a batch far below Arrow's 2 GB limit


class Simulation:
    """A network of reviews, user -> item, drawn from a model whose best scores are known.

    An edge depends on the settings and its own number alone: rows are the same whatever the
    batch size and order of reading, and any part can be made again by itself. Memory grows with
    the nodes, never with the edges. Two networks of different `num_edges` are different
    networks, not one the beginning of the other. A user may review an item more than once.
    """

    def __init__(self, config: SimulationConfig) -> None:
        self.config = config
        self.model = Model(config)
        self._writer = Writer(self.model)

    def __repr__(self) -> str:
        return f"Simulation({self.config})"

    @property
    def origin(self) -> str:
        return f"simulation of {self.config.num_edges} edges, seed {self.config.seed}"

    @property
    def table(self) -> EdgeTable:
        """The edges in order of time: source, target, text, label "1" and up, time."""
        return EdgeTable(schema=SCHEMA, open=self.stream, origin=self.origin, bipartite=True)

    @property
    def nodes(self) -> NodeTable:
        """What is hidden in the nodes: the style of every source, the topic of every target."""
        schema = pa.schema(list(NODE_FIELDS.items()))
        return NodeTable(schema=schema, open=self._node_batches, origin=self.origin)

    def stream(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """All edges, `batch_rows` at a time."""
        if not 1 <= batch_rows <= MAX_BATCH_ROWS:
            raise InputError(f"batch_rows must be from 1 to {MAX_BATCH_ROWS} (got {batch_rows})")
        total = self.config.num_edges
        starts = range(0, total, batch_rows)
        return (self.rows(start, min(start + batch_rows, total)) for start in starts)

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """The edges from `start` up to `stop`, made by themselves."""
        if not 0 <= start <= stop <= self.config.num_edges or stop - start > MAX_BATCH_ROWS:
            raise InputError(
                f"rows {start} to {stop} cannot be made at once; the network has "
                f"{self.config.num_edges} edges, and up to {MAX_BATCH_ROWS} come at a time"
            )
        edges = np.arange(start, stop)
        return self._writer.write(edges, self.model.draw(edges))

    def best_scores(self, sample: int | ArrayLike | None = None) -> BestScores:
        """The best Macro-F1 and accuracy from text alone, from the nodes alone, from both.

        Computed, not learned: by exact enumeration over all the model can produce. Accuracy is
        that of the Bayes rule, which nothing exceeds in expectation. Macro-F1 is that of the
        rule tuned for it, at least that of the Bayes rule (see `best.maximize_macro_f1`).

        With `sample`, the same rules are scored on edges of the network instead: a number of
        them spread evenly, or the edge numbers themselves, such as those of a test split.
        """
        if sample is None:
            return self._rules.expected()
        return self._rules.measured(self.model.draw(self._edges(sample)))

    def best_link_scores(
        self, labels: Collection[str] | None = None, sample: int | ArrayLike = 100_000
    ) -> BestLinkScores:
        """MRR and NDCG of ranking all targets by the true P(target | source), over a sample.

        Each edge of the sample (see `best_scores`) is one query. With `labels`, such as
        ("5",), only edges of these count, and targets are ranked by P(target | source, label).
        No ranking has a higher expected score. Targets known from other edges stay in the list.
        """
        return best_link_scores(self.model, self.model.draw(self._edges(sample)), labels)

    @cached_property
    def _rules(self) -> BestRules:
        return BestRules(self.model)

    def _edges(self, sample: int | ArrayLike) -> Ints:
        total = self.config.num_edges
        if isinstance(sample, int | np.integer):
            if sample < 1:
                raise InputError(f"sample must be at least 1 edge (got {sample})")
            size = min(int(sample), total)
            return np.arange(size) * total // size
        edges = np.asarray(sample)
        if (
            edges.dtype.kind not in "iu"
            or not edges.size
            or edges.min() < 0
            or edges.max() >= total
        ):
            raise InputError(f"sample must hold edge numbers from 0 to {total - 1}, at least one")
        return edges.astype(np.int64)

    def _node_batches(self) -> Iterator[pa.RecordBatch]:
        model, topics = self.model, [topic.name for topic in words.TOPICS]
        yield from _node_batches("source", "user", model.style, list(words.STYLES))
        yield from _node_batches("target", "item", model.topic, topics)


def _node_batches(
    side: str, kind: str, labels: NDArray[np.int8], names: list[str]
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(labels), BATCH_ROWS):
        part = labels[start : start + BATCH_ROWS]
        label = pa.array(names, type=pa.string()).take(pa.array(part))
        columns = {
            "id": format_ids(kind, np.arange(start, start + len(part)), len(labels)),
            "side": pa.repeat(side, len(part)),
            "labels": pa.ListArray.from_arrays(np.arange(len(part) + 1, dtype=np.int32), label),
            "text": pa.nulls(len(part), pa.string()),
        }
        yield pa.RecordBatch.from_pydict(columns, schema=pa.schema(list(NODE_FIELDS.items())))


def simulate(
    config: SimulationConfig | None = None,
    *,
    num_edges: int | None = None,
    seed: int | None = None,
) -> Simulation:
    """A simulated network; `num_edges` and `seed` go before those of the settings."""
    given = {"num_edges": num_edges, "seed": seed}
    changes = {name: value for name, value in given.items() if value is not None}
    return Simulation(replace(config or SimulationConfig(), **changes))
