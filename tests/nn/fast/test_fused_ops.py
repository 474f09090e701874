"""Fused operations against their definition in plain PyTorch."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.nn.fast import fast_paths
from edgeformers.nn.fast.fused_ops import feed_forward_norm, linear_add_norm
from edgeformers.nn.packed import PackedText

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_linear_add_norm_equals_its_definition():
    torch.manual_seed(0)
    linear, norm = nn.Linear(5, 8), nn.LayerNorm(8)
    x, rows = torch.randn(7, 5), torch.randn(7, 8)
    found = linear_add_norm(x, linear, rows, norm, 0.0)
    torch.testing.assert_close(found, norm(rows + linear(x)))
    torch.manual_seed(1)
    found = linear_add_norm(x, linear, rows, norm, 0.5)
    torch.manual_seed(1)
    torch.testing.assert_close(found, norm(rows + F.dropout(linear(x), 0.5)))


def test_feed_forward_norm_equals_its_definition():
    torch.manual_seed(0)
    rows, norm = torch.randn(7, 5), nn.LayerNorm(5)
    for bias in (True, False):
        up, down = nn.Linear(5, 8, bias=bias), nn.Linear(8, 5, bias=bias)
        mixed = down(F.gelu(up(rows)))
        found = feed_forward_norm(rows, up, down, norm, 0.0)
        torch.testing.assert_close(found, norm(rows + mixed))
        torch.manual_seed(1)
        found = feed_forward_norm(rows, up, down, norm, 0.5)
        torch.manual_seed(1)
        torch.testing.assert_close(found, norm(rows + F.dropout(mixed, 0.5)))


def test_a_subclass_of_linear_is_called_itself():
    """Such as a LoRA adapter, whose weight alone is another map."""

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    torch.manual_seed(0)
    up, down, norm = Doubled(5, 8), Doubled(8, 5), nn.LayerNorm(5)
    rows = torch.randn(7, 5)
    inner = F.gelu(2 * F.linear(rows, *up.parameters()))
    expected = norm(rows + 2 * F.linear(inner, *down.parameters()))
    torch.testing.assert_close(feed_forward_norm(rows, up, down, norm, 0.0), expected)


def test_the_kernels_match_plain_pytorch(interpret):
    interpret(Path(__file__).with_name("interpreted_ffn.py"))


def _encode(encoder, text):
    encoder.zero_grad()
    torch.manual_seed(3)
    with torch.autocast("cuda", torch.bfloat16):
        out = encoder.encode(text).float()
    (out.square() * torch.arange(out.size(1), device="cuda")).sum().backward()
    return [out, *(one.grad for one in encoder.parameters() if one.grad is not None)]


def _encoder(dropout):
    config = EncoderConfig(
        vocab_size=100, width=48, heads=3, layers=3, ffn_width=96,
        dropout=dropout, attention_dropout=0.0, embedding_dropout=0.0,
    )  # fmt: skip
    encoder = TextEncoder(config)
    encoder.initialize(0, std=0.1)
    lists = [torch.randint(0, 100, (n,)).tolist() for n in (3, 40, 17, 1, 25)]
    return encoder.cuda().train(), PackedText.from_lists(lists).to("cuda")


@needs_gpu
def test_an_encoder_on_a_gpu_matches_plain_pytorch():
    torch.manual_seed(0)
    encoder, text = _encoder(0.0)
    found = _encode(encoder, text)
    with fast_paths(False):
        expected = _encode(encoder, text)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() < 0.03 * other.norm() + 1e-4


@needs_gpu
def test_dropout_on_a_gpu_is_reproducible():
    torch.manual_seed(0)
    encoder, text = _encoder(0.2)
    first, again = _encode(encoder, text), _encode(encoder, text)
    assert torch.equal(first[0], again[0])
    encoder.eval()
    assert not torch.allclose(first[0], _encode(encoder, text)[0], atol=0.05)
