"""Pure parts of pages: bars, shading, rankings, the ego graph and the map."""

import itertools

import numpy as np
import pytest

from edgeformers.inference import saved_components
from edgeformers.inference.explain import Recommendation, decision
from edgeformers.inference.word_attention import AttendedText, Word
from edgeformers.serve.explore import views
from edgeformers.serve.explore.ego_graph import WIDTHS, EgoEdge, draw_ego_graph, wrap_text
from edgeformers.serve.explore.point_map import HEIGHT, WIDTH, Item, make_map
from edgeformers.serve.explore.rendering import shown
from edgeformers.serve.explore.views import component_bars, rank_changes, shade_words


def test_bars_share_one_scale_and_start_at_zero():
    first, second = component_bars(
        [{"text": 3.0, "als": -1.0, "x": 0.0}, {"text": 1.0, "als": 0.0}]
    )
    assert [bar.name for bar in first] == ["text", "als"]
    assert (first[0].low, first[0].high, first[0].zero) == (0.25, 1.0, 0.25)
    assert (first[1].low, first[1].high) == (0.0, 0.25)
    assert (second[0].low, second[0].high) == (0.25, 0.5)


def test_words_are_shaded_relative_to_the_one_with_most_attention():
    text = "A very good tent"
    spans = [(0, 1, 0.0), (2, 6, 0.2), (7, 11, 0.5)]
    words = [Word(start=start, end=end, weight=weight) for start, end, weight in spans]
    pieces = shade_words(AttendedText(text=text, words=words))
    assert [piece for piece in pieces if piece[1]] == [("very", 2), ("good", 5)]
    assert "".join(piece for piece, _ in pieces) == text
    assert shade_words(AttendedText(text="unread", words=[])) == [("unread", 0)]


def test_changes_of_ranks_name_what_comes_and_goes():
    rows = rank_changes([("a", 3.0), ("b", 2.0), ("c", 1.0)], [("b", 2.5), ("a", 2.0), ("d", 1.0)])
    assert [(row.node, row.change, row.arrow) for row in rows] == [
        ("a", "down", "▼ 1"),
        ("b", "up", "▲ 1"),
        ("c", "gone", "gone"),
        ("d", "new", "new"),
    ]
    assert (rows[0].score_before, rows[0].score_after) == (3.0, 2.0)


@pytest.mark.parametrize("kind", WIDTHS)
def test_every_edge_of_the_ego_graph_has_its_own_place_inside_the_drawing(kind):
    edges = [
        EgoEdge(neighbor="n" * 5 * i, text="long words " * 3 * i, label="5", is_incoming=i % 3 == 0)
        for i in range(1, 12)
    ]
    drawing = draw_ego_graph("center", edges, kind)
    assert sorted(row.edge.neighbor for row in drawing.rows) == sorted(e.neighbor for e in edges)
    boxes = sorted((row.anchor, row.text_y, row.text_y + row.height) for row in drawing.rows)
    for (side, _, bottom), (other, top, _) in itertools.pairwise(boxes):
        assert side != other or bottom < top
    for row in drawing.rows:
        assert 0 < row.x < drawing.width
        assert row.text_y + row.height - 16 <= drawing.height
        left = row.text_x if row.anchor == "start" else row.text_x - row.text_width
        assert 0 <= left <= left + row.text_width <= drawing.width


@pytest.mark.parametrize("text", ["short", "many words " * 50, "x" * 500, "中文" * 100, "", "a\nb"])
def test_wrapped_text_fits_and_says_when_it_is_cut(text):
    lines = wrap_text(text, 100, 13, 2)
    assert 1 <= len(lines) <= 2
    assert all(len(line) <= 15 for line in lines)
    assert lines[-1].endswith("…") == (len(text) > 30)


def test_a_map_keeps_its_points_inside_and_colors_them():
    rng = np.random.default_rng(0)
    vectors = np.concatenate([rng.normal(at, 0.1, (12, 5)) for at in (0.0, 5.0)]).astype("f")
    items = [Item(about="", link="", label="ab"[i // 12], degree=i) for i in range(24)]
    drawn = make_map(vectors, items)
    assert all(0 <= p.x <= WIDTH and 0 <= p.y <= HEIGHT for p in drawn.points)
    assert [name for name, _ in drawn.legends["label"]] == ["a", "b"]
    assert len(drawn.legends["degree"]) == 5
    clusters = [point.css.split()[2] for point in drawn.points]
    assert not set(clusters[:12]) & set(clusters[12:])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_map_of_few_or_equal_vectors_is_drawn(count):
    items = [Item(about="", link="", label="", degree=1)] * count
    drawn = make_map(np.ones((count, 4), np.float32), items)
    assert len(drawn.points) == count
    assert "label" not in drawn.legends


def test_shown_texts_keep_line_breaks_and_spaces_but_no_control_characters():
    assert shown("a\tb\u00a0c\nd\u202e\x00e") == "a b c\nde"


@pytest.mark.parametrize(
    "name", ["text", "node_vectors", "popularity", *saved_components.COMPONENTS]
)
def test_every_component_is_described_and_can_decide(name):
    assert views.COMPONENTS[name]
    decided_by, above = decision({name: 1.0}, {name: 0.0})
    made = Recommendation(node="n", score=1.0, decided_by=decided_by, above_average=above)
    assert "100%" in made.decision
