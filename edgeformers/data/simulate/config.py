"""The settings of a simulated network."""

from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from edgeformers.data.simulate.words import STYLES, TOPICS
from edgeformers.errors import ConfigError

MAX_CLASSES = 5


@dataclass(frozen=True, kw_only=True)
class SimulationConfig:
    """How large the network is, how its texts read, and how hard it is to tell the stars.

    The defaults make each end of an edge and its text insufficient alone and nearly decisive
    together, and give every source enough edges to learn its style from: 25 on average, 12 for
    the least active.
    """

    num_edges: int = 20_000
    num_sources: int | None = None  # None: one for every 25 edges
    num_targets: int | None = None  # None: one for every 20 edges
    seed: int = 0

    classes: int = 5  # star labels "1", "2", ...
    styles: int = 3  # ways to use words; the same words mean up to this many different stars
    topics: int = 8  # groups of targets; a source likes two of them best
    mean_words: float = 12.0  # of a text, about

    temper: float = 2.4  # how far, in stars, the most lenient source is from the harshest
    quality: float = 2.4  # how far, in stars, the best target is from the worst
    surprise: float = 0.95  # deviation, in stars, of an edge from what its two ends suggest
    slip: float = 0.1  # how often a phrase is one rung off the one the style asks for
    taste: float = 0.8  # share of a source's edges that follow its two favorite topics

    source_skew: int = 2  # 1: sources equally active; k: a Zipf-like law of exponent 1 - 1/k
    target_skew: int = 2  # the same for the popularity of the targets of one topic

    def __post_init__(self) -> None:
        self._check_range("num_edges", 1, 10**10)
        self._check_range("topics", 1, len(TOPICS))
        self._check_range("num_sources", 1, 10**9)
        self._check_range("num_targets", self.topics, 10**9, " (the number of topics)")
        self._check_range("seed", 0, 2**64 - 1)
        self._check_range("classes", 2, MAX_CLASSES)
        self._check_range("styles", 1, len(STYLES))
        self._check_range("mean_words", 10, 60)
        self._check_range("temper", 0, 10)
        self._check_range("quality", 0, 10)
        self._check_range("surprise", 0.05, 10)
        self._check_range("slip", 0, 1)
        self._check_range("taste", 0, 1)
        self._check_range("source_skew", 1, 8)
        self._check_range("target_skew", 1, 8)

    @property
    def source_count(self) -> int:
        """`num_sources`, or what follows from the number of edges."""
        return max(4, self.num_edges // 25) if self.num_sources is None else self.num_sources

    @property
    def target_count(self) -> int:
        """`num_targets`, or what follows from the number of edges."""
        if self.num_targets is None:
            return max(2 * self.topics, self.num_edges // 20)
        return self.num_targets

    @property
    def rungs(self) -> int:
        """Rungs of the ladder of praise in use: one per star, one more per further style."""
        return self.classes + self.styles - 1

    def _check_range(self, name: str, low: float, high: float, why: str = "") -> None:
        value: Any = getattr(self, name)
        kind = next(f.type for f in fields(self) if f.name == name)
        if value is None and kind == (int | None):
            return
        wanted, number = ("a number", Real) if kind is float else ("a whole number", Integral)
        usable = isinstance(value, number) and not isinstance(value, bool)
        if not usable or not low <= value <= high:
            raise ConfigError(
                f"simulation.{name} must be {wanted} from {low}{why} to {high} (got {value!r})"
            )
