"""Figures as plain data, independent of how they are drawn (see `plotting`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from edgeformers.data.card.card import Histogram
from edgeformers.data.card.phrasing import percent

#: One color per line or node; distinguishable by most readers, in light and in dark mode.
COLORS = ("#0b8f80", "#d9730d", "#6b5bd2", "#c2387a", "#3f86d9", "#8a8f1f", "#a8583b", "#7d8588")

Points: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class BarChart:
    """Counts in adjacent bins; `mark` draws a dashed line at a value."""

    label: str
    borders: Sequence[float]
    counts: Sequence[int]
    tips: Sequence[str]
    ticks: Mapping[float, str] | None = None
    open_end: str = ""  # names the last bin if it has no upper limit
    mark: tuple[float, str] | None = None
    wide: bool = False


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """Lines of points, one color per name; the best point of each line may be larger."""

    label: str
    lines: Mapping[str, Sequence[Points]]
    tip: Callable[[str, float, float], str] = lambda name, x, y: f"{name}, {x:g}: {y:g}"
    format_y: Callable[[float], str] = "{:g}".format
    ticks: Mapping[float, str] | None = None
    include: Points = ()  # points that the axes also cover
    best: Callable[..., Any] | None = None  # max or min
    is_log: bool = False  # both axes
    deviations: Mapping[str, Sequence[float]] = field(default_factory=dict)
    x_label: str = ""
    y_label: str = ""
    wide: bool = False


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A numbered point of a DotChart; `kind` is its name in the legend."""

    x: float
    y: float
    kind: str
    color: str
    tip: str


@dataclass(frozen=True, kw_only=True)
class DotChart:
    """Points with their number, which a table explains; the horizontal axis is logarithmic."""

    label: str
    dots: Sequence[Dot]
    ticks: Mapping[float, str]
    format_y: Callable[[float], str] = "{:g}".format
    wide: bool = True


@dataclass(frozen=True, kw_only=True)
class AttentionFigure:
    """Attention weights from the readout token, averaged over heads: [layers, tokens].

    The first `virtual` tokens are the virtual ones.
    """

    title: str
    tokens: list[str]
    weights: list[list[float]]
    virtual: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeMap:
    """2-d coordinates of nodes and of the edges around them; edge i belongs to node `ends[i]`."""

    title: str
    names: list[str]
    nodes: list[list[float]]  # [x, y]
    edges: list[list[float]]
    ends: list[int]
    note: str = ""


FigureData: TypeAlias = BarChart | LineChart | DotChart | NodeMap | AttentionFigure


def histogram_chart(
    data: Histogram, label: str, unit: str, things: str, mark: tuple[float, str] | None = None
) -> BarChart:
    """A histogram with tooltips such as '20 to 29 tokens: 1,204 texts'."""
    bins = list(pairwise(data.borders))
    is_integer = all(border == round(border) for border in data.borders)

    def span(low: float, high: float) -> str:
        if data.is_open and high == data.borders[-1]:
            return f"{low:,.6g} or more"
        if is_integer:
            return f"{low:,.0f}" if high - low == 1 else f"{low:,.0f} to {high - 1:,.0f}"
        return f"{low:.4g} to {high:.4g}"

    tips = [
        f"{span(low, high)} {unit}: {count:,} {things}"
        for (low, high), count in zip(bins, data.counts, strict=True)
    ]
    is_shown = mark is not None and data.borders[0] < mark[0] <= data.borders[-1]
    return BarChart(
        label=label,
        borders=data.borders,
        counts=data.counts,
        tips=tips,
        open_end=f"{bins[-1][0]:,.6g}+" if data.is_open else "",
        mark=mark if is_shown else None,
    )


def timeline_chart(
    starts: Sequence[str], counts: Sequence[int], period: str, label: str
) -> BarChart:
    """Edges per period."""
    last = len(starts) - 1
    return BarChart(
        label=label,
        borders=range(len(counts) + 1),
        counts=counts,
        tips=[f"{period} from {s}: {n:,} edges" for s, n in zip(starts, counts, strict=True)],
        ticks={i + 0.5: starts[i] for i in sorted({0, last // 2, last})},
        wide=True,
    )


def survival_chart(data: Histogram, label: str, things: str) -> LineChart:
    """How many have at least x, on logarithmic axes: a power law is a straight line."""
    at_least = list(accumulate(reversed(data.counts)))[::-1]
    points = [(x, float(n)) for x, n in zip(data.borders, at_least, strict=False) if n]
    total = max(at_least, default=0)
    return LineChart(
        label=label,
        lines={"": [points]},
        tip=lambda _, x, n: f"at least {x:,.0f}: {n:,.0f} {things} ({percent(n / total)})",
        include=[(1.0, 1.0), (10.0, 10.0)],
        is_log=True,
    )


def legend(data: FigureData) -> list[tuple[str, str]]:
    """The names in a figure with their colors."""
    if isinstance(data, DotChart):
        return list(dict.fromkeys((dot.kind, dot.color) for dot in data.dots))
    names = data.names if isinstance(data, NodeMap) else ()
    names = list(data.lines) if isinstance(data, LineChart) else names
    return [(name, color(i)) for i, name in enumerate(names) if name]


def color(number: int) -> str:
    """The color of the n-th line or node."""
    return COLORS[number % len(COLORS)]
