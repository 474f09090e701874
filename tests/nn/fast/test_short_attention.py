"""Attention within short texts: the operators against attention written out text by text."""

from itertools import pairwise

import pytest
import torch

from edgeformers.errors import ConfigError
from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.fast.short_attention import attend_rows, attend_text, block_of, short_hindrance
from edgeformers.nn.packed import PackedText

LENGTHS, H, DH = (5, 1, 16, 9), 2, 8
OFFSETS = torch.tensor([0, 5, 6, 22, 31], dtype=torch.int32)
close = {"atol": 1e-10, "rtol": 1e-8}


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


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("num_virtual", [0, 2, 3])
@pytest.mark.parametrize("readout", [False, True], ids=["text", "rows"])
def test_the_operators_are_attention_written_out_both_ways(num_virtual, readout, biased):
    """Without gradient in what they are given, a bias has from them what it has in the products."""
    torch.manual_seed(0)
    many, virtual = draw(31, 3, H, DH), draw(4, num_virtual, 2, H, DH)
    q, bias = draw(4, H, DH), draw(3 * H * DH)
    inputs = [many, virtual, *([q] if readout else []), *([bias] if biased else [])]

    def moved(held):
        held = held.view(3, H, DH) if biased else torch.zeros(3, H, DH)
        return (q if readout else many[:, 0]) + held[0], many[:, 1:] + held[1:], virtual + held[1:]

    rows, kv, ensemble = moved(bias.detach())
    joint = (rows, kv) if readout else (torch.cat([rows[:, None], kv], 1),)
    attend = attend_rows if readout else attend_text
    found = attend(*joint, bias if biased else None, ensemble, OFFSETS, 16)
    rows, kv, ensemble = moved(bias)
    expected = by_text(rows, kv[:, 0], kv[:, 1], ensemble)
    torch.testing.assert_close(found, expected, **close)
    grad = torch.randn_like(expected)
    for one, other in zip(
        torch.autograd.grad(found, inputs, grad),
        torch.autograd.grad(expected, inputs, grad),
        strict=True,
    ):
        torch.testing.assert_close(one, other, **close)


def test_the_operators_tell_the_compiler_the_truth():
    torch.manual_seed(0)
    virtual = torch.randn(4, 3, 2, H, DH, requires_grad=True)
    qkv = torch.randn(31, 3, H, DH, requires_grad=True)
    rows = torch.randn(31, 2, H, DH, requires_grad=True)
    q = torch.randn(4, H, DH, requires_grad=True)
    for bias in (torch.randn(3 * H * DH, requires_grad=True), None):
        torch.library.opcheck(attend_text, (qkv, bias, virtual, OFFSETS, 16))
        torch.library.opcheck(attend_rows, (q, rows, bias, virtual, OFFSETS, 16))


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("readout", [False, True], ids=["text", "readout"])
@pytest.mark.parametrize("num_virtual", [0, 2, 3])
def test_a_layer_reads_short_texts_as_it_reads_others(num_virtual, readout, biased):
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


@pytest.mark.parametrize("readout", [False, True], ids=["text", "readout"])
def test_beside_half_precision_a_bias_has_its_gradient_in_full(readout):
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
    assert [block_of(n) for n in (1, 16, 17, 64, 65, 128)] == [16, 16, 32, 64, 128, 128]


def test_what_hinders_the_kernels_is_said():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert "needs CUDA and bfloat16" in short_hindrance(cpu, torch.bfloat16, 64, 10, 2)
    assert "got cuda, torch.float32" in short_hindrance(gpu, torch.float32, 64, 10, 2)
    assert "heads of width 16, 32, 64, 128 (got 24)" in short_hindrance(
        gpu, torch.bfloat16, 24, 10, 2
    )
    assert "at most 128 tokens (got 129)" in short_hindrance(gpu, torch.bfloat16, 64, 129, 2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"rotary_theta": 10.0}, "absolute positions"), ({"window": 2}, "no window")],
)
def test_asking_for_short_where_it_cannot_be_is_refused(settings, words):
    attention = AsymmetricAttention(16, H, backend="short", **settings)
    text = PackedText.from_lists([[1] * 9])
    with pytest.raises(ConfigError, match=f"'short' .*{words}.*; use 'auto' or 'bucketed'"):
        attention(torch.randn(9, 16), text)


KERNELS = """
import torch
from edgeformers.nn.fast import triton_attention as kernels
from edgeformers.nn.fast import short_attention as short
torch.manual_seed(0)
offsets = torch.tensor([0, 5, 6, 22, 31], dtype=torch.int32)
for num_virtual in (0, 2, 3):
    for readout in (False, True):
        many, virtual = torch.randn(31, 3, 2, 16), torch.randn(4, num_virtual, 2, 2, 16)
        q = torch.randn(4, 2, 16) if readout else many[:, 0]
        inputs = (q, many[:, 1], many[:, 2], virtual)
        grads = [torch.full_like(part, float("nan")) for part in (q, many, virtual)]
        given = (grads[0] if readout else grads[1][:, 0], grads[1][:, 1], grads[1][:, 2], grads[2])
        right = tuple(torch.full_like(part, float("nan")) for part in inputs)
        out = torch.full((4 if readout else 31, 2, 16), float("nan"))
        kernels.launch_forward(inputs, out, offsets, 16, readout)
        padded = short._Padded(inputs, offsets, 16, readout)
        torch.testing.assert_close(out, padded.rows(padded.weights @ padded.values))
        grad = torch.randn_like(out)
        sums = None if readout else torch.full((4, 2, 2, 16), float("nan"))
        kernels.launch_backward(grad, inputs, given, offsets, 16, readout, sums)
        padded.backward(grad, right)
        for one, other in zip(given, right):
            torch.testing.assert_close(one, other)
        if not readout:
            for i, rows in enumerate((right[0], grad)):
                by_text = [part.sum(0) for part in rows.split(offsets.diff().tolist())]
                torch.testing.assert_close(sums[:, i], torch.stack(by_text))
            beside_sums = [one.clone() for one in given]
            kernels.launch_backward(grad, inputs, given, offsets, 16, readout)
            for one, other in zip(given, beside_sums):
                torch.testing.assert_close(one, other, rtol=0, atol=0)
"""


def test_the_kernels_compute_what_plain_torch_does(interpret):
    interpret("-c", KERNELS)
