"""The fused feed-forward sublayer: results, gradients and saved tensors.

Plain PyTorch functions replace the kernels; with Triton, the same tests run in its interpreter.
"""

import os
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.encoder import FeedForward, PostNormLayer
from edgeformers.nn.fast import fused_ops as fused
from edgeformers.nn.fast.fused_ops import feed_forward_norm
from edgeformers.nn.packed import PackedText

R, D, INNER = 23, 16, 64
#: From Triton's interpreter.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None


def _mask(shape, drop):
    seed, dropout = drop
    if seed is None:
        return torch.ones(shape)
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(int(seed)))
    return (drawn >= dropout) / (1 - dropout)


def _add_norm(mixed, bias, rows, norm, drop, *, save):
    weight, shift, eps = norm
    added = mixed.float() if bias is None else mixed.float() + bias
    added = rows + _mask(mixed.shape, drop) * added
    rstd = (added.var(1, correction=0) + eps).rsqrt()
    out = F.layer_norm(added, weight.shape, weight, shift, eps).to(mixed.dtype)
    return out, (added.to(mixed.dtype) if save else out, added.mean(1), rstd)


def _add_norm_backward(grad, saved, weight, drop, rows_dtype):
    added, mean, rstd = (one.float() for one in saved)
    moments = (mean[:, None], rstd[:, None])
    drows, *sums = torch.ops.aten.native_layer_norm_backward(
        grad.float(), added, weight.shape, *moments, weight, weight, [True, True, True]
    )
    dmixed = _mask(grad.shape, drop) * drows
    return dmixed.to(grad.dtype), drows.to(rows_dtype), torch.stack([*sums, dmixed.sum(0)])


def _gelu(inner, bias):
    return F.gelu(inner.float() + bias).to(inner.dtype)


def _gelu_backward(grad, inner, bias, *, recompute):
    dinner = torch.ops.aten.gelu_backward(grad.float(), inner.float() + bias)
    return grad.copy_(dinner), _gelu(inner, bias) if recompute else None, dinner.sum(0)


@pytest.fixture
def kernels(monkeypatch):
    """The kernels or their replacements, used on a CPU."""
    monkeypatch.setattr(fused, "can_fuse_linear", lambda *given: True)
    if INTERPRETED:
        from edgeformers.nn.fast import triton_ffn as fused_kernels

        return fused_kernels
    plain = SimpleNamespace(
        launch_add_norm=_add_norm,
        launch_add_norm_backward=_add_norm_backward,
        launch_gelu=_gelu,
        launch_gelu_backward=_gelu_backward,
    )
    monkeypatch.setitem(sys.modules, "edgeformers.nn.fast.triton_ffn", plain)
    return plain


@pytest.fixture
def parts():
    """The two maps and the norm, with random weights."""
    torch.manual_seed(0)
    modules = (nn.Linear(D, INNER), nn.Linear(INNER, D), nn.LayerNorm(D))
    for one in modules:
        nn.init.normal_(one.bias)
    nn.init.normal_(modules[2].weight)
    return modules


@pytest.fixture
def rows():
    return torch.randn(R, D, generator=torch.Generator().manual_seed(1)).bfloat16()


def _learn(parts, rows, dropout, forward=feed_forward_norm):
    """Output and gradients under autocast to bfloat16, that of the rows first."""
    rows = rows.clone().requires_grad_()
    for one in parts:
        one.zero_grad()
    torch.manual_seed(3)
    with torch.autocast("cpu", torch.bfloat16):
        out = forward(rows, *parts, dropout)
    grad = torch.randn(R, D, generator=torch.Generator().manual_seed(4))
    out.backward(grad.to(out.dtype))
    return [out.detach(), rows.grad, *(p.grad for one in parts for p in one.parameters())]


def _expect(parts, rows, mask):
    """The same in float32."""
    up, down, norm = parts
    rows = rows.float().requires_grad_()
    mixed = F.gelu(rows @ up.weight.T + up.bias) @ down.weight.T + down.bias
    out = F.layer_norm(rows + mask * mixed, (D,), norm.weight, norm.bias, norm.eps)
    grad = torch.randn(R, D, generator=torch.Generator().manual_seed(4)).bfloat16().float()
    inputs = [rows, *(p for one in parts for p in one.parameters())]
    return [out.detach(), *torch.autograd.grad(out, inputs, grad)]


def _assert_near(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one.float() - other).norm() < 0.02 * other.norm()


def _dropped(kernels, dropout):
    """The dropout mask of the first seed [R, D]: 0 or the scale."""
    torch.manual_seed(3)
    seed = torch.empty(1, dtype=torch.int64).random_() if dropout else None
    norm = (torch.ones(D), torch.zeros(D), 1e-6)
    given = (torch.ones(R, D), None, torch.zeros(R, D), norm, (seed, dropout))
    return kernels.launch_add_norm(*given, save=True)[1][0]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_results_and_gradients_match_float32(kernels, parts, rows, dropout):
    found = _learn(parts, rows, dropout)
    mask = _dropped(kernels, dropout)
    assert (mask == 0).any() == (dropout > 0)
    _assert_near(found, _expect(parts, rows, mask))
    assert [one.dtype for one in found[:2]] == [torch.bfloat16] * 2
    assert {one.dtype for one in found[2:]} == {torch.float32}


def test_the_activation_is_not_saved(kernels, parts, rows):
    kept = []

    def keep(one):
        kept.append(one)
        return one

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
        _learn(parts, rows, 0.3)
    shapes = [tuple(one.shape) for one in kept if one.dim() == 2]
    assert sorted(shapes) == sorted([(R, D), (R, INNER), (R, D), (INNER, D), (D, INNER)])
    assert {one.dtype for one in kept if one.dim() == 2} == {torch.bfloat16}


def test_frozen_maps_get_no_gradient_and_propagate_that_of_the_rows(
    kernels, monkeypatch, parts, rows
):
    expected = _learn(parts, rows, 0.0)
    launch, calls = kernels.launch_gelu_backward, []

    def spy(*given, recompute):
        calls.append(recompute)
        return launch(*given, recompute=recompute)

    monkeypatch.setattr(kernels, "launch_gelu_backward", spy)
    for one in parts[:2]:
        one.weight.requires_grad_(False)
    found = _learn(parts, rows, 0.0)
    assert calls == [False]  # the activation is not needed
    for place, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one is None if place in (2, 4) else torch.equal(one, other)


def test_rows_may_need_no_gradient(kernels, parts, rows):
    expected = _learn(parts, rows, 0.0)
    for one in parts:
        one.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        out = feed_forward_norm(rows, *parts, 0.0)
    out.backward(torch.randn(R, D, generator=torch.Generator().manual_seed(4)).bfloat16())
    found = [p.grad for one in parts for p in one.parameters()]
    assert all(map(torch.equal, found, expected[2:]))


def test_gradient_checkpointing_gives_the_same_gradients(kernels, parts, rows):
    def forward(*given):
        return checkpoint(feed_forward_norm, *given, use_reentrant=False)

    pairs = zip(_learn(parts, rows, 0.3, forward), _learn(parts, rows, 0.3), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_inference_gives_the_same_result_and_saves_nothing(kernels, monkeypatch, parts, rows):
    expected = _learn(parts, rows, 0.0)[0]
    launch, calls = kernels.launch_add_norm, []

    def spy(*given, save):
        calls.append(save)
        return launch(*given, save=save)

    monkeypatch.setattr(kernels, "launch_add_norm", spy)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(feed_forward_norm(rows, *parts, 0.0), expected)
    assert calls == [False]


def test_rows_in_float32_are_summed_in_float32(kernels, parts, rows):
    rows = rows.float() + 1e-3  # not representable in bfloat16
    found = _learn(parts, rows, 0.0)
    assert found[1].dtype == torch.float32
    _assert_near(found, _expect(parts, rows, torch.ones(R, D)))


def test_a_shared_weight_gets_both_gradients(kernels, parts, rows):
    """The autocast cache must not hold a weight that was cast without a graph."""

    def forward(rows, up, *given):
        return feed_forward_norm(rows, up, *given) + F.linear(rows, up.weight).sum()

    once, both = (_learn(parts, rows, 0.0, one)[2] for one in (feed_forward_norm, forward))
    grad = torch.randn(R, D, generator=torch.Generator().manual_seed(4)).bfloat16()
    _assert_near([both], [once + grad.float().sum() * rows.float().sum(0)])


@pytest.mark.parametrize("ffn", [{}, {"activation": "relu"}, {"gated": True}], ids=str)
def test_a_layer_matches_plain_pytorch_with_any_activation(kernels, monkeypatch, ffn):
    torch.manual_seed(0)
    norms = (nn.LayerNorm(D), nn.LayerNorm(D))
    layer = PostNormLayer(AsymmetricAttention(D, 2), FeedForward(D, INNER, **ffn), norms=norms)
    text, hidden = PackedText.from_lists([[1] * 3, [1] * 5]), torch.randn(8, D)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(hidden, text)
    monkeypatch.setattr(fused, "can_fuse_linear", lambda *given: False)
    torch.testing.assert_close(found.float(), layer(hidden, text), atol=0.05, rtol=0.05)


@pytest.mark.skipif(INTERPRETED, reason="runs in the interpreter already")
def test_the_kernels_pass_the_same_tests(interpret):
    interpret("-m", "pytest", "-q", "-p", "no:cacheprovider", __file__)
