"""Draws every figure with matplotlib: as small SVG for pages, and as SVG and PNG files."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from edgeformers.errors import MissingExtraError, require
from edgeformers.files import atomic_file, write_atomic
from edgeformers.report.figures import (
    COLORS,
    AttentionFigure,
    BarChart,
    DotChart,
    FigureData,
    LineChart,
    NodeMap,
    color,
    legend,
)
from edgeformers.report.formatting import compact_number, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSTALL_HINT = "Figures are left out; to draw them, run: pip install 'edgeformers[plots]'."
# Theme colors; in a page they are CSS variables, which adapt to dark mode.
INK, MUTED, GRID, ACCENT = "#1f2426", "#5d676b", "#e2e4e0", "#0b7268"
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", ACCENT: "--accent"}
STYLE: Mapping[str, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": MUTED,
    "axes.spines.bottom": False,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 72,  # one unit is one pixel of the page
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "grid.color": GRID,
    "grid.linewidth": 1,
    "lines.linewidth": 2,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "xtick.major.pad": 7,
    "xtick.major.size": 0,
    "ytick.color": MUTED,
    "ytick.major.size": 0,
}
HALF, WIDE = (440, 200), (720, 220)  # pixels
PNG_DPI = 160
MAX_POINTS = 3000  # edges drawn in a node map
MAX_TOKENS = 40  # tokens drawn in an attention map
MAX_TOKEN_LENGTH = 15
SVG = "http://www.w3.org/2000/svg"
TIP, TIP_SEPARATOR = "tip:", "␟"  # in ids of matplotlib's artists; XML allows no control characters

ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")


def inline_svg(data: FigureData) -> str:
    """The figure for a page, which sets its fonts and theme colors and shows its legend."""
    wide = getattr(data, "wide", isinstance(data, NodeMap))
    with _style(_label(data)):  # ids differ between the figures of a page
        figure = _draw_figure(data, is_file=False)
        return _compact_svg(figure, data, "plot wide" if wide else "plot")


def write_figure(path: Path, data: FigureData) -> tuple[list[Path], str | None]:
    """Write PATH.svg and PATH.png; without matplotlib, return a sentence that says so."""
    vector, raster = path.with_suffix(".svg"), path.with_suffix(".png")
    try:
        require("matplotlib", "plots")
    except MissingExtraError as error:
        return [], f"{vector.name} and {raster.name} were not written: {error}"
    with _style("edgeformers"):
        figure = _draw_figure(data, is_file=True)
        write_atomic(vector, _compact_svg(figure, data) + "\n")
        with atomic_file(raster) as temporary:
            figure.savefig(temporary, dpi=PNG_DPI, format="png")
    return [vector, raster], None


@contextmanager
def _style(salt: str) -> Iterator[None]:
    """The style sheet; `salt` determines ids. Glyphs that a font lacks are not worth a warning."""
    style = {**STYLE, "svg.hashsalt": salt}
    with require("matplotlib", "plots").rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        yield


def _clip(name: str) -> str:
    """The printable name, cut if it is too long for a label."""
    name = printable(name)
    return name if len(name) <= MAX_TOKEN_LENGTH else name[:MAX_TOKEN_LENGTH] + "…"


def _label(data: FigureData) -> str:
    return printable(data.title if isinstance(data, NodeMap | AttentionFigure) else data.label)


def _frame(data: FigureData) -> tuple[int, int, int, int, int, int]:
    """Pixels: width, height, and of these for ticks left, right, top and bottom."""
    if isinstance(data, AttentionFigure):
        tokens, layers = min(len(data.tokens), MAX_TOKENS + data.virtual), len(data.weights)
        return 130 + 22 * layers, 24 + 17 * tokens, 120, 6, 20, 2
    if isinstance(data, NodeMap):
        return 720, 420, 12, 12, 12, 12
    return *(WIDE if data.wide else HALF), 4, 44, 24 if isinstance(data, BarChart) else 10, 26


def _draw_figure(data: FigureData, *, is_file: bool) -> "Figure":
    """Files get a title, axis labels and a legend; pages add them in HTML."""
    width, height, pad_left, pad_right, pad_top, pad_bottom = _frame(data)
    top, right = (34, _right_margin(data, width)) if is_file else (0, 0)
    left, bottom = (64, 14) if is_file and isinstance(data, LineChart) else (0, 0)
    total = (width + left + right, height + bottom + top)
    figure: Figure = require("matplotlib.figure", "plots").Figure([n / 72 for n in total])
    axes = figure.add_axes(
        (
            (left + pad_left) / total[0],
            (bottom + pad_bottom) / total[1],
            (width - pad_left - pad_right) / total[0],
            (height - pad_top - pad_bottom) / total[1],
        )
    )
    figure.patch.set_visible(is_file)
    axes.patch.set_visible(False)
    axes.yaxis.tick_right()
    DRAW[type(data)](data, axes)
    if is_file:
        _add_file_labels(data, figure, axes)
    elif not isinstance(data, AttentionFigure):  # numbers end at the right margin
        axes.tick_params(axis="y", pad=pad_right)
        for text in axes.get_yticklabels():
            text.set_horizontalalignment("right")
    return figure


def _right_margin(data: FigureData, width: int) -> int:
    """Pixels for the legend, or for the rest of a long title."""
    return 150 if len(legend(data)) > 1 else max(16, 8 * len(_label(data)) + 20 - width)


def _add_file_labels(data: FigureData, figure: "Figure", axes: "Axes") -> None:
    lines = require("matplotlib.lines", "plots")
    figure.text(0.02, 1 - 20 / (72 * figure.get_figheight()), _label(data), weight="bold")
    if isinstance(data, LineChart):
        axes.yaxis.tick_left()
        axes.set_xlabel(data.x_label)
        axes.set_ylabel(data.y_label)
    if isinstance(data, AttentionFigure):
        axes.xaxis.set_label_position("top")
        axes.set_xlabel("layer", loc="left", labelpad=-10)
        axes.xaxis.label.set_horizontalalignment("right")
    keys = [
        lines.Line2D([], [], color=shade, marker="s", linestyle="", label=_clip(name))
        for name, shade in legend(data)
    ]
    if len(keys) > 1:
        figure.legend(handles=keys, loc="center right", frameon=False)


def _draw_bars(data: BarChart, axes: "Axes") -> None:
    """Bars on a unit axis: bins of any magnitude can be drawn."""
    low, high = data.borders[0], data.borders[-1]
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return (value - low) / span

    for (start, end), count, tip in zip(
        pairwise(data.borders), data.counts, data.tips, strict=True
    ):
        if count:
            width = place(end) - place(start)
            gap = min(0.15 * width, 0.004)
            axes.bar(
                place(start), count, width - gap, align="edge", color=ACCENT, gid=_tip_id([tip])
            )
    axes.set_xlim(0, 1)
    top = _nice_values(0, max([*data.counts, 1]), 2, integer=True, beyond=True)
    axes.set_ylim(0, top[-1])
    axes.set_yticks(top, [compact_number(value) for value in top])
    ticks = data.ticks or {value: f"{value:,.6g}" for value in _nice_values(low, high, 5)}
    if data.open_end:
        ticks = {value: name for value, name in ticks.items() if place(value) < 0.86}
        ticks[high] = data.open_end
    places = [place(value) for value in ticks]
    axes.set_xticks(places, list(map(printable, ticks.values())))
    for at, text in zip(places, axes.get_xticklabels(), strict=True):  # none extends outwards
        text.set_horizontalalignment("left" if at < 0.05 else "right" if at > 0.95 else "center")
    if data.mark:
        at = place(data.mark[0])
        axes.axvline(at, color=INK, linewidth=1.5, linestyle=(0, (4, 3)))
        anchor = "right" if at > 0.9 else "center"
        axes.text(at, 1.06 * top[-1], data.mark[1], ha=anchor, weight="bold", color=INK)


def _draw_lines(data: LineChart, axes: "Axes") -> None:
    for i, (name, lines) in enumerate(data.lines.items()):
        shade = color(i) if name else ACCENT
        for line in filter(None, lines):
            xs, ys = zip(*line, strict=True)
            axes.plot(xs, ys, color=shade)
            if name in data.deviations:
                axes.errorbar(xs, ys, yerr=data.deviations[name], color=shade, elinewidth=1)
            best = [data.best(line, key=lambda point: point[1])] if data.best else []
            for size, points in ((28, [p for p in line if p not in best]), (80, best)):
                _scatter(axes, points, shade, size, [data.tip(name, x, y) for x, y in points])
    if data.is_log:
        axes.loglog()
    if data.include:
        axes.update_datalim(data.include)
    _finish_axes(axes, data)


def _draw_dots(data: DotChart, axes: "Axes") -> None:
    axes.set_xscale("log")
    for number, dot in enumerate(data.dots, start=1):
        _scatter(axes, [(dot.x, dot.y)], dot.color, 80, [dot.tip])
        axes.annotate(
            str(number), (dot.x, dot.y), (7, 3), textcoords="offset pixels", weight="bold"
        )
    _finish_axes(axes, data)


def _draw_node_map(data: NodeMap, axes: "Axes") -> None:
    """Nodes as stars and edges as points in the color of their node."""
    axes.set_axis_off()
    step = max(1, ceil(len(data.edges) / MAX_POINTS))
    for i, (name, node) in enumerate(zip(data.names, data.nodes, strict=True)):
        edges = [
            edge for edge, end in list(zip(data.edges, data.ends, strict=True))[::step] if end == i
        ]
        _scatter(axes, edges, color(i), 20, alpha=0.55)
        _scatter(axes, [node], color(i), 160, [name], marker="*", edgecolors=INK, zorder=3)


def _draw_attention(data: AttentionFigure, axes: "Axes") -> None:
    """Tokens by layers, virtual tokens first and bold; each layer relative to its maximum."""
    shown = min(len(data.tokens), MAX_TOKENS + data.virtual)
    red, green, blue = (int(COLORS[0][at : at + 2], 16) / 255 for at in (1, 3, 5))
    pixels = [
        [(red, green, blue, layer[i] / (max(layer[:shown]) or 1.0)) for layer in data.weights]
        for i in range(shown)
    ]
    axes.imshow(pixels, interpolation="none", aspect="auto")
    axes.grid(False)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(data.weights)))
    axes.yaxis.tick_left()
    axes.set_yticks(range(shown), list(map(_clip, data.tokens[:shown])))
    for text in axes.get_yticklabels()[: data.virtual]:
        text.set_fontweight("bold")


def _scatter(
    axes: "Axes",
    points: Iterable[Any],
    shade: str,
    size: int,
    tips: Sequence[str] = (),
    **style: Any,
) -> None:
    points = list(points)
    if points:
        xs, ys = zip(*points, strict=True)
        style = {"linewidths": 0, "zorder": 2.5, "clip_on": False, **style}
        axes.scatter(xs, ys, size, shade, gid=_tip_id(tips) if tips else None, **style)


def _finish_axes(axes: "Axes", data: LineChart | DotChart) -> None:
    """Limits with a margin, a few round ticks on the vertical axis, named ones below."""
    ticker = require("matplotlib.ticker", "plots")
    axes.margins(0.03, 0.08)
    if isinstance(data, LineChart) and data.is_log:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(ticker.LogLocator(numticks=5))
            axis.set_major_formatter(ticker.FuncFormatter(lambda v, _: compact_number(v)))
            axis.set_minor_locator(ticker.NullLocator())
        return
    low, high = axes.dataLim.intervaly
    values = _nice_values(low, high, 4) or [low]
    axes.set_yticks(values, [data.format_y(value) for value in values])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    if data.ticks is not None:
        axes.set_xticks(list(data.ticks), list(map(printable, data.ticks.values())))
    else:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(7, integer=True))


def _nice_values(
    low: float, high: float, count: int, *, integer: bool = False, beyond: bool = False
) -> list[float]:
    """About `count` round values between two numbers; `beyond` includes the next one above."""
    locator = require("matplotlib.ticker", "plots").MaxNLocator(count, integer=integer)
    values = [float(value) for value in locator.tick_values(low, high)]
    slack = 1e-9 * (high - low)
    inside = [value for value in values if low - slack <= value <= high + slack]
    above = [value for value in values if value > high][:1] if beyond and high not in inside else []
    return inside + above


def _tip_id(tips: Sequence[str]) -> str:
    return TIP + TIP_SEPARATOR.join(map(printable, tips))


#: How to draw the marks and ticks of each kind of figure.
DRAW: Mapping[type, Callable[[Any, Any], None]] = {
    BarChart: _draw_bars,
    LineChart: _draw_lines,
    DotChart: _draw_dots,
    NodeMap: _draw_node_map,
    AttentionFigure: _draw_attention,
}


def _compact_svg(figure: "Figure", data: FigureData, css_class: str = "") -> str:
    """Matplotlib's SVG with tooltips and short numbers, and without metadata.

    With a CSS class, it is for a page that sets fonts and colors.
    """
    buffer, label = StringIO(), _label(data)
    unset = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=unset)
    root = ElementTree.fromstring(buffer.getvalue())
    used = set(re.findall(r"#([\w-]+)[\")]", buffer.getvalue()))
    for element in root.iter():
        _add_tooltips(element)
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        _shorten_attributes(element, is_inline=bool(css_class))
        element.text, element.tail = (element.text or "").strip() or None, None
    _flatten(root)
    width, height = root.get("viewBox", "").split()[2:]
    root.attrib = {"viewBox": root.get("viewBox", ""), "role": "img", "aria-label": label}
    root.insert(0, ElementTree.Element(f"{{{SVG}}}title"))
    root[0].text = label
    if not css_class:
        root.attrib |= {"width": width, "height": height}
        return ElementTree.tostring(root, encoding="unicode")
    root.attrib |= {"class": css_class, "style": f"max-width:{width}px"}
    text = ElementTree.tostring(root, encoding="unicode")
    for shade, variable in VARIABLES.items():
        text = text.replace(shade, f"var({variable})")
    return text


def _add_tooltips(group: ElementTree.Element) -> None:
    """Each mark of a group gets the tooltip that the group's id holds for it."""
    name = group.get("id", "")
    if name.startswith(TIP):
        marks = [e for e in group.iter() if e.tag in (f"{{{SVG}}}use", f"{{{SVG}}}path")]
        marks = [e for e in marks if "id" not in e.attrib]  # definitions of markers
        for mark, tip in zip(marks, name.removeprefix(TIP).split(TIP_SEPARATOR), strict=True):
            ElementTree.SubElement(mark, f"{{{SVG}}}title").text = tip


def _shorten_attributes(element: ElementTree.Element, *, is_inline: bool) -> None:
    for name in ("d", "x", "y", "width", "height", "transform"):
        if name in element.attrib and not element.tag.endswith("image"):
            value = re.sub(
                r"-?\d+\.\d+",
                lambda n: f"{float(n[0]):.1f}".removesuffix(".0"),
                element.attrib[name],
            )
            element.set(name, re.sub(r"\s*([A-Za-z])\s*", r"\1", value) if name == "d" else value)
    if element.get("transform", "").startswith(("rotate(-0 ", "rotate(0 ")):
        del element.attrib["transform"]
    style = element.get("style", "")
    if is_inline:
        style = re.sub(r"font-(size|family): [^;]*(; )?", "", style)
    if style:
        element.set("style", style.replace(": ", ":").replace("; ", ";"))


def _flatten(element: ElementTree.Element) -> None:
    """Drop style sheets, metadata, clipping (nothing is outside the axes) and bare groups."""
    element.attrib.pop("clip-path", None)
    children = []
    for child in element:
        _flatten(child)
        tag = child.tag.rpartition("}")[2]
        if tag in ("metadata", "style", "clipPath") or (tag in ("g", "defs") and not len(child)):
            continue
        children += list(child) if tag == "g" and not child.attrib else [child]
    element[:] = children
