import json

import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.estimate import Estimate, duration, estimate, measure_run


def finish(run, seconds):
    run.path.mkdir(parents=True)
    (run.path / "results.json").write_text("{}")
    (run.path / "outcome.json").write_text(json.dumps({"seconds": seconds}))


def test_finished_runs_tell_how_long_the_others_take(tiny_plan, simulated):
    plan = tiny_plan("edgeformer-e", seeds=3)
    finish(plan.runs[0], 10.0)
    finish(plan.runs[1], 20.0)
    found = estimate(plan, simulated, measure=lambda *args: pytest.fail("was measured"))
    assert (found.per_run, found.total) == ({"edgeformer-e": 15.0}, 15.0)


def test_a_model_is_measured_once_and_counted_for_every_seed(tiny_plan, simulated):
    plan = tiny_plan("tfidf", "bert", "edgeformer-e", seeds=2)
    measured = []

    def measure(config, graph, device):
        measured.append(config.model.name)
        return 100.0

    found = estimate(plan, simulated, measure)
    assert measured == ["bert", "edgeformer-e"]
    assert (found.total, found.unknown) == (400.0, ["tfidf"])


def test_what_cannot_be_measured_is_unknown(tiny_plan, simulated):
    def measure(config, graph, device):
        raise InputError("no such backbone")

    found = estimate(tiny_plan("bert"), simulated, measure)
    assert found.sentence(1) == "How long it takes cannot be told yet."


def test_a_few_steps_are_measured(tiny_plan, simulated):
    config = tiny_plan("edgeformer-e").runs[0].to_config()
    seconds = measure_run(config, simulated)
    longer = measure_run(config.with_settings({"train.epochs": 1000}), simulated)
    assert 0 < seconds < longer


def test_it_is_said_to_be_an_estimate():
    found = Estimate(per_run={"bert": 600.0}, total=7200.0, unknown=["tfidf"], stops_early=True)
    assert found.sentence(2) == (
        "It will take about 60 min, 2 runs side by side (an estimate; runs stop when validation "
        "gets no better, often earlier; not counted: tfidf)"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (89, "89 s"), (120, "2 min"), (5340, "89 min"), (12_000, "3 h 20 min")],
)
def test_durations_are_short(seconds, words):
    assert duration(seconds) == words
