"""Losses read late, and how training stops at one that is not finite."""

import math
import re

import pytest
import torch

from edgeformers.training.deferred_losses import DeferredLosses, Update
from edgeformers.training.runlog import read_log
from edgeformers.training.trainer import GPU_DELAY, Trainer, TrainingError
from tests.conftest import CPU


def test_losses_are_read_in_order_after_the_delay():
    losses, seen = DeferredLosses(2), []
    for step in range(1, 6):
        losses.add(Update(step, 0, []), torch.tensor(step / 2))
        seen.append([(update.step, loss) for update, loss in losses.read()])
    assert seen == [[], [], [(1, 0.5)], [(2, 1.0)], [(3, 1.5)]]
    assert [loss for _, loss in losses.read(drain=True)] == [2.0, 2.5]
    assert losses.read(drain=True) == []


def test_without_delay_a_loss_is_read_at_once():
    losses = DeferredLosses(0)
    losses.add(Update(1, 0, []), torch.tensor(3.0))
    assert [loss for _, loss in losses.read()] == [3.0]


@pytest.fixture(params=["edges", "links"])
def make(request, make_edges, make_links):
    return make_edges if request.param == "edges" else make_links


def late(objective, settings, folder=None):
    """A trainer on the CPU that reads losses three steps late."""
    return Trainer(objective, settings, device=CPU, folder=folder, show=False, loss_delay=3)


def test_only_a_single_process_with_a_gpu_reads_losses_late(make_edges, make_trainer, monkeypatch):
    objective = make_edges()
    settings = make_trainer(objective).settings

    def delay(device):
        return Trainer(objective, settings, device=torch.device(device), show=False).losses.delay

    assert (delay("cpu"), delay("cuda")) == (0, GPU_DELAY)
    monkeypatch.setattr("edgeformers.distributed.world_size", lambda: 2)
    assert (delay("cpu"), delay("cuda")) == (0, 0)
    assert late(objective, settings).losses.delay == 0


def test_reading_late_writes_the_same_log(make, make_trainer, tmp_path):
    """Losses are only close, since the AdamW that can be disabled is fused."""
    usual = make_trainer(make(), tmp_path / "usual")
    usual.fit()
    late(make(), usual.settings, tmp_path / "late").fit()
    logs = [read_log(tmp_path / name / "metrics.jsonl") for name in ("usual", "late")]
    kinds = [[(e["kind"], e["step"]) for e in log] for log in logs]
    assert kinds[0] == kinds[1]
    one, other = ([e["loss"] for e in log if e["kind"] == "train"] for log in logs)
    assert one == pytest.approx(other, rel=1e-3)


def test_a_nan_loss_names_its_step_and_later_steps_change_nothing(make, make_trainer, tmp_path):
    objective = make()
    settings = make_trainer(
        objective, checkpoint_every=100
    ).settings  # a checkpoint reads all losses
    trainer = late(objective, settings, tmp_path)
    backward, states, calls = objective.backward, [], []

    def poisoned(batches):
        calls.append(len(calls))
        states.append({n: v.clone() for n, v in objective.modules.state_dict().items()})
        loss = backward(batches)
        return loss * math.nan if len(calls) == 3 else loss

    objective.backward = poisoned
    with pytest.raises(TrainingError, match="nan at step 3") as caught:
        trainer.fit()
    assert len(calls) == 6  # three more were started
    named = [int(i) for i in re.findall(r"\d+", str(caught.value).split("edges")[1])]
    assert set(named) <= set(objective.batches(0)[2].tolist())
    for name, value in objective.modules.state_dict().items():
        assert torch.equal(value, states[2][name]), name
    written = [e["step"] for e in read_log(tmp_path / "metrics.jsonl")]
    assert written == [1, 2]


def test_an_infinite_loss_in_the_last_step_of_an_epoch_stops_training(make_edges, make_trainer):
    objective = make_edges()
    last = len(objective.batches(0))
    trainer = late(objective, make_trainer(objective).settings)
    backward, calls = objective.backward, []

    def poisoned(batches):
        calls.append(len(calls))
        loss = backward(batches)
        return loss * math.inf if len(calls) == last else loss

    objective.backward = poisoned
    with pytest.raises(TrainingError, match=f"inf at step {last}"):
        trainer.fit()
