"""The padded reference that speed is measured against computes what our models compute."""

import numpy as np
import pytest
import torch

from benchmarks.reference import GOLDEN, check_golden, pad_edges, pad_egos, padded_twin
from benchmarks.workload import REAL_LENGTHS, bert_encoder, draw_lengths, useful_flops
from edgeformers.models.registry import make_tiny
from tests.train.batches import edges, egos

close = {"atol": 1e-5, "rtol": 1e-5}


def known(batch, **names):
    """The batch with nodes that the reference, which has no unknown one, can look up."""
    from dataclasses import replace

    return replace(batch, **{name: getattr(batch, name).clamp(min=0) for name in names})


@torch.no_grad()
def test_the_padded_edges_are_ours():
    model = make_tiny("edgeformer-e", fidelity="released")
    batch = known(edges(6), src=0, dst=0)
    torch.testing.assert_close(padded_twin(model)(pad_edges(batch, 12)), model(batch), **close)


@torch.no_grad()
def test_the_padded_ego_graphs_are_ours():
    model = make_tiny("edgeformer-n", fidelity="released")
    batch = known(egos(3, 1, 4), center=0, neighbor=0)
    torch.testing.assert_close(padded_twin(model)(pad_egos(batch, 4, 12)), model(batch), **close)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="needs the folder of golden outputs")
def test_the_padded_models_give_what_the_release_gave():
    found = check_golden()
    assert found is not None
    assert found < 1e-5


def test_drawn_lengths_follow_the_quantiles():
    drawn = draw_lengths(20_000, full=False, rng=np.random.default_rng(0))
    at = np.linspace(0, 1, len(REAL_LENGTHS))
    assert np.abs(np.quantile(drawn, at) - REAL_LENGTHS).max() <= 2
    assert set(draw_lengths(5, full=True, rng=np.random.default_rng(0))) == {64}


def test_useful_flop_of_one_text_worked_by_hand():
    """Two layers 4 wide with an FFN of 16, a text of 3 tokens, 2 virtual tokens."""
    config = bert_encoder(layers=2, width=4)
    first = 3 * (4 * 4 * 2 * 2 + 2 * 2 * 4 * 16) + 3 * 2 * 4 * 8 + 4 * 3 * 3 * 4
    last = 1 * (4 * 4 * 2 * 2 + 2 * 2 * 4 * 16) + 5 * 2 * 4 * 8 + 4 * 1 * 5 * 4
    found = useful_flops(config, np.array([3]), virtual=2, local=False)
    assert found == first + last
