import json
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.evaluation import LinkReport, metrics
from edgeformers.experiments import worker
from edgeformers.experiments.collect import collect_results
from edgeformers.experiments.execute import Failure, execute
from edgeformers.experiments.scoring import read_examples
from edgeformers.runs import read_results


def broken(plan, row):
    """The plan with one row that cannot be trained."""
    runs = [
        replace(
            run, config=run.to_config().with_settings({"model.backbone": "scratch:2x33"}).to_dict()
        )
        if run.row == row
        else run
        for run in plan.runs
    ]
    return replace(plan, runs=runs)


def test_runs_leave_results_examples_and_what_they_took(tiny_plan):
    plan = tiny_plan("tfidf", "edgeformer-e")
    assert execute(plan, show=False) == []
    for run in plan.runs:
        found = read_results(run.path)
        examples = read_examples(run.path).to_pydict()
        assert set(examples["part"]) == set(found) == {"val", "test"}
        chosen = np.array(examples["part"]) == "test"
        truth, guess = (np.array(examples[name])[chosen] for name in ("label", "predicted"))
        assert found["test"]["macro_f1"] == pytest.approx(metrics.macro_f1(truth, guess))
        assert found["test"]["micro_f1_interval"][0] <= found["test"]["micro_f1"]
        outcome = json.loads((run.path / "outcome.json").read_text())
        assert (outcome["device"], outcome["seconds"] > 0) == ("cpu", True)
    assert not (plan.runs[1].path / "checkpoints").exists()
    assert (plan.runs[1].path / "model").is_dir()
    chosen = json.loads((plan.runs[0].path / "outcome.json").read_text())["chosen"]
    assert len(chosen["trials"]) > 1


def test_ranks_of_models_and_of_simple_baselines_are_kept_alike(tiny_plan):
    plan = tiny_plan("popularity", "edgeformer-n", experiment="link-prediction")
    assert execute(replace(plan, keep_models=False), show=False) == []
    first, second = (read_examples(run.path) for run in plan.runs)
    assert first.column("edge").equals(second.column("edge"))
    assert sorted(first.column_names) == sorted(second.column_names)
    for run, table in zip(plan.runs, (first, second), strict=True):
        rows = [row for row in table.to_pylist() if row["part"] == "test"]
        ranks = {"full": np.array([row["full"] for row in rows])}
        expected = LinkReport(ranks=ranks).metrics("full")
        assert read_results(run.path)["test"]["full/mrr"] == pytest.approx(
            expected["mrr"], abs=1e-6
        )
    assert not (plan.runs[1].path / "model").exists()


def test_what_is_finished_is_left(tiny_plan):
    plan = tiny_plan("tfidf")
    execute(plan, show=False)
    before = (plan.runs[0].path / "results.json").stat().st_mtime_ns
    assert execute(plan, show=False) == []
    assert (plan.runs[0].path / "results.json").stat().st_mtime_ns == before


def test_a_run_that_fails_is_noted_with_its_sentence_and_the_others_go_on(tiny_plan):
    plan = broken(tiny_plan("bert", "tfidf"), "bert")
    (failure,) = execute(plan, show=False)
    assert (failure.row, failure.seed) == ("bert", 0)
    assert "a width that 16 divides (got 'scratch:2x33')" in failure.sentence
    assert plan.runs[0].failure.read_text().strip() == failure.sentence
    assert plan.runs[1].is_finished
    assert collect_results(plan).failures == [f"Failed: bert, seed 0: {failure.sentence}"]


def test_a_mended_run_is_no_failure_any_more(tiny_plan):
    plan = tiny_plan("tfidf")
    plan.runs[0].path.parent.mkdir(parents=True)
    plan.runs[0].failure.write_text("the disk was full\n")
    assert execute(plan, show=False) == []
    assert not plan.runs[0].failure.exists()


def test_what_nobody_foresaw_is_named_by_its_kind_and_traced_in_the_log(tiny_plan, monkeypatch):
    def surprise(*args):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(worker, "_fit_simple", surprise)
    plan = tiny_plan("tfidf")
    assert execute(plan, show=False) == [
        Failure(row="tfidf", seed=0, sentence="ZeroDivisionError: division by zero")
    ]
    assert "in surprise" in plan.runs[0].log.read_text()


def test_a_killed_run_goes_on_where_it_stopped(tiny_plan, monkeypatch):
    plan = tiny_plan("tfidf", "edgeformer-e", **{"train.epochs": 2})
    monkeypatch.setattr(worker, "score_classifier", _stop)
    with pytest.raises(KeyboardInterrupt):
        execute(plan, show=False)
    tfidf, run = plan.runs
    assert tfidf.is_finished
    assert not run.is_finished
    monkeypatch.undo()
    trained = (run.path / "model" / "model.safetensors").stat().st_mtime_ns
    before = (tfidf.path / "results.json").stat().st_mtime_ns
    assert execute(plan, show=False) == []
    assert (run.path / "model" / "model.safetensors").stat().st_mtime_ns == trained
    assert (tfidf.path / "results.json").stat().st_mtime_ns == before


def _stop(*args):
    raise KeyboardInterrupt


def test_side_by_side_runs_are_processes_with_their_own_logs(tiny_plan, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    plan = broken(tiny_plan("tfidf", "bert"), "bert")
    (failure,) = execute(plan, jobs=2, show=False)
    assert failure.row == "bert"
    assert "a width that 16 divides" in failure.sentence
    assert "error: an untrained backbone" in plan.runs[1].log.read_text()
    assert plan.runs[0].is_finished


@pytest.fixture
def started(monkeypatch):
    """The rows and seeds whose processes were started, in their order; none does anything."""
    found = []

    def start(plan_file, place, run, jobs):
        found.append((run.row, run.seed))
        run.log.parent.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr("edgeformers.experiments.execute._start", start)
    return found


def test_side_by_side_the_longest_runs_start_first(tiny_plan, started):
    plan = tiny_plan("tfidf", "bert", "edgeformer-e", "ehgnn", seeds=2)
    seconds = {"bert": 10.0, "edgeformer-e": 30.0, "ehgnn": 20.0}
    execute(plan, jobs=2, show=False, seconds=seconds)
    rows = ["edgeformer-e", "edgeformer-e", "ehgnn", "ehgnn", "bert", "bert", "tfidf"]
    assert [row for row, _ in started] == rows
    assert [seed for _, seed in started] == [0, 1, 0, 1, 0, 1, 0]


def test_without_an_estimate_language_models_start_before_bags_of_words_and_simple_ones(
    tiny_plan, started
):
    execute(tiny_plan("tfidf", "ehgnn", "bert", "node-ids", "edgeformer-e"), jobs=2, show=False)
    assert [row for row, _ in started] == ["bert", "edgeformer-e", "ehgnn", "tfidf", "node-ids"]


def test_a_process_that_dies_is_a_failure(tiny_plan, monkeypatch, tmp_path):
    worker = tmp_path / "dying.py"
    worker.write_text(f"import os\nos.kill(os.getpid(), {signal.SIGKILL.value})\n")
    monkeypatch.setattr("edgeformers.experiments.execute.WORKER", (str(worker),))
    plan = tiny_plan("tfidf", "tfidf-nodes")
    found = {failure.row: failure.sentence for failure in execute(plan, jobs=2, show=False)}
    assert set(found) == {"tfidf", "tfidf-nodes"}
    assert found["tfidf"] == f"its process ended with code -9; see {plan.runs[0].log}"


def test_a_trial_looks_at_validation_alone_and_keeps_no_model(tiny_plan):
    plan = tiny_plan("edgeformer-e")
    plan = replace(plan, runs=[replace(plan.runs[0], kind="trial")])
    assert execute(plan, show=False) == []
    folder = plan.runs[0].path
    found = read_results(folder)
    assert list(found) == ["val"]
    assert found["val"]["select"] == "macro_f1"
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.toml",
        "metrics.jsonl",
        "outcome.json",
        "results.json",
        "run.json",
    ]


def test_jobs_and_devices_are_checked_first(tiny_plan):
    with pytest.raises(InputError, match=r"--jobs must be at least 1 \(got 0\)"):
        execute(tiny_plan("tfidf"), jobs=0)
    with pytest.raises(InputError, match="there is no device 'gpu' here"):
        execute(replace(tiny_plan("tfidf"), device="gpu"))
