from dataclasses import replace

import pytest

from edgeformers.report.conclusions import (
    GRAPH,
    NO_COMBINED_MODEL,
    NO_NODE_MODEL,
    NO_TEXT_MODEL,
    TEXT,
    comparison_json,
    comparison_lines,
    conclusion,
    gain_sentences,
    lead_sentences,
)
from edgeformers.report.scores import MetricValue, TaskScores
from tests.report.examples import edges, make_comparison, make_model, make_task


@pytest.mark.parametrize(
    ("task", "graph", "text"),
    [
        (make_task(), 2, 2),
        (make_task(text=0.535), 1, 2),
        (make_task(text=0.545), 0, 2),
        (make_task(nodes=0.55), 2, 0),
        (make_task(text=0.6), -1, 2),
        (make_task(gains={"nodes": MetricValue(value=-0.1, low=-0.2, high=-0.01)}), 2, -1),
        (
            make_task(text=0.535, gains={"text": MetricValue(value=0.005, low=0.001, high=0.01)}),
            2,
            2,
        ),
        (make_task(gains={"text": MetricValue(value=0.11, low=-0.01, high=0.2)}), 1, 2),
        (make_task(gains={"text": MetricValue(value=0.11)}), 1, 2),
    ],
)
def test_conclusions_follow_paired_gains_and_otherwise_intervals(task, graph, text):
    assert conclusion(task) == f"{GRAPH[graph]} {TEXT[text]}"


def test_a_gain_without_intervals_is_not_significant():
    task = make_task()
    models = [
        replace(m, metrics={name: MetricValue(value=s.value) for name, s in m.metrics.items()})
        for m in task.models
    ]
    assert GRAPH[1] in conclusion(replace(task, models=models))


def test_the_lower_error_wins():
    models = [
        make_model("words", "text", 0.9, metric="mae"),
        make_model("both", "both", 0.5, metric="mae"),
    ]
    task = TaskScores(task="rating", metrics=["mae"], models=models)
    assert conclusion(task).startswith(GRAPH[2])
    assert [model.model for model in task.ranked()] == ["both", "words"]


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("both", NO_COMBINED_MODEL),
        ("text", f"{TEXT[2]} {NO_TEXT_MODEL}"),
        ("nodes", f"{GRAPH[2]} {NO_NODE_MODEL}"),
    ],
)
def test_missing_models_are_named(missing, expected):
    (task,) = edges().scores
    models = [model for model in task.models if model.inputs != missing]
    assert conclusion(replace(task, models=models, gains={})) == expected


def test_a_lead_states_each_conclusion_once():
    assert lead_sentences([("A", "Yes.")]) == ["Yes."]
    assert lead_sentences([("A", "Yes."), ("B", "Yes.")]) == ["All 2 tasks: Yes."]
    answers = [*((name, "Yes.") for name in "ABCDE"), ("F", "No."), ("G", "No.")]
    assert lead_sentences(answers) == ["A, B and 3 more: Yes.", "F and G: No."]


def test_gains_name_both_models_and_the_number_of_examples():
    (sentence,) = gain_sentences(edges().scores[0], 600)
    for part in ("Edgeformer-E", "TF-IDF (text only)", "+13.0", "Macro-F1", "600 test examples"):
        assert part in sentence


def test_the_terminal_lists_conclusions_skipped_runs_and_notes():
    lines = comparison_lines(make_comparison())
    assert lines[0] == "4 finished runs of 4 models on films."
    assert lines[2].startswith(f"Edge classification: {GRAPH[2]}")
    assert lines[-2:] == ["runs/half: it is not finished.", "empty has no finished run."]


def test_json_has_every_score_and_its_runs():
    values = comparison_json(make_comparison())
    first, second = values["groups"]
    assert [model["model"] for model in first["models"]] == ["Edgeformer-E", "TF-IDF", "node ids"]
    score = {"value": 0.54, "low": 0.52, "high": 0.56, "spread": 0.01}
    assert first["models"][0]["metrics"]["macro_f1"] == score
    assert first["models"][1]["runs"] == ["runs/TF-IDF"]
    assert first["gains"]["macro_f1"]["text"]["value"] == 0.13
    assert second["models"][0]["metrics"].keys() == {"full/mrr", "paper/mrr"}
    assert values["unfinished"] == {"runs/half": "it is not finished"}
