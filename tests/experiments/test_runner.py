import json
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from edgeformers.errors import FileError, InputError
from edgeformers.experiments import runner
from edgeformers.experiments.collect import collect_results
from edgeformers.experiments.runner import execute
from edgeformers.experiments.scoring import read_examples


def with_broken_row(plan, row):
    """The plan with one row that cannot be trained: its width is not divisible by 16."""
    broken = {"model.backbone": "scratch:2x33"}
    runs = [run.with_settings(broken) if run.row == row else run for run in plan.runs]
    return replace(plan, runs=runs)


def modified(path):
    return path.stat().st_mtime_ns


def test_a_run_saves_results_examples_and_cost(tiny_plan):
    plan = tiny_plan("tfidf", "edgeformer-e")
    assert execute(plan, show=False) == []
    baseline, model = plan.runs
    for run in plan.runs:
        outcome = json.loads((run.path / "outcome.json").read_text())
        assert (outcome["device"], outcome["seconds"] > 0) == ("cpu", True)
        assert read_examples(run.path) is not None
    assert not (model.path / "checkpoints").exists()
    assert (model.path / "model").is_dir()
    chosen = json.loads((baseline.path / "outcome.json").read_text())["chosen"]
    assert len(chosen["trials"]) > 1
    before = modified(baseline.path / "results.json")
    assert execute(plan, show=False) == []  # finished runs are skipped
    assert modified(baseline.path / "results.json") == before


def test_models_are_dropped_on_request(tiny_plan):
    plan = replace(tiny_plan("edgeformer-e"), keep_models=False)
    assert execute(plan, show=False) == []
    assert not (plan.runs[0].path / "model").exists()


def test_a_failed_run_is_reported_and_the_others_continue(tiny_plan):
    plan = with_broken_row(tiny_plan("bert", "tfidf"), "bert")
    (failure,) = execute(plan, show=False)
    assert failure.startswith("bert, seed 0: ")
    assert "scratch:2x33" in failure
    assert plan.runs[0].failure.read_text().strip() in failure
    assert plan.runs[1].is_finished
    assert collect_results(plan).failures == [f"Failed: {failure}"]


def test_a_failure_is_forgotten_once_the_run_succeeds(tiny_plan):
    plan = tiny_plan("tfidf")
    plan.runs[0].path.parent.mkdir(parents=True)
    plan.runs[0].failure.write_text("the disk was full\n")
    assert execute(plan, show=False) == []
    assert not plan.runs[0].failure.exists()


def test_a_full_disk_stops_the_experiment(tiny_plan, monkeypatch):
    def fail(*args):
        raise FileError("results.json cannot be written: the disk is full")

    plan = tiny_plan("tfidf", "tfidf-nodes")
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_run_baseline", fail)
        with pytest.raises(FileError):
            execute(plan, show=False)
    assert not plan.runs[0].failure.exists()
    assert execute(plan, show=False) == []


def test_an_unexpected_error_is_logged_with_its_traceback(tiny_plan, monkeypatch):
    def fail(*args):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(runner, "fit_baseline", fail)
    plan = tiny_plan("tfidf")
    assert execute(plan, show=False) == ["tfidf, seed 0: ZeroDivisionError: division by zero"]
    assert "in fail" in plan.runs[0].log.read_text()


def test_a_killed_sweep_resumes(tiny_plan, monkeypatch):
    plan = tiny_plan("tfidf", "edgeformer-e")
    baseline, model = plan.runs
    score = runner.score

    def interrupt(scored, *args, **options):
        if hasattr(scored, "fitted_"):
            raise KeyboardInterrupt
        return score(scored, *args, **options)

    monkeypatch.setattr(runner, "score", interrupt)
    with pytest.raises(KeyboardInterrupt):
        execute(plan, show=False)
    assert (baseline.is_finished, model.is_finished) == (True, False)
    monkeypatch.undo()
    weights = model.path / "model" / "model.safetensors"
    trained, scored = modified(weights), modified(baseline.path / "results.json")
    assert execute(plan, show=False) == []
    assert modified(weights) == trained
    assert modified(baseline.path / "results.json") == scored


@pytest.mark.slow
def test_parallel_runs_are_processes_with_their_own_logs(tiny_plan, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    plan = with_broken_row(tiny_plan("tfidf", "bert"), "bert")
    (failure,) = execute(plan, jobs=2, show=False)
    assert failure.startswith("bert, seed 0: ")
    assert "scratch:2x33" in failure
    assert "error: " in plan.runs[1].log.read_text()
    assert plan.runs[0].is_finished


def test_a_process_that_dies_is_a_failure(tiny_plan, monkeypatch, tmp_path):
    worker = tmp_path / "dying.py"
    worker.write_text(f"import os\nos.kill(os.getpid(), {signal.SIGKILL.value})\n")
    monkeypatch.setattr(runner, "WORKER", (str(worker),))
    plan = tiny_plan("tfidf", "tfidf-nodes")
    failures = sorted(execute(plan, jobs=2, show=False))
    assert len(failures) == 2
    assert "code -9" in failures[0]
    assert str(plan.runs[0].log) in failures[0]


def test_no_process_outlives_an_interrupt(tiny_plan, monkeypatch, tmp_path):
    worker = tmp_path / "sleeping.py"
    worker.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(runner, "WORKER", (str(worker),))
    start, processes = runner._start, []

    def remember(*args):
        processes.append(start(*args))
        return processes[-1]

    def interrupt(futures):
        while len(processes) < 2:
            pass
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_start", remember)
    monkeypatch.setattr(runner, "as_completed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        execute(tiny_plan("tfidf", "tfidf-nodes", "node-ids"), jobs=2, show=False)
    assert [process.returncode for process in processes] == [-signal.SIGTERM] * 2


@pytest.mark.parametrize(
    ("seconds", "order"),
    [
        (
            {"bert": 10.0, "edgeformer-e": 30.0, "ehgnn": 20.0},
            ["edgeformer-e", "ehgnn", "bert", "tfidf", "node-ids"],
        ),
        (None, ["bert", "edgeformer-e", "ehgnn", "tfidf", "node-ids"]),  # language models first
    ],
)
def test_parallel_runs_start_longest_first(tiny_plan, monkeypatch, seconds, order):
    started = []

    def start(plan_file, number, run, jobs):
        started.append(run.row)
        run.log.parent.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(runner, "_start", start)
    monkeypatch.setattr(runner, "ThreadPoolExecutor", lambda jobs: SequentialPool())
    plan = tiny_plan("tfidf", "ehgnn", "bert", "node-ids", "edgeformer-e")
    execute(plan, jobs=2, show=False, seconds=seconds)
    assert started == order


class SequentialPool(runner.ThreadPoolExecutor):
    """A pool of one thread, which starts runs in the order of submission."""

    def __init__(self):
        super().__init__(1)


def test_a_trial_only_uses_validation_and_keeps_no_model(tiny_plan):
    plan = tiny_plan("edgeformer-e")
    plan = replace(plan, runs=[replace(plan.runs[0], kind="trial")])
    assert execute(plan, show=False) == []
    folder = plan.runs[0].path
    results = json.loads((folder / "results.json").read_text())
    assert list(results) == ["val"]
    assert results["val"]["select"] == "macro_f1"
    assert not (folder / "model").exists()
    assert read_examples(folder) is None


def test_the_device_is_checked_first(tiny_plan):
    with pytest.raises(InputError, match="gpu"):
        execute(replace(tiny_plan("tfidf"), device="gpu"))


def test_settings_of_baselines_are_saved_as_json():
    assert json.dumps(np.float32(0.5), default=runner._json_value) == "0.5"
