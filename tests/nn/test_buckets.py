import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import plan_buckets

texts_of_ids = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=40), max_size=30)


@settings(deadline=None)
@given(texts_of_ids, st.integers(0, 2), st.booleans())
def test_blocks_hold_every_row_once(texts, num_virtual, readout):
    text = PackedText.from_lists(texts)
    plan = text.buckets(num_virtual, None, readout)
    rows = text.num_texts if readout else text.num_tokens
    queries = torch.arange(rows, dtype=torch.float).view(rows, 1, 1)
    if texts:
        parts = [block.queries(queries).flatten() for block in plan.blocks]
        laid = torch.cat(parts)
        restored = laid if plan.restore is None else laid[plan.restore]
        assert torch.equal(restored, queries.flatten())
    assert sorted(t[0] for block in plan.blocks for t in block.groups) == list(range(len(texts)))


def test_blocks_are_few_and_pad_little():
    lengths = np.random.default_rng(0).integers(1, 257, size=500)
    text = PackedText.from_lists([[1] * n for n in lengths])
    blocks = text.buckets(0, None, False).blocks
    slots = sum(block.query_rows.numel() for block in blocks)
    assert len(blocks) <= 12
    assert slots < 1.2 * text.num_tokens


def test_keys_are_virtual_rows_then_tokens_and_padding_is_not_visible():
    [block] = plan_buckets(np.array([0, 1, 4]), 1, None, readout=False).blocks
    keys = torch.arange(6.0).view(6, 1, 1)  # virtual 0, text 1; virtual 2, text 3 4 5
    assert block.keys(keys)[:, 0, :, 0].tolist() == [[0, 1, 1, 1], [2, 3, 4, 5]]
    assert block.visible[:, 0, 0].tolist() == [[True, True, False, False], [True] * 4]
    assert block.groups == [(0, 1, 2), (1, 3, 4)]


def test_a_window_hides_far_text_and_never_a_virtual_row():
    [block] = plan_buckets(np.array([0, 3]), 2, 1, readout=False).blocks
    seen = block.visible[0, 0].int().tolist()
    assert seen == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1], [1, 1, 0, 1, 1]]


def test_texts_of_one_length_are_taken_as_they_lie():
    plan = plan_buckets(np.array([0, 3, 6]), 1, None, readout=True)
    assert plan.restore is None
    [block] = plan.blocks
    assert (block.size, block.query_rows, block.key_rows, block.visible) == (2, None, None, None)
    assert block.groups == [(0, 1, 4), (1, 1, 4)]


def test_a_plan_moves_to_the_device_of_its_texts():
    plan = PackedText.from_lists([[1], [2, 3]]).to("meta").buckets(1, None, False)
    [block] = plan.blocks
    tensors = (plan.restore, block.query_rows, block.key_rows, block.visible)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
