"""Attention within short texts against attention computed text by text.

Plain PyTorch functions replace the kernels.
"""

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from edgeformers.errors import ConfigError
from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.fast.dispatch import short_attention_obstacle
from edgeformers.nn.fast.short_attention import attend_short, block_size
from edgeformers.nn.packed import PackedText
from tests.nn.fast.padded_attention import replace_kernels

LENGTHS, H, DH = (5, 1, 16, 9), 2, 8
OFFSETS = torch.tensor([0, 5, 6, 22, 31], dtype=torch.int32)
close = {"atol": 1e-10, "rtol": 1e-8}


@pytest.fixture
def kernels(monkeypatch):
    """Replacements of the kernels, used on a CPU."""
    replace_kernels(monkeypatch)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def by_text(queries, keys, values, virtual):
    """softmax(q k^T / sqrt(Dh)) v of each text in turn, its virtual tokens before its own."""
    out = []
    for i, (start, end) in enumerate(pairwise(OFFSETS.tolist())):
        k = torch.cat([virtual[i, :, 0], keys[start:end]])  # [V+L, H, Dh]
        v = torch.cat([virtual[i, :, 1], values[start:end]])
        q = queries[i : i + 1] if len(queries) == len(LENGTHS) else queries[start:end]
        weights = (torch.einsum("qhd,khd->hqk", q, k) / DH**0.5).softmax(-1)
        out.append(torch.einsum("hqk,khd->qhd", weights, v))
    return torch.cat(out)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("num_virtual", [0, 2, 3])
@pytest.mark.parametrize("readout", [False, True], ids=["text", "rows"])
def test_attention_and_its_gradients_match_plain_attention(num_virtual, readout, biased):
    torch.manual_seed(0)
    stacked, virtual = draw(31, 3, H, DH), draw(4, num_virtual, 2, H, DH)
    q, bias = draw(4, H, DH), draw(3 * H * DH)
    inputs = [stacked, virtual, *([q] if readout else []), *([bias] if biased else [])]

    def moved(held):
        held = held.view(3, H, DH) if biased else torch.zeros(3, H, DH)
        return (
            (q if readout else stacked[:, 0]) + held[0],
            stacked[:, 1:] + held[1:],
            virtual + held[1:],
        )

    rows, kv, virtual_kv = moved(bias.detach())
    stacked_rows = kv if readout else torch.cat([rows[:, None], kv], 1)
    given = (stacked_rows, bias if biased else None, virtual_kv, OFFSETS, 16)
    found = attend_short(*given, rows if readout else None)
    rows, kv, virtual_kv = moved(bias)
    expected = by_text(rows, kv[:, 0], kv[:, 1], virtual_kv)
    torch.testing.assert_close(found, expected, **close)
    grad = torch.randn_like(expected)
    for one, other in zip(
        torch.autograd.grad(found, inputs, grad),
        torch.autograd.grad(expected, inputs, grad),
        strict=True,
    ):
        torch.testing.assert_close(one, other, **close)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("readout", [False, True], ids=["text", "readout"])
@pytest.mark.parametrize("num_virtual", [0, 2, 3])
def test_backends_short_and_bucketed_agree(num_virtual, readout, biased):
    torch.manual_seed(1)
    text = PackedText.from_lists([[1] * length for length in LENGTHS])
    hidden = draw(31, 16)
    virtual = draw(4, num_virtual, 16) if num_virtual else None
    row = draw(4, 16) if readout else None
    inputs = [part for part in (hidden, virtual, row) if part is not None]
    attention = AsymmetricAttention(16, H, bias=biased).double()
    made = []
    for backend in ("short", "bucketed"):
        attention.backend = backend
        out = attention(hidden, text, virtual, row)
        grads = torch.autograd.grad(out.square().sum(), [*inputs, *attention.parameters()])
        made.append([out, *grads])
    for one, other in zip(*made, strict=True):
        torch.testing.assert_close(one, other, **close)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("readout", [False, True], ids=["text", "readout"])
def test_the_gradient_of_a_bias_is_accurate_in_half_precision(readout):
    torch.manual_seed(2)
    text = PackedText.from_lists([[1] * length for length in LENGTHS])
    hidden, virtual = torch.randn(31, 16), torch.randn(4, 2, 16)
    row = torch.randn(4, 16) if readout else None
    attention = AsymmetricAttention(16, H)
    found = []
    for backend, is_half in (("short", True), ("bucketed", False)):
        attention.backend = backend
        attention.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
            out = attention(hidden, text, virtual, row)
        out.float().square().sum().backward()
        found.append((attention.query.bias.grad, *attention.key_value.bias.grad.chunk(2)))
    (of_q, of_k, of_v), (exact_q, _, exact_v) = found
    assert of_q.dtype == of_v.dtype == torch.float32
    assert (of_q - exact_q).norm() < 0.02 * exact_q.norm()
    assert (of_v - exact_v).norm() < 0.02 * exact_v.norm()
    assert not of_k.any()  # softmax does not see it


def test_blocks_are_powers_of_two_that_hold_the_text():
    assert [block_size(n) for n in (1, 16, 17, 64, 65, 128)] == [16, 16, 32, 64, 128, 128]


def test_inputs_the_kernels_do_not_support_are_explained():
    cpu, gpu, half = torch.device("cpu"), torch.device("cuda"), torch.bfloat16
    assert "cpu" in short_attention_obstacle(cpu, half, 64, 10, 2)
    assert "float32" in short_attention_obstacle(gpu, torch.float32, 64, 10, 2)
    assert "24" in short_attention_obstacle(gpu, half, 24, 10, 2)
    assert "129" in short_attention_obstacle(gpu, half, 64, 129, 2)


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"rotary_theta": 10.0}, "position"), ({"window": 2}, "window")],
)
def test_the_short_backend_is_refused_if_it_does_not_apply(settings, word):
    attention = AsymmetricAttention(16, H, backend="short", **settings)
    text = PackedText.from_lists([[1] * 9])
    with pytest.raises(ConfigError, match=word):
        attention(torch.randn(9, 16), text)


def test_the_kernels_match_plain_pytorch(interpret):
    interpret(Path(__file__).with_name("interpreted_attention.py"))
