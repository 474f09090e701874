"""A killed and resumed run equals an uninterrupted one, bit for bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from edgeformers.training import trainer
from edgeformers.training.checkpoint import latest_checkpoint
from edgeformers.training.runlog import read_log

HOME = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=["edges", "links"])
def runs(request, simulated, tmp_path_factory):
    """The folders of two runs: one left alone, one killed eight times."""
    out = tmp_path_factory.mktemp(request.param)
    ended = subprocess.run(
        [sys.executable, HOME / "tests/training/killed.py", simulated.path, out, request.param],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    return out / "undisturbed", out / "disturbed"


def test_the_model_is_the_same_bit_for_bit(runs):
    one, other = runs
    for file in ("model/model.safetensors", "model/head.safetensors"):
        left, right = load_file(one / file), load_file(other / file)
        assert left.keys() == right.keys()
        assert all(torch.equal(value, right[name]) for name, value in left.items())


def test_the_optimizers_stand_where_they_would(runs):
    states = [latest_checkpoint(run / "checkpoints") for run in runs]
    assert states[0].name == states[1].name
    left, right = (load_file(state / "state.safetensors") for state in states)
    assert left.keys() == right.keys()
    assert all(torch.equal(value, right[name]) for name, value in left.items())
    assert len(list((runs[1] / "checkpoints").iterdir())) == 1


def test_the_log_is_complete_and_tells_each_step_once(runs):
    one, other = (read_log(run / "metrics.jsonl") for run in runs)
    kept = [[e for e in log if e["kind"] != "speed"] for log in (one, other)]
    assert kept[0] == kept[1]
    steps = [e["step"] for e in kept[1] if e["kind"] == "train"]
    assert steps == list(range(1, len(steps) + 1))
    assert sum(e["kind"] == "speed" for e in other) == 3


def test_the_results_are_the_same(runs):
    left, right = (json.loads((run / "results.json").read_text()) for run in runs)
    assert left == right
    assert left["test"]


@pytest.mark.parametrize("seconds", [1e9, 0.0], ids=["early", "late"])
def test_checkpoints_are_written_by_the_clock_unless_counted(
    make_edges, make_trainer, tmp_path, monkeypatch, seconds
):
    steps = []
    monkeypatch.setattr(trainer, "CHECKPOINT_SECONDS", seconds)
    monkeypatch.setattr(trainer, "CLOCK_EVERY", 2)
    monkeypatch.setattr(trainer, "save_checkpoint", lambda at, step, *_, **__: steps.append(step))
    made = make_trainer(make_edges(), tmp_path, checkpoint_every=None)
    made.fit()
    last = 2 * made.per_epoch
    assert steps == ([last] if seconds else sorted({*range(2, last, 2), made.per_epoch, last}))
