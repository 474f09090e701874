"""Compare the Triton feed-forward kernels with plain PyTorch; run with TRITON_INTERPRET=1."""

import torch
import torch.nn.functional as F

from edgeformers.nn.fast import triton_ffn as kernels

torch.manual_seed(0)
close = {"atol": 2e-5, "rtol": 1e-4}


def draw(*shape):
    return torch.randn(*shape, requires_grad=True)


def plain(*tensors):
    return [one.detach() for one in tensors]


def dropout_mask(rows, width, drop):
    norm = (torch.ones(width), torch.zeros(width), 1e-6)
    ones, zeros = torch.ones(rows, width), torch.zeros(rows, width)
    return kernels.launch_add_norm(ones, None, zeros, norm, drop, save=True)[1][0]


for rows, width, biased, p in ((37, 48, True, 0.0), (37, 48, False, 0.0), (70, 20, True, 0.3)):
    seed = torch.tensor([123456789123456789]) if p else None
    mixed, residual = draw(rows, width), draw(rows, width)
    bias, weight, shift = (draw(width) for _ in range(3))
    given = (mixed.detach(), bias.detach() if biased else None, residual.detach())
    norm = (*plain(weight, shift), 1e-6)
    out, saved = kernels.launch_add_norm(*given, norm, (seed, p), save=True)
    mask = dropout_mask(rows, width, (seed, p)) if p else torch.ones(rows, width)
    added = mixed + bias if biased else mixed
    expected = F.layer_norm(residual + mask * added, (width,), weight, shift, 1e-6)
    torch.testing.assert_close(out, expected, **close)
    grad = torch.randn(rows, width)
    dmixed, dresidual, sums = kernels.launch_add_norm_backward(
        grad, saved, weight.detach(), (seed, p), torch.float32
    )
    inputs = (mixed, residual, weight, shift, *((bias,) if biased else ()))
    for one, other in zip(
        (dmixed, dresidual, *sums), torch.autograd.grad(expected, inputs, grad), strict=False
    ):
        torch.testing.assert_close(one, other, **close)

for rows, width in ((37, 300), (9, 16)):
    inner, bias = draw(rows, width), draw(width)
    expected = F.gelu(inner + bias)
    torch.testing.assert_close(kernels.launch_gelu(*plain(inner, bias)), expected, **close)
    grad = torch.randn(rows, width)
    dinner, dbias = torch.autograd.grad(expected, (inner, bias), grad)
    for recompute, act in ((True, expected), (False, None)):
        found = kernels.launch_gelu_backward(grad.clone(), *plain(inner, bias), recompute=recompute)
        for one, other in zip(found, (dinner, act, dbias), strict=True):
            torch.testing.assert_close(one, other, **close)

first, again, other = (dropout_mask(2048, 64, (torch.tensor([s]), 0.1)) > 0 for s in (7, 7, 2**40))
assert torch.equal(first, again)
share = first.double().mean()
assert abs(share - 0.9) < 4 * (0.09 / first.numel()) ** 0.5, share
pairs = ((first[:, 1:], first[:, :-1]), (first[1:], first[:-1]), (first, other))
for one, two in pairs:  # independent of neighbors, rows and other seeds
    both = torch.stack([one.flatten(), two.flatten()]).double()
    assert abs(torch.corrcoef(both)[0, 1]) < 4 / both.size(1) ** 0.5
