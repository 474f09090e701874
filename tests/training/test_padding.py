"""Batches filled up to a few sizes: what was asked for stays as it was."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.batch import EgoBatch
from edgeformers.errors import InputError
from edgeformers.nn.packed import PackedText
from edgeformers.training.padding import edge_size, ego_size, fill
from tests.tiny_models import make_tiny
from tests.training.batches import edges, egos, short

close = {"atol": 1e-6, "rtol": 1e-5}


@pytest.fixture(autouse=True)
def short_everywhere(monkeypatch):
    """Attention over siblings reads where texts lie on the device, as on a GPU."""
    monkeypatch.setattr("edgeformers.nn.attention.short_attention_obstacle", lambda *shape: "")


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 9))
@settings(max_examples=60)
def test_every_text_that_is_added_has_a_token_and_every_ego_an_edge(counts, seed):
    if not sum(counts):
        return
    batch = egos(*counts, seed=seed)
    size = ego_size(batch, 12)
    filled = fill(batch, size)
    assert (filled.text.num_tokens, filled.text.num_texts) == (size.tokens, size.texts)
    assert (len(filled), filled.egos.num_groups) == (size.centers, size.egos)
    for texts, most in ((filled.text, size.longest), (filled.egos, size.largest)):
        assert int(texts.lengths.min()) >= 1
        assert int(texts.lengths.max()) <= most == texts.max_length
        assert texts.offsets.tolist()[-1] == texts.num_rows
        expected = [n for length in texts.lengths.tolist() for n in range(length)]
        assert texts.positions.tolist() == expected
    assert filled.owner.tolist() == filled.occupied[filled.egos.group_ids].tolist()
    assert len(set(filled.occupied.tolist())) == size.egos
    assert int(filled.occupied.max()) < size.centers


@pytest.mark.parametrize("settings", [{}, {"direction": True}, {"pooling": "mean"}])
@torch.no_grad()
def test_what_was_added_to_ego_graphs_cannot_be_seen(settings):
    model = short(make_tiny("edgeformer-n", **settings))
    batch = egos(3, 0, 1, 5, 2)
    found = model(fill(batch, ego_size(batch, 12)))
    torch.testing.assert_close(found[: len(batch)], model(batch), **close)


@torch.no_grad()
def test_what_was_added_to_edges_cannot_be_seen():
    model = short(make_tiny("edgeformer-e"))
    batch = edges(11)
    found = model(fill(batch, edge_size(batch, 12)))
    torch.testing.assert_close(found[: len(batch)], model(batch), **close)


def test_batches_of_one_number_of_pairs_are_filled_up_to_few_sizes_with_little_added():
    """50 centers of 4 or 5 edges each, texts of 12 to 48 tokens."""
    rng, found, added = np.random.default_rng(0), set(), []
    for _ in range(300):
        counts = rng.integers(4, 6, 50)
        offsets = np.cumsum([0, *rng.integers(12, 49, counts.sum())])
        text = PackedText.from_tokens(torch.zeros(offsets[-1]).long(), torch.from_numpy(offsets))
        batch = EgoBatch.from_counts(
            text, torch.zeros(50).long(), torch.from_numpy(counts), torch.zeros(counts.sum()).long()
        )
        size = ego_size(batch, 512)
        found.add(size)
        added.append(size.tokens / text.num_tokens - 1)
    assert len(found) <= 8
    assert np.mean(added) < 0.1
    assert {(size.egos, size.centers, size.longest, size.largest) for size in found} == {
        (64, 114, 64, 16)
    }


def test_where_added_texts_lie_cannot_be_asked_on_the_host():
    batch = edges(4)
    filled = fill(batch, edge_size(batch, 12))
    for ask in (np.diff, list, lambda offsets: offsets[0], lambda offsets: offsets.size):
        with pytest.raises(InputError, match="not known on the host"):
            ask(filled.text.host_offsets)
