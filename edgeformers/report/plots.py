"""Plots of results as HTML: score intervals, learning curves, attention, nodes and their edges.

Like the plots of the data card, text keeps its size at any width: horizontal positions are
percentages, vertical ones pixels. Colors are readable on light and on dark paper.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
TOKEN = "padding:1px .8rem 1px 0;border:0;white-space:nowrap;min-width:0"
LONGEST = 15  # characters of a token that are shown
STAR = "M0 -8L2.1 -2.6 7.6 -2.5 3.2 1 4.7 6.5 0 3.3 -4.7 6.5 -3.2 1 -7.6 -2.5 -2.1 -2.6Z"

Points = Sequence[tuple[float, float]]
Place = Callable[[float], float]  # a value -> its share of an axis
Show = Callable[[float], str]  # a value as it is written


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


def curves(lines: Mapping[str, Points], label: str, *, is_low_best: bool, show: Show) -> str:
    """A value over epochs, one line per run with its name in the legend; its best dot is larger."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    across = scale([x for x, _ in points], 0.02)
    upward = scale([y for _, y in points], 0.06)

    def x(value: float) -> str:
        return f"{REACH * across(value):.2f}%"

    def y(value: float) -> str:
        return f"{_down(upward(value), CURVES_HEIGHT):.1f}"

    body = list(_value_grid([p[1] for p in points], y, show))
    body += _epoch_names(sorted({p[0] for p in points}), x)
    sign = -1.0 if is_low_best else 1.0
    for color, (name, line) in zip(_colors(len(lines)), lines.items(), strict=True):
        body += [
            f'<line stroke="{color}" stroke-width="2" x1="{x(a)}" y1="{y(b)}" x2="{x(c)}" '
            f'y2="{y(d)}"/>'
            for (a, b), (c, d) in pairwise(line)
        ]
        peak = max(line, key=lambda point: sign * point[1], default=None)
        body += [
            f'<circle cx="{x(a)}" cy="{y(b)}" r="{5 if (a, b) == peak else 3}" fill="{color}">'
            f"<title>{safe(name)}, epoch {a:g}: {show(b)}</title></circle>"
            for a, b in line
        ]
    return _svg(body, label, CURVES_HEIGHT) + _legend(list(lines))


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
    return _svg(body, label, SCATTER_HEIGHT) + _legend([name for name, _, _ in nodes])


def attention_table(tokens: Sequence[str], virtual: int, weights: Sequence[Sequence[float]]) -> str:
    """What the read-out token reads: a row per token, virtual ones first, a column per layer.

    Each layer's cells are as dark as their weight beside the largest of that layer.
    """
    heads = "".join(
        f'<th scope="col" style="padding:0;text-align:center">{i}</th>' for i in range(len(weights))
    )
    rows = "".join(
        _attention_row(token, i < virtual, [layer[i] for layer in weights], weights)
        for i, token in enumerate(tokens)
    )
    return (
        '<div class="scroll"><table style="width:auto;font-size:.82rem"><thead><tr>'
        f'<th scope="col" style="{TOKEN}">layer</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _attention_row(
    token: str, is_virtual: bool, row: Sequence[float], weights: Sequence[Sequence[float]]
) -> str:
    word = safe(token if len(token) <= LONGEST else token[:LONGEST] + "…")
    name = f"<b>{word}</b>" if is_virtual else word
    cells = "".join(_attention_cell(w, max(layer)) for w, layer in zip(row, weights, strict=True))
    return f'<tr><th scope="row" style="{TOKEN}">{name}</th>{cells}</tr>'


def _attention_cell(weight: float, largest: float) -> str:
    share = weight / largest if largest > 0 else 0.0
    return (
        f'<td style="padding:0;border:1px solid var(--paper);min-width:1.1rem;height:1.35rem;'
        f'background:rgb(11 143 128 / {share:.2f})" title="{weight:.3f}"></td>'
    )


def _down(share: float, height: int) -> float:
    return height - BOTTOM - (height - TOP - BOTTOM) * share


def _value_grid(values: Sequence[float], y: Show, show: Show) -> Iterator[str]:
    for value in _round_values(min(values), max(values)):
        place = y(value)
        yield f'<line class="grid" x1="0" x2="{REACH}%" y1="{place}" y2="{place}"/>'
        yield f'<text x="100%" y="{place}" dy="4" text-anchor="end">{show(value)}</text>'


def _round_values(low: float, high: float) -> list[float]:
    """A few round numbers between two values; the value itself where they are one."""
    if high <= low:
        return [low]
    size = 10.0 ** math.floor(math.log10(high - low))
    step = next(s * size for s in (0.2, 0.5, 1, 2) if (high - low) / (s * size) <= 7)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _epoch_names(epochs: Sequence[float], x: Show) -> Iterator[str]:
    step = math.ceil(len(epochs) / 8)
    for epoch in epochs[::step]:
        place = f'x="{x(epoch)}" y="{CURVES_HEIGHT - BOTTOM + 20}"'
        yield f'<text {place} text-anchor="middle">{epoch:g}</text>'


def _colors(count: int) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(count)]


def _legend(names: Sequence[str]) -> str:
    keys = "".join(
        f'<span><svg class="key" aria-hidden="true"><rect fill="{color}" width="100%" '
        f'height="100%"/></svg>{safe(name)}</span>'
        for color, name in zip(_colors(len(names)), names, strict=True)
    )
    return f'<div class="legend soft">{keys}</div>'


def _svg(body: Sequence[str], label: str, height: int) -> str:
    name = safe(label)
    return (
        f'<svg class="plot" role="img" aria-label="{name}" height="{height}">'
        f"<title>{name}</title>{''.join(body)}</svg>"
    )
