"""RowAdam beside torch's own optimizers."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from edgeformers.training.optimizers import RowAdam, sum_rows

close = {"atol": 1e-6, "rtol": 1e-5}


def table():
    return nn.Parameter(torch.linspace(-1, 1, 40).view(10, 4))


def step(optimizer, parameter, rows, weights, *, sparse=True):
    optimizer.zero_grad()
    (F.embedding(rows, parameter, sparse=sparse) * weights).sum().backward()
    optimizer.step()


def test_it_is_sparse_adam():
    ours, theirs = table(), table()
    row_adam, sparse_adam = RowAdam([ours], lr=0.1), torch.optim.SparseAdam([theirs], lr=0.1)
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randint(0, 10, (7,), generator=generator)  # some come again
        weights = torch.randn(7, 4, generator=generator)
        step(row_adam, ours, rows, weights)
        step(sparse_adam, theirs, rows, weights)
        torch.testing.assert_close(ours, theirs, **close)
    state = row_adam.state_dict()["state"][0]
    for name, value in sparse_adam.state_dict()["state"][0].items():
        torch.testing.assert_close(state[name], value, **close)


def test_rows_touched_at_every_step_learn_as_with_adam():
    ours, theirs = table(), table()
    row_adam, adam = RowAdam([ours], lr=0.1), torch.optim.Adam([theirs], lr=0.1)
    rows = torch.tensor([2, 5, 2])
    for seed in range(4):
        weights = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
        step(row_adam, ours, rows, weights)
        step(adam, theirs, rows, weights, sparse=False)
    torch.testing.assert_close(ours, theirs, **close)


def test_a_state_of_sparse_adam_is_taken_over():
    ours, theirs = table(), table()
    sparse_adam = torch.optim.SparseAdam([theirs], lr=0.1)
    rows, weights = torch.tensor([1, 1, 3]), torch.ones(3, 4)
    step(sparse_adam, theirs, rows, weights)
    row_adam = RowAdam([ours], lr=0.1)
    row_adam.load_state_dict(deepcopy(sparse_adam.state_dict()))
    with torch.no_grad():
        ours.copy_(theirs)
    step(row_adam, ours, rows, weights)
    step(sparse_adam, theirs, rows, weights)
    torch.testing.assert_close(ours, theirs, **close)


def test_a_disabled_optimizer_changes_nothing():
    parameter = table()
    optimizer = RowAdam([parameter], lr=0.1)
    rows = torch.tensor([1, 2])
    step(optimizer, parameter, rows, torch.ones(2, 4))
    before = parameter.detach().clone()
    moments = optimizer.state[parameter]["exp_avg"].clone()
    optimizer.disabled = torch.tensor(1.0)
    step(optimizer, parameter, rows, torch.full((2, 4), float("nan")))
    assert torch.equal(parameter, before)
    assert torch.equal(optimizer.state[parameter]["exp_avg"], moments)


@pytest.mark.parametrize("rows", [[], [3], [4, 1, 4, 4, 0, 1]])
def test_entries_of_a_row_are_added_up_and_each_has_the_sum(rows):
    given = torch.tensor(rows, dtype=torch.long)
    values = torch.arange(2.0 * len(rows)).view(-1, 2)
    ordered, sums = sum_rows(given, values)
    assert ordered.tolist() == sorted(rows)
    for row, total in zip(ordered, sums, strict=True):
        assert total.tolist() == values[given == row].sum(0).tolist()
