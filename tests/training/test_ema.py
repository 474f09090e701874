"""A running average of weights: what it is, where it stands in training, and after a kill."""

import pytest
import torch
from torch import nn

from edgeformers.training.ema import EVERY, WeightAverage


@pytest.fixture
def walker():
    """A module of one number that training would move; a frozen one stays out of it."""
    module = nn.Linear(1, 1, bias=False)
    module.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
    with torch.no_grad():
        module.weight.fill_(0.0)
    return module


def walk(module, average, steps, start=0):
    for step in range(start + 1, start + steps + 1):
        with torch.no_grad():
            module.weight.fill_(float(step))
        average.update(step)


def test_it_is_the_exponential_mean_of_what_was_seen(walker):
    average = WeightAverage(walker, 0.9)
    walk(walker, average, 30 * EVERY)
    expected = 0.0
    for update in range(1, 31):
        keep = min(0.9**EVERY, update / (update + 9))
        expected = keep * expected + (1 - keep) * update * EVERY
    with average.swapped():
        assert walker.weight.item() == pytest.approx(expected, rel=1e-5)
    assert walker.weight.item() == 30 * EVERY


def test_steps_between_two_updates_are_not_read(walker):
    average = WeightAverage(walker, 0.9)
    walk(walker, average, EVERY - 1)
    assert average.updates == 0
    walk(walker, average, 1, start=EVERY - 1)
    assert average.updates == 1


def test_before_the_first_update_the_weights_stay_as_trained(walker):
    average = WeightAverage(walker, 0.9)
    walk(walker, average, EVERY - 1)
    with average.swapped():
        assert walker.weight.item() == EVERY - 1  # not the untrained ones
    walk(walker, average, 1, start=EVERY - 1)
    with average.swapped():
        assert walker.weight.item() != EVERY


def test_what_was_swapped_in_is_swapped_out_again_even_after_an_error(walker):
    average = WeightAverage(walker, 0.9)
    walk(walker, average, EVERY)
    with pytest.raises(KeyError), average.swapped():
        raise KeyError
    assert walker.weight.item() == EVERY


def test_an_average_goes_on_where_it_stood(walker):
    whole, halves = WeightAverage(walker, 0.9), WeightAverage(walker, 0.9)
    walk(walker, whole, 5 * EVERY)
    walk(walker, halves, 2 * EVERY)
    other = WeightAverage(walker, 0.9)
    other.load_state_dict(halves.state_dict())
    walk(walker, other, 3 * EVERY, start=2 * EVERY)
    assert torch.equal(other.mean[0], whole.mean[0])
    with pytest.raises(ValueError, match="0 averaged parameters for 1"):
        other.load_state_dict({"updates": 3})


def test_a_run_too_short_for_an_average_keeps_what_it_learned(make_edges, make_trainer):
    averaged, plain = (make_edges(**{"train.batch_size": 512}) for _ in range(2))
    trainer = make_trainer(averaged, ema_decay=0.9, epochs=1)
    assert trainer.per_epoch < EVERY
    trainer.fit()
    make_trainer(plain, epochs=1).fit()
    expected = plain.modules.state_dict()
    for name, value in averaged.modules.state_dict().items():
        assert torch.equal(value, expected[name])


def test_training_keeps_the_average_that_was_validated_and_a_resumed_run_the_same(
    make_edges, make_trainer, tmp_path
):
    def fit(folder, **settings):
        objective = make_edges()
        make_trainer(objective, folder, ema_decay=0.9, **settings).fit()
        return objective.modules.state_dict()

    whole = fit(tmp_path / "whole", epochs=2)
    plain = make_edges()
    make_trainer(plain, epochs=2).fit()
    assert any(not torch.equal(plain.modules.state_dict()[name], whole[name]) for name in whole)
    trainer = make_trainer(make_edges(), tmp_path / "cut", ema_decay=0.9, epochs=2)
    trainer._end_epoch = lambda log: 1 / 0  # stopped before the first epoch's end
    with pytest.raises(ZeroDivisionError):
        trainer.fit()
    again = fit(tmp_path / "cut", epochs=2)
    assert all(torch.equal(again[name], whole[name]) for name in whole)
