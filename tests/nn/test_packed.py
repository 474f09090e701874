import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.errors import InputError
from edgeformers.nn.packed import PackedText

texts_of_ids = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=40), max_size=30)


def test_texts_lie_end_to_end_with_positions_from_zero():
    text = PackedText.from_lists([[7, 8, 9], [4], [5, 6]])
    assert text.token_ids.tolist() == [7, 8, 9, 4, 5, 6]
    assert text.offsets.tolist() == [0, 3, 4, 6]
    assert text.offsets.dtype == torch.int32
    assert text.positions.tolist() == [0, 1, 2, 0, 0, 1]
    assert text.starts.tolist() == [0, 3, 4]
    assert text.lengths.tolist() == [3, 1, 2]
    assert text.text_ids.tolist() == [0, 0, 0, 1, 2, 2]
    assert (text.num_texts, text.num_tokens, text.max_length) == (3, 6, 3)


def test_a_batch_of_no_text_works():
    text = PackedText.from_lists([])
    assert (text.num_texts, text.num_tokens, text.max_length) == (0, 0, 0)
    assert text.to_padded(torch.zeros(0, 4)).shape == (0, 0, 4)
    assert text.layout(2).offsets.tolist() == [0]
    empty = PackedText.from_padded(torch.zeros(0, 6), torch.zeros(0, 6, dtype=torch.bool))
    assert empty.num_texts == 0


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_is_dropped(side):
    ids = [[7, 8, 9, 0], [0, 4, 0, 0]] if side == "right" else [[0, 7, 8, 9], [0, 0, 0, 4]]
    mask = torch.tensor(ids) > 0
    text = PackedText.from_padded(torch.tensor(ids), mask)
    assert text.token_ids.tolist() == [7, 8, 9, 4]
    assert text.offsets.tolist() == [0, 3, 4]


@settings(deadline=None)
@given(texts_of_ids)
def test_padding_and_packing_again_changes_nothing(texts):
    text = PackedText.from_lists(texts)
    padded = text.to_padded(text.token_ids)
    assert [row[: len(t)].tolist() for row, t in zip(padded, texts, strict=True)] == texts
    again = PackedText.from_padded(padded, text.mask)
    assert torch.equal(again.token_ids, text.token_ids)
    assert torch.equal(again.offsets, text.offsets)
    assert torch.equal(again.positions, text.positions)


@settings(deadline=None)
@given(texts_of_ids, st.integers(0, 3))
def test_key_rows_are_each_texts_virtual_rows_then_its_tokens(texts, num_virtual):
    text = PackedText.from_lists(texts)
    layout = text.layout(num_virtual)
    marks = torch.arange(text.num_texts * num_virtual) + 1000
    rows = torch.cat([marks, text.token_ids])[layout.order].tolist()
    expected, positions = [], []
    for index, ids in enumerate(texts):
        expected += [1000 + index * num_virtual + slot for slot in range(num_virtual)] + ids
        positions += [0] * num_virtual + list(range(len(ids)))
    assert rows == expected
    assert layout.positions.tolist() == positions
    assert layout.order[layout.inverse].tolist() == list(range(len(rows)))
    assert layout.offsets.diff().tolist() == [len(ids) + num_virtual for ids in texts]
    assert layout.max_length == text.max_length + num_virtual


def test_what_attention_needs_is_made_once_per_batch(text):
    assert text.layout(2) is text.layout(2)
    assert text.buckets(2, None, False) is text.buckets(2, None, False)
    assert text.layout(2) is not text.layout(3)


def test_index_tensors_made_in_inference_mode_serve_training():
    text = PackedText.from_lists([[1, 2], [3]])
    with torch.inference_mode():
        order = text.layout(1).order
    rows = torch.zeros(5, 2, requires_grad=True)
    rows.index_select(0, order).sum().backward()
    assert rows.grad.sum() == 10


def test_a_batch_can_be_copied(text):
    again = copy.deepcopy(text)
    assert torch.equal(again.token_ids, text.token_ids)
    assert again.max_length == text.max_length


def test_moving_to_where_it_is_gives_the_batch_itself(text):
    assert text.to("cpu") is text
    moved = text.to("meta")
    assert moved.device.type == "meta"
    assert moved.max_length == 9


def test_a_text_of_no_token_is_refused():
    with pytest.raises(InputError, match="text 1"):
        PackedText.from_lists([[1], [], [2]])
    with pytest.raises(InputError, match="text 1"):
        PackedText.from_padded(torch.ones(2, 2), torch.tensor([[True, True], [False, False]]))


def test_a_hole_in_the_mask_is_refused():
    mask = torch.tensor([[True, True, True], [True, False, True]])
    with pytest.raises(InputError, match="mask of text 1"):
        PackedText.from_padded(torch.ones(2, 3), mask)


def test_mask_and_ids_must_have_one_shape():
    with pytest.raises(InputError, match=r"\[2, 3\] and \[2, 4\]"):
        PackedText.from_padded(torch.ones(2, 3), torch.ones(2, 4, dtype=torch.bool))


def test_offsets_must_cover_the_tokens():
    with pytest.raises(InputError, match="offsets"):
        PackedText.from_tokens(torch.ones(3), torch.tensor([0, 2]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_batch_travels_through_pinned_memory(text):
    moved = text.pin_memory().to("cuda")
    assert moved.device.type == "cuda"
    assert torch.equal(moved.layout(2).order.cpu(), text.layout(2).order)
    assert moved.to("cpu").token_ids.tolist() == text.token_ids.tolist()


def test_texts_of_several_stand_one_after_another(make_text):
    parts = [make_text((3, 1)), make_text(()), make_text((5,)), make_text((2, 9))]
    joined = PackedText.cat(parts)
    rows = [
        part.token_ids[start:stop].tolist()
        for part in parts
        for start, stop in pairwise(part.host_offsets)
    ]
    expected = PackedText.from_lists(rows)
    for name in ("token_ids", "offsets", "positions"):
        found, wanted = getattr(joined, name), getattr(expected, name)
        assert found.dtype == wanted.dtype
        assert torch.equal(found, wanted)
    assert joined.host_offsets.tolist() == expected.host_offsets.tolist()
    assert joined.max_length == expected.max_length == 9
