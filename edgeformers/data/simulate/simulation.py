"""The simulated network as tables, and the best scores that are possible on it."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.random import hash_keys
from edgeformers.data.simulate.best import BestLinkScores, BestRules, BestScores, best_link_scores
from edgeformers.data.simulate.config import PARTS, SimulationConfig
from edgeformers.data.simulate.model import EdgeDraws, Model, Stream
from edgeformers.data.simulate.names import NodeNames
from edgeformers.data.table import BATCH_ROWS, NODE_FIELDS, EdgeTable, NodeTable, edge_schema
from edgeformers.data.times import DAY
from edgeformers.data.types import Ids, Ints
from edgeformers.errors import InputError

SCHEMA = edge_schema(["label", "time"])
FIRST_TIME = 1_420_070_400_000_000  # 2015-01-01, in microseconds
TIME_SPAN = 5 * 365 * DAY
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
        for it, at least as high as the Bayes rule's (see `best.maximize_macro_f1`).

        With `sample`, the same rules are scored on edges of the network: on that number of
        evenly spaced edges, or on the given edge numbers, such as those of a test split.
        """
        draws = None if sample is None else self.model.draw(self._edges(sample))
        return self._rules.scores(draws)

    def best_link_scores(
        self,
        labels: Collection[str] | None = None,
        sample: int | ArrayLike = 100_000,
        *,
        filtered: bool = False,
    ) -> BestLinkScores:
        """MRR and NDCG of ranking all targets by the true P(target | source), over a sample.

        Each edge of the sample (see `best_scores`) is one query. With `labels`, such as ("5",),
        only edges with these labels are queries, and targets are ranked by
        P(target | source, label). No ranking has a higher expected score.

        If `filtered`, all other links of the source (with one of `labels`, if given) are removed
        from the ranking, as in the protocol `full`. A method that remembers training links can
        then exceed the score, since a link that occurs again in the sample is not removed.
        """
        draws = self.model.draw(self._edges(sample))
        return best_link_scores(self.model, draws, labels, filtered=filtered)

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
        topics = [topic.name for topic in self.config.words.topics]
        names = self._writer.names
        for side, ids, labels, label_names in (
            ("source", names.sources, self.model.style, self.config.words.styles),
            ("target", names.targets, self.model.topic, topics),
        ):
            for start in range(0, len(labels), BATCH_ROWS):
                batch = labels[start : start + BATCH_ROWS]
                label = pa.array(label_names, type=pa.string()).take(pa.array(batch))
                ends = np.arange(len(batch) + 1, dtype=np.int32)
                columns = {
                    "id": ids(np.arange(start, start + len(batch))),
                    "side": pa.repeat(side, len(batch)),
                    "labels": pa.ListArray.from_arrays(ends, label),
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
    given: dict[str, Any] = {"num_edges": num_edges, "seed": seed}
    overrides = {name: value for name, value in given.items() if value is not None}
    return Simulation(replace(config or SimulationConfig(), **overrides))


class EdgeWriter:
    """Writes edges as rows. A text is joined from pieces, each taken from its own table:

        "Bought it for a weekend hike. " + "The tent is " + "decent" + ", the zipper " +
        "could be better." + " Delivery took three days."

    The first and last piece are optional; how often they occur follows from `mean_words`.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.config = model, model.config
        self.names = NodeNames(model)
        words, topics = self.config.words, self.config.words.topics[: self.config.topics]
        parts = [pair for topic in topics for pair in topic.products.items()]  # (product, parts)
        lowest = (len(words.verdicts) - self.config.sentiments) // 2
        levels = slice(lowest, lowest + self.config.sentiments)

        openings = [product(words.openings, topic.occasions) for topic in topics]
        self.openings = _pieces(["", *(f"{a} {b}. " for pairs in openings for a, b in pairs)])
        self.subjects = _pieces(s.format(name) for name, _ in parts for s in words.subjects)
        self.verdicts = _pieces(v for level in words.verdicts[levels] for v in level)
        self.links = _pieces(a.format(b) for _, of in parts for a, b in product(words.links, of))
        self.remarks = _pieces(f"{r}." for level in words.remarks[levels] for r in level)
        self.labels = _pieces(str(stars + 1) for stars in range(self.config.classes))

        aside_words = sum(len(aside.split()) for aside in words.asides) / len(words.asides)
        tables = (self.subjects, self.verdicts, self.links, self.remarks)
        spaces = sum(float(pc.mean(pc.count_substring(t, " ")).as_py()) for t in tables)
        extra = max(self.config.mean_words - (1 + spaces), 0)  # beyond what every text has
        asides = int(np.ceil(extra / aside_words))
        self.aside_chance = extra / aside_words / max(asides, 1)
        closing = max(asides - 1, 0)  # the first aside is the opening
        self.asides = [
            _pieces(["", *(f" {a}" for a in words.asides[i::closing])]) for i in range(closing)
        ]

    def write(self, edges: Ints, draws: EdgeDraws) -> pa.RecordBatch:
        """The rows of these edges; times increase with the edge number, over about five years."""
        step = max(TIME_SPAN // self.config.num_edges, 1)
        offset = (self.model.uniform(Stream.TIME, edges) * step).astype(np.int64)
        times = FIRST_TIME + edges * step + offset
        columns = [
            self.names.sources(draws.source),
            self.names.targets(draws.target),
            self._texts(edges, draws),
            self.labels.take(pa.array(draws.stars)),
            pa.array(times, type=pa.timestamp("us")),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def _texts(self, edges: Ints, draws: EdgeDraws) -> pa.Array:
        topic = self.model.topic[draws.target].astype(np.int64)
        kind = self.model.product[draws.target].astype(np.int64)
        words = self.config.words
        sizes = [(len(self.openings) - 1) // self.config.topics, len(words.subjects), words.phrases]
        sizes += [len(words.links) * PARTS, words.phrases]
        keys = hash_keys(self.config.seed, Stream.PHRASING, edges)
        opening, subject, verdict, link, remark = _digits(keys, sizes)

        u = self.model.uniform(Stream.ASIDE, edges)
        opening = np.where(u < self.aside_chance, 1 + topic * sizes[0] + opening, 0)
        pieces = [
            self.openings.take(pa.array(opening)),
            self.subjects.take(pa.array(kind * sizes[1] + subject)),
            self.verdicts.take(pa.array(draws.verdict * sizes[2] + verdict)),
            self.links.take(pa.array(kind * sizes[3] + link)),
            self.remarks.take(pa.array(draws.remark * sizes[4] + remark)),
            *(self._aside(i, table, edges) for i, table in enumerate(self.asides, start=1)),
        ]
        return pc.binary_join_element_wise(*pieces, "")

    def _aside(self, number: int, table: pa.Array, edges: Ints) -> pa.Array:
        u = self.model.uniform(Stream.ASIDE + number, edges)
        choices = len(table) - 1
        choice = np.minimum((u / self.aside_chance * choices).astype(np.int64), choices - 1)
        return table.take(pa.array(np.where(u < self.aside_chance, 1 + choice, 0)))


def _digits(keys: NDArray[np.uint64], sizes: Sequence[int]) -> list[Ints]:
    """One uniform choice below each size from every key: its digits in mixed base."""
    digits = []
    for size in sizes:
        rest = keys // np.uint64(size)
        digits.append((keys - rest * np.uint64(size)).astype(np.int64))
        keys = rest
    return digits


def _pieces(strings: Iterable[str]) -> pa.Array:
    return pa.array(list(strings), type=pa.string())
