import pytest

from edgeformers.report.formatting import (
    format_interval,
    format_value,
    lower_is_better,
    metric_name,
)
from edgeformers.report.results import Results
from edgeformers.report.results_rows import data_rows, ordered, setting_rows
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("macro_f1", "Macro-F1"),
        ("full/mrr", "MRR (full)"),
        ("paper/hit@10", "Hit@10 (paper)"),
        ("ndcg", "NDCG"),
        ("average_precision", "average_precision"),
    ],
)
def test_metrics_have_the_names_that_people_use(metric, name):
    assert metric_name(metric) == name


@pytest.mark.parametrize(
    ("metric", "words"), [("macro_f1", "12.3"), ("full/mrr", "0.123"), ("mae", "0.1234")]
)
def test_a_value_is_written_as_its_metric_usually_is(metric, words):
    assert format_value(0.1234, metric) == words


def test_an_interval_is_said_only_where_both_bounds_are_known():
    assert (
        format_interval(MetricValue(value=0.5, low=0.4, high=0.6), "mrr")
        == "0.500 (0.400 to 0.600)"
    )
    assert format_interval(MetricValue(value=0.5, low=0.4), "mrr") == "0.500"


@pytest.mark.parametrize(("metric", "names"), [("mrr", "bac"), ("full/mae", "abc")])
def test_the_best_stands_first_and_who_was_not_measured_last(metric, names):
    models = [
        ModelScores(model="c", metrics={}),
        ModelScores(model="b", metrics={metric: MetricValue(value=0.9)}),
        ModelScores(model="a", metrics={metric: MetricValue(value=0.1)}),
    ]
    task = TaskScores(task="x", metrics=[metric], models=models)
    assert "".join(model.model for model in ordered(task)) == names
    assert lower_is_better(metric) == (metric == "full/mae")


def test_settings_are_words_and_what_is_not_set_is_a_dash():
    settings = {"a": {"name": "", "lr": 0.1, "ids": [1, 2]}, "b": {"lr": 0.1, "ids": None}}
    assert setting_rows(Results(title="x", settings=settings)) == [
        ["", "a", "b"],
        ["ids", "[1, 2]", "–"],
        ["name", "–", "–"],
        ["lr", "0.1", "0.1"],
    ]


def test_numbers_of_the_data_are_readable():
    data = {"edges": 1200, "mean": 0.12345, "tokenizer": "minilm"}
    rows = data_rows(Results(title="x", data=data))
    assert rows == [["edges", "1,200"], ["mean", "0.1235"], ["tokenizer", "minilm"]]
