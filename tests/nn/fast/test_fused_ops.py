"""Sums, norms and activations in one pass: against the same written out in plain torch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.nn.fast import fused_ops as fused
from edgeformers.nn.fast.fused_ops import add_norm, feed_forward_norm
from edgeformers.nn.packed import PackedText

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_sum_is_mapped_dropped_and_normalized_as_written():
    torch.manual_seed(0)
    linear, norm = nn.Linear(5, 8), nn.LayerNorm(8)
    x, rows = torch.randn(7, 5), torch.randn(7, 8)
    found = add_norm(x, linear, rows, norm, 0.0)
    torch.testing.assert_close(found, norm(rows + linear(x)))
    torch.manual_seed(1)
    found = add_norm(x, linear, rows, norm, 0.5)
    torch.manual_seed(1)
    torch.testing.assert_close(found, norm(rows + F.dropout(linear(x), 0.5)))


def test_a_feed_forward_is_mapped_dropped_and_normalized_as_written():
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


def test_a_map_that_is_not_the_plain_one_is_called_itself():
    """An adapter stands where the linear map was; its weight alone would be another map."""

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    torch.manual_seed(0)
    up, down, norm = Doubled(5, 8), Doubled(8, 5), nn.LayerNorm(5)
    rows = torch.randn(7, 5)
    inner = F.gelu(2 * F.linear(rows, *up.parameters()))
    expected = norm(rows + 2 * F.linear(inner, *down.parameters()))
    torch.testing.assert_close(feed_forward_norm(rows, up, down, norm, 0.0), expected)


KERNELS = """
import torch
import torch.nn.functional as F
from edgeformers.nn.fast import triton_ffn as kernels

torch.manual_seed(0)
close = {"atol": 2e-5, "rtol": 1e-4}


def draw(*shape):
    return torch.randn(*shape, requires_grad=True)


def plain(*tensors):
    return [one.detach() for one in tensors]


def what_is_kept(rows, width, drop):
    norm = (torch.ones(width), torch.zeros(width), 1e-6)
    ones, zeros = torch.ones(rows, width), torch.zeros(rows, width)
    return kernels.launch_add_norm(ones, None, zeros, norm, drop, keep=True)[1][0]


for rows, width, biased, p in ((37, 48, True, 0.0), (37, 48, False, 0.0), (70, 20, True, 0.3)):
    seed = torch.tensor([123456789123456789]) if p else None
    mixed, beside = draw(rows, width), draw(rows, width)
    bias, weight, shift = (draw(width) for _ in range(3))
    given = (mixed.detach(), bias.detach() if biased else None, beside.detach())
    norm = (*plain(weight, shift), 1e-6)
    out, kept = kernels.launch_add_norm(*given, norm, (seed, p), keep=True)
    mask = what_is_kept(rows, width, (seed, p)) if p else torch.ones(rows, width)
    added = mixed + bias if biased else mixed
    expected = F.layer_norm(beside + mask * added, (width,), weight, shift, 1e-6)
    torch.testing.assert_close(out, expected, **close)
    grad = torch.randn(rows, width)
    dmixed, dbeside, sums = kernels.launch_add_norm_backward(
        grad, kept, weight.detach(), (seed, p), torch.float32
    )
    inputs = (mixed, beside, weight, shift, *((bias,) if biased else ()))
    for one, other in zip((dmixed, dbeside, *sums), torch.autograd.grad(expected, inputs, grad)):
        torch.testing.assert_close(one, other, **close)

for rows, width in ((37, 300), (9, 16)):
    inner, bias = draw(rows, width), draw(width)
    expected = F.gelu(inner + bias)
    torch.testing.assert_close(kernels.launch_gelu(*plain(inner, bias)), expected, **close)
    grad = torch.randn(rows, width)
    dinner, dbias = torch.autograd.grad(expected, (inner, bias), grad)
    for again, act in ((True, expected), (False, None)):
        found = kernels.launch_gelu_backward(grad.clone(), *plain(inner, bias), again=again)
        for one, other in zip(found, (dinner, act, dbias)):
            torch.testing.assert_close(one, other, **close)

first, again, other = (what_is_kept(2048, 64, (torch.tensor([s]), 0.1)) > 0 for s in (7, 7, 2**40))
assert torch.equal(first, again)
share = first.double().mean()
assert abs(share - 0.9) < 4 * (0.09 / first.numel()) ** 0.5, share
pairs = ((first[:, 1:], first[:, :-1]), (first[1:], first[:-1]), (first, other))
for one, two in pairs:  # neighbors, rows and other seeds tell nothing
    both = torch.stack([one.flatten(), two.flatten()]).double()
    assert abs(torch.corrcoef(both)[0, 1]) < 4 / both.size(1) ** 0.5
"""


def test_the_kernels_compute_what_plain_torch_does(interpret):
    interpret("-c", KERNELS)


def _read(encoder, text):
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
def test_an_encoder_on_a_gpu_reads_and_learns_as_in_plain_torch(monkeypatch):
    torch.manual_seed(0)
    encoder, text = _encoder(0.0)
    found = _read(encoder, text)
    monkeypatch.setattr(fused, "_is_hindered", lambda *given: True)
    for one, other in zip(found, _read(encoder, text), strict=True):
        assert (one - other).norm() < 0.03 * other.norm() + 1e-4


@needs_gpu
def test_what_is_dropped_on_a_gpu_follows_the_seed():
    torch.manual_seed(0)
    encoder, text = _encoder(0.2)
    first, again = _read(encoder, text), _read(encoder, text)
    assert torch.equal(first[0], again[0])
    encoder.eval()
    assert not torch.allclose(first[0], _read(encoder, text)[0], atol=0.05)
