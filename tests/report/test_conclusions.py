from dataclasses import replace

import pytest

from edgeformers.report.conclusions import (
    comparison_json,
    comparison_lines,
    conclusion,
    format_duration,
    time_unit,
)
from edgeformers.report.runs_cost import worth_their_time
from edgeformers.report.runs_data import ModelCost
from edgeformers.report.runs_settings import shared_settings
from tests.report.compared import edges, make_runs


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.042, "0.042 s"), (12.4, "12 s"), (179, "179 s"), (186, "3.1 min"), (18720, "5.2 h")],
)
def test_times_are_said_in_the_unit_they_are_read_in(seconds, words):
    assert format_duration(seconds) == words


def test_an_axis_of_times_is_in_one_unit():
    assert [time_unit(longest)[1] for longest in (0, 179, 180, 3 * 3600)] == [
        "second",
        "second",
        "minute",
        "hour",
    ]


def without(kind):
    group = edges()
    (task,) = group.scores
    return replace(task, models=[m for m in task.models if m.inputs != kind], gains={})


def test_what_cannot_be_told_is_said_with_what_is_missing():
    assert conclusion(without("both")) == (
        "Whether the graph or the text helps cannot be told: no model here sees both text and "
        "nodes."
    )
    assert conclusion(without("text")) == (
        "The text helps: nodes alone do worse. Whether the graph helps cannot be told: no model "
        "here sees the text alone."
    )
    assert (
        "Whether the text helps cannot be told: no model here sees the nodes alone."
        in conclusion(without("nodes"))
    )


def test_a_model_is_worth_its_time_unless_a_better_one_is_as_quick():
    costs = [
        ModelCost(model=name, inputs="", seconds=seconds, device="", value=value)
        for name, seconds, value in (("a", 50, 0.9), ("b", 60, 0.8), ("c", 50, 0.7), ("d", 2, 0.6))
    ]
    assert worth_their_time(costs) == (
        "The best for their time: d (2 s) and a (50 s). Every other is beaten by one as quick."
    )
    assert worth_their_time(costs[:1]) == "The best for their time: a (50 s)."


def test_settings_are_shared_if_several_models_have_them_alike():
    one, other = {"lr": 1, "width": 2, "own": 3}, {"lr": 1, "width": 4}
    assert shared_settings([one, other, {}]) == {"lr": 1}
    assert shared_settings([one]) == one


def test_the_terminal_is_told_the_answers_and_what_was_left_out():
    lines = comparison_lines(make_runs())
    assert lines[0] == "4 finished runs of 4 models on films."
    assert lines[2].startswith("Edge classification: The graph helps")
    assert "runs/half: it is not finished." in lines
    assert lines[-1] == "empty has no finished run."


def test_machines_are_told_every_score_and_where_it_is_from():
    found = comparison_json(make_runs())
    first = found["groups"][0]
    assert [one["model"] for one in first["models"]] == ["Edgeformer-E", "TF-IDF", "node ids"]
    assert first["models"][0]["metrics"]["macro_f1"] == {
        "value": 0.54,
        "low": 0.52,
        "high": 0.56,
        "spread": 0.01,
    }
    assert first["models"][1]["runs"] == ["runs/TF-IDF"]
    assert first["gains"]["macro_f1"]["text"]["value"] == 0.13
    assert found["groups"][1]["models"][0]["metrics"].keys() == {"full/mrr", "paper/mrr"}
    assert found["unfinished"] == {"runs/half": "it is not finished"}
