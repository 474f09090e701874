import numpy as np
import pytest
import torch

from edgeformers.nn.pooling import BilinearPooling, HeadPooling, LocalAttention, ReducedPooling
from edgeformers.nn.ragged import Ragged

D, K, HEADS, SIZES = 8, 3, 2, (3, 1, 12)
close = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture
def egos():
    return Ragged.from_offsets(np.cumsum([0, *SIZES]))


@pytest.fixture
def edges():
    return torch.randn(sum(SIZES), D, generator=torch.Generator().manual_seed(0))


def heads_of(rows):
    return rows.unflatten(-1, (HEADS, -1)).transpose(0, 1)  # [H, N, D/H]


def attention(q, k, v):
    weights = (heads_of(q) @ heads_of(k).transpose(1, 2) / (D // HEADS) ** 0.5).softmax(-1)
    return (weights @ heads_of(v)).transpose(0, 1).flatten(1)


def test_local_attention_is_plain_attention_within_each_ego(egos, edges):
    torch.manual_seed(0)
    layer = LocalAttention(D, HEADS)
    parts = [attention(*layer.query_key_value(own).chunk(3, -1)) for own in edges.split(SIZES)]
    torch.testing.assert_close(layer(edges, egos), torch.cat(parts), **close)


def test_bilinear_pooling_is_the_softmax_of_h_w_z(egos, edges):
    torch.manual_seed(0)
    pool, z = BilinearPooling(K, D), torch.randn(3, K)
    rows = []
    for own, center in zip(edges.split(SIZES), z, strict=True):
        alpha = (own @ pool.score.weight @ center).softmax(0)
        rows.append(alpha @ own)
    torch.testing.assert_close(pool(edges, z, egos), torch.stack(rows), **close)


def test_head_pooling_asks_once_per_ego(egos, edges):
    torch.manual_seed(0)
    pool, token = HeadPooling(D, HEADS), torch.randn(3, D)
    rows = []
    for own, center in zip(edges.split(SIZES), token, strict=True):
        k, v = pool.key_value(own).chunk(2, -1)
        rows.append(attention(pool.query(center)[None], k, v)[0])
    torch.testing.assert_close(pool(edges, token, egos), torch.stack(rows), **close)


def test_mean_and_max_of_each_ego(egos, edges):
    own = edges.split(SIZES)
    mean = torch.stack([rows.mean(0) for rows in own])
    torch.testing.assert_close(ReducedPooling("mean")(edges, edges, egos), mean, **close)
    largest = torch.stack([rows.amax(0) for rows in own])
    torch.testing.assert_close(ReducedPooling("max")(edges, edges, egos), largest)


@pytest.mark.parametrize("how", ["mean", "max"])
def test_mean_and_max_have_the_right_gradient(egos, edges, how):
    rows = edges.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: ReducedPooling(how)(x, x, egos), rows)
