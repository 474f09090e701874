"""The settings of a simulated network, and the vocabularies of its texts from TOML files."""

import tomllib
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, get_args

from edgeformers.errors import ConfigError

PRODUCTS = 6  # per topic
PARTS = 3  # per product


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A group of items: its products with their parts, and the occasions they are bought for."""

    name: str
    products: dict[str, list[str]]  # product -> parts that a text may mention
    occasions: list[str]  # each completes "Bought it ..."
    nouns: list[str] = field(default_factory=list)  # of the items' names


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What the texts of a simulated network are about, and their vocabulary."""

    topics: list[Topic]
    openings: list[str]
    subjects: list[str]
    links: list[str]
    styles: list[str]
    verdicts: list[list[str]]  # by sentiment level
    remarks: list[list[str]]  # by sentiment level
    asides: list[str]
    first_names: list[str] = field(default_factory=list)
    last_names: list[str] = field(default_factory=list)
    adjectives: list[str] = field(default_factory=list)  # of the items' names

    @property
    def phrases(self) -> int:
        """Phrases per sentiment level."""
        return len(self.verdicts[0])


@cache
def load_scenario(name: str) -> Scenario:
    """A scenario by its name, from its TOML file."""
    words = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))
    return Scenario(**{**words, "topics": [Topic(**topic) for topic in words["topics"]]})


ScenarioName = Literal["products", "library"]

#: The allowed range of each setting. `num_targets` also needs one target per topic, and the
#: scenario limits `styles` and `topics`.
RANGES: dict[str, tuple[float, float]] = {
    "num_edges": (1, 10**10),
    "num_sources": (1, 10**9),
    "num_targets": (1, 10**9),
    "seed": (0, 2**64 - 1),
    "classes": (2, 5),
    "styles": (1, 4),
    "topics": (1, 20),
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

    scenario: ScenarioName = "products"  # what the texts are about
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
        if self.scenario not in get_args(ScenarioName):
            names = ", ".join(get_args(ScenarioName))
            raise ConfigError(f"simulation.scenario must be one of {names} (got {self.scenario!r})")
        types = {field.name: field.type for field in fields(self)}
        available = {"styles": len(self.words.styles), "topics": len(self.words.topics)}
        for name, (low, high) in RANGES.items():
            high = min(high, available.get(name, high))
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
    def words(self) -> Scenario:
        """The vocabulary of the scenario."""
        return load_scenario(self.scenario)

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


def library_config(num_edges: int = 4_000, seed: int = 0) -> SimulationConfig:
    """A village library, whose readers leave notes in its books: few notes per reader and book.

    A reader writes ten notes on average and a book has four, half of the books at most three.
    """
    return SimulationConfig(
        scenario="library",
        num_edges=num_edges,
        num_sources=max(4, num_edges // 10),
        num_targets=max(40, num_edges // 4),
        seed=seed,
        topics=20,
        mean_words=21.0,
    )
