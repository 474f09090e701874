"""Runs the cases of a suite in worker processes and appends each outcome to a file at once.

A case that ends or blocks its process is an outcome too. Finished cases are not run again.
"""

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime
from functools import cache
from importlib import import_module
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tqdm import tqdm

from edgeformers.training.runlog import read_log
from tests.torture.outcome import Outcome
from tests.torture.suites import Suite

START_UP = 300.0  # seconds until a worker has imported its modules
MAX_DETAIL = 4000  # characters of a traceback that are kept
MAX_NAME = 200
ROOT = Path(__file__).parents[2]


def run_suite(
    suite: Suite,
    path: Path,
    *,
    seed: int,
    count: int,
    workers: int = 1,
    again: bool = False,
    show: bool = True,
) -> list[dict[str, Any]]:
    """Run the unfinished cases of a suite, with `again` also those that failed; all outcomes."""
    outcomes = OutcomeFile(path, seed)
    outcomes.repair()
    finished = {
        number
        for number, outcome in outcomes.read().items()
        if not (again and suite.is_failure(outcome["kind"]))
    }
    waiting = deque(number for number in range(count) if number not in finished)
    bar = tqdm(total=count, initial=count - len(waiting), desc=path.stem, disable=not show)
    lock = threading.Lock()

    def work() -> None:
        worker = Worker(suite, seed, path.with_suffix(".log"))
        try:
            while (number := _pop(waiting)) is not None:
                if (answer := worker.run(number)) is None:
                    return
                with lock:
                    outcomes.append(number, *answer)
                    bar.update()
        finally:
            worker.close()

    with bar, ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(work) for _ in range(workers)]
        try:
            for future in futures:
                future.result()
        finally:  # after Ctrl-C, finish the current cases
            waiting.clear()
    return [outcome for number, outcome in sorted(outcomes.read().items()) if number < count]


def _pop(numbers: deque[int]) -> int | None:
    try:
        return numbers.popleft()
    except IndexError:
        return None


class OutcomeFile:
    """The outcomes of a suite, one JSON object per line; the last of each case counts."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.seed = path, seed

    def repair(self) -> None:
        """Remove an incomplete last line, which a killed process may have left."""
        if self.path.exists():
            os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)

    def read(self) -> dict[int, dict[str, Any]]:
        """The outcome of each finished case of this seed, by its number."""
        events = read_log(self.path) if self.path.exists() else []
        return {event["case"]: event for event in events if event["seed"] == self.seed}

    def append(self, number: int, name: str, outcome: Outcome, cpu_seconds: float) -> None:
        """Add the outcome of a case, with the time that it took in all processes."""
        facts = {**asdict(outcome), "detail": outcome.detail[-MAX_DETAIL:]}
        when: dict[str, Any] = {
            "commit": commit(),
            "date": datetime.now().isoformat(timespec="seconds"),
        }
        when["cpu_seconds"] = round(cpu_seconds, 3)
        event = {"case": number, "seed": self.seed, "name": name, **facts, **when}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


class Worker:
    """A process that runs cases; it is replaced after a case that ends or blocks it."""

    def __init__(self, suite: Suite, seed: int, log: Path) -> None:
        self.suite, self.seed, self.log = suite, seed, log
        self.process: multiprocessing.process.BaseProcess | None = None

    def run(self, number: int) -> tuple[str, Outcome, float] | None:
        """The name, outcome and CPU time of a case, or None if the suite has fewer cases."""
        limit = self.suite.timeout
        if self.process is None:
            self._start()
            limit += START_UP
        name = f"case {number}"
        try:
            self.pipe.send(number)
            while self.pipe.poll(limit):
                message = self.pipe.recv()
                if not isinstance(message, str):  # the outcome
                    return None if message is None else (name, *message)
                name, limit = message, self.suite.timeout
            reason = f"no answer after {limit:.0f} s"
        except (EOFError, OSError):
            self.process.join()
            reason = f"the process ended with code {self.process.exitcode}; see {self.log.name}"
        self.close()
        return name, Outcome(kind="crash", detail=reason), 0.0

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.folder.cleanup()
            self.process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.folder = TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True)
        arguments = (self.suite.module, self.seed, self.log, self.folder.name, other)
        self.process = context.Process(target=_serve, args=arguments)
        self.process.start()
        other.close()


def _serve(module_name: str, seed: int, log: Path, folder: str, pipe: Connection) -> None:
    """Answer numbers with the name of that case, then its outcome, or None after the last case."""
    os.environ["TMPDIR"] = folder
    os.environ["EDGEFORMERS_CACHE"] = str(Path(folder) / "cache")
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    with log.open("a") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    module = import_module(module_name)
    cases: Iterator[object] = module.cases(seed)
    position = 0
    try:
        while True:
            number = pipe.recv()  # larger each time
            case = next(islice(cases, number - position, None), None)
            position = number + 1
            if case is not None:
                pipe.send(" ".join(str(case).split())[:MAX_NAME])
            pipe.send(None if case is None else _run(module.run, case))
    except EOFError:
        return


def _run(run: Any, case: object) -> tuple[Outcome, float]:
    began = _cpu_seconds()
    try:
        outcome = run(case)
    except Exception:  # of the suite itself, which is a failure all the same
        outcome = Outcome(kind="crash", detail=traceback.format_exc())
    return outcome, _cpu_seconds() - began


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@cache
def commit() -> str:
    """The commit of the working tree, with a + if it has changes."""
    git = ("git", "-C", str(ROOT))
    head = subprocess.run((*git, "rev-parse", "--short", "HEAD"), capture_output=True, text=True)
    changes = subprocess.run(
        (*git, "status", "--porcelain", "-uno"), capture_output=True, text=True
    )
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")
