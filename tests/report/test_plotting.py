import re
import sys
import xml.etree.ElementTree as ET

import pytest

from edgeformers.data.card.card import Histogram
from edgeformers.report.figures import (
    COLORS,
    AttentionFigure,
    BarChart,
    Dot,
    DotChart,
    LineChart,
    NodeMap,
    histogram_chart,
    survival_chart,
)
from edgeformers.report.plotting import MAX_POINTS, MAX_TOKENS, inline_svg, write_figure

pytest.importorskip("matplotlib")

SVG = "{http://www.w3.org/2000/svg}"
LINES = LineChart(
    label="MRR <by> size",
    lines={"Edgeformer-N": [[(0, 0.1), (1, 0.2), (2, 0.3)]]},
    deviations={"Edgeformer-N": [0.01, 0.0, 0.02]},
    ticks={0: "4", 1: "8", 2: "64"},
    x_label="size",
    y_label="MRR",
)
NODES = NodeMap(
    title="Nodes",
    names=["a & b", "c"],
    nodes=[[0.0, 0.0], [1.0, 1.0]],
    edges=[[0.1, 0.2], [0.3, 0.1], [0.9, 0.8]],
    ends=[0, 0, 1],
)
ATTENTION = AttentionFigure(
    title="Attention",
    tokens=["ann", "alien", *(f"w{i}" for i in range(60))],
    weights=[[0.0, 0.0, *[0.1] * 60], [0.5, 0.3, *[0.01] * 60]],
    virtual=2,
)
DOTS = DotChart(
    label="cost",
    dots=[
        Dot(x=10.0**n, y=n / 10, kind="text", color=COLORS[n], tip=f"model {n} & more")
        for n in (1, 2)
    ],
    ticks={10.0: "10 s"},
)
BARS = histogram_chart(Histogram([0.0, 1.0, 2.0], [5, 0]), "lengths", "tokens", "texts")


def parsed(data):
    return ET.fromstring(inline_svg(data))


def texts(root):
    return [element.text for element in root.iter(f"{SVG}text")]


def tips(root):
    return [element.text for element in root.iter(f"{SVG}title")][1:]


def marks(root):
    """(color, x, y) of points."""
    return [
        (re.search(r"fill:([^;]+)", use.get("style"))[1], float(use.get("x")), float(use.get("y")))
        for use in root.iter(f"{SVG}use")
    ]


@pytest.mark.parametrize("data", [LINES, NODES, ATTENTION, DOTS, BARS])
def test_figures_are_small_labeled_and_follow_the_theme(data):
    svg = inline_svg(data)
    root = ET.fromstring(svg)
    assert root.get("aria-label") == root[0].text
    assert len(svg) < 6_000
    assert not re.findall(r"font-family|<style|<metadata|url\(|nan|#1f2426|#5d676b", svg)


def test_points_keep_their_places_and_tooltips():
    root = parsed(LINES)
    (_, x0, y0), (_, x1, y1), (_, x2, y2) = marks(root)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 > y1 > y2
    assert tips(root) == ["Edgeformer-N, 0: 0.1", "Edgeformer-N, 1: 0.2", "Edgeformer-N, 2: 0.3"]
    assert {"4", "8", "64"} <= set(texts(root))


def test_lines_of_one_name_share_a_color_and_the_axes_cover_other_points():
    lines = {"a": [[(1.0, 0.2), (2.0, 0.4)], [(1.0, 0.3)]], "b": [[(1.0, 0.1)], []]}
    points = marks(parsed(LineChart(label="x", lines=lines, include=[(1.0, 0.0), (4.0, 0.5)])))
    assert [color for color, *_ in points] == [COLORS[0]] * 3 + [COLORS[1]]
    assert points[1][1] - points[0][1] == pytest.approx(392 * 0.94 / 3, rel=0.02)


def test_the_best_point_is_drawn_larger():
    lines = {"a": [[(1, 0.5), (2, 0.2), (3, 0.4)]]}
    root = parsed(LineChart(label="x", lines=lines, best=min))
    assert tips(root) == ["a, 1: 0.5", "a, 3: 0.4", "a, 2: 0.2"]
    assert len(root.findall(f".//{SVG}defs/{SVG}path")) == 2  # two sizes


def test_single_points_and_empty_charts_can_be_drawn():
    assert len(marks(parsed(LineChart(label="x", lines={"a": [[(1, 0.2)]]})))) == 1
    assert marks(parsed(NodeMap(title="x", names=[], nodes=[], edges=[], ends=[]))) == []
    assert "0" in texts(parsed(BarChart(label="x", borders=[0.3, 0.3], counts=[4], tips=["4"])))


def test_degrees_have_logarithmic_axes():
    chart = survival_chart(Histogram([1.0, 10.0, 1000.0, 1001.0], [5000, 30, 1]), "x", "nodes")
    assert {"1", "10", "100", "1k"} <= set(texts(parsed(chart)))


def test_numbered_dots_have_their_number_and_tooltip():
    root = parsed(DOTS)
    assert {"1", "2", "10 s"} <= set(texts(root))
    assert tips(root) == ["model 1 & more", "model 2 & more"]


def test_edges_have_the_color_of_their_node():
    root = parsed(NODES)
    assert [color for color, *_ in marks(root)] == [COLORS[n] for n in (0, 0, 1, 0, 1)]
    assert tips(root) == ["a & b", "c"]


def test_very_many_edges_are_thinned_evenly():
    edges = [[float(i), float(i % 7)] for i in range(2 * MAX_POINTS + 1)]
    data = NodeMap(title="x", names=["a"], nodes=[[0, 0]], edges=edges, ends=[0] * len(edges))
    assert len(marks(parsed(data))) == (2 * MAX_POINTS + 1) // 3 + 1 + 1


def test_attention_has_a_row_per_token_with_virtual_tokens_in_bold():
    root = parsed(ATTENTION)
    names = [text for text in root.iter(f"{SVG}text") if text.text not in ("0", "1")]
    assert len(names) == MAX_TOKENS + 2
    assert [t.text for t in names if "font-weight" in t.get("style")] == ["ann", "alien"]
    assert len(list(root.iter(f"{SVG}image"))) == 1


@pytest.mark.parametrize("data", [LINES, NODES, ATTENTION])
def test_files_have_a_title_and_a_legend(data, tmp_path):
    files, note = write_figure(tmp_path / "figure", data)
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["figure.svg", "figure.png"]
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert note is None
    root = ET.parse(files[0]).getroot()
    title = data.label if data is LINES else data.title
    assert root[0].text == title
    assert title in texts(root)
    assert ({"a & b", "c"} <= set(texts(root))) == (data is NODES)  # a single line needs no legend


def test_without_matplotlib_the_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    files, note = write_figure(tmp_path / "figure", LINES)
    assert files == []
    assert "edgeformers[plots]" in note
