import base64
import re
from dataclasses import replace

import pytest

from edgeformers.report.runs_data import Drawing, ModelSettings, OneRun, RunGroup, Unfinished
from edgeformers.report.runs_page import runs_html
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores
from edgeformers.report.style import STYLE
from tests.report.compared import SVG, edges, links, make_runs
from tests.report.films import outline

HOSTILE = '<script>alert("&1")</script>\u202e'


@pytest.fixture(scope="module")
def html():
    return runs_html(make_runs())


def section(html, anchor):
    """What stands in a section, as words."""
    body = html.partition(f'<section id="{anchor}">')[2].partition("</section>\n")[0]
    return " ".join(re.sub(r"<title>.*?</title>|<[^>]*>", " ", body).split())


def test_the_questions_are_answered_in_their_order(html):
    seen = outline(html)
    order = ["graph", "models", "curves", "cost", "degree", "figures", "data", "settings"]
    assert seen.links == [f"#{name}" for name in (*order, "left-out")]
    assert [anchor for anchor in seen.anchors if f"#{anchor}" in seen.links] == [*order, "left-out"]


def test_the_first_lines_answer_for_every_task(html):
    leads = re.findall(r'<p class="lead">(.*?)</p>', html)
    assert leads == [
        "Edge classification: The graph helps: nodes add to what the text says. "
        "The text helps: nodes alone do worse.",
        "Link prediction: Whether the graph helps cannot be told: no model here sees the text "
        "alone. Whether the text helps cannot be told: no model here sees the nodes alone.",
    ]
    assert "4 finished runs of 4 models on films; 1 more is not compared." in html


def test_the_paired_difference_is_said_where_it_was_measured(html):
    words = section(html, "graph")
    assert (
        "Edgeformer-E less TF-IDF (text only): +13.0 (95% interval +10.0 to +16.0) Macro-F1, "
        "compared on the same 600 test examples." in words
    )
    assert "less node ids" not in words
    assert "MRR (paper): Whether the graph helps cannot be told" in words


def test_all_models_have_intervals_spread_and_the_best_is_bold(html):
    words = section(html, "models")
    assert "Edgeformer-E text and nodes, 3 runs 54.0 ± 1.0 52.0 to 56.0" in words
    assert "Link prediction, protocol paper: ranked somehow." in words
    assert words.count("Edgeformer-N: it rests.") == 1
    body = html.partition('<section id="models">')[2].partition('<section id="curves">')[0]
    assert re.findall(r"<b>([^<]*)</b>", body) == ["54.0"]  # a model alone is not the best


def test_learning_curves_go_by_epochs_and_by_minutes(html):
    body = html.partition('<section id="curves">')[2].partition('<section id="cost">')[0]
    tips = re.findall(r"<title>(Edgeformer-E, [^<]*)</title>", body)
    assert tips[:2] == ["Edgeformer-E, epoch 1: 40.0", "Edgeformer-E, epoch 2: 50.0"]
    assert tips[4:] == ["Edgeformer-E, minute 5: 40.0", "Edgeformer-E, minute 10: 50.0"]
    assert len(set(re.findall(r'stroke="(#[^"]*)"', body))) == 1  # all runs in one color


def test_cost_says_which_models_are_worth_their_time(html):
    words = section(html, "cost")
    assert (
        "The best for their time: TF-IDF (2 s) and Edgeformer-E (15 min). Every other is beaten "
        "by one as quick." in words
    )
    assert "1 Edgeformer-E 54.0 15 min H200 2 TF-IDF 41.0 2 s cpu" in words


def test_degrees_are_a_plot_and_a_table(html):
    words = section(html, "degree")
    assert "cold: 3 pairs 11 or more: 1,200 pairs Edgeformer-N 0.100 0.250" in words
    assert "<title>Edgeformer-N, cold: 0.100</title>" in html


def test_a_drawing_is_an_image_that_can_run_and_fetch_nothing(html):
    (data,) = re.findall(r'<img alt="What is read" src="data:image/svg\+xml;base64,([^"]*)"', html)
    assert base64.b64decode(data).decode() == SVG
    assert "example.org" not in html
    assert "script" not in outline(html).tags


def test_the_data_card_is_there_and_its_headings_stand_below_the_section(html):
    data = html.partition('<section id="data">')[2].partition('<section id="settings">')[0]
    assert "The whole data card" in data
    found = re.findall(r"<h(\d)>(.*?)</h\1>", data)
    assert found[:4] == [
        ("2", "Data"),
        ("3", "films"),
        ("4", "Before you train"),
        ("4", "Network"),
    ]
    assert ("5", "Counts") in found


def test_settings_that_differ_stand_with_their_model_and_shared_ones_once(html):
    words = section(html, "settings")
    assert "Edgeformer-E: 1 run, 1 setting of its own train. lr 0.2" in words
    assert "runs/Edgeformer-E: seed 0, 2 s on cpu" in words
    assert "1 setting, the same in all models that have them recipe fast" in words


def test_what_is_not_compared_is_listed(html):
    words = section(html, "left-out")
    assert "runs/half: it is not finished. empty has no finished run." in words


def test_what_is_missing_is_left_out():
    bare = RunGroup(
        title="Task",
        network="films",
        task="edge-classification",
        scores=[TaskScores(task="Task", metrics=["macro_f1"], models=links().models)],
        settings=[ModelSettings(model="a", runs=[OneRun(folder="a")], settings={})],
    )
    html = runs_html(make_runs(groups=[bare], drawings=[], cards={}, unfinished=[], notes=[]))
    assert outline(html).links == ["#graph", "#models", "#settings"]


def test_hostile_names_show_and_do_nothing_else():
    score = {HOSTILE: MetricValue(value=0.5)}
    group = replace(
        edges(curves=[], costs=[]),
        title=HOSTILE,
        network=HOSTILE,
        scores=[
            TaskScores(
                task=HOSTILE,
                metrics=[HOSTILE],
                models=[
                    ModelScores(model=HOSTILE, metrics=score, inputs=sees, note=HOSTILE)
                    for sees in ("text", "both")
                ],
                note=HOSTILE,
            )
        ],
        settings=[
            ModelSettings(
                model=HOSTILE, runs=[OneRun(folder=HOSTILE, device=HOSTILE)], settings={HOSTILE: 1}
            )
        ],
    )
    html = runs_html(
        make_runs(
            title=HOSTILE,
            groups=[group],
            drawings=[Drawing(title=HOSTILE, experiment=HOSTILE, svg=HOSTILE)],
            unfinished=[Unfinished(folder=HOSTILE, sentence=HOSTILE)],
            notes=[HOSTILE],
        )
    )
    assert "script" not in outline(html).tags
    assert "\u202e" not in html


def test_many_models_are_drawn_eight_to_a_plot():
    group = edges()
    (task,), (curve,) = group.scores, group.curves
    names = [f"model {n}" for n in range(10)]
    models = [replace(task.models[0], model=name) for name in names]
    group = replace(
        group,
        scores=[replace(task, models=models, gains={})],
        curves=[replace(curve, model=name) for name in names],
    )
    html = runs_html(make_runs(groups=[group]))
    body = html.partition('<section id="curves">')[2].partition('<section id="cost">')[0]
    assert body.count("<figure>") == 4
    assert [legend.count("<span>") for legend in body.split('class="legend')[1:]] == [8, 8, 2, 2]


def colors(name):
    """A color of the page in light, in dark and on paper, as six digits."""
    found = re.findall(rf"--{name}: #(\w+)", STYLE)
    return ["".join(2 * c for c in one) if len(one) == 3 else one for one in found]


def luminance(color):
    parts = [int(color[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("name", ["ink", "soft", "accent"])
def test_letters_stand_out_from_the_paper_in_light_in_dark_and_in_print(name):
    pairs = list(zip(colors("paper"), colors(name), strict=True))
    assert len(pairs) == 3
    for pair in pairs:
        low, high = sorted(map(luminance, pair))
        assert (high + 0.05) / (low + 0.05) >= 4.5  # what WCAG asks of small letters
