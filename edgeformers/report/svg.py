"""Small plots as inline SVG: text keeps its size at any width, colors come from the page.

Horizontal positions are percentages and vertical ones pixels, so that a plot fills a phone or a
printed page without scaling its letters. The rightmost tenth is kept for the numbers of the
vertical axis. Every plot is one labeled image; each mark says its numbers in a tooltip.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise

from edgeformers.data.card.card import Histogram, SplitSummary
from edgeformers.data.card.phrasing import percent

HEIGHT, TOP, BOTTOM = 196, 26, 24  # pixels: all, above the highest mark, below the base line
REACH = 90.0  # percent of the width that marks may use


@dataclass(frozen=True)
class Tick:
    """A named place on an axis, from 0 to 1."""

    at: float
    name: str


def compact(number: float) -> str:
    """1,200 -> 1.2k: a number for an axis."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def histogram(
    data: Histogram, label: str, unit: str, things: str, mark: tuple[float, str] | None = None
) -> str:
    """Bars over a linear axis; `mark` draws a vertical line at a value, with a name."""
    low, high = data.borders[0], data.borders[-1]
    span = (high - low) or 1.0
    bins = list(pairwise(data.borders))
    whole = all(border == round(border) for border in data.borders)
    tips = [
        f"{_range(a, b, whole, data.is_open and b == high)} {unit}: {count:,} {things}"
        for (a, b), count in zip(bins, data.counts, strict=True)
    ]
    places = [((a - low) / span, (b - low) / span) for a, b in bins]
    ticks = [Tick((v - low) / span, f"{v:,.6g}") for v in _round_steps(low, high)]
    if data.is_open:
        ticks = [t for t in ticks if t.at < 0.86]
        ticks.append(Tick(1.0, f"{bins[-1][0]:,.6g}+"))
    line = Tick((mark[0] - low) / span, mark[1]) if mark and low < mark[0] <= high else None
    return _bars(places, data.counts, tips, ticks, label, line)


def timeline(starts: Sequence[str], counts: Sequence[int], period: str, label: str) -> str:
    """One bar per period."""
    width = 1 / max(len(counts), 1)
    places = [(i * width, (i + 1) * width) for i in range(len(counts))]
    tips = [
        f"{period} from {start}: {count:,} edges"
        for start, count in zip(starts, counts, strict=True)
    ]
    last = len(starts) - 1
    chosen = sorted({0, last // 2, last}) if last > 1 else range(len(starts))
    ticks = [Tick(0.0 if i == 0 else (i + 0.5) * width, starts[i]) for i in chosen]
    if last > 0:
        ticks[-1] = Tick(1.0, starts[last])
    return _bars(places, counts, tips, ticks, label)


def survival(data: Histogram, label: str, things: str) -> str:
    """How many have at least so much, both axes logarithmic: a straight line is a power law."""
    at_least = list(accumulate(reversed(data.counts)))[::-1]
    total = at_least[0] if at_least else 0
    points = [(x, n) for x, n in zip(data.borders, at_least, strict=False) if n]
    if not points:
        return ""
    wide = math.log10(max(data.borders[-2], 10))
    tall = math.log10(max(total, 10))
    dots = [(math.log10(x) / wide, math.log10(n) / tall) for x, n in points]
    body = list(_grid([Tick(math.log10(v) / tall, compact(v)) for v in _powers(total)]))
    body += list(_x_ticks([Tick(math.log10(v) / wide, compact(v)) for v in _powers(10**wide)]))
    body += [
        f'<line class="curve" x1="{_x(a)}" y1="{_y(b)}" x2="{_x(c)}" y2="{_y(d)}"/>'
        for (a, b), (c, d) in pairwise(dots)
    ]
    for (a, b), (x, n) in zip(dots, points, strict=True):
        tip = f"at least {x:,.0f}: {n:,} {things} ({percent(n / total)})"
        body.append(f'<circle class="dot" cx="{_x(a)}" cy="{_y(b)}" r="3.5">{_tip(tip)}</circle>')
    return _svg(body, label)


def composition(split: SplitSummary, label: str) -> str:
    """The parts of a split side by side; the dark foot is what touches a cold node."""
    total = sum(part.edges for part in split.parts) or 1
    body, left = [], 0.0
    for part in split.parts:
        width = 100 * part.edges / total
        tip = _tip(f"{part.name}: {part.edges:,} edges ({percent(part.share)})")
        body.append(_rect(f"part {part.name}", left, 0, width, 34, tip))
        if part.name in ("val", "test") and part.cold_edges:
            cold = width * part.cold_edges / part.edges
            tip = _tip(f"{part.name}: {part.cold_edges:,} edges touch a cold node")
            body.append(_rect("cold", left, 26, cold, 8, tip))
        left += width
    return _svg(body, label, height=34)


def meter(share: float) -> str:
    """A bar in a table cell, hidden from screen readers: the numbers beside it say the same."""
    full = '<rect class="rail" width="100%" height="8" rx="2"/>'
    part = f'<rect class="bar" width="{100 * min(max(share, 0), 1):.2f}%" height="8" rx="2"/>'
    return f'<svg class="meter" height="8" aria-hidden="true">{full}{part}</svg>'


def _bars(
    places: Sequence[tuple[float, float]],
    counts: Sequence[int],
    tips: Sequence[str],
    ticks: Sequence[Tick],
    label: str,
    mark: Tick | None = None,
) -> str:
    top = max(_round_steps(0, max([*counts, 1]), at_least=True))
    body = list(_grid([Tick(share, compact(top * share)) for share in (0, 0.5, 1)]))
    for (left, right), count, tip in zip(places, counts, tips, strict=True):
        height = (HEIGHT - TOP - BOTTOM) * count / top
        gap = min(0.15 * (right - left), 0.004)
        place = REACH * left, HEIGHT - BOTTOM - height, REACH * (right - left - gap)
        body.append(_rect("bar", *place, height, _tip(tip)))
    body += list(_x_ticks(ticks))
    if mark:
        body.append(
            f'<line class="mark" x1="{_x(mark.at)}" x2="{_x(mark.at)}" y1="{TOP - 8}" '
            f'y2="{HEIGHT - BOTTOM}"/>'
            f'<text class="name" x="{_x(mark.at)}" y="{TOP - 13}" '
            f'text-anchor="{_anchor(mark.at)}">{escape(mark.name)}</text>'
        )
    return _svg(body, label)


def _svg(body: Sequence[str], label: str, height: int = HEIGHT) -> str:
    name = escape(label)
    inside = "".join(body)
    return (
        f'<svg class="plot" role="img" aria-label="{name}" height="{height}">'
        f"<title>{name}</title>{inside}</svg>"
    )


def _rect(kind: str, x: float, y: float, width: float, height: float, inside: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.3f}%" y="{y:.1f}" width="{max(width, 0):.3f}%" '
        f'height="{max(height, 0):.1f}">{inside}</rect>'
    )


def _grid(ticks: Sequence[Tick]) -> Iterator[str]:
    for tick in ticks:
        y = _y(tick.at)
        yield f'<line class="grid" x1="0" x2="{REACH}%" y1="{y}" y2="{y}"/>'
        yield f'<text x="100%" y="{y}" dy="4" text-anchor="end">{escape(tick.name)}</text>'


def _x_ticks(ticks: Sequence[Tick]) -> Iterator[str]:
    for tick in ticks:
        yield (
            f'<text x="{_x(tick.at)}" y="{HEIGHT - BOTTOM + 17}" '
            f'text-anchor="{_anchor(tick.at)}">{escape(tick.name)}</text>'
        )


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _x(at: float) -> str:
    return f"{REACH * at:.3f}%"


def _y(at: float) -> str:
    return f"{HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * at:.1f}"


def _anchor(at: float) -> str:
    """Names near an edge of the plot grow inwards."""
    return "start" if at < 0.08 else "end" if at > 0.92 else "middle"


def _range(low: float, high: float, whole: bool, is_open: bool) -> str:
    if is_open:
        return f"{low:,.6g} or more"
    if whole:
        return f"{low:,.0f}" if high - low == 1 else f"{low:,.0f} to {high - 1:,.0f}"
    return f"{low:.4g} to {high:.4g}"


def _round_steps(low: float, high: float, at_least: bool = False) -> list[float]:
    """Three to six round numbers between two values; `at_least` goes on to include the upper."""
    span = (high - low) or 1.0
    size = 10.0 ** math.floor(math.log10(span))
    step = next(s * size for s in (0.2, 0.25, 0.5, 1, 2) if span / (s * size) <= 5)
    first, last = math.ceil(low / step), (math.ceil if at_least else math.floor)(high / step)
    return [n * step for n in range(first, last + 1)]


def _powers(largest: float) -> list[float]:
    """1, 10, 100, ...: at most five of them."""
    tens = int(math.log10(max(largest, 1)) + 1e-9)
    return [10.0**n for n in range(0, tens + 1, 1 + tens // 5)]
