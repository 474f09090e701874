"""Runs a plan, one run at a time or in parallel processes; finished runs are skipped.

python -m edgeformers.experiments.runner PLAN.json NUMBER  # one run, in its own process

Parallel runs are plain processes rather than joblib workers: each has its own log, frees its GPU
memory when it ends, and can crash (out of memory, SIGKILL) without taking the others with it.
"""

import gc
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import torch

from edgeformers import distributed
from edgeformers.baselines.registry import EDGE_BASELINES, LINK_BASELINES
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import ConfigError, EdgeformersError, FileError, InputError
from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.evaluation.report import ROLLING
from edgeformers.experiments.plan import Plan, PlannedRun
from edgeformers.experiments.scoring import RunScores, score, score_rolling
from edgeformers.files import write_atomic
from edgeformers.inference.encode import choose_device
from edgeformers.inference.fitted import choose_split, network_fingerprint
from edgeformers.inference.saved_model import MODEL, remove_model
from edgeformers.locks import remove_stale_lock
from edgeformers.progress import progress_bar
from edgeformers.runs import fit_run
from edgeformers.threads import num_threads
from edgeformers.training.initialization import backbone_tokens
from edgeformers.training.run_folder import RECORD, write_run_results
from edgeformers.training.runlog import LOG, read_log

OUTCOME = "outcome.json"  # a run's seconds, device and the settings a baseline chose
WORKER = ("-m", "edgeformers.experiments.runner")


def execute(
    plan: Plan, *, jobs: int = 1, show: bool = True, seconds: Mapping[str, float] | None = None
) -> list[str]:
    """Execute all pending runs and return error messages; a failure does not stop the others.

    `seconds` are the expected seconds per run of each row: parallel runs start longest first.
    """
    choose_device(plan.device)  # raises if it is not available
    plan.check_folders()
    for run in plan.runs:
        remove_stale_lock(run.path, folder=True)
    runs = list({run.folder: run for run in plan.pending}.values())  # rows may share a folder
    if not runs:
        return []
    graph = EdgeTextGraph.open(plan.network)
    outcomes: Iterator[tuple[PlannedRun, str | None]]
    if jobs == 1:
        outcomes = ((run, try_run(plan, run, graph, show=False)) for run in runs)
    else:
        _tokenize(runs, graph)
        outcomes = _run_in_parallel(plan, _longest_first(runs, seconds or {}), jobs)
    failures = []
    with progress_bar(len(runs), desc="training", unit="runs", show=show) as bar:
        for run, reason in outcomes:
            bar.set_postfix_str(f"{run.row} {run.seed}")
            bar.update(1)
            if reason is not None:
                failures.append(f"{run.row}, seed {run.seed}: {reason}")
    return failures


def try_run(plan: Plan, run: PlannedRun, graph: EdgeTextGraph, *, show: bool) -> str | None:
    """Execute one run; if it fails, save the error message next to its folder and return it.

    Raises a FileError if the run cannot be written.
    """
    run.path.parent.mkdir(parents=True, exist_ok=True)
    run.failure.unlink(missing_ok=True)
    try:
        with distributed.locked_output(run.path, folder=True):
            execute_run(plan, run, graph, show=show)
        return None
    except FileError:  # of a full disk, for example: the other runs would fail as well
        raise
    except Exception as error:  # no other error of a run may stop the others
        reason = next(iter(str(error).strip().splitlines()), "")
        if not isinstance(error, EdgeformersError):
            reason = f"{type(error).__name__}: {reason}"
        write_atomic(run.failure, reason + "\n")
        with run.log.open("a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        return reason
    finally:
        free_memory()


def execute_run(plan: Plan, run: PlannedRun, graph: EdgeTextGraph, *, show: bool) -> None:
    """Train (resuming if possible) or fit, score, and save everything the tables need."""
    if plan.is_done(run):
        return
    started = time.perf_counter()
    chosen: dict[str, Any] = {}
    split = choose_split(run.to_config(), graph)
    if run.kind == "simple":
        scores, chosen = _run_baseline(run, graph, plan.experiment)
    else:
        model = fit_run(graph, run.path, run.to_config(), device=plan.device, show=show)
        scores = (
            _trial_score(run, model.fitted_.select_metric)
            if run.kind == "trial"
            else _score_of(plan.experiment)(model, graph, split, seed=run.seed)
        )
    scores.write_examples(run.path)
    device = torch.device("cpu") if run.kind == "simple" else choose_device(plan.device)
    outcome = {
        "seconds": time.perf_counter() - started,
        "device": device_name(device),
        "chosen": chosen,
    }
    write_atomic(run.path / OUTCOME, json.dumps(outcome, indent=1, default=_json_value) + "\n")
    write_run_results(run.path, scores.results)  # last: it marks the run as finished
    if run.kind == "trial" or not plan.keep_models:
        remove_model(run.path / MODEL)


def read_outcome(run: PlannedRun) -> dict[str, Any]:
    """The contents of a finished run's outcome.json."""
    path = run.path / OUTCOME
    outcome: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return outcome


def fit_baseline(run: PlannedRun, graph: EdgeTextGraph, experiment: str = "") -> Any:
    """Fit the simple baseline of a run; for `rolling` it is also chosen by that protocol."""
    baselines: Mapping[str, Any] = {**EDGE_BASELINES, **LINK_BASELINES}
    baseline = baselines[run.model](seed=run.seed, **run.reader_options())
    fit = baseline.fit_rolling if experiment == ROLLING else baseline.fit
    return fit(graph, choose_split(run.to_config(), graph))


def device_name(device: torch.device) -> str:
    """For example "NVIDIA H200" or "cpu"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def free_memory() -> None:
    """Release the memory of models that are no longer referenced, also on the GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _trial_score(run: PlannedRun, metric: str) -> RunScores:
    """The best validation score of a tuning trial; the test part is never used."""
    values = [event[metric] for event in read_log(run.path / LOG) if event.get("kind") == "val"]
    best = min(values) if metric in SMALLER_IS_BETTER else max(values)
    return RunScores(results={"val": {"select": metric, "score": best}}, examples=None)


def _score_of(experiment: str) -> Callable[..., RunScores]:
    """The experiment `rolling` has its own protocol; all others have those of `score`."""
    return score_rolling if experiment == ROLLING else score


def _run_baseline(
    run: PlannedRun, graph: EdgeTextGraph, experiment: str
) -> tuple[RunScores, dict[str, Any]]:
    """Scores of a simple baseline, and the settings it chose on validation."""
    run.path.mkdir(parents=True, exist_ok=True)
    info = run.baseline_info(network_fingerprint(graph))
    write_atomic(run.path / RECORD, json.dumps(info, indent=1) + "\n")
    baseline = fit_baseline(run, graph, experiment)
    chosen = {
        "setting": getattr(baseline, "setting", {}),
        "trials": getattr(baseline, "trials", []),
    }
    split = choose_split(run.to_config(), graph)
    return _score_of(experiment)(baseline, graph, split, seed=run.seed), chosen


def _json_value(value: Any) -> Any:
    """Dataclasses and numpy scalars among a baseline's settings."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value.item()


def _longest_first(runs: Sequence[PlannedRun], seconds: Mapping[str, float]) -> list[PlannedRun]:
    """Runs by expected time; without an estimate, language models first and baselines last."""

    def order(run: PlannedRun) -> tuple[float, int]:
        has_language_model = run.group in ("plm", "ours")
        rank = 2 if run.kind == "simple" else 0 if has_language_model else 1
        return -seconds.get(run.row, 0.0), rank

    return sorted(runs, key=order)


def _run_in_parallel(
    plan: Plan, runs: Sequence[PlannedRun], jobs: int
) -> Iterator[tuple[PlannedRun, str | None]]:
    """Runs as they finish, each in its own process, with the error messages of failed ones."""
    plan_file, processes = plan.write(), []

    def run_process(run: PlannedRun) -> str | None:
        process = _start(plan_file, plan.runs.index(run), run, jobs)
        processes.append(process)
        code = process.wait()
        return None if plan.is_done(run) else _failure_reason(run, code)

    pool = ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(run_process, run): run for run in runs}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:  # no process outlives this one
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        pool.shutdown()


def _start(plan_file: Path, number: int, run: PlannedRun, jobs: int) -> subprocess.Popen[bytes]:
    run.log.parent.mkdir(parents=True, exist_ok=True)
    run.failure.unlink(missing_ok=True)
    threads = str(max(1, num_threads() // jobs))
    with run.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *WORKER, str(plan_file), str(number)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": threads},
        )


def _failure_reason(run: PlannedRun, code: int) -> str:
    """The saved error message, or the exit code of a process that could not save one."""
    if not run.failure.is_file():
        write_atomic(run.failure, f"the process exited with code {code}; see {run.log}\n")
    return run.failure.read_text(encoding="utf-8").strip()


def _tokenize(runs: Sequence[PlannedRun], graph: EdgeTextGraph) -> None:
    """Tokenize the network once per backbone, before parallel processes need it.

    What is wrong with a backbone is reported by its run.
    """
    configs = [run.to_config() for run in runs if run.kind != "simple"]
    for backbone in {config.model.backbone for config in configs}:
        with suppress(ConfigError, InputError):
            backbone_tokens(backbone, graph, show=False)


def run_worker(plan_file: str, number: str) -> int:
    """Execute the run of a plan with this number; returns 1 if it failed."""
    plan = Plan.read(Path(plan_file))
    try:
        reason = try_run(plan, plan.runs[int(number)], EdgeTextGraph.open(plan.network), show=True)
    except FileError as error:
        reason = str(error)
    if reason is not None:
        sys.stderr.write(f"error: {reason}\n")
    return 0 if reason is None else 1


if __name__ == "__main__":
    sys.exit(run_worker(*sys.argv[1:]))
