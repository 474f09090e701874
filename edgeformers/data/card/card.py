"""The data card: statistics of a network and findings about them, as plain dataclasses."""

import json
from dataclasses import asdict, dataclass, field
from typing import Literal

from edgeformers.data.splits import SplitConfig
from edgeformers.decode import decode_json

Severity = Literal["note", "warning"]

VERSION = 2  # of card.json
NEW_ENDS = ("neither", "source", "target", "both")  # ends of an edge without a training edge
CUTS = (64, 128, 256)  # text lengths, in tokens, at which models commonly truncate


@dataclass(frozen=True)
class Histogram:
    """`counts[i]` values v satisfy `borders[i] <= v < borders[i + 1]`."""

    borders: list[float]
    counts: list[int]
    is_open: bool = False  # the last bin also counts all larger values


@dataclass(frozen=True)
class Distribution:
    """Summary statistics; quantiles are observed values, keyed by percentage ("50": median)."""

    count: int
    minimum: float
    mean: float
    maximum: float
    quantiles: dict[str, float]
    histogram: Histogram

    @property
    def median(self) -> float:
        return self.quantiles["50"]


@dataclass(frozen=True)
class NamedCount:
    """How often a label, node or text occurs."""

    name: str
    count: int


@dataclass(frozen=True)
class Counts:
    """The size of the network. A pair is two nodes with at least one edge between them."""

    nodes: int
    sources: int
    targets: int
    edges: int
    pairs: int
    repeated_pairs: int  # pairs with more than one edge
    repeating_edges: int  # edges beyond the first of their pair
    identical_edges: int  # edges beyond the first with the same pair and text
    self_loops: int
    isolated: int  # nodes without edges
    shared_names: int  # bipartite networks: sources that have the id of a target


@dataclass(frozen=True)
class SideSummary:
    """The degrees of the nodes on one side of the network."""

    name: str
    nodes: int
    unused: int  # nodes of degree 0 on this side
    single: int  # nodes of degree 1
    degree: Distribution | None
    hubs: list[NamedCount]


@dataclass(frozen=True)
class TextSummary:
    """Text lengths and repeated texts; empty texts are not counted as repeated."""

    empty: int
    distinct: int
    shared: int  # edges whose text also occurs on other edges
    most_repeated: list[NamedCount]
    characters: Distribution | None
    tokens: Distribution | None
    tokenizer: str | None
    vocab_size: int | None
    cut: dict[str, float]  # number of tokens -> share of longer texts


@dataclass(frozen=True)
class LabelSummary:
    """The labels of a set of edges; `balance` is in the order of the label names."""

    kind: str
    labeled: int
    unlabeled: int
    balance: list[NamedCount]
    numbers: Distribution | None


@dataclass(frozen=True)
class NodeLabelSummary:
    """The labels of the nodes; a node may have several."""

    labeled: int
    balance: list[NamedCount]


@dataclass(frozen=True)
class TimeSummary:
    """The number of edges per period; `starts[i]` is the start of the period of `counts[i]`.

    Outliers (a placeholder such as 1800) are not in `counts`, which they would stretch. Times
    are written as dates if all of them are midnights.
    """

    first: str
    last: str
    missing: int  # edges without a time, or with one outside the years 1 to 9999
    far: int  # edges with an outlying time
    period: str
    starts: list[str]
    counts: list[int]
    future: NamedCount | None = None  # edges later than tomorrow, by the first of them
    early: NamedCount | None = None  # edges before 1971, by the first of them


@dataclass(frozen=True)
class WeightSummary:
    """The weights of the edges that have one."""

    missing: int
    negative: int
    values: Distribution | None


@dataclass(frozen=True)
class Overlap:
    """Edges of a part that share a text, a pair or both with a training edge."""

    edges: int
    share: float
    example: str


@dataclass(frozen=True)
class PartSummary:
    """One part of a split. A node is cold if it has no training edge."""

    name: str
    edges: int
    share: float
    nodes: dict[str, int]  # side -> nodes with an edge in this part
    cold: dict[str, int]  # side -> those of them that are cold
    cold_edges: int
    labels: LabelSummary | None
    same_text: Overlap | None
    same_pair: Overlap | None
    same_edge: Overlap | None
    new_ends: dict[str, int] = field(default_factory=dict)  # edges by which ends are cold: NEW_ENDS


@dataclass(frozen=True)
class SplitSummary:
    """A division of the edges into training, validation and test."""

    name: str
    parts: list[PartSummary]
    spec: str = ""  # as given to `prepare --split`: link=per-source+drop

    @property
    def is_chronological(self) -> bool:
        """Whether training edges are the first ones and test edges the last."""
        return bool(self.spec) and SplitConfig.parse(self.spec).how == "chronological"

    def part(self, name: str) -> PartSummary | None:
        return next((part for part in self.parts if part.name == name), None)


@dataclass(frozen=True)
class Finding:
    """Something to know before training, with its consequence and remedy."""

    severity: Severity
    about: str
    sentence: str
    advice: str
    numbers: dict[str, float]
    splits: list[str] = field(default_factory=list)  # splits it concerns; empty: the network


@dataclass(frozen=True)
class DataCard:
    """Statistics and findings of a network; JSON, terminal and HTML show the same content."""

    name: str
    origin: str
    is_bipartite: bool
    is_directed: bool
    counts: Counts
    sides: list[SideSummary]
    texts: TextSummary
    labels: LabelSummary | None
    node_labels: NodeLabelSummary | None
    times: TimeSummary | None
    weights: WeightSummary | None
    edge_types: list[NamedCount]
    splits: list[SplitSummary]
    notes: list[str]  # decisions made while the network was prepared
    skipped: int
    skipped_examples: list[str]
    findings: list[Finding]
    prepare_options: str = ""  # options of `prepare` that apply the advice of the findings
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "DataCard":
        """Parse the output of `to_json`."""
        remedy = "create it again with: edgeformers describe NETWORK"
        return decode_json(cls, text, source="data card", version=VERSION, remedy=remedy)
