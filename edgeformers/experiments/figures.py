"""Figures of an experiment as SVG that stands alone: lines, a plane, a heat map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgeformers.report.page import safe
from edgeformers.report.plots import COLORS, STAR, scale
from edgeformers.report.results import AttentionMap, NodeMap

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 36, 48  # pixels around the plot; names stand on the right
CELL = 22  # pixels of a square of a heat map
SHOWN_TOKENS = 20  # text tokens of an attention map, as in the paper
STYLE = (
    "text{font:13px sans-serif;fill:#222}.title{font-weight:bold}.grid{stroke:#ddd}"
    ".soft{fill:#666}line{stroke-width:1}.curve{stroke-width:2}"
)


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Values over a setting, one line per name: (x, y, deviation)."""

    title: str
    across: str
    upward: str
    series: Mapping[str, Sequence[tuple[float, float, float]]]


Drawing = Lines | NodeMap | AttentionMap


def to_svg(drawing: Drawing) -> str:
    """A drawing as one SVG file."""
    if isinstance(drawing, Lines):
        return line_plot(drawing)
    return scatter_plot(drawing) if isinstance(drawing, NodeMap) else heat_map(drawing)


def line_plot(drawing: Lines) -> str:
    """A line per series over its x values, a whisker of one deviation at each point."""
    series, title = drawing.series, drawing.title
    across, upward = drawing.across, drawing.upward
    points = [point for line in series.values() for point in line]
    xs = sorted({x for x, _, _ in points})  # evenly apart, whatever they are
    to_x, to_y = (
        scale(range(len(xs)), 0.03),
        scale([y + s * d for _, y, d in points for s in (-1, 1)], 0.05),
    )

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * to_x(xs.index(value))

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * to_y(value)

    body = [_text(LEFT, 20, title, "title"), _text(LEFT, HEIGHT - 8, across, "soft")]
    body.append(_text(6, TOP - 4, upward, "soft"))
    for value in _marks([y for _, y, _ in points]):
        body.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" '
            f'y2="{y(value):.1f}"/>' + _text(LEFT - 6, y(value) + 4, f"{value:.3f}", "", "end")
        )
    body += [_text(x(value), HEIGHT - BOTTOM + 18, f"{value:g}", "", "middle") for value in xs]
    for number, (name, line) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        body += [
            f'<line class="curve" stroke="{color}" x1="{x(a):.1f}" y1="{y(b):.1f}" '
            f'x2="{x(c):.1f}" y2="{y(d):.1f}"/>'
            for (a, b, _), (c, d, _) in pairwise(line)
        ]
        body += [
            f'<line stroke="{color}" x1="{x(a):.1f}" x2="{x(a):.1f}" y1="{y(b - d):.1f}" '
            f'y2="{y(b + d):.1f}"/><circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3.5" '
            f'fill="{color}"/>'
            for a, b, d in line
        ]
        body.append(_key(number, name, color))
    return _svg(body, title, WIDTH, HEIGHT)


def scatter_plot(plane: NodeMap) -> str:
    """Nodes as stars and edges as points in the color of their node."""
    everyone = [*plane.nodes, *plane.edges]
    to_x, to_y = scale([p[0] for p in everyone], 0.03), scale([p[1] for p in everyone], 0.03)

    def at(point: Sequence[float]) -> tuple[float, float]:
        across = 10 + (WIDTH - RIGHT - 20) * to_x(point[0])
        return across, HEIGHT - 10 - (HEIGHT - TOP - 20) * to_y(point[1])

    colors = [COLORS[number % len(COLORS)] for number in range(len(plane.nodes))]
    body = [_text(10, 20, plane.title, "title")]
    for point, owner in zip(plane.edges, plane.ends, strict=True):
        x, y = at(point)
        body.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colors[owner]}" fill-opacity=".55"/>'
        )
    for number, (point, name) in enumerate(zip(plane.nodes, plane.names, strict=True)):
        x, y = at(point)
        body.append(
            f'<path transform="translate({x:.1f} {y:.1f})" d="{STAR}" fill="{colors[number]}" '
            f'stroke="#222"/>'
        )
        body.append(_key(number, name, colors[number]))
    return _svg(body, plane.title, WIDTH, HEIGHT)


def heat_map(picture: AttentionMap) -> str:
    """Layers by tokens, virtual tokens first and bold; each layer beside its own largest weight."""
    shown = min(len(picture.tokens), picture.virtual + SHOWN_TOKENS)
    top, left = 130, 70
    body = [_text(10, 20, picture.title[:90], "title")]
    for place, token in enumerate(picture.tokens[:shown]):
        x = left + CELL * (place + 0.7)
        kind = "title" if place < picture.virtual else ""
        body.append(
            f'<text transform="translate({x:.1f} {top - 6}) rotate(-60)" class="{kind}">'
            f"{safe(token[:14])}</text>"
        )
    for layer, weights in enumerate(picture.weights):
        y = top + CELL * layer
        body.append(_text(left - 8, y + 15, f"layer {layer}", "soft", "end"))
        largest = max(weights[:shown], default=0.0) or 1.0
        body += [
            f'<rect x="{left + CELL * place}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" '
            f'fill="{COLORS[0]}" fill-opacity="{weight / largest:.3f}"><title>{weight:.3f}</title>'
            "</rect>"
            for place, weight in enumerate(weights[:shown])
        ]
    return _svg(
        body, picture.title, left + CELL * shown + 60, top + CELL * len(picture.weights) + 10
    )


def _svg(body: Sequence[str], title: str, width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>{safe(title)}</title><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(body)}</svg>\n'
    )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{safe(text)}</text>'
    )


def _key(number: int, name: str, color: str) -> str:
    """A line of the legend, on the right."""
    x, y = WIDTH - RIGHT + 12, TOP + 14 + 18 * number
    return f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{color}"/>' + _text(
        x + 16, y, name[:16]
    )


def _marks(values: Sequence[float]) -> list[float]:
    """Four even steps of the vertical axis."""
    low, high = min(values), max(values)
    return [low + (high - low) * share / 4 for share in range(5)] if high > low else [low]
