import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from edgeformers.errors import FormatError, InputError
from edgeformers.report.plots import project_2d
from edgeformers.report.results import (
    AttentionPicture,
    LearningCurve,
    ModelScores,
    NodeMap,
    ResultsPage,
    Score,
    TaskScores,
    learning_curve,
    results_html,
    results_text,
    verdict,
)

HOSTILE = '<script>alert("&1")</script>\u202e\x1b[31m'


def model(name, sees, value, half=0.01, metric="macro_f1"):
    score = Score(value=value, low=value - half, high=value + half)
    return ModelScores(model=name, sees=sees, metrics={metric: score, "micro_f1": score})


def task(text=0.43, nodes=0.41, both=0.54, **more):
    models = [
        model("TF-IDF", "text", 0.33),
        model("words", "text", text),
        model("ids", "nodes", nodes),
        model("Edgeformer-E", "both", both),
    ]
    given = {"task": "Stars", "metrics": ["macro_f1", "micro_f1"], "models": models, **more}
    return TaskScores(**given)


@pytest.fixture
def results():
    return ResultsPage(
        title="films",
        origin="reviews.csv",
        tasks=[task(best={"macro_f1": 0.61}, note="split edge")],
        curves=[LearningCurve(run="run 1", metric="macro_f1", points=[[1, 0.3], [2, 0.5]])],
        attention=[
            AttentionPicture(
                title="one review",
                tokens=["[v_i]", "good", "film"],
                weights=[[0.0, 0.75, 0.25], [0.5, 0.25, 0.25]],
                virtual=1,
            )
        ],
        maps=[
            NodeMap(
                title="map",
                names=["alien", "brazil"],
                nodes=[[0, 0], [1, 1]],
                edges=[[0, 0.1], [0.9, 1], [1, 0.8]],
                ends=[0, 1, 1],
            )
        ],
        data={"edges": 1200, "tokenizer": "minilm"},
        settings={"run 1": {"lr": 5e-5, "seed": 1}, "run 2": {"lr": 1e-3, "seed": 1}},
    )


class Tags(HTMLParser):
    """Fails on a tag that is closed out of order, and keeps what would fetch or run."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "onclick")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(html):
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    return tags


def test_results_survive_json(results):
    assert ResultsPage.from_json(results.to_json()) == results


def test_what_was_not_measured_is_null_in_json():
    score = Score(value=0.5, low=math.nan, high=math.nan)
    page = ResultsPage(title="x", settings={"run": {"best": math.inf}})
    assert (score.low, score.high, score.bounds) == (None, None, (0.5, 0.5))
    assert ResultsPage.from_json(page.to_json()).settings == {"run": {"best": None}}


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(InputError, match=r"a score must be a number \(got nan\); leave out"):
        Score(value=math.nan)


@pytest.mark.parametrize("text", ["not json", "[]", '{"version": 1}', '{"version": 1, "tasks": 3}'])
def test_a_file_that_is_no_results_is_refused(text):
    with pytest.raises(FormatError, match="results: not a file that results were written to"):
        ResultsPage.from_json(text)


def test_another_version_is_refused(results):
    other = replace(results, version=7).to_json()
    with pytest.raises(
        FormatError, match=r"results: version 1 expected \(got 7\); make them again"
    ):
        ResultsPage.from_json(other)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (task(), "The graph helps: nodes add to what the text says. The text helps too"),
        (task(text=0.535), "The graph may help: the gain over text alone is within chance."),
        (task(text=0.6), "The graph does not help: text alone does as well."),
        (task(nodes=0.55), "The text adds nothing: nodes alone do as well."),
        (
            task(text=0.535, gains={"text": Score(value=0.005, low=0.001, high=0.01)}),
            "helps: nodes",
        ),
        (task(gains={"text": Score(value=0.11, low=-0.01, high=0.2)}), "The graph may help"),
        (task(gains={"text": Score(value=0.11)}), "The graph may help"),
    ],
)
def test_the_verdict_follows_the_intervals_and_paired_gains_before_them(given, answer):
    assert answer in verdict(given).answer


def test_a_gain_without_intervals_is_never_called_sure():
    bare = task()
    models = [
        replace(m, metrics={name: Score(value=s.value) for name, s in m.metrics.items()})
        for m in bare.models
    ]
    assert "may help" in verdict(replace(bare, models=models)).answer


def test_where_lower_is_better_the_lower_error_wins():
    models = [model("words", "text", 0.9, metric="mae"), model("both", "both", 0.5, metric="mae")]
    numbers = TaskScores(task="rating", metrics=["mae"], models=models)
    assert "The graph helps" in verdict(numbers).answer
    lines = results_text(ResultsPage(title="x", tasks=[numbers])).splitlines()
    shown = [line.split()[0] for line in lines if line.startswith(("  words", "  both"))]
    assert shown == ["both", "words"]


def test_there_is_no_verdict_without_models_to_compare():
    assert verdict(task(models=[model("words", "text", 0.4)])) is None


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
                    model(HOSTILE, "text", 0.1, metric=HOSTILE),
                    replace(model(HOSTILE, "both", 0.3, metric=HOSTILE), note=HOSTILE),
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


def test_settings_that_differ_stand_first(results):
    text = results_text(results)
    block = text[text.index("SETTINGS") :]
    assert block.index("lr") < block.index("seed")
    assert "5e-05" in block


def test_the_terminal_says_the_verdict_and_the_scores_within_its_width(results):
    lines = results_text(results, width=72).splitlines()
    assert max(map(len, lines)) <= 72
    text = " ".join(" ".join(lines).split())
    assert "The graph helps: nodes add to what the text says." in text
    assert "Edgeformer-E both 54.0 (53.0 to 55.0) 54.0" in text
    assert "best achievable 61.0 –" in text
    assert "run 1 Macro-F1 ▁█ 50.0 2" in text


def test_a_learning_curve_is_the_validation_events():
    events = [
        {"kind": "train", "step": 1, "epoch": 1, "loss": 2.0},
        {"kind": "val", "step": 5, "epoch": 1, "mrr": 0.1},
        {"kind": "val", "step": 9, "epoch": 2, "mrr": math.nan},
        {"kind": "val", "step": 12, "epoch": 3, "mrr": 0.2},
    ]
    curve = learning_curve(events, "mrr", "run")
    assert curve == LearningCurve(run="run", metric="mrr", points=[[1, 0.1], [3, 0.2]])
    assert learning_curve(events, "loss", "run") is None


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
