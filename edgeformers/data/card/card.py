"""The data card: what a network holds and what that means for training, as plain dataclasses."""

import json
import types
import typing
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal

from edgeformers.errors import FormatError

Severity = Literal["note", "warning"]

VERSION = 2  # of card.json
CUTS = (64, 128, 256)  # text lengths, in tokens, at which models commonly cut


@dataclass(frozen=True)
class Histogram:
    """Bin i counts the values from borders[i] up to, not including, borders[i + 1]."""

    borders: list[float]
    counts: list[int]
    is_open: bool = False  # the last bin also counts everything above it


@dataclass(frozen=True)
class Distribution:
    """Some numbers in short; a quantile is a number that occurs ("50": half are at most this)."""

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
    """How often something with a name occurs."""

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
    repeated_pairs: int  # pairs with several edges
    repeating_edges: int  # edges beyond the first of their pair
    identical_edges: int  # edges beyond the first with the same two ends and the same text
    self_loops: int
    isolated: int  # nodes without any edge
    shared_names: int  # of a network with two kinds of nodes: sources called as a target is


@dataclass(frozen=True)
class Side:
    """The degrees of one side of the network: its edges per node."""

    name: str
    nodes: int
    unused: int  # nodes of degree 0 on this side
    single: int  # nodes of degree 1
    degree: Distribution | None
    hubs: list[NamedCount]


@dataclass(frozen=True)
class Texts:
    """How long the texts are and how often they repeat; an empty text never counts as repeated."""

    empty: int
    distinct: int
    shared: int  # edges whose text stands on other edges too
    most_repeated: list[NamedCount]
    characters: Distribution | None
    tokens: Distribution | None
    tokenizer: str | None
    vocab_size: int | None
    cut: dict[str, float]  # number of tokens -> share of texts that are longer


@dataclass(frozen=True)
class Labels:
    """The labels of some edges; `balance` follows the order of the label names."""

    kind: str
    labelled: int
    unlabelled: int
    balance: list[NamedCount]
    numbers: Distribution | None


@dataclass(frozen=True)
class NodeLabels:
    """The labels of the nodes; a node may have several."""

    labelled: int
    balance: list[NamedCount]


@dataclass(frozen=True)
class Times:
    """When the edges came to be; `starts[i]` is the first moment of the period of `counts[i]`.

    A few times far from all others (a placeholder such as 1800) are not in `counts`: they would
    leave the plot empty. Days are written without a clock where all times are midnights.
    """

    first: str
    last: str
    missing: int  # edges without a time, or with one outside the years 1 to 9999
    far: int  # edges with a time far from all others
    period: str
    starts: list[str]
    counts: list[int]


@dataclass(frozen=True)
class Weights:
    """The weights of the edges that have one."""

    missing: int
    negative: int
    values: Distribution | None


@dataclass(frozen=True)
class Overlap:
    """Edges of a part that share something with a training edge."""

    edges: int
    share: float
    example: str


@dataclass(frozen=True)
class Part:
    """One part of a split. A node is cold when no training edge touches it."""

    name: str
    edges: int
    share: float
    nodes: dict[str, int]  # side -> nodes that the part touches
    cold: dict[str, int]  # side -> those of them that are cold
    cold_edges: int
    labels: Labels | None
    same_text: Overlap | None
    same_pair: Overlap | None
    same_edge: Overlap | None


@dataclass(frozen=True)
class Split:
    """A way to divide the edges into training, validation and test."""

    name: str
    parts: list[Part]
    made: str = ""  # how, as an option of `prepare`: link=per-source+drop

    def part(self, name: str) -> Part | None:
        return next((part for part in self.parts if part.name == name), None)


@dataclass(frozen=True)
class Finding:
    """Something to know before training: what it is, what it means, what would do about it."""

    severity: Severity
    about: str
    sentence: str
    advice: str
    numbers: dict[str, float]
    splits: list[str] = field(default_factory=list)  # whose; none: the whole network


@dataclass(frozen=True)
class DataCard:
    """All there is to say about a network without a model; the same in JSON, text and HTML."""

    name: str
    origin: str
    is_bipartite: bool
    is_directed: bool
    counts: Counts
    sides: list[Side]
    texts: Texts
    labels: Labels | None
    node_labels: NodeLabels | None
    times: Times | None
    weights: Weights | None
    edge_types: list[NamedCount]
    splits: list[Split]
    notes: list[str]  # what was decided while the network was prepared
    skipped: int
    skipped_examples: list[str]
    findings: list[Finding]
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "DataCard":
        """The card that `to_json` wrote."""
        advice = "write it again with describe()"
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise FormatError(
                f"data card: line {error.lineno} is not JSON ({error.msg}); {advice}"
            ) from error
        version = values.get("version") if isinstance(values, dict) else None
        if version != VERSION:
            raise FormatError(f"data card: version {VERSION} expected (got {version}); {advice}")
        try:
            card: DataCard = _rebuild(cls, values)
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"data card: a field does not fit ({error}); {advice}") from error
        return card


def _rebuild(kind: Any, value: Any) -> Any:
    """A value of the annotated type `kind` from what JSON made of it."""
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return typing.cast(Any, kind)(
            **{f.name: _rebuild(hints[f.name], value[f.name]) for f in fields(kind)}
        )
    if isinstance(kind, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not types.NoneType]
        return None if value is None else _rebuild(options[0], value)
    if typing.get_origin(kind) is list:
        return [_rebuild(typing.get_args(kind)[0], one) for one in value]
    if typing.get_origin(kind) is dict:
        return {key: _rebuild(typing.get_args(kind)[1], one) for key, one in value.items()}
    return value
