"""The same drawings as PNG, where the extra 'plots' is installed."""

from pathlib import Path
from typing import Any

from edgeformers.errors import MissingExtraError, require
from edgeformers.experiments.figures import SHOWN_TOKENS, Drawing, Lines, to_svg
from edgeformers.files import write_atomic
from edgeformers.report.plots import COLORS
from edgeformers.report.results import AttentionMap, NodeMap

INCHES, DPI = (7.0, 4.4), 160


def write_figure(path: Path, drawing: Drawing) -> tuple[list[Path], str | None]:
    """PATH.svg, and PATH.png with matplotlib; without it, a sentence that says so."""
    vector, raster = path.with_suffix(".svg"), path.with_suffix(".png")
    write_atomic(vector, to_svg(drawing))
    try:
        figure = require("matplotlib.figure", "plots").Figure(INCHES, layout="tight")
    except MissingExtraError as error:
        return [vector], f"{raster.name} was not made: {error}"
    axes = figure.subplots()
    axes.set_title(drawing.title, fontsize=9)
    _draw(axes, drawing)
    aside = path.with_suffix(".partial.png")
    figure.savefig(aside, dpi=DPI)
    aside.replace(raster)
    return [vector, raster], None


def _draw(axes: Any, drawing: Drawing) -> None:
    if isinstance(drawing, Lines):
        _draw_lines(axes, drawing)
    elif isinstance(drawing, NodeMap):
        _draw_plane(axes, drawing)
    else:
        _draw_heat(axes, drawing)


def _draw_lines(axes: Any, drawing: Lines) -> None:
    values = sorted({x for line in drawing.series.values() for x, _, _ in line})
    for number, (name, points) in enumerate(drawing.series.items()):
        x = [values.index(x) for x, _, _ in points]
        y, spread = [y for _, y, _ in points], [deviation for _, _, deviation in points]
        color = COLORS[number % len(COLORS)]
        axes.errorbar(x, y, yerr=spread, marker="o", color=color, label=name, capsize=3)
    axes.set_xticks(range(len(values)), [f"{x:g}" for x in values])
    axes.set_xlabel(drawing.across)
    axes.set_ylabel(drawing.upward)
    axes.legend()


def _draw_plane(axes: Any, plane: NodeMap) -> None:
    colors = [COLORS[number % len(COLORS)] for number in range(len(plane.nodes))]
    for number, (x, y) in enumerate(plane.nodes):
        mine = [p for p, owner in zip(plane.edges, plane.ends, strict=True) if owner == number]
        axes.scatter([p[0] for p in mine], [p[1] for p in mine], 8, colors[number], alpha=0.55)
        axes.scatter([x], [y], 120, colors[number], marker="*", edgecolors="black", zorder=3)
    axes.set_axis_off()


def _draw_heat(axes: Any, picture: AttentionMap) -> None:
    shown = picture.virtual + SHOWN_TOKENS
    rows = [layer[:shown] for layer in picture.weights]
    axes.imshow([[w / (max(row) or 1.0) for w in row] for row in rows], "Greens", aspect="auto")
    axes.set_xticks(range(len(rows[0])), picture.tokens[:shown], rotation=60, ha="right")
    axes.set_yticks(range(len(rows)), [f"layer {number}" for number in range(len(rows))])
    for label in axes.get_xticklabels()[: picture.virtual]:
        label.set_fontweight("bold")
