"""The moving average of weights: its value, its use in training, and after resuming."""

import pytest
import torch
from torch import nn

from edgeformers.training.optimizers import EMA, UPDATE_EVERY


@pytest.fixture
def walker():
    """A module with one trainable weight and a frozen parameter."""
    module = nn.Linear(1, 1, bias=False)
    module.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
    with torch.no_grad():
        module.weight.fill_(0.0)
    return module


def walk(module, ema, steps, start=0):
    for step in range(start + 1, start + steps + 1):
        with torch.no_grad():
            module.weight.fill_(float(step))
        ema.update(step)


def test_it_is_the_exponential_average_of_the_weights(walker):
    ema = EMA(walker, 0.9)
    walk(walker, ema, 30 * UPDATE_EVERY)
    expected = 0.0
    for update in range(1, 31):
        keep = min(0.9**UPDATE_EVERY, update / (update + 9))
        expected = keep * expected + (1 - keep) * update * UPDATE_EVERY
    with ema.applied():
        assert walker.weight.item() == pytest.approx(expected, rel=1e-5)
    assert walker.weight.item() == 30 * UPDATE_EVERY


def test_steps_between_updates_are_not_included(walker):
    ema = EMA(walker, 0.9)
    walk(walker, ema, UPDATE_EVERY - 1)
    assert ema.updates == 0
    walk(walker, ema, 1, start=UPDATE_EVERY - 1)
    assert ema.updates == 1


def test_before_the_first_update_the_trained_weights_are_used(walker):
    ema = EMA(walker, 0.9)
    walk(walker, ema, UPDATE_EVERY - 1)
    with ema.applied():
        assert walker.weight.item() == UPDATE_EVERY - 1  # not the initial ones
    walk(walker, ema, 1, start=UPDATE_EVERY - 1)
    with ema.applied():
        assert walker.weight.item() != UPDATE_EVERY


def test_the_weights_are_restored_even_after_an_error(walker):
    ema = EMA(walker, 0.9)
    walk(walker, ema, UPDATE_EVERY)
    with pytest.raises(KeyError), ema.applied():
        raise KeyError
    assert walker.weight.item() == UPDATE_EVERY


def test_a_resumed_average_continues(walker):
    full, halves = EMA(walker, 0.9), EMA(walker, 0.9)
    walk(walker, full, 5 * UPDATE_EVERY)
    walk(walker, halves, 2 * UPDATE_EVERY)
    other = EMA(walker, 0.9)
    other.load_state_dict(halves.state_dict())
    walk(walker, other, 3 * UPDATE_EVERY, start=2 * UPDATE_EVERY)
    assert torch.equal(other.mean[0], full.mean[0])
    with pytest.raises(ValueError, match="averaged"):
        other.load_state_dict({"updates": 3})


def test_a_run_too_short_for_an_average_keeps_its_weights(make_edges, make_trainer):
    averaged, plain = (make_edges(**{"train.batch_size": 512}) for _ in range(2))
    trainer = make_trainer(averaged, ema_decay=0.9, epochs=1)
    assert trainer.per_epoch < UPDATE_EVERY
    trainer.fit()
    make_trainer(plain, epochs=1).fit()
    expected = plain.modules.state_dict()
    for name, value in averaged.modules.state_dict().items():
        assert torch.equal(value, expected[name])


def test_training_keeps_the_validated_average_and_resumes_it_exactly(
    make_edges, make_trainer, tmp_path
):
    def fit(folder, **settings):
        objective = make_edges()
        make_trainer(objective, folder, ema_decay=0.9, **settings).fit()
        return objective.modules.state_dict()

    full = fit(tmp_path / "full", epochs=2)
    plain = make_edges()
    make_trainer(plain, epochs=2).fit()
    assert any(not torch.equal(plain.modules.state_dict()[name], full[name]) for name in full)
    trainer = make_trainer(make_edges(), tmp_path / "cut", ema_decay=0.9, epochs=2)
    trainer._end_epoch = lambda log: 1 / 0  # stopped before the first epoch's end
    with pytest.raises(ZeroDivisionError):
        trainer.fit()
    again = fit(tmp_path / "cut", epochs=2)
    assert all(torch.equal(again[name], full[name]) for name in full)
