import base64
import re
from dataclasses import replace

import pytest

from edgeformers.report.comparison import (
    ModelCost,
    ModelRuns,
    RunGroup,
    SkippedRun,
    comparison_json,
    comparison_lines,
    comparison_page,
    efficient_models,
    shared_settings,
)
from edgeformers.report.page import SvgImage, render_html
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores
from edgeformers.report.verdict import NOT_TESTED
from tests.report.examples import SVG, edges, links, make_comparison, make_verdict
from tests.report.films import outline

EVIL = '<script>alert("&1")</script>\u202e'
ANCHORS = [
    "graph",
    "models",
    "curves",
    "cost",
    "degree",
    "figures",
    "data",
    "settings",
    "left-out",
]


def html_of(**more):
    return render_html(comparison_page(make_comparison(**more)))


@pytest.fixture(scope="module")
def html():
    return html_of()


def markup(html, anchor):
    """The HTML of a section."""
    following = re.search(rf'<section id="{anchor}">(.*?)(<section id=|<footer>)', html, re.DOTALL)
    return following[1]


def words(html, anchor):
    """The text of a section."""
    body = re.sub(r"<title>.*?</title>|<svg.*?</svg>", " ", markup(html, anchor))
    return " ".join(re.sub(r"<[^>]*>", " ", body.replace("<wbr>", "")).split())


def test_contents_link_all_sections(html):
    seen = outline(html)
    assert seen.links == [f"#{anchor}" for anchor in ANCHORS]
    assert [anchor for anchor in seen.anchors if anchor in ANCHORS] == ANCHORS


def test_the_lead_answers_for_every_task(html):
    assert re.findall(r'<p class="lead">(.*?)</p>', html) == [
        f"Edge classification: {make_verdict().sentence}",
        f"Link prediction: {NOT_TESTED}",
    ]
    assert "4 finished runs of 4 models on films; 1 more is not compared." in html


def test_the_verdict_and_gains_follow_the_conclusion(html):
    text = words(html, "graph")
    assert "Edgeformer-E vs. TF-IDF (text only): +13.0" in text
    assert "vs. node ids" not in text
    assert "Graph +13.0 +10.0 to +16.0 nodes hidden 0.010" in text
    assert text.count(NOT_TESTED) == 1  # of links, once for all protocols


def test_models_have_intervals_and_spread_and_the_best_of_several_is_bold(html):
    text = words(html, "models")
    assert "Edgeformer-E text and nodes, 3 runs 54.0 ± 1.0 52.0 to 56.0" in text
    assert "Link prediction, protocol paper: ranked somehow." in text
    assert text.count("Edgeformer-N: it rests.") == 1
    assert re.findall(r"<b>([^<]+)</b>", markup(html, "models")) == ["54.0"]


def test_learning_curves_are_drawn_by_epoch_and_by_time(html):
    body = markup(html, "curves")
    tips = re.findall(r"<title>Edgeformer-E, ([^<]*)</title>", body)
    assert sorted(tips)[:2] == ["epoch 1: 40.0", "epoch 1: 42.0"]
    assert sorted(tips)[4:] == ["minute 10: 50.0", "minute 5: 40.0"]
    assert len(set(re.findall(r"stroke:(#\w+)", body))) == 1  # one color per model


def test_efficient_models_are_listed(html):
    text = words(html, "cost")
    assert "TF-IDF (2 s) and Edgeformer-E (15 min)." in text
    assert "1 Edgeformer-E 54.0 15 min H200 2 TF-IDF 41.0 2 s cpu" in text


def test_degrees_are_a_figure_and_a_table(html):
    text = words(html, "degree")
    assert "cold: 3 pairs 11 or more: 1,200 pairs Edgeformer-N 0.100 0.250" in text
    assert "<title>Edgeformer-N, cold: 0.100</title>" in html


def test_a_saved_figure_is_an_image_that_cannot_run_or_fetch_anything(html):
    (data,) = re.findall(r'<img alt="What is read" src="data:image/svg\+xml;base64,([^"]*)"', html)
    assert base64.b64decode(data).decode() == SVG
    assert "example.org" not in html
    assert "script" not in outline(html).tags


def test_data_cards_are_nested_in_their_section(html):
    headings = re.findall(r"<h(\d)>(.*?)</h\1>", markup(html, "data"))
    assert headings[:4] == [
        ("2", "Data"),
        ("3", "films"),
        ("4", "Before you train"),
        ("4", "Network"),
    ]
    assert ("5", "Counts") in headings


def test_own_settings_are_with_their_model_and_shared_ones_at_the_end(html):
    text = words(html, "settings")
    assert "Edgeformer-E: 1 run, 1 setting of its own train.lr 0.2" in text
    assert "runs/Edgeformer-E: seed 0, 2 s on cpu" in text
    assert "1 setting shared by all models that have them recipe fast" in text


def test_skipped_runs_and_notes_are_listed(html):
    text = words(html, "left-out")
    assert text.endswith("runs/half: it is not finished. empty has no finished run.")


def test_empty_parts_are_left_out():
    bare = RunGroup(
        title="Task",
        network="films",
        task="edge-classification",
        scores=[TaskScores(task="Task", metrics=["macro_f1"], models=links().scores[0].models)],
        settings=[ModelRuns(model="a", runs={"a": ""}, settings={})],
    )
    html = html_of(groups=[bare], figures=[], cards={}, skipped=[], notes=[])
    assert outline(html).links == ["#graph", "#models", "#settings"]


def test_names_are_never_markup():
    models = [
        ModelScores(model=EVIL, metrics={EVIL: MetricValue(value=0.5)}, inputs=kind, note=EVIL)
        for kind in ("text", "both")
    ]
    group = replace(
        edges(curves=[], costs=[]),
        title=EVIL,
        network=EVIL,
        scores=[TaskScores(task=EVIL, metrics=[EVIL], models=models, note=EVIL)],
        settings=[ModelRuns(model=EVIL, runs={EVIL: EVIL}, settings={EVIL: 1})],
    )
    html = html_of(
        title=EVIL,
        groups=[group],
        figures=[SvgImage(EVIL, EVIL, EVIL)],
        skipped=[SkippedRun(folder=EVIL, reason=EVIL)],
        notes=[EVIL],
    )
    assert "script" not in outline(html).tags
    assert "\u202e" not in html


def test_many_models_are_drawn_eight_to_a_figure():
    group = edges()
    (task,), (curve,) = group.scores, group.curves
    names = [f"model {n}" for n in range(10)]
    models = [replace(task.models[0], model=name) for name in names]
    group = replace(
        group,
        scores=[replace(task, models=models, gains={})],
        curves=[replace(curve, model=name) for name in names],
    )
    body = markup(html_of(groups=[group], cards={}), "curves")
    assert [part.count("<span>") for part in body.split('class="legend')[1:]] == [8, 8, 2, 2]


def test_a_model_is_efficient_unless_a_better_one_is_as_fast():
    costs = [
        ModelCost(model=name, inputs="", seconds=seconds, device="", value=value)
        for name, seconds, value in (("a", 50, 0.9), ("b", 60, 0.8), ("c", 50, 0.7), ("d", 2, 0.6))
    ]
    assert "d (2 s) and a (50 s). Every other" in efficient_models(costs)
    assert efficient_models(costs[:1]).endswith("a (50 s).")


def test_settings_are_shared_if_several_models_have_equal_values():
    first, second = {"lr": 1, "width": 2, "own": 3}, {"lr": 1, "width": 4}
    assert shared_settings([first, second, {}]) == {"lr": 1}
    assert shared_settings([first]) == first


def test_the_terminal_lists_conclusions_skipped_runs_and_notes():
    lines = comparison_lines(make_comparison())
    assert lines[0] == "4 finished runs of 4 models on films."
    assert lines[2] == f"Edge classification: {make_verdict().sentence}"
    assert lines[-2:] == ["runs/half: it is not finished.", "empty has no finished run."]


def test_json_has_every_score_and_its_runs():
    values = comparison_json(make_comparison())
    first, second = values["groups"]
    assert [model["model"] for model in first["models"]] == ["Edgeformer-E", "TF-IDF", "node ids"]
    score = {"value": 0.54, "low": 0.52, "high": 0.56, "spread": 0.01}
    assert first["models"][0]["metrics"]["macro_f1"] == score
    assert first["models"][1]["runs"] == ["runs/TF-IDF"]
    assert first["gains"]["macro_f1"]["text"]["value"] == 0.13
    assert [answer["finding"] for answer in first["verdict"]["answers"]] == ["helps", "no"]
    assert second["verdict"] is None
    assert second["models"][0]["metrics"].keys() == {"full/mrr", "paper/mrr"}
    assert values["unfinished"] == {"runs/half": "it is not finished"}
