"""Running a plan: one run after the other, or several side by side as processes of their own."""

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import InputError
from edgeformers.experiments.folders import check_folders
from edgeformers.experiments.memory import cores
from edgeformers.experiments.plan import Plan, Run
from edgeformers.experiments.worker import attempt
from edgeformers.files import write_atomic
from edgeformers.runs import check_device
from edgeformers.training.initialization import backbone_tokens

POLL = 0.1  # seconds between two looks at the processes
WORKER = ("-m", "edgeformers.experiments.worker")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that failed, and why."""

    row: str
    seed: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.row}, seed {self.seed}: {self.sentence}"


def execute(
    plan: Plan, *, jobs: int = 1, show: bool = True, seconds: Mapping[str, float] | None = None
) -> list[Failure]:
    """Do every run that is not done; those that fail are given back, the others go on.

    `seconds` is what a run of each row is expected to take: side by side the longest start first,
    so that the end is not one long run alone.
    """
    if jobs < 1:
        raise InputError(f"--jobs must be at least 1 (got {jobs})")
    check_device(plan.device)
    check_folders(plan)
    places = {run.folder: place for place, run in enumerate(plan.runs) if not plan.is_done(run)}
    if not places:  # a folder is done once, though two rows may share it
        return []
    todo, graph = sorted(places.values()), EdgeTextGraph.open(plan.network)
    if jobs == 1:
        return list(_one_by_one(plan, todo, graph, show))
    _tokenise(plan, todo, graph)
    return list(_side_by_side(plan, _longest_first(plan, todo, seconds or {}), jobs, show))


def _longest_first(plan: Plan, todo: Sequence[int], seconds: Mapping[str, float]) -> list[int]:
    """Runs by what they are expected to take, then those nothing is known of by their kind."""

    def order(place: int) -> tuple[float, int]:
        run = plan.runs[place]
        reads = run.group in ("plm", "ours")  # with a language model
        return -seconds.get(run.row, 0.0), 2 if run.kind == "simple" else 0 if reads else 1

    return sorted(todo, key=order)


def _one_by_one(
    plan: Plan, todo: Sequence[int], graph: EdgeTextGraph, show: bool
) -> Iterator[Failure]:
    with _bar(len(todo), show) as bar:
        for run in (plan.runs[place] for place in todo):
            bar.set_postfix_str(f"{run.row} {run.seed}")
            sentence = attempt(plan, run, graph, show=False)
            bar.update(1)
            if sentence is not None:
                yield Failure(row=run.row, seed=run.seed, sentence=sentence)


def _side_by_side(plan: Plan, todo: Sequence[int], jobs: int, show: bool) -> Iterator[Failure]:
    """At most `jobs` processes; each writes its own log, and one that dies is a failure."""
    plan_file, queue = plan.write(), deque(todo)
    running: dict[int, subprocess.Popen[bytes]] = {}
    with _bar(len(todo), show) as bar, _ending(running):
        while queue or running:
            while queue and len(running) < jobs:
                place = queue.popleft()
                running[place] = _start(plan_file, place, plan.runs[place], jobs)
            bar.set_postfix_str(
                ", ".join(f"{plan.runs[at].row} {plan.runs[at].seed}" for at in running)
            )
            time.sleep(POLL)
            for place in [at for at, process in running.items() if process.poll() is not None]:
                process, run = running.pop(place), plan.runs[place]
                bar.update(1)
                if not plan.is_done(run):
                    why = _why(run, process.returncode)
                    yield Failure(row=run.row, seed=run.seed, sentence=why)


def _start(plan_file: Path, place: int, run: Run, jobs: int) -> subprocess.Popen[bytes]:
    run.log.parent.mkdir(parents=True, exist_ok=True)
    run.failure.unlink(missing_ok=True)
    threads = str(max(1, cores() // jobs))
    command = [sys.executable, *WORKER, str(plan_file), str(place)]
    with run.log.open("ab") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={"OMP_NUM_THREADS": threads, **os.environ},
        )


def _why(run: Run, code: int) -> str:
    """The sentence a process left, or what is known of one that could not leave any."""
    if run.failure.is_file():
        return run.failure.read_text(encoding="utf-8").strip()
    sentence = f"its process ended with code {code}; see {run.log}"
    write_atomic(run.failure, sentence + "\n")
    return sentence


@contextmanager
def _ending(running: dict[int, subprocess.Popen[bytes]]) -> Iterator[None]:
    """No process outlives this one, however it ends."""
    try:
        yield
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def _tokenise(plan: Plan, todo: Sequence[int], graph: EdgeTextGraph) -> None:
    """The network's texts in the tokens of each backbone, before several processes want them."""
    runs = [plan.runs[place] for place in todo if plan.runs[place].kind != "simple"]
    for backbone in {run.to_config().model.backbone for run in runs}:
        backbone_tokens(backbone, graph, show=False)


def _bar(total: int, show: bool) -> Any:
    return tqdm(total=total, desc="runs", unit=" runs", disable=not show)
