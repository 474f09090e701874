import sys
import xml.etree.ElementTree as ET

import pytest

from edgeformers.experiments.figures import SHOWN_TOKENS, Lines, to_svg
from edgeformers.experiments.png import write_figure
from edgeformers.report.results import AttentionMap, NodeMap

SVG = "{http://www.w3.org/2000/svg}"
LINES = Lines(
    title="MRR <by> size",
    across="size",
    upward="MRR",
    series={"Edgeformer-N": [(4, 0.1, 0.01), (8, 0.2, 0.0), (64, 0.3, 0.02)]},
)
PLANE = NodeMap(
    title="Nodes",
    names=["a & b", "c"],
    nodes=[[0.0, 0.0], [1.0, 1.0]],
    edges=[[0.1, 0.2], [0.3, 0.1], [0.9, 0.8]],
    ends=[0, 0, 1],
)
PICTURE = AttentionMap(
    title="Reads",
    tokens=["ann", "alien", *(f"w{i}" for i in range(30))],
    weights=[[0.0, 0.0, *[0.1] * 30], [0.5, 0.3, *[0.01] * 30]],
    virtual=2,
)


def parsed(drawing):
    return ET.fromstring(to_svg(drawing))


def test_lines_are_drawn_through_evenly_spaced_values():
    root = parsed(LINES)
    dots = [float(dot.get("cx")) for dot in root.iter(f"{SVG}circle")]
    assert len(dots) == 3
    assert dots[1] - dots[0] == pytest.approx(dots[2] - dots[1], abs=0.2)
    heights = [float(dot.get("cy")) for dot in root.iter(f"{SVG}circle")]
    assert heights[0] > heights[1] > heights[2]  # upwards is less
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"4", "8", "64", "MRR <by> size", "Edgeformer-N"} <= set(words)


def test_edges_have_the_color_of_their_node():
    root = parsed(PLANE)
    stars = [star.get("fill") for star in root.iter(f"{SVG}path")]
    points = [point.get("fill") for point in root.iter(f"{SVG}circle")]
    assert points == [stars[0], stars[0], stars[1]]
    assert stars[0] != stars[1]
    assert "a & b" in [text.text for text in root.iter(f"{SVG}text")]


def test_a_map_has_layers_by_tokens_virtual_ones_first_and_each_beside_its_largest():
    root = parsed(PICTURE)
    cells = [one for one in root.iter(f"{SVG}rect") if one.get("fill-opacity")]
    assert len(cells) == 2 * (2 + SHOWN_TOKENS)
    second = cells[2 + SHOWN_TOKENS :]
    assert [float(cell.get("fill-opacity")) for cell in second[:3]] == [1.0, 0.6, 0.02]
    bold = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "title"]
    assert bold == ["Reads", "ann", "alien"]


@pytest.mark.parametrize("drawing", [LINES, PLANE, PICTURE], ids=["lines", "plane", "map"])
def test_a_png_is_written_beside_the_svg(drawing, tmp_path):
    pytest.importorskip("matplotlib")
    files, note = write_figure(tmp_path / "figure", drawing)
    assert [path.name for path in files] == ["figure.svg", "figure.png"]
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert note is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.png", "figure.svg"]


def test_without_matplotlib_the_missing_png_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    files, note = write_figure(tmp_path / "figure", LINES)
    assert [path.name for path in files] == ["figure.svg"]
    assert note.startswith("figure.png was not made: this needs the package 'matplotlib'")
    assert "pip install 'edgeformers[plots]'" in note
