import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from edgeformers.errors import FormatError
from edgeformers.report.results import LearningCurve, Results, learning_curve
from tests.report.examples import make_results

OLD_FILE = Path(__file__).with_name("results_v1.json")  # written by version 0.1


@pytest.fixture
def results():
    return make_results()


def test_results_survive_json(results):
    assert Results.from_json(results.to_json()) == results


def test_files_of_earlier_versions_are_read(results):
    text = OLD_FILE.read_text(encoding="utf-8")
    assert "sees" in json.loads(text)["tasks"][0]["models"][0]
    assert Results.from_json(text) == results


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
