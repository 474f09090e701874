import math
from dataclasses import replace

import pytest

from edgeformers.errors import FormatError, InputError
from edgeformers.report.results import LearningCurve, Results, learning_curve
from edgeformers.report.scores import MetricValue
from tests.report.runs import make_results


@pytest.fixture
def results():
    return make_results()


def test_results_survive_json(results):
    assert Results.from_json(results.to_json()) == results


def test_what_was_not_measured_is_null_in_json():
    score = MetricValue(value=0.5, low=math.nan, high=math.nan)
    page = Results(title="x", settings={"run": {"best": math.inf}})
    assert (score.low, score.high, score.bounds) == (None, None, (0.5, 0.5))
    assert Results.from_json(page.to_json()).settings == {"run": {"best": None}}


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(InputError, match=r"a score must be a number \(got nan\); leave out"):
        MetricValue(value=math.nan)


@pytest.mark.parametrize("text", ["not json", "[]", '{"version": 1}', '{"version": 1, "tasks": 3}'])
def test_a_file_that_is_no_results_is_refused(text):
    with pytest.raises(FormatError, match="results: not a file that results were written to"):
        Results.from_json(text)


def test_another_version_is_refused(results):
    other = replace(results, version=7).to_json()
    with pytest.raises(
        FormatError, match=r"results: version 1 expected \(got 7\); make them again"
    ):
        Results.from_json(other)


def test_a_learning_curve_is_the_validation_events_by_epochs_done():
    events = [
        {"kind": "train", "step": 1, "epoch": 0, "loss": 2.0},
        {"kind": "val", "step": 5, "epoch": 0, "mrr": 0.1},
        {"kind": "val", "step": 9, "epoch": 1, "mrr": math.nan},
        {"kind": "val", "step": 12, "epoch": 2, "mrr": 0.2},
    ]
    curve = learning_curve(events, "mrr", "run")
    assert curve == LearningCurve(run="run", metric="mrr", points=[[1, 0.1], [3, 0.2]])
    assert learning_curve(events, "loss", "run") is None
