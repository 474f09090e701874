"""Trains a run over and over while it is being killed: python killed.py NETWORK OUT TASK.

Each attempt is a process of its own, ended by SIGKILL at a moment of its own choosing, or from
outside when the log has grown; the last one is left to finish.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from edgeformers.estimators import EdgeClassifier, LinkPredictor, estimators
from edgeformers.training import checkpoint, runlog
from edgeformers.training.trainer import Trainer

SETTINGS = {
    "train.epochs": 3,
    "train.batch_size": 40,
    "train.checkpoint_every": 3,
    "train.keep_checkpoints": 1,
    "model.node_width": 16,
    "model.node_dropout": 0.1,
    "data.source_neighbors": [2],
    "data.target_neighbors": [2],
    "links.uniform_negatives": 3,
    "links.cached_negatives": 11,
}


def train(network: str, run: Path, task: str) -> None:
    kind = EdgeClassifier if task == "edges" else LinkPredictor
    more = {"train.gradient_accumulation": 2, "train.batch_size": 25} if task == "links" else {}
    settings = {**SETTINGS, **more}
    estimators.drop_checkpoints = lambda folder: None  # the tests compare the last ones
    made = kind("scratch:2x32", settings=settings, show=False, device="cpu").fit(network, run=run)
    made.evaluate()
    made.write_results(run)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(count: int, function: Callable[..., Any], *, half: bool = False) -> Callable[..., Any]:
    """The function, which ends the process at its `count`-th call: after it, or half way."""
    calls = []

    def counted(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if half and len(calls) == count:
            die()
        made = function(*args, **more)
        if len(calls) == count:
            die()
        return made

    return counted


def write_half(count: int) -> Callable[..., None]:
    write, calls = runlog.RunLog.write, []

    def counted(self: runlog.RunLog, kind: str, step: int, **values: Any) -> None:
        calls.append(1)
        if len(calls) == count and self.path is not None:
            with self.path.open("a") as file:
                file.write('{"kind": "train", "st')
            die()
        write(self, kind, step, **values)

    return counted


def remove_half(count: int) -> Callable[..., None]:
    remove, calls = shutil.rmtree, []

    def counted(path: Any, *args: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) == count:
            next(Path(path).iterdir()).unlink()
            die()
        remove(path, *args, **more)

    return counted


MOMENTS: dict[str, Callable[[], None]] = {
    "before the first checkpoint": lambda: setattr(runlog.RunLog, "write", write_half(2)),
    "a line half written": lambda: setattr(runlog.RunLog, "write", write_half(5)),
    "a checkpoint half written": lambda: setattr(
        checkpoint, "save_tensors", after(2, checkpoint.save_tensors)
    ),
    "a checkpoint half removed": lambda: setattr(checkpoint.shutil, "rmtree", remove_half(1)),
    "validated, not saved": lambda: setattr(Trainer, "_save", after(3, Trainer._save, half=True)),
    "saved, not yet gone on": lambda: setattr(Trainer, "_save", after(2, Trainer._save)),
}


def attempt(action: Callable[[], None], run: Path, lines: int | None = None) -> bool:
    """Whether a process that does this came to its end; with `lines`, it is killed meanwhile."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    log = run / "metrics.jsonl"
    running = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while lines is not None and log.read_bytes().count(b"\n") < lines:
        assert os.waitid(os.P_PID, child, running) is None, "it ended before it could be killed"
        time.sleep(0.002)
    if lines is not None:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main(network: str, out: Path, task: str) -> None:
    torch.set_num_threads(1)
    undisturbed, disturbed = out / "undisturbed", out / "disturbed"
    train(network, undisturbed, task)  # here, so that no attempt has to import anything
    for name, prepare in MOMENTS.items():

        def doomed(prepare: Callable[[], None] = prepare) -> None:
            prepare()
            train(network, disturbed, task)

        assert not attempt(doomed, disturbed), f"not killed: {name}"
    for more in (1, 2):
        log = disturbed / "metrics.jsonl"
        have = log.read_bytes().count(b"\n")
        attempt(lambda: train(network, disturbed, task), disturbed, lines=have + more)
    assert attempt(lambda: train(network, disturbed, task), disturbed)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
