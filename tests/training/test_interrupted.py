"""Ctrl-C and SIGTERM: a checkpoint at the current step, from which the same run continues."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from edgeformers.training.checkpoint import checkpoints, load_checkpoint
from edgeformers.training.runlog import read_log
from edgeformers.training.trainer import Trainer
from tests.cli.conftest import TINY


class Terminated(BaseException):
    """What a handler of SIGTERM may raise."""


@pytest.fixture
def terminable():
    def terminate(*_):
        raise Terminated

    handlers = {signal.SIGTERM: terminate, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def tensors(trainer):
    return trainer.objective.modules.state_dict()


def events(folder):
    return [event for event in read_log(folder / "metrics.jsonl") if event["kind"] != "speed"]


@pytest.fixture
def whole(make_edges, make_trainer, tmp_path):
    trainer = make_trainer(make_edges(), tmp_path / "whole", checkpoint_every=None)
    trainer.fit()
    return trainer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["update", "last update", "validation"])
@pytest.mark.usefixtures("terminable")
def test_an_interrupted_run_goes_on_at_its_step(
    whole, make_edges, make_trainer, tmp_path, monkeypatch, moment, number
):
    trainer = make_trainer(make_edges(), tmp_path / "cut", checkpoint_every=None)
    step = 2 if moment == "update" else trainer.per_epoch
    gradients, evaluate = Trainer._gradients, trainer.objective.evaluate

    def interrupted_gradients(self, batches):
        if moment != "validation" and self.state.step + 1 == step:
            signal.raise_signal(number)
        return gradients(self, batches)

    def interrupted_evaluate(part):
        if moment == "validation":
            signal.raise_signal(number)
        return evaluate(part)

    monkeypatch.setattr(Trainer, "_gradients", interrupted_gradients)
    monkeypatch.setattr(trainer.objective, "evaluate", interrupted_evaluate)
    with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else Terminated):
        trainer.fit()
    monkeypatch.undo()
    (saved,) = checkpoints(tmp_path / "cut/checkpoints")
    assert load_checkpoint(saved)["progress"]["step"] == step
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    again = make_trainer(make_edges(), tmp_path / "cut", checkpoint_every=None)
    again.fit()
    assert all(torch.equal(v, tensors(again)[name]) for name, v in tensors(whole).items())
    assert events(tmp_path / "cut") == events(tmp_path / "whole")


@pytest.mark.usefixtures("terminable")
def test_a_second_interrupt_stops_at_once(make_edges, make_trainer, tmp_path, monkeypatch):
    def interrupt_twice(self, batches):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("not reached")

    monkeypatch.setattr(Trainer, "_gradients", interrupt_twice)
    with pytest.raises(KeyboardInterrupt):
        make_trainer(make_edges(), tmp_path, checkpoint_every=None).fit()
    assert not checkpoints(tmp_path / "checkpoints")


def start(*args):
    command = [sys.executable, "-c", "from edgeformers.cli import run; run()", *map(str, args)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.15, 0.3, 0.6, 1.2])
def test_an_interrupt_while_importing_is_one_sentence(simulated, tmp_path, seconds):
    process = start("train", "edge-classification", simulated.path, "-o", tmp_path / "run", *TINY)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert said.strip().count("\n") == 0
    assert "again" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_program_stops_with_a_checkpoint(simulated, tmp_path, number):
    run = tmp_path / "run"
    settings = ("--set", "train.epochs=500", "--set", "train.patience=500")
    args = ("train", "edge-classification", simulated.path, "-o", run, *TINY[:-2], *settings)
    process = start(*args)
    while not (run / "metrics.jsonl").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    assert len(checkpoints(run / "checkpoints")) == 1
    assert not (run / ".lock").exists()
