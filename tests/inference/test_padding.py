"""Batches padded to a few sizes: results for real edges do not change."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.batch import EgoBatch
from edgeformers.errors import InputError
from edgeformers.inference.padding import pad, padded_size
from edgeformers.nn.packed import PackedText
from tests.nn.fast.padded_attention import replace_kernels
from tests.tiny_models import make_tiny
from tests.training.batches import edges, egos, short

close = {"atol": 1e-6, "rtol": 1e-5}


@pytest.fixture(autouse=True)
def short_everywhere(monkeypatch):
    """Attention between edges reads offsets on the device, as on a GPU."""
    replace_kernels(monkeypatch)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 9))
@settings(max_examples=60)
def test_added_texts_have_tokens_and_added_ego_graphs_have_edges(counts, seed):
    if not sum(counts):
        return
    batch = egos(*counts, seed=seed)
    size = padded_size(batch, 12)
    padded = pad(batch, size)
    assert (padded.text.num_tokens, padded.text.num_texts) == (size.tokens, size.texts)
    assert (len(padded), padded.egos.num_groups) == (size.centers, size.egos)
    for texts, most in ((padded.text, size.max_text), (padded.egos, size.max_ego)):
        assert int(texts.lengths.min()) >= 1
        assert int(texts.lengths.max()) <= most == texts.max_length
        assert texts.offsets.tolist()[-1] == texts.num_rows
        expected = [n for length in texts.lengths.tolist() for n in range(length)]
        assert texts.positions.tolist() == expected
    assert padded.owner.tolist() == padded.occupied[padded.egos.group_ids].tolist()
    assert len(set(padded.occupied.tolist())) == size.egos
    assert int(padded.occupied.max()) < size.centers


@pytest.mark.parametrize("settings", [{}, {"direction": True}, {"pooling": "mean"}])
@torch.no_grad()
def test_padding_of_ego_graphs_does_not_change_results(settings):
    model = short(make_tiny("edgeformer-n", **settings))
    batch = egos(3, 0, 1, 5, 2)
    found = model(pad(batch, padded_size(batch, 12)))
    torch.testing.assert_close(found[: len(batch)], model(batch), **close)


@torch.no_grad()
def test_padding_of_edges_does_not_change_results():
    model = short(make_tiny("edgeformer-e"))
    batch = edges(11)
    found = model(pad(batch, padded_size(batch, 12)))
    torch.testing.assert_close(found[: len(batch)], model(batch), **close)


def test_similar_batches_are_padded_to_few_sizes_with_little_padding():
    """50 centers of 4 or 5 edges each, texts of 12 to 48 tokens."""
    rng, found, added = np.random.default_rng(0), set(), []
    for _ in range(300):
        counts = rng.integers(4, 6, 50)
        offsets = np.cumsum([0, *rng.integers(12, 49, counts.sum())])
        text = PackedText.from_tokens(torch.zeros(offsets[-1]).long(), torch.from_numpy(offsets))
        batch = EgoBatch.from_counts(
            text, torch.zeros(50).long(), torch.from_numpy(counts), torch.zeros(counts.sum()).long()
        )
        size = padded_size(batch, 512)
        found.add(size)
        added.append(size.tokens / text.num_tokens - 1)
    assert len(found) <= 8
    assert np.mean(added) < 0.1
    assert {(size.egos, size.centers, size.max_text, size.max_ego) for size in found} == {
        (64, 114, 64, 16)
    }


def test_the_offsets_of_a_padded_batch_are_unknown_on_the_host():
    batch = edges(4)
    padded = pad(batch, padded_size(batch, 12))
    for ask in (np.diff, list, lambda offsets: offsets[0], lambda offsets: offsets.size):
        with pytest.raises(InputError, match="host"):
            ask(padded.text.host_offsets)
