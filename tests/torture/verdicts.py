"""Networks of which it is known whether the graph and the text help, and verdicts on them."""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.table import EdgeTable
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.experiments.input_ablation import ablate_inputs
from edgeformers.report.verdict import Verdict
from tests.torture.outcome import Outcome

Rows = list[dict[str, str]]
Texts = Callable[[np.random.Generator, list[str]], list[str]]  # of the network, to other ones
Integers = NDArray[np.int64]

TINY = {
    "train.batch_size": 32,
    "train.node_lr": 1e-2,
    "train.head_lr": 2e-3,
    "model.node_width": 16,
    "data.max_tokens": 16,
}
EDGES = {**TINY, "train.epochs": 4, "train.lr": 1e-3}
LINKS = {
    **TINY,
    "train.epochs": 5,
    "train.lr": 5e-3,
    "data.source_neighbors": [3],
    "data.target_neighbors": [3],
}


@dataclass(frozen=True)
class Kind:
    """Networks of one kind, and the questions whose answer is known."""

    name: str
    rows: Callable[[np.random.Generator], Rows]
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One network."""

    kind: Kind
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind.name}, seed {self.seed}, network {self.number}"


def cases(kinds: tuple[Kind, ...], seed: int) -> Iterator[Case]:
    """Networks of all kinds in turn, without end."""
    for number in count():
        yield Case(kinds[number % len(kinds)], seed, number)


def judge(case: Case, *, expected: bool) -> Outcome:
    """`silent` if a known answer is wrong: "helps" where it cannot be, or not where it must."""
    began = time.perf_counter()
    rng = np.random.default_rng([case.seed, case.number])
    verdict = verdict_on(case.kind.rows(rng))
    found = {answer.question: answer.finding for answer in verdict.answers}
    is_wrong = any((found.get(q) == "helps") != expected for q in case.kind.questions)
    seconds = time.perf_counter() - began
    detail = f"{verdict.sentence} {' '.join(verdict.evidence)}"
    return Outcome(kind="silent" if is_wrong else "accepted", detail=detail, seconds=seconds)


def verdict_on(rows: Rows) -> Verdict:
    """The verdict on a tiny model of these edges: of their labels, or else of the links."""
    fields = list(rows[0])
    with tempfile.TemporaryDirectory(prefix="edgeformers-verdict-") as folder:
        table = EdgeTable.from_rows(lambda: rows, fields=fields, origin="rows", bipartite=True)
        config = PrepareConfig(tokenizer=None, progress=False)
        graph = write_network(table, Path(folder) / "network", config=config)
        is_labeled = "label" in fields
        kind = EdgeClassifier if is_labeled else LinkPredictor
        settings = EDGES if is_labeled else LINKS
        model = kind("scratch:2x32", recipe="fast", settings=settings, device="cpu", show=False)
        return ablate_inputs(model.fit(graph))


def labeled_rows(
    rng: np.random.Generator, *, nodes: float, words: float, texts: Texts | None = None
) -> Rows:
    """Edges with three classes that depend on both nodes and on the words, to given degrees."""
    edges, sources, targets = 900, 60, 45
    source, target = rng.integers(0, sources, edges), rng.integers(0, targets, edges)
    quality = rng.normal(size=sources)[source] + rng.normal(size=targets)[target]
    mood = rng.normal(size=edges)
    score = nodes * quality + words * mood + 0.4 * rng.normal(size=edges)
    label = np.digitize(score, np.quantile(score, (1 / 3, 2 / 3)))
    written = _texts(rng, np.digitize(mood, (-0.8, -0.25, 0.25, 0.8)), "mood")
    return _rows(source, target, texts(rng, written) if texts else written, label)


def linked_rows(
    rng: np.random.Generator,
    *,
    sources: int = 80,
    targets: int = 50,
    topics: int = 5,
    edges: int = 800,
    taste: float = 0.85,
    texts: Texts | None = None,
) -> Rows:
    """Edges of sources that prefer one topic, with words of the target's topic."""
    topic = np.arange(targets) % topics
    favorite = rng.integers(0, topics, sources)
    source = rng.integers(0, sources, edges)
    is_liked = rng.random(edges) < taste
    chosen = np.where(is_liked, favorite[source], rng.integers(0, topics, edges))
    target = chosen + topics * rng.integers(0, targets // topics, edges)
    _, first = np.unique(source * targets + target, return_index=True)
    source, target = source[first], target[first]
    written = _texts(rng, topic[target], "topic")
    return _rows(source, target, texts(rng, written) if texts else written)


def identical(rng: np.random.Generator, texts: list[str]) -> list[str]:
    """The same text for every edge."""
    return ["the same words"] * len(texts)


def sometimes_identical(rng: np.random.Generator, texts: list[str]) -> list[str]:
    """The texts, or in every other network the same text for every edge."""
    return identical(rng, texts) if rng.random() < 0.5 else texts


def random_words(rng: np.random.Generator, texts: list[str]) -> list[str]:
    """Texts of random words."""
    return [" ".join(f"word{i}" for i in row) for row in rng.integers(0, 200, (len(texts), 6))]


def permuted(rng: np.random.Generator, texts: list[str]) -> list[str]:
    """The texts, each on another edge."""
    return [texts[i] for i in rng.permutation(len(texts))]


def _texts(rng: np.random.Generator, meaning: Integers, name: str) -> list[str]:
    """Three words that tell the meaning, among three that do not."""
    telling, other = rng.integers(0, 3, (len(meaning), 3)), rng.integers(0, 40, (len(meaning), 3))
    return [
        " ".join([*(f"{name}{m}x{i}" for i in row), *(f"word{i}" for i in rest)])
        for m, row, rest in zip(meaning.tolist(), telling.tolist(), other.tolist(), strict=True)
    ]


def _rows(
    source: Integers, target: Integers, texts: list[str], label: Integers | None = None
) -> Rows:
    columns = [[f"u{i}" for i in source], [f"i{i}" for i in target], texts]
    columns += [] if label is None else [list(map(str, label))]
    names = ("source", "target", "text", "label")
    return [dict(zip(names, row, strict=False)) for row in zip(*columns, strict=True)]
