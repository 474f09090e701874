"""Tensors side by side in one: what comes back is what was laid."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.batch import EdgeBatch, EgoBatch, LinkBatch, tensors_of
from edgeformers.data.pinned_copy import flatten, unflatten
from edgeformers.nn.packed import PackedText

DTYPES = (torch.int64, torch.int32, torch.float32, torch.bool, torch.float64)
shapes = st.lists(st.integers(0, 4), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(DTYPES), shapes), max_size=9))
def test_tensors_of_any_type_and_shape_come_back_as_they_were(kinds):
    tensors = [torch.randint(0, 2, shape).to(dtype) for dtype, shape in kinds]
    flat = flatten(tensors)
    assert flat.numel() == sum(one.numel() * one.element_size() for one in tensors)
    for one, other in zip(unflatten(flat, tensors), tensors, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def test_rows_that_do_not_lie_side_by_side_are_laid_so():
    table = torch.arange(6).view(2, 3).t()
    (back,) = unflatten(flatten([table]), [table])
    assert back.tolist() == [[0, 3], [1, 4], [2, 5]]


def edges():
    return EdgeBatch(
        text=PackedText.from_lists([[2, 3], [2, 4, 3], [2]]),
        src=torch.tensor([0, 1, -1]),
        dst=torch.tensor([5, 6, 7]),
        label=torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    )


def pairs():
    egos = EgoBatch.from_counts(
        text=PackedText.from_lists([[2, 3], [2, 4, 3], [2]]),
        center=torch.tensor([3, 1]),
        counts=torch.tensor([2, 1]),
        neighbor=torch.tensor([5, 6, 7]),
        is_out=torch.tensor([True, False, True]),
    )
    return LinkBatch(egos=egos, num_pairs=1)


@pytest.mark.parametrize("make", [edges, pairs])
def test_a_batch_is_laid_out_at_once_and_moves_at_one_copy(make):
    batch = make()
    laid = batch._side_by_side(pin=False)
    flat = laid._flat
    copies = []

    class Watched:
        def to(self, device, **_):
            copies.append(device)
            return flat.clone()

    object.__setattr__(laid, "_flat", Watched())
    moved = laid.to("cpu")
    assert copies == ["cpu"]
    for one, other in zip(tensors_of(moved), tensors_of(batch), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    assert len({one.untyped_storage().data_ptr() for one in tensors_of(moved)}) == 1


def test_what_is_changed_in_a_copy_is_what_moves():
    laid = edges()._side_by_side(pin=False)
    changed = replace(laid, src=torch.tensor([9, 9, 9]))
    assert changed.to("cpu").src.tolist() == [9, 9, 9]
    assert laid.to("cpu").src.tolist() == [0, 1, -1]
    assert laid.to("cpu").text.host_offsets.tolist() == [0, 2, 5, 6]
