"""Tensors in one buffer of bytes are recovered exactly, and move with one copy."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.batch import (
    EdgeBatch,
    EgoBatch,
    LinkBatch,
    concat_bytes,
    split_bytes,
    tensors_of,
)
from edgeformers.nn.packed import PackedText

DTYPES = (torch.int64, torch.int32, torch.float32, torch.bool, torch.float64)
shapes = st.lists(st.integers(0, 4), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(DTYPES), shapes), max_size=9))
def test_tensors_of_any_type_and_shape_are_recovered(kinds):
    tensors = [torch.randint(0, 2, shape).to(dtype) for dtype, shape in kinds]
    buffer = concat_bytes(tensors)
    assert buffer.numel() == sum(tensor.nbytes for tensor in tensors)
    for view, tensor in zip(split_bytes(buffer, tensors), tensors, strict=True):
        assert view.dtype == tensor.dtype
        assert torch.equal(view, tensor)


def test_a_transposed_tensor_is_recovered():
    table = torch.arange(6).view(2, 3).t()
    (back,) = split_bytes(concat_bytes([table]), [table])
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
    return LinkBatch(egos=egos, num_pairs=1, targets=torch.tensor([1]))


@pytest.mark.parametrize("make", [edges, pairs])
def test_a_batch_moves_with_one_copy(make):
    batch = make()
    pinned = batch._in_one_buffer(pin=False)
    buffer = pinned._buffer
    copies = []

    class Watched:
        def to(self, device, **_):
            copies.append(device)
            return buffer.clone()

    object.__setattr__(pinned, "_buffer", Watched())
    moved = pinned.to("cpu")
    assert copies == ["cpu"]
    for copy, tensor in zip(tensors_of(moved), tensors_of(batch), strict=True):
        assert copy.dtype == tensor.dtype
        assert torch.equal(copy, tensor)
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors_of(moved)}) == 1


def test_a_changed_copy_moves_with_its_changes():
    pinned = edges()._in_one_buffer(pin=False)
    changed = replace(pinned, src=torch.tensor([9, 9, 9]))
    assert changed.to("cpu").src.tolist() == [9, 9, 9]
    assert pinned.to("cpu").src.tolist() == [0, 1, -1]
    assert pinned.to("cpu").text.host_offsets.tolist() == [0, 2, 5, 6]
