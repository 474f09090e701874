"""The simulated network as tables, and the best scores that are possible on it."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.simulate import words
from edgeformers.data.simulate.best_edges import BestRules, BestScores
from edgeformers.data.simulate.best_links import BestLinkScores, best_link_scores
from edgeformers.data.simulate.config import SimulationConfig
from edgeformers.data.simulate.model import Model
from edgeformers.data.simulate.writer import SCHEMA, EdgeWriter, format_ids
from edgeformers.data.table import BATCH_ROWS, NODE_FIELDS, EdgeTable, NodeTable
from edgeformers.data.types import Ids
from edgeformers.errors import InputError

NODE_SCHEMA = pa.schema(list(NODE_FIELDS.items()))
MAX_BATCH_ROWS = 1_000_000  # keeps the texts of a batch far below Arrow's limit of 2 GB


class Simulation:
    """A network of reviews, user -> item, drawn from a model whose best scores are known.

    An edge depends only on the settings and its own number: rows are the same for every batch
    size and reading order, and any part can be generated alone. Memory grows with the nodes, not
    with the edges. Networks with different `num_edges` are unrelated; the smaller is not the
    beginning of the larger. A user may review an item more than once.
    """

    def __init__(self, config: SimulationConfig) -> None:
        self.config = config
        self.model = Model(config)
        self._writer = EdgeWriter(self.model)

    def __repr__(self) -> str:
        return f"Simulation({self.config})"

    @property
    def origin(self) -> str:
        return f"simulation of {self.config.num_edges} edges, seed {self.config.seed}"

    @property
    def table(self) -> EdgeTable:
        """The edges in order of time: source, target, text, label ("1" and up), time."""
        return EdgeTable(schema=SCHEMA, open=self.stream, origin=self.origin, bipartite=True)

    @property
    def nodes(self) -> NodeTable:
        """The hidden node parameters: the style of every source, the topic of every target."""
        return NodeTable(schema=NODE_SCHEMA, open=self._node_batches, origin=self.origin)

    def stream(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """All edges in batches of `batch_rows`."""
        if not 1 <= batch_rows <= MAX_BATCH_ROWS:
            raise InputError(f"batch_rows must be from 1 to {MAX_BATCH_ROWS} (got {batch_rows})")
        total = self.config.num_edges
        starts = range(0, total, batch_rows)
        return (self.rows(start, min(start + batch_rows, total)) for start in starts)

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """The edges from `start` up to `stop`, generated without the others."""
        if not 0 <= start <= stop <= self.config.num_edges or stop - start > MAX_BATCH_ROWS:
            raise InputError(
                f"cannot generate rows {start} to {stop}: the network has {self.config.num_edges} "
                f"edges, and at most {MAX_BATCH_ROWS} rows are generated at a time"
            )
        edges = np.arange(start, stop)
        return self._writer.write(edges, self.model.draw(edges))

    def best_scores(self, sample: int | ArrayLike | None = None) -> BestScores:
        """The best Macro-F1 and accuracy from the text alone, from the nodes alone, from both.

        The scores are computed by exact enumeration of the model, not learned. Accuracy is that
        of the Bayes rule, which nothing exceeds in expectation. Macro-F1 is that of a rule tuned
        for it, at least as high as the Bayes rule's (see `best_edges.maximize_macro_f1`).

        With `sample`, the same rules are scored on edges of the network: on that number of
        evenly spaced edges, or on the given edge numbers, such as those of a test split.
        """
        if sample is None:
            return self._rules.expected_scores()
        return self._rules.scores(self.model.draw(self._edges(sample)))

    def best_link_scores(
        self, labels: Collection[str] | None = None, sample: int | ArrayLike = 100_000
    ) -> BestLinkScores:
        """MRR and NDCG of ranking all targets by the true P(target | source), over a sample.

        Each edge of the sample (see `best_scores`) is one query. With `labels`, such as ("5",),
        only edges with these labels are queries, and targets are ranked by
        P(target | source, label). No ranking has a higher expected score. Targets of other known
        edges are not removed from the ranking.
        """
        return best_link_scores(self.model, self.model.draw(self._edges(sample)), labels)

    @cached_property
    def _rules(self) -> BestRules:
        return BestRules(self.model)

    def _edges(self, sample: int | ArrayLike) -> Ids:
        total = self.config.num_edges
        if isinstance(sample, int | np.integer):
            if sample < 1:
                raise InputError(f"sample must be at least 1 edge (got {sample})")
            size = min(int(sample), total)
            return np.arange(size) * total // size
        edges = np.asarray(sample)
        is_valid = edges.dtype.kind in "iu" and edges.size
        if not is_valid or edges.min() < 0 or edges.max() >= total:
            raise InputError(f"sample must hold edge numbers from 0 to {total - 1}, at least one")
        return edges.astype(np.int64)

    def _node_batches(self) -> Iterator[pa.RecordBatch]:
        topics = [topic.name for topic in words.TOPICS]
        yield from _node_batches("source", "user", self.model.style, words.STYLES)
        yield from _node_batches("target", "item", self.model.topic, topics)


def _node_batches(
    side: str, kind: str, labels: NDArray[np.int8], names: list[str]
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(labels), BATCH_ROWS):
        batch = labels[start : start + BATCH_ROWS]
        label = pa.array(names, type=pa.string()).take(pa.array(batch))
        columns = {
            "id": format_ids(kind, np.arange(start, start + len(batch)), len(labels)),
            "side": pa.repeat(side, len(batch)),
            "labels": pa.ListArray.from_arrays(np.arange(len(batch) + 1, dtype=np.int32), label),
            "text": pa.nulls(len(batch), pa.string()),
        }
        yield pa.RecordBatch.from_pydict(columns, schema=NODE_SCHEMA)


def simulate(
    config: SimulationConfig | None = None,
    *,
    num_edges: int | None = None,
    seed: int | None = None,
) -> Simulation:
    """A simulated network; `num_edges` and `seed` override those of `config`."""
    given = {"num_edges": num_edges, "seed": seed}
    overrides = {name: value for name, value in given.items() if value is not None}
    return Simulation(replace(config or SimulationConfig(), **overrides))
