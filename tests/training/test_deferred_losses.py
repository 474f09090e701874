"""Losses read late, and what training does when one of them is no number."""

import math
import re

import pytest
import torch

from edgeformers.training.deferred_losses import LATE, LateLosses, Update
from edgeformers.training.runlog import read_log
from edgeformers.training.trainer import Trainer, TrainingError
from tests.conftest import CPU


def test_losses_come_in_order_and_no_sooner_than_their_lag():
    losses, seen = LateLosses(2), []
    for step in range(1, 6):
        losses.put(Update(step, 0, []), torch.tensor(step / 2))
        seen.append([(update.step, loss) for update, loss in losses.take()])
    assert seen == [[], [], [(1, 0.5)], [(2, 1.0)], [(3, 1.5)]]
    assert [loss for _, loss in losses.take(everything=True)] == [2.0, 2.5]
    assert losses.take(everything=True) == []


def test_without_lag_a_loss_is_there_at_once():
    losses = LateLosses(0)
    losses.put(Update(1, 0, []), torch.tensor(3.0))
    assert [loss for _, loss in losses.take()] == [3.0]


@pytest.fixture(params=["edges", "links"])
def make(request, make_edges, make_links):
    return make_edges if request.param == "edges" else make_links


def late(objective, settings, folder=None):
    """A trainer on the CPU that reads losses three steps late."""
    return Trainer(objective, settings, device=CPU, folder=folder, show=False, lag=3)


def test_one_process_with_a_gpu_reads_late_and_every_other_at_once(
    make_edges, make_trainer, monkeypatch
):
    objective = make_edges()
    settings = make_trainer(objective).settings

    def lag(device):
        return Trainer(objective, settings, device=torch.device(device), show=False).losses.lag

    assert (lag("cpu"), lag("cuda")) == (0, LATE)
    monkeypatch.setattr("edgeformers.distributed.world_size", lambda: 2)
    assert (lag("cpu"), lag("cuda")) == (0, 0)
    assert late(objective, settings).losses.lag == 0


def test_reading_late_writes_the_same_log(make, make_trainer, tmp_path):
    """AdamW is fused where it can be halted, which rounds otherwise: losses are close."""
    usual = make_trainer(make(), tmp_path / "usual")
    usual.fit()
    late(make(), usual.settings, tmp_path / "late").fit()
    logs = [read_log(tmp_path / name / "metrics.jsonl") for name in ("usual", "late")]
    kinds = [[(e["kind"], e["step"]) for e in log] for log in logs]
    assert kinds[0] == kinds[1]
    one, other = ([e["loss"] for e in log if e["kind"] == "train"] for log in logs)
    assert one == pytest.approx(other, rel=1e-3)


def test_a_loss_that_is_no_number_names_its_step_and_nothing_has_moved_since(
    make, make_trainer, tmp_path
):
    objective = make()
    settings = make_trainer(objective, checkpoint_every=100).settings  # which reads them all
    trainer = late(objective, settings, tmp_path)
    backward, states, calls = objective.backward, [], []

    def poisoned(batches):
        calls.append(len(calls))
        states.append({n: v.clone() for n, v in objective.modules.state_dict().items()})
        loss = backward(batches)
        return loss * math.nan if len(calls) == 3 else loss

    objective.backward = poisoned
    with pytest.raises(TrainingError, match=r"the loss became nan at step 3 \(epoch 1\)") as caught:
        trainer.fit()
    assert len(calls) == 6  # three more were under way
    named = [int(i) for i in re.findall(r"\d+", str(caught.value).split("among edges")[1])]
    assert set(named) <= set(objective.batches(0)[2].tolist())
    for name, value in objective.modules.state_dict().items():
        assert torch.equal(value, states[2][name]), name
    written = [e["step"] for e in read_log(tmp_path / "metrics.jsonl")]
    assert written == [1, 2]


def test_what_is_read_late_at_the_end_of_an_epoch_still_stops_training(make_edges, make_trainer):
    objective = make_edges()
    last = len(objective.batches(0))
    trainer = late(objective, make_trainer(objective).settings)
    backward, calls = objective.backward, []

    def poisoned(batches):
        calls.append(len(calls))
        loss = backward(batches)
        return loss * math.inf if len(calls) == last else loss

    objective.backward = poisoned
    with pytest.raises(TrainingError, match=rf"the loss became inf at step {last} \(epoch 1\)"):
        trainer.fit()
