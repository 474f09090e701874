import re
from dataclasses import replace

import pytest

from edgeformers.report.results import AttentionMap, LearningCurve, NodeMap, Results
from edgeformers.report.results_page import results_html
from edgeformers.report.results_terminal import results_text
from edgeformers.report.scores import TaskScores
from tests.report.films import outline
from tests.report.runs import make_model, make_results

HOSTILE = '<script>alert("&1")</script>\u202e\x1b[31m'


@pytest.fixture
def results():
    return make_results()


def test_the_page_shows_all_that_is_there(results):
    html = results_html(results)
    outline(html)
    for words in ("Does the graph help?", "54.0", "53.0 to 55.0", "61.0"):
        assert words in html
    for title in ("Learning curves", "Attention", "Nodes and edges", "Data", "Settings"):
        assert f"<h2>{title}</h2>" in html
    assert html.index("Edgeformer-E") < html.index("TF-IDF")
    assert html.count(' fill="#0b8f80" fill-opacity') == 1
    assert html.count(' fill="#d9730d" fill-opacity') == 2


def test_what_is_missing_is_left_out():
    html = results_html(Results(title="empty"))
    outline(html)
    assert "<h2>" not in html
    assert results_text(Results(title="empty")) == "EMPTY\n"


def test_nothing_is_fetched_and_nothing_runs(results):
    tags = outline(results_html(results)).tags  # which refuses addresses and handlers
    assert not {"script", "link", "img", "iframe", "object"} & tags
    assert "url(" not in results_html(results)


def test_hostile_names_show_and_do_nothing_else():
    bad = Results(
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
        attention=[AttentionMap(title=HOSTILE, tokens=[HOSTILE], weights=[[1.0]])],
        maps=[
            NodeMap(title=HOSTILE, names=[HOSTILE], nodes=[[0, 0]], edges=[], ends=[], note=HOSTILE)
        ],
        data={HOSTILE: HOSTILE},
        settings={HOSTILE: {HOSTILE: HOSTILE, "list": [HOSTILE]}},
    )
    html, text = results_html(bad), results_text(bad)
    assert "script" not in outline(html).tags
    for sign in ("\u202e", "\x1b"):
        assert sign not in html
        assert sign not in text


def test_attention_is_a_row_per_token_as_strong_as_its_share_of_the_layer(results):
    html = results_html(results)
    strengths = re.findall(r"rgb\(11 143 128 / ([\d.]+)\)", html)
    assert [float(s) for s in strengths] == [0, 1, 1, 0.5, 0.33, 0.5]
    assert html.index("<b>[v_i]</b>") < html.index(">good<") < html.index(">film<")


def test_runs_are_drawn_on_one_scale_and_the_best_epoch_is_larger():
    points = [[1, 0.2], [2, 0.4], [3, 0.3]]
    curves = [LearningCurve(run="a", metric="macro_f1", points=points)]
    html = results_html(Results(title="x", curves=curves))
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
    page = Results(
        title="x",
        curves=[LearningCurve(run="a", metric="mrr", points=[[1, 0.2]])],
        maps=[NodeMap(title="m", names=["a"], nodes=[[3, 3]], edges=[], ends=[])],
    )
    html = results_html(page)
    assert "nan" not in html
    assert "0.200" in html


def cells(html, title):
    """The rows of the first table under a heading, as lists of words."""
    table = html[html.index(f"{title}</h") :].partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [
            re.sub(r"<[^>]*>", " ", cell).strip()
            for cell in re.findall(r"<t[hd][ >].*?</t[hd]>", row)
        ]
        for row in table.split("</tr>")[:-1]
    ]


def test_the_metric_that_decides_stands_beside_its_plot(results):
    html = results_html(results)
    head = re.findall(r'<th scope="col">([^<]*)</th>', html[html.index("<h2>Stars</h2>") :])
    assert head[:4] == ["", "Macro-F1", "", "Micro-F1"]
    rows = [[" ".join(cell.split()) for cell in row] for row in cells(html, "<h2>Stars")]
    assert rows[0] == ["Edgeformer-E text and nodes", "54.0 53.0 to 55.0", "", "54.0 53.0 to 55.0"]


def test_a_model_without_the_deciding_metric_has_a_row_without_a_plot(results):
    (task,) = results.tasks
    metrics = {"micro_f1": task.models[0].metrics["micro_f1"]}
    models = [*task.models, replace(task.models[0], model="late", metrics=metrics)]
    html = results_html(replace(results, tasks=[replace(task, models=models)]))
    last = cells(html, "<h2>Stars")[-1]
    assert last[0].startswith("late")
    assert last[1:3] == ["–", ""]
    assert html.count('<svg class="meter"') == 3 + 4


def test_the_dashed_line_is_explained_only_where_there_is_one(results):
    html = results_html(results)
    assert html.count("Best achievable (dashed line): Macro-F1 61.0.") == 2
    bare = replace(results, tasks=[replace(results.tasks[0], best={})])
    assert "dashed" not in results_html(bare).partition("</style>")[2]


def test_settings_that_are_the_same_in_all_runs_are_said_once(results):
    html = results_html(results)
    assert cells(html, "<h2>Settings") == [["lr", "5e-05", "0.001"]]
    assert cells(html, "<h3>The same in all runs") == [["seed", "1"]]


def test_settings_of_a_single_run_stand_under_its_name():
    settings = {"run 1": {"train.lr": 0.1, "model.name": "", "seed": 3}}
    html = results_html(Results(title="x", settings=settings))
    outline(html.replace("<wbr>", ""))
    assert cells(html.replace("<wbr>", ""), "<h3>run 1") == [
        ["train.lr", "0.1"],
        ["model.name", "–"],
    ]
    assert "train.<wbr>lr" in html


def test_a_task_that_nothing_was_measured_on_is_an_empty_table():
    nothing = TaskScores(task="Stars", metrics=["mrr"], models=[])
    html = results_html(Results(title="x", tasks=[nothing]))
    outline(html)
    assert cells(html, "<h2>Stars") == []
