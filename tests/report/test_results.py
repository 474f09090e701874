import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from edgeformers.errors import FormatError
from edgeformers.report.page import render_html
from edgeformers.report.results import LearningCurve, Results, learning_curve, results_page
from edgeformers.report.scores import TaskScores
from edgeformers.report.terminal import render_text
from tests.report.examples import make_results, make_verdict
from tests.report.films import outline

OLD_FILE = Path(__file__).with_name("results_v1.json")  # written by version 0.1


@pytest.fixture(scope="module")
def results():
    return make_results()


def test_results_survive_json(results):
    assert Results.from_json(results.to_json()) == results


def test_files_of_earlier_versions_are_read(results):
    text = OLD_FILE.read_text(encoding="utf-8")
    assert "sees" in json.loads(text)["tasks"][0]["models"][0]
    (task,) = results.tasks
    assert Results.from_json(text) == replace(results, tasks=[replace(task, verdict=None)])


def test_values_that_json_cannot_hold_become_null():
    page = Results(title="x", settings={"run": {"best": math.inf}})
    assert Results.from_json(page.to_json()).settings == {"run": {"best": None}}


@pytest.mark.parametrize("text", ["not json", "[]", '{"version": 1}', '{"version": 1, "tasks": 3}'])
def test_other_files_are_rejected(text):
    with pytest.raises(FormatError, match="results"):
        Results.from_json(text)


def test_another_version_is_rejected(results):
    with pytest.raises(FormatError, match="version"):
        Results.from_json(replace(results, version=7).to_json())


def test_a_learning_curve_has_the_validation_events_by_epochs_done():
    events = [
        {"kind": "train", "step": 1, "epoch": 0, "loss": 2.0},
        {"kind": "val", "step": 5, "epoch": 0, "mrr": 0.1},
        {"kind": "val", "step": 9, "epoch": 1, "mrr": math.nan},
        {"kind": "val", "step": 12, "epoch": 2, "mrr": 0.2},
    ]
    curve = learning_curve(events, "mrr", "run")
    assert curve == LearningCurve(run="run", metric="mrr", points=[[1, 0.1], [3, 0.2]])
    assert learning_curve(events, "loss", "run") is None


def html_of(results):
    return render_html(results_page(results))


@pytest.fixture(scope="module")
def html(results):
    return html_of(results)


def cells(html, heading):
    """The rows of the first table under a heading, as lists of words."""
    table = html[html.index(f"{heading}</h") :].partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [
            " ".join(re.sub(r"<[^>]*>", " ", cell.replace("<wbr>", "")).split())
            for cell in re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL)
        ]
        for row in table.split("</tr>")[:-1]
    ]


def test_the_page_shows_everything(html):
    outline(html)
    for title in ("Learning curves", "Attention", "Nodes and edges", "Data", "Settings"):
        assert f"<h2>{title}</h2>" in html
    assert html.count(make_verdict().sentence) == 1  # in the lead
    assert html.index("Edgeformer-E") < html.index("TF-IDF")
    assert html.count("<svg") == 3


def test_empty_parts_are_left_out():
    html = html_of(Results(title="empty"))
    outline(html)
    assert "<h2>" not in html
    assert render_text(results_page(Results(title="empty"))) == "EMPTY\n"


def test_the_first_metric_is_next_to_its_interval(html):
    head = re.findall(r'<th scope="col">([^<]*)</th>', html[html.index("<h2>Stars</h2>") :])
    assert head[:4] == ["", "Macro-F1", "", "Micro-F1"]
    score = "54.0 53.0 to 55.0"
    assert cells(html, "<h2>Stars")[0] == ["Edgeformer-E text and nodes", score, "", score]


def test_a_model_without_the_first_metric_has_no_interval(results):
    (task,) = results.tasks
    metrics = {"micro_f1": task.models[0].metrics["micro_f1"]}
    late = replace(task.models[0], model="late", metrics=metrics)
    html = html_of(replace(results, tasks=[replace(task, models=[*task.models, late])]))
    last = cells(html, "<h2>Stars")[-1]
    assert last[0].startswith("late")
    assert last[1:3] == ["–", ""]
    assert html.count('<span class="interval"') == 3 + 4


def test_the_dashed_line_is_explained_only_if_there_is_one(results, html):
    assert html.count("Best achievable: Macro-F1 61.0") == 2
    bare = replace(results, tasks=[replace(results.tasks[0], best={})])
    assert "dashed line" not in html_of(bare)


def test_each_epoch_has_a_tooltip_and_runs_a_sparkline():
    points = [[1, 0.2], [2, 0.4], [3, 0.3]]
    results = Results(title="x", curves=[LearningCurve(run="a", metric="macro_f1", points=points)])
    tips = re.findall(r"<title>(a, epoch [^<]*)</title>", html_of(results))
    assert sorted(tips) == ["a, epoch 1: 20.0", "a, epoch 2: 40.0", "a, epoch 3: 30.0"]
    assert "a, Macro-F1: ▁█▄ best 40.0 at epoch 2" in render_text(results_page(results))


def test_shared_settings_are_listed_once(html):
    assert cells(html, "<h2>Settings") == [["lr", "5e-05", "0.001"]]
    assert cells(html, "<h3>The same in all runs") == [["seed", "1"]]


def test_settings_of_a_single_run_are_under_its_name():
    settings = {"run 1": {"train.lr": 0.1, "model.name": "", "seed": 3}}
    html = html_of(Results(title="x", settings=settings))
    assert cells(html, "<h3>run 1") == [["train.lr", "0.1"], ["model.name", "–"]]


def test_a_task_without_scores_is_an_empty_table():
    html = html_of(Results(title="x", tasks=[TaskScores(task="Stars", metrics=["mrr"], models=[])]))
    outline(html)
    assert cells(html, "<h2>Stars") == []


def test_the_terminal_shows_conclusion_scores_and_curves_within_its_width(results):
    lines = render_text(results_page(results), width=72).splitlines()
    assert max(map(len, lines)) <= 72
    text = " ".join(" ".join(lines).split())
    assert make_verdict().sentence in text
    assert "Edgeformer-E 54.0 54.0 text and nodes 53.0 to 55.0 53.0 to 55.0" in text
    assert "Best achievable: Macro-F1 61.0" in text
    assert text.index(" lr ") < text.index(" seed ")
