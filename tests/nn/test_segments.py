import pytest
import torch

from edgeformers.nn.pooling import count_rows, reduce_rows, softmax_rows

GROUP = torch.tensor([2, 0, 2, 2, 0])
ROWS = torch.tensor([[1.0, -1], [2, 2], [4, -3], [-2, -8], [6, 0]])


def test_each_group_is_reduced_and_an_empty_one_is_zero():
    total, mean, largest = (reduce_rows(ROWS, GROUP, 4, how) for how in ("sum", "mean", "max"))
    assert total.tolist() == [[8, 2], [0, 0], [3, -12], [0, 0]]
    assert mean.tolist() == [[4, 1], [0, 0], [1, -4], [0, 0]]
    assert largest.tolist() == [[6, 2], [0, 0], [4, -1], [0, 0]]  # below zero, no zero is mixed in
    assert count_rows(GROUP, 4).tolist() == [2, 0, 3, 0]


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_no_rows_leave_every_group_zero(how):
    assert reduce_rows(ROWS[:0], GROUP[:0], 2, how).tolist() == [[0, 0], [0, 0]]
    assert reduce_rows(ROWS[:0], GROUP[:0], 0, how).shape == (0, 2)


def test_softmax_agrees_with_torch_within_each_group():
    scores = torch.tensor([[0.5, 100], [1, 3], [-2, 90], [0, 101], [4, 3]])
    weights = softmax_rows(scores, GROUP, 4)
    for group in (0, 2):
        expected = scores[group == GROUP].softmax(0)
        torch.testing.assert_close(weights[group == GROUP], expected)


def test_scores_far_apart_in_different_groups_do_not_drown_each_other():
    scores = torch.tensor([[-1e30], [-1e30], [1e30]])
    weights = softmax_rows(scores, torch.tensor([0, 0, 1]), 2)
    assert weights.flatten().tolist() == [0.5, 0.5, 1.0]


def test_half_precision_rows_are_added_up_in_single_precision():
    rows = torch.ones(1000, 1, dtype=torch.bfloat16)  # which counts to 256 and no further
    assert reduce_rows(rows, torch.zeros(1000, dtype=torch.long), 1, "sum").item() == 1000


def test_gradients_agree_with_finite_differences(draw):
    rows = draw(5, 3).double().requires_grad_()
    for how in ("sum", "mean", "max"):
        assert torch.autograd.gradcheck(lambda x, how=how: reduce_rows(x, GROUP, 4, how), rows)
    assert torch.autograd.gradcheck(lambda x: softmax_rows(x, GROUP, 4), rows)
