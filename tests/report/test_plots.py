import math
import re
import sys

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.report.plots import (
    NumberedDot,
    curves,
    interval,
    numbered,
    project_2d,
    scale,
    scatter,
)


def test_without_scikit_learn_vectors_are_drawn_by_their_two_main_directions(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    random = np.random.default_rng(0)
    plane = random.normal(size=(30, 2)) * [5.0, 2.0]
    turn = np.linalg.qr(random.normal(size=(6, 6)))[0][:2]
    found = project_2d(plane @ turn, seed=0)
    ours, theirs = (np.linalg.norm(x[:, None] - x, axis=2) for x in (found, plane))
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert found.var(0)[0] > found.var(0)[1]


def test_t_sne_keeps_clusters_apart_and_repeats():
    random = np.random.default_rng(0)
    group = np.arange(40) % 2
    vectors = random.normal(size=(40, 5)) + 20.0 * group[:, None]
    found = project_2d(vectors, seed=3)
    centers = np.stack([found[group == g].mean(0) for g in (0, 1)])
    nearest = np.linalg.norm(found[:, None] - centers, axis=2).argmin(1)
    np.testing.assert_array_equal(nearest, group)
    np.testing.assert_array_equal(found, project_2d(vectors, seed=3))


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (3, 1), (5, 5)])
def test_few_vectors_can_be_drawn(shape):
    found = project_2d(np.arange(np.prod(shape), dtype=float).reshape(shape))
    assert found.shape == (shape[0], 2)
    assert np.isfinite(found).all()


def test_vectors_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match=r"finite numbers \(got \[2, 2\]\)"):
        project_2d([[0.0, math.nan], [1.0, 2.0]])


def test_a_scale_leaves_room_at_both_ends_and_one_value_stands_in_the_middle():
    place = scale([10.0, 30.0], 0.1)
    assert [place(value) for value in (10, 20, 30)] == pytest.approx([0.1, 0.5, 0.9])
    assert scale([3.0], 0.1)(3.0) == 0.5


def test_an_interval_has_a_line_for_the_best_only_where_it_is_known():
    assert 'class="mark" x1="90.0%"' in interval(0.2, 0.3, 0.4, 0.9)
    bare = interval(0.2, 0.3, 0.4)
    assert "mark" not in bare
    assert 'class="curve" x1="20.0%" x2="40.0%"' in bare


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((0.067, 0.198), ["0.08", "0.1", "0.12", "0.14", "0.16", "0.18"]),
        ((1.0, 4.0), ["1", "1.5", "2", "2.5", "3", "3.5", "4"]),
        ((5.0, 13.0), ["6", "8", "10", "12"]),
        ((7.0, 7.0), ["7"]),
    ],
)
def test_an_axis_has_a_few_round_values(values, shown):
    line = [(float(epoch), value) for epoch, value in enumerate(values)]
    html = curves({"run": [line]}, "x", lower_is_better=False, show="{:.6g}".format)
    assert re.findall(r'text-anchor="end">([^<]+)<', html) == shown


def test_where_lower_is_better_the_lowest_dot_is_larger():
    html = curves({"a": [[(1, 0.5), (2, 0.2), (3, 0.4)]]}, "x", lower_is_better=True, show=str)
    assert re.findall(r'r="5"[^>]*><title>a, epoch (\d)', html) == ["2"]


def test_many_epochs_are_named_by_a_few():
    line = [(float(epoch), epoch / 100) for epoch in range(1, 41)]
    html = curves({"a": [line]}, "x", lower_is_better=False, show=str)
    names = re.findall(r'text-anchor="middle">([^<]+)<', html)
    assert names == ["1", "6", "11", "16", "21", "26", "31", "36"]


def test_nothing_is_drawn_of_nothing():
    assert curves({}, "x", lower_is_better=False, show=str) == ""
    assert scatter([], [], []) == ""
    assert numbered([], "x", show=str, ticks={}) == ""


def test_of_very_many_edges_some_are_drawn_evenly():
    edges = [(float(i), float(i % 7)) for i in range(6001)]
    html = scatter([("a", 0.0, 0.0)], edges, [0] * 6001)
    assert html.count("<circle") == 2001
    assert "6,001 edges as points" in html


def test_runs_of_one_name_share_a_color_and_the_axes_hold_the_frame():
    lines = {"a": [[(1.0, 0.2), (2.0, 0.4)], [(1.0, 0.3)]], "b": [[(1.0, 0.1)]]}
    html = curves(lines, "x", lower_is_better=None, show=str, frame=[(1.0, 0.0), (4.0, 0.5)])
    dots = re.findall(r'cx="([\d.]+)%" cy="([\d.]+)" r="3" fill="(#\w+)"', html)
    assert [color for *_, color in dots] == ["#0b8f80"] * 3 + ["#d9730d"]
    third = float(dots[0][0]) + (90 * 0.96) / 3  # 2 is a third of the way from 1 to 4
    assert float(dots[1][0]) == pytest.approx(third, abs=0.02)


def test_numbered_dots_have_their_number_beside_them():
    dots = [
        NumberedDot(number=n, x=float(n), y=n / 10, color="#000000", tip=f"model {n} & more")
        for n in (1, 2)
    ]
    html = numbered(dots, "x", show=str, ticks={1.0: "1 s"})
    assert re.findall(r'class="name" [^>]*>(\d)<', html) == ["1", "2"]
    assert "<title>model 2 &amp; more</title>" in html
    assert 'text-anchor="middle">1 s<' in html
