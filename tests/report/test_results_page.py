import re
from dataclasses import replace

import pytest

from edgeformers.report.results import *

from tests.report.films import outline
from tests.report.runs import make_model, make_results


HOSTILE = '<script>alert("&1")</script>\u202e\x1b[31m'


@pytest.fixture
def results():
    return make_results()


def test_the_page_shows_all_that_is_there(results):
    html = results_html(results)
    parsed(html)
    for words in ("Does the graph help?", "54.0", "53.0 to 55.0", "61.0"):
        assert words in html
    for title in ("Learning curves", "Attention", "Nodes and edges", "Data", "Settings"):
        assert f"<h2>{title}</h2>" in html
    assert html.index("Edgeformer-E") < html.index("TF-IDF")
    assert html.count(' fill="#0b8f80" fill-opacity') == 1
    assert html.count(' fill="#d9730d" fill-opacity') == 2


def test_what_is_missing_is_left_out():
    html = results_html(ResultsPage(title="empty"))
    parsed(html)
    assert "<h2>" not in html
    assert results_text(ResultsPage(title="empty")) == "EMPTY\n"


def test_nothing_is_fetched_and_nothing_runs(results):
    tags = parsed(results_html(results))
    assert tags.links == []
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.seen)
    assert "url(" not in results_html(results)


def test_hostile_names_show_and_do_nothing_else():
    bad = ResultsPage(
        title=HOSTILE,
        origin=HOSTILE,
        tasks=[
            TaskScores(
                task=HOSTILE,
                metrics=[HOSTILE],
                models=[
                    make_model(HOSTILE, "text", 0.1, metric=HOSTILE),
                    replace(make_model(HOSTILE, "both", 0.3, metric=HOSTILE), note=HOSTILE),
                ],
                note=HOSTILE,
            )
        ],
        curves=[LearningCurve(run=HOSTILE, metric=HOSTILE, points=[[1, 0.5]])],
        attention=[AttentionPicture(title=HOSTILE, tokens=[HOSTILE], weights=[[1.0]])],
        maps=[
            NodeMap(title=HOSTILE, names=[HOSTILE], nodes=[[0, 0]], edges=[], ends=[], note=HOSTILE)
        ],
        data={HOSTILE: HOSTILE},
        settings={HOSTILE: {HOSTILE: HOSTILE, "list": [HOSTILE]}},
    )
    html, text = results_html(bad), results_text(bad)
    assert "script" not in parsed(html).seen
    for sign in ("\u202e", "\x1b"):
        assert sign not in html
        assert sign not in text


def test_attention_is_a_row_per_token_as_strong_as_its_share_of_the_layer(results):
    html = results_html(results)
    strengths = re.findall(r"rgb\(11 143 128 / ([\d.]+)\)", html)
    assert [float(s) for s in strengths] == [0, 1, 1, 0.5, 0.33, 0.5]
    assert html.index("<b>[v_i]</b>") < html.index(">good<") < html.index(">film<")


def test_runs_are_drawn_on_one_scale_and_the_best_epoch_is_larger(results):
    points = [[1, 0.2], [2, 0.4], [3, 0.3]]
    curves = [LearningCurve(run="a", metric="macro_f1", points=points)]
    html = results_html(ResultsPage(title="x", curves=curves))
    dots = re.findall(r'cy="([\d.]+)" r="(\d)"[^>]*><title>a, epoch (\d): ([\d.]+)', html)
    assert [(r, epoch, value) for _, r, epoch, value in dots] == [
        ("3", "1", "20.0"),
        ("5", "2", "40.0"),
        ("3", "3", "30.0"),
    ]
    heights = [float(y) for y, *_ in dots]
    assert heights[2] == pytest.approx((heights[0] + heights[1]) / 2, abs=0.06)
    assert heights[1] < heights[0]


def test_a_single_epoch_and_a_single_node_can_be_drawn():
    page = ResultsPage(
        title="x",
        curves=[LearningCurve(run="a", metric="mrr", points=[[1, 0.2]])],
        maps=[NodeMap(title="m", names=["a"], nodes=[[3, 3]], edges=[], ends=[])],
    )
    html = results_html(page)
    assert "nan" not in html
    assert "0.200" in html
