import json

import pytest

from edgeformers.config import make_config
from edgeformers.errors import InputError
from edgeformers.estimators import run_config
from edgeformers.experiments import resources
from edgeformers.experiments.resources import (
    MAX_JOBS,
    TimeEstimate,
    default_jobs,
    estimate_memory,
    estimate_time,
    max_parallel_runs,
    measure_run,
)

GB = 1e9


def finish(run, seconds):
    run.path.mkdir(parents=True)
    (run.path / "results.json").write_text("{}")
    (run.path / "outcome.json").write_text(json.dumps({"seconds": seconds}))


def test_time_is_estimated_from_finished_runs(tiny_plan, simulated, monkeypatch):
    monkeypatch.setattr(resources, "measure_run", lambda *args: pytest.fail("measured"))
    plan = tiny_plan("edgeformer-e", seeds=3)
    finish(plan.runs[0], 10.0)
    finish(plan.runs[1], 20.0)
    estimate = estimate_time(plan, simulated)
    assert (estimate.per_run, estimate.total) == ({"edgeformer-e": 15.0}, 15.0)


def test_a_model_is_measured_once_and_counted_for_every_seed(tiny_plan, simulated, monkeypatch):
    measured = []

    def measure(config, graph, device):
        measured.append(config.model.name)
        return 100.0

    monkeypatch.setattr(resources, "measure_run", measure)
    estimate = estimate_time(tiny_plan("tfidf", "bert", "edgeformer-e", seeds=2), simulated)
    assert measured == ["bert", "edgeformer-e"]
    assert (estimate.total, estimate.unknown) == (400.0, ["tfidf"])


def test_a_model_that_cannot_be_measured_is_unknown(tiny_plan, simulated, monkeypatch):
    def fail(*args):
        raise InputError("no such backbone")

    monkeypatch.setattr(resources, "measure_run", fail)
    estimate = estimate_time(tiny_plan("bert"), simulated)
    assert estimate.unknown == ["bert"]
    assert "cannot be estimated" in estimate.describe(1)


def test_measured_time_grows_with_epochs(tiny_plan, simulated):
    config = tiny_plan("edgeformer-e").runs[0].to_config()
    longer = config.with_settings({"train.epochs": 1000})
    assert 0 < measure_run(config, simulated) < measure_run(longer, simulated)


def test_an_estimate_is_described_in_one_sentence():
    estimate = TimeEstimate(
        per_run={"bert": 600.0}, total=7200.0, unknown=["tfidf"], stops_early=True
    )
    sentence = estimate.describe(2)
    for word in ("min", "2 runs", "early stopping", "tfidf"):
        assert word in sentence


@pytest.mark.parametrize(
    ("free", "cores", "needs", "jobs"),
    [
        (140 * GB, 16, [10 * GB] * 20, MAX_JOBS),
        (40 * GB, 16, [10 * GB] * 20, 3),  # a fifth of the memory stays free
        (40 * GB, 16, [2 * GB, 30 * GB], 1),
        (8 * GB, 16, [10 * GB], 1),
        (140 * GB, 4, [GB] * 20, 2),
        (140 * GB, 16, [GB] * 3, 3),
    ],
)
def test_the_largest_run_decides_how_many_run_in_parallel(free, cores, needs, jobs):
    assert max_parallel_runs(free, cores, needs) == jobs


def test_larger_models_more_texts_and_more_nodes_need_more_memory():
    settings = {"model.backbone": "scratch:2x64"}
    small = make_config("edge-classification", settings=settings)
    needs = estimate_memory(small, 100)
    assert estimate_memory(small, 10_000_000) > needs
    assert estimate_memory(make_config("link-prediction", settings=settings), 100) > needs
    larger = {"model.backbone": "scratch:12x768"}
    assert estimate_memory(make_config("edge-classification", settings=larger), 100) > 2 * needs


def test_context_texts_and_rdrop_count_toward_memory():
    def texts(**settings):
        given = {"model.backbone": "scratch:2x64", "edges.rdrop": 0.0, **settings}
        return estimate_memory(run_config("edge-classification", settings=given), 0) - fixed

    plain = {"model.name": "bert"}
    fixed = 0.0
    fixed = 2 * texts(**plain) - texts(**plain, **{"train.batch_size": 128})
    once = texts(**plain)
    assert once > 0
    assert texts(**plain, **{"edges.rdrop": 1.0}) == pytest.approx(2 * once)
    assert texts(**{"model.name": "bert-max-sage"}) == pytest.approx(9 * once)  # 4 at each end


def test_runs_are_sequential_on_a_cpu(tiny_plan, simulated):
    assert default_jobs(tiny_plan("bert", "edgeformer-e"), simulated) == 1
