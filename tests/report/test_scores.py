import math

import pytest

from edgeformers.errors import InputError
from edgeformers.report.scores import (
    MetricValue,
    ModelScores,
    TaskScores,
    format_gain,
    gain_sentences,
    lead_sentences,
    lower_is_better,
)
from tests.report.examples import edges, make_task, make_verdict


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


def test_the_conclusion_is_that_of_the_verdict():
    verdict = make_verdict()
    assert make_task(verdict=verdict).conclusion == verdict.sentence
    assert "--ablate-inputs" in make_task().conclusion


def test_a_lead_states_each_conclusion_once():
    assert lead_sentences([("A", "Yes.")]) == ["Yes."]
    (both,) = lead_sentences([("A", "Yes."), ("B", "Yes.")])
    assert both.endswith("Yes.")
    answers = [*((name, "Yes.") for name in "ABCDE"), ("F", "No."), ("G", "No.")]
    assert lead_sentences(answers) == ["A, B and 3 more: Yes.", "F and G: No."]


def test_gains_name_both_models_and_the_number_of_examples():
    (sentence,) = gain_sentences(edges().scores[0], 600)
    for part in ("Edgeformer-E", "TF-IDF (text only)", "+13.0", "Macro-F1", "600 test examples"):
        assert part in sentence


def test_a_gain_has_a_sign_and_its_interval_if_known():
    gain = MetricValue(value=0.13, low=-0.01, high=0.16)
    assert format_gain(gain, "macro_f1") == "+13.0 (95% interval −1.0 to +16.0)"
    assert format_gain(MetricValue(value=-0.1, low=-0.2), "mrr") == "−0.100"
