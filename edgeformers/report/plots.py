"""Plots of results as HTML: score intervals, learning curves, nodes and their edges, costs.

Like the plots of the data card, text keeps its size at any width: horizontal positions are
percentages, vertical ones pixels. Colors are readable on light and on dark paper.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.errors import InputError, MissingExtraError, require
from edgeformers.report.page import safe
from edgeformers.report.svg import REACH

#: One color per curve or node, in this order; told apart by most eyes.
COLORS = ("#0b8f80", "#d9730d", "#6b5bd2", "#c2387a", "#3f86d9", "#8a8f1f", "#a8583b", "#7d8588")
CURVES_HEIGHT, SCATTER_HEIGHT = 240, 420  # pixels
TOP, BOTTOM = 14, 28  # pixels above the highest and below the lowest mark
SCATTERED = 3000  # edges that are drawn at most, evenly chosen
STAR = "M0 -8L2.1 -2.6 7.6 -2.5 3.2 1 4.7 6.5 0 3.3 -4.7 6.5 -3.2 1 -7.6 -2.5 -2.1 -2.6Z"

Points = Sequence[tuple[float, float]]
Place = Callable[[float], float]  # a value -> its share of an axis
Show = Callable[[float], str]  # a value as it is written


@dataclass(frozen=True, kw_only=True)
class NumberedDot:
    """A dot of `numbered`, and what its tooltip says."""

    number: int
    x: float
    y: float
    color: str
    tip: str


@dataclass(frozen=True)
class _Axes:
    """Where values stand in a plot as high as learning curves are."""

    across: Place
    upward: Place
    low: float
    high: float

    @classmethod
    def of(cls, points: Points, margin: float) -> "_Axes":
        xs, ys = [x for x, _ in points], [y for _, y in points]
        return cls(scale(xs, margin), scale(ys, 0.06), min(ys), max(ys))

    def x(self, value: float) -> str:
        return f"{REACH * self.across(value):.2f}%"

    def y(self, value: float) -> str:
        return f"{_down(self.upward(value), CURVES_HEIGHT):.1f}"

    def grid(self, show: Show) -> Iterator[str]:
        for value in round_values(self.low, self.high):
            y = self.y(value)
            yield f'<line class="grid" x1="0" x2="{REACH}%" y1="{y}" y2="{y}"/>'
            yield f'<text x="100%" y="{y}" dy="4" text-anchor="end">{show(value)}</text>'

    def names(self, ticks: Mapping[float, str]) -> Iterator[str]:
        for value, name in ticks.items():
            place = f'x="{self.x(value)}" y="{CURVES_HEIGHT - BOTTOM + 20}"'
            yield f'<text {place} text-anchor="middle">{safe(name)}</text>'

    def line(self, one: tuple[float, float], other: tuple[float, float], color: str) -> str:
        ends = f'x1="{self.x(one[0])}" y1="{self.y(one[1])}"'
        ends += f' x2="{self.x(other[0])}" y2="{self.y(other[1])}"'
        return f'<line stroke="{color}" stroke-width="2" {ends}/>'

    def dot(self, at: tuple[float, float], color: str, tip: str, radius: int) -> str:
        place = f'cx="{self.x(at[0])}" cy="{self.y(at[1])}" r="{radius}"'
        return f'<circle {place} fill="{color}"><title>{safe(tip)}</title></circle>'


def project_2d(vectors: ArrayLike, seed: int = 0) -> NDArray[np.float64]:
    """Vectors [n, D] on a plane [n, 2]: t-SNE where scikit-learn is there, else PCA.

    Fewer than ten vectors have no neighborhoods to keep, and are always shown by PCA.
    """
    table = np.asarray(vectors, np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(
            f"vectors to draw must be a table [n, D] of finite numbers (got {list(table.shape)})"
        )
    plane = _pca(table)
    if len(table) < 10:
        return plane
    try:
        manifold = require("sklearn.manifold", "baselines")
    except MissingExtraError:
        return plane
    perplexity = min(30.0, (len(table) - 1) / 3)
    start = plane / (plane.std() or 1.0) * 1e-4
    tsne = manifold.TSNE(perplexity=perplexity, init=start, random_state=seed)
    return np.asarray(tsne.fit_transform(table.astype(np.float32)), np.float64)


def _pca(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The two directions of largest variance; each points to where its largest part is positive."""
    centered = table - table.mean(axis=0) if len(table) else table
    left, sizes, right = np.linalg.svd(centered, full_matrices=False)
    largest = np.argmax(np.abs(right), axis=1) if right.size else np.empty(0, np.int64)
    signs = np.sign(right[np.arange(len(right)), largest]) if right.size else np.empty(0)
    plane = (left * sizes * signs)[:, :2]
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def scale(values: Sequence[float], margin: float) -> Place:
    """Values to shares of an axis, with room at both ends; equal values stand in the middle."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    span = high - low
    if span <= 0:
        return lambda value: 0.5
    return lambda value: margin + (1 - 2 * margin) * (value - low) / span


def interval(low: float, value: float, high: float, best: float | None = None) -> str:
    """A dot between two whiskers, all as shares of the width; a dashed line marks the best.

    The line is higher than the plot, so that those of a table's rows look like one.
    """
    mark = (
        f'<line class="mark" x1="{best:.1%}" x2="{best:.1%}" y1="-16" y2="34"/>'
        if best is not None
        else ""
    )
    return (
        f'<svg class="meter" height="18" aria-hidden="true">{mark}'
        f'<line class="grid" x1="0" x2="100%" y1="9" y2="9"/>'
        f'<line class="curve" x1="{low:.1%}" x2="{high:.1%}" y1="9" y2="9"/>'
        f'<circle class="dot" cx="{value:.1%}" cy="9" r="3.5"/></svg>'
    )


def curves(
    lines: Mapping[str, Sequence[Points]],
    label: str,
    *,
    lower_is_better: bool | None,
    show: Show,
    at: Show = "epoch {:g}".format,
    ticks: Mapping[float, str] | None = None,
    frame: Points = (),
) -> str:
    """A value over epochs, a color per name in the legend, which may have several lines.

    The best dot of a line is larger, unless `lower_is_better` is None. `ticks` name places of the
    horizontal axis where it is no epoch, `at` a place in a tooltip; the axes also hold `frame`.
    """
    points = [point for group in lines.values() for line in group for point in line]
    if not points:
        return ""
    axes = _Axes.of([*points, *frame], 0.02 if ticks is None else 0.08)  # names are longer
    body = list(axes.grid(show))
    body += axes.names(_some(sorted({p[0] for p in points})) if ticks is None else ticks)
    for color, (name, group) in zip(_colors(len(lines)), lines.items(), strict=True):
        for line in group:
            body += [axes.line(one, other, color) for one, other in pairwise(line)]
            peak = _peak(line, lower_is_better)
            body += [
                axes.dot((x, y), color, f"{name}, {at(x)}: {show(y)}", 5 if (x, y) == peak else 3)
                for x, y in line
            ]
    return _svg(body, label, CURVES_HEIGHT) + legend(list(lines))


def _peak(line: Points, lower_is_better: bool | None) -> tuple[float, float] | None:
    if lower_is_better is None:
        return None
    sign = -1.0 if lower_is_better else 1.0
    return max(line, key=lambda point: sign * point[1], default=None)


def numbered(
    dots: Sequence[NumberedDot], label: str, *, show: Show, ticks: Mapping[float, str]
) -> str:
    """Dots on a plane, each with a number beside it that a table explains."""
    if not dots:
        return ""
    axes = _Axes.of([(dot.x, dot.y) for dot in dots], 0.05)
    body = [*axes.grid(show), *axes.names(ticks)]
    for dot in dots:
        place = (dot.x, dot.y)
        body.append(axes.dot(place, dot.color, dot.tip, 5))
        body.append(
            f'<text class="name" x="{axes.x(dot.x)}" dx="7" y="{axes.y(dot.y)}" dy="-3">'
            f"{dot.number}</text>"
        )
    return _svg(body, label, CURVES_HEIGHT)


def scatter(nodes: Sequence[tuple[str, float, float]], edges: Points, ends: Sequence[int]) -> str:
    """Nodes as stars with their names, edges as points in the color of their node."""
    everyone = [(x, y) for _, x, y in nodes] + list(edges)
    if not everyone:
        return ""
    across = scale([x for x, _ in everyone], 0.04)
    upward = scale([y for _, y in everyone], 0.04)
    color = _colors(len(nodes))
    step = max(1, math.ceil(len(edges) / SCATTERED))
    body = [
        f'<circle cx="{across(x):.2%}" cy="{_down(upward(y), SCATTER_HEIGHT):.1f}" r="2.6" '
        f'fill="{color[node]}" fill-opacity=".55"/>'
        for (x, y), node in list(zip(edges, ends, strict=True))[::step]
    ]
    for (name, x, y), paint in zip(nodes, color, strict=True):
        body.append(
            f'<svg x="{across(x):.2%}" y="{_down(upward(y), SCATTER_HEIGHT):.1f}" '
            f'style="overflow:visible;width:1px;height:1px"><path d="{STAR}" fill="{paint}" '
            f'stroke="var(--ink)"/><title>{safe(name)}</title></svg>'
        )
    label = f"{len(nodes):,} nodes as stars and {len(edges):,} edges as points"
    return _svg(body, label, SCATTER_HEIGHT) + legend([name for name, _, _ in nodes])


def _down(share: float, height: int) -> float:
    return height - BOTTOM - (height - TOP - BOTTOM) * share


def round_values(low: float, high: float) -> list[float]:
    """A few round numbers between two values; the value itself where they are one."""
    if high <= low:
        return [low]
    size = 10.0 ** math.floor(math.log10(high - low))
    step = next(s * size for s in (0.2, 0.5, 1, 2) if (high - low) / (s * size) <= 7)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _some(epochs: Sequence[float]) -> dict[float, str]:
    """At most eight of all epochs, evenly chosen, with their names."""
    return {epoch: f"{epoch:g}" for epoch in epochs[:: math.ceil(len(epochs) / 8)]}


def _colors(count: int) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(count)]


def legend(names: Sequence[str], colors: Sequence[str] | None = None) -> str:
    """The names below a plot, each beside its color."""
    keys = "".join(
        f'<span><svg class="key" aria-hidden="true"><rect fill="{color}" width="100%" '
        f'height="100%"/></svg>{safe(name)}</span>'
        for color, name in zip(colors or _colors(len(names)), names, strict=True)
    )
    return f'<div class="legend soft">{keys}</div>'


def _svg(body: Sequence[str], label: str, height: int) -> str:
    name = safe(label)
    return (
        f'<svg class="plot" role="img" aria-label="{name}" height="{height}">'
        f"<title>{name}</title>{''.join(body)}</svg>"
    )
