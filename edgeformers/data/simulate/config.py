"""The settings of a simulated network, and the vocabulary of its reviews from words.toml."""

import tomllib
from dataclasses import dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from edgeformers.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A group of items: its products with their parts, and the occasions they are bought for."""

    name: str
    products: dict[str, list[str]]  # product -> parts that a review may mention
    occasions: list[str]  # each completes "Bought it ..."


_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))

TOPICS = [Topic(**topic) for topic in _WORDS["topics"]]
OPENINGS: list[str] = _WORDS["openings"]
SUBJECTS: list[str] = _WORDS["subjects"]
LINKS: list[str] = _WORDS["links"]
STYLES: list[str] = _WORDS["styles"]
VERDICTS: list[list[str]] = _WORDS["verdicts"]  # by sentiment level
REMARKS: list[list[str]] = _WORDS["remarks"]  # by sentiment level
ASIDES: list[str] = _WORDS["asides"]

PRODUCTS = 6  # per topic
PARTS = 3  # per product
PHRASES = 4  # per sentiment level

#: The allowed range of each setting; `num_targets` also needs one target per topic.
RANGES: dict[str, tuple[float, float]] = {
    "num_edges": (1, 10**10),
    "num_sources": (1, 10**9),
    "num_targets": (1, 10**9),
    "seed": (0, 2**64 - 1),
    "classes": (2, 5),
    "styles": (1, len(STYLES)),
    "topics": (1, len(TOPICS)),
    "mean_words": (10, 60),
    "temper": (0, 10),
    "quality": (0, 10),
    "surprise": (0.05, 10),
    "slip": (0, 1),
    "taste": (0, 1),
    "source_skew": (1, 8),
    "target_skew": (1, 8),
}


@dataclass(frozen=True, kw_only=True)
class SimulationConfig:
    """The size of the network, the style of its texts, and how hard the stars are to predict.

    With the defaults, neither the text nor the nodes of an edge suffice alone, but together they
    almost determine the stars. Every source has enough edges to learn its style from: 25 on
    average, 12 for the least active.
    """

    num_edges: int = 20_000
    num_sources: int | None = None  # None: one per 25 edges
    num_targets: int | None = None  # None: one per 20 edges
    seed: int = 0

    classes: int = 5  # star labels "1", "2", ...
    styles: int = 3  # ways to use words; the same words mean up to this many different stars
    topics: int = 8  # groups of targets; every source has two favorites
    mean_words: float = 12.0  # of a text, approximately

    temper: float = 2.4  # distance in stars between the most lenient and the harshest source
    quality: float = 2.4  # distance in stars between the best and the worst target
    surprise: float = 0.95  # standard deviation in stars around what source and target suggest
    slip: float = 0.1  # how often a phrase is one sentiment level off
    taste: float = 0.8  # share of a source's edges that go to its two favorite topics

    source_skew: int = 2  # 1: equally active sources; k: a Zipf-like law with exponent 1 - 1/k
    target_skew: int = 2  # the same for the popularity of the targets of one topic

    def __post_init__(self) -> None:
        types = {field.name: field.type for field in fields(self)}
        for name, (low, high) in RANGES.items():
            value: Any = getattr(self, name)
            if value is None and types[name] == (int | None):
                continue
            why = " (the number of topics)" if name == "num_targets" else ""
            low = max(low, self.topics) if name == "num_targets" else low
            kind, number = ("a number", Real) if types[name] is float else ("an integer", Integral)
            is_number = isinstance(value, number) and not isinstance(value, bool)
            if not is_number or not low <= value <= high:
                raise ConfigError(
                    f"simulation.{name} must be {kind} from {low}{why} to {high} (got {value!r})"
                )

    @property
    def source_count(self) -> int:
        """`num_sources`, or its default for the number of edges."""
        return max(4, self.num_edges // 25) if self.num_sources is None else self.num_sources

    @property
    def target_count(self) -> int:
        """`num_targets`, or its default for the number of edges."""
        if self.num_targets is None:
            return max(2 * self.topics, self.num_edges // 20)
        return self.num_targets

    @property
    def sentiments(self) -> int:
        """Sentiment levels in use: one per star, plus one per style beyond the first."""
        return self.classes + self.styles - 1
