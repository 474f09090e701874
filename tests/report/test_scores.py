import math

import pytest

from edgeformers.errors import InputError
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores, lower_is_better
from tests.report.examples import make_task


def test_unknown_bounds_are_none_and_a_score_must_be_finite():
    score = MetricValue(value=0.5, low=math.nan, high=math.nan)
    assert (score.low, score.high, score.bounds) == (None, None, (0.5, 0.5))
    with pytest.raises(InputError, match="nan"):
        MetricValue(value=math.nan)


@pytest.mark.parametrize(("metric", "names"), [("mrr", "bac"), ("full/mae", "abc")])
def test_models_are_ranked_best_first_and_unscored_ones_last(metric, names):
    models = [
        ModelScores(model="c", metrics={}),
        ModelScores(model="b", metrics={metric: MetricValue(value=0.9)}),
        ModelScores(model="a", metrics={metric: MetricValue(value=0.1)}),
    ]
    task = TaskScores(task="x", metrics=[metric], models=models)
    assert "".join(model.model for model in task.ranked()) == names
    assert lower_is_better(metric) == (metric == "full/mae")


def test_the_best_model_is_found_for_each_kind_of_input():
    best = make_task().best_by_input()
    assert {kind: model.model for kind, model in best.items()} == {
        "text": "words",
        "nodes": "ids",
        "both": "Edgeformer-E",
    }
    assert make_task(models=[]).best_by_input() == {}
