"""Turns random draws into Arrow columns (ids, texts, labels, times), one batch at a time."""

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from edgeformers.data.random import hash_keys
from edgeformers.data.simulate import words
from edgeformers.data.simulate.model import EdgeDraws, Model, Stream
from edgeformers.data.table import edge_schema
from edgeformers.data.types import Ints

SCHEMA = edge_schema(["label", "time"])
FIRST_TIME = 1_420_070_400_000_000  # 2015-01-01, in microseconds
TIME_SPAN = 5 * 365 * 86_400_000_000  # five years
ID_DIGITS = 6  # at least


class EdgeWriter:
    """Writes edges as rows. A text is joined from pieces, each taken from its own table:

        "Bought it for a weekend hike. " + "The tent is " + "decent" + ", the zipper " +
        "could be better." + " Delivery took three days."

    The first and last piece are optional; how often they occur follows from `mean_words`.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.config = model, model.config
        topics = words.TOPICS[: self.config.topics]
        parts = [pair for topic in topics for pair in topic.products.items()]  # (product, parts)
        lowest = (len(words.VERDICTS) - self.config.sentiments) // 2
        levels = slice(lowest, lowest + self.config.sentiments)

        openings = [product(words.OPENINGS, topic.occasions) for topic in topics]
        self.openings = _pieces(["", *(f"{a} {b}. " for pairs in openings for a, b in pairs)])
        self.subjects = _pieces(f"{s} {name} is " for name, _ in parts for s in words.SUBJECTS)
        self.verdicts = _pieces(v for level in words.VERDICTS[levels] for v in level)
        self.links = _pieces(f"{a} {b} " for _, of in parts for a, b in product(words.LINKS, of))
        self.remarks = _pieces(f"{r}." for level in words.REMARKS[levels] for r in level)
        self.labels = _pieces(str(stars + 1) for stars in range(self.config.classes))

        aside_words = sum(len(aside.split()) for aside in words.ASIDES) / len(words.ASIDES)
        extra = max(self.config.mean_words - self._sentence_words(), 0)
        asides = int(np.ceil(extra / aside_words))
        self.aside_chance = extra / aside_words / max(asides, 1)
        closing = max(asides - 1, 0)  # the first aside is the opening
        self.asides = [
            _pieces(["", *(f" {a}" for a in words.ASIDES[i::closing])]) for i in range(closing)
        ]

    def write(self, edges: Ints, draws: EdgeDraws) -> pa.RecordBatch:
        """The rows of these edges."""
        columns = [
            format_ids("user", draws.source, self.config.source_count),
            format_ids("item", draws.target, self.config.target_count),
            self._texts(edges, draws),
            self.labels.take(pa.array(draws.stars)),
            pa.array(self._times(edges), type=pa.timestamp("us")),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def _texts(self, edges: Ints, draws: EdgeDraws) -> pa.Array:
        topic = self.model.topic[draws.target].astype(np.int64)
        kind = self.model.product[draws.target].astype(np.int64)
        sizes = [(len(self.openings) - 1) // self.config.topics, len(words.SUBJECTS), words.PHRASES]
        sizes += [len(words.LINKS) * words.PARTS, words.PHRASES]
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

    def _times(self, edges: Ints) -> Ints:
        """Microseconds since 1970, increasing with the edge number, over about five years."""
        step = max(TIME_SPAN // self.config.num_edges, 1)
        offset = (self.model.uniform(Stream.TIME, edges) * step).astype(np.int64)
        return FIRST_TIME + edges * step + offset

    def _aside(self, number: int, table: pa.Array, edges: Ints) -> pa.Array:
        u = self.model.uniform(Stream.ASIDE + number, edges)
        choices = len(table) - 1
        choice = np.minimum((u / self.aside_chance * choices).astype(np.int64), choices - 1)
        return table.take(pa.array(np.where(u < self.aside_chance, 1 + choice, 0)))

    def _sentence_words(self) -> float:
        """Mean words of the sentence that every text has: its spaces plus one."""
        tables = (self.subjects, self.verdicts, self.links, self.remarks)
        return 1 + sum(float(pc.mean(pc.count_substring(table, " ")).as_py()) for table in tables)


def format_ids(kind: str, numbers: Ints, count: int) -> pa.Array:
    """Numbers below `count` as "user-000123"; all ids of one kind have the same length."""
    digits = max(ID_DIGITS, len(str(count - 1)))
    head = np.frombuffer(f"{kind}-".encode(), dtype=np.uint8)
    letters = np.empty((len(numbers), len(head) + digits), dtype=np.uint8)
    letters[:, : len(head)] = head
    rest = numbers.astype(np.uint64)
    for place in range(letters.shape[1] - 1, len(head) - 1, -1):
        tens = rest // np.uint64(10)
        letters[:, place] = rest - tens * np.uint64(10) + np.uint64(ord("0"))
        rest = tens
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * letters.shape[1]
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(letters))


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
