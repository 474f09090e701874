from dataclasses import replace

import pytest

from edgeformers.report.results import Results
from edgeformers.report.results_terminal import results_text
from edgeformers.report.results_verdict import verdict
from edgeformers.report.scores import MetricValue, TaskScores
from tests.report.runs import make_model, make_task


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (make_task(), "The graph helps: nodes add to what the text says. The text helps"),
        (make_task(text=0.535), "The graph may help: the gain over text alone is within chance."),
        (make_task(text=0.545), "No gain from the graph was seen here: text alone did as well."),
        (make_task(nodes=0.55), "No gain from the text was seen here: nodes alone did as well."),
        (make_task(text=0.6), "The graph did not help here: text alone did better."),
        (
            make_task(gains={"nodes": MetricValue(value=-0.1, low=-0.2, high=-0.01)}),
            "The text did not help here: nodes alone did better.",
        ),
        (
            make_task(text=0.535, gains={"text": MetricValue(value=0.005, low=0.001, high=0.01)}),
            "helps: nodes",
        ),
        (
            make_task(gains={"text": MetricValue(value=0.11, low=-0.01, high=0.2)}),
            "The graph may help",
        ),
        (make_task(gains={"text": MetricValue(value=0.11)}), "The graph may help"),
    ],
)
def test_the_verdict_follows_the_intervals_and_paired_gains_before_them(given, answer):
    assert answer in verdict(given).answer


def test_a_gain_without_intervals_is_never_called_sure():
    bare = make_task()
    models = [
        replace(m, metrics={name: MetricValue(value=s.value) for name, s in m.metrics.items()})
        for m in bare.models
    ]
    assert "may help" in verdict(replace(bare, models=models)).answer


def test_where_lower_is_better_the_lower_error_wins():
    models = [
        make_model("words", "text", 0.9, metric="mae"),
        make_model("both", "both", 0.5, metric="mae"),
    ]
    numbers = TaskScores(task="rating", metrics=["mae"], models=models)
    assert "The graph helps" in verdict(numbers).answer
    lines = results_text(Results(title="x", tasks=[numbers])).splitlines()
    shown = [line.split()[0] for line in lines if line.startswith(("  words", "  both"))]
    assert shown == ["both", "words"]


def test_there_is_no_verdict_without_models_to_compare():
    assert verdict(make_task(models=[make_model("words", "text", 0.4)])) is None
