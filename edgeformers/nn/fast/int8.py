"""Linear maps with 8-bit integer arithmetic: several times faster on CPUs, slightly inexact.

Written by hand: torchao would be another dependency for one layer of thirty lines.
"""

import copy

import torch
from torch import Tensor, nn

from edgeformers.errors import InputError
from edgeformers.nn.encoder import TextEncoder

MAX_INT8 = 127


class Int8Linear(nn.Module):
    """A linear map with int8 weights that quantizes its input row by row; inference only.

    Each input row and each output has its own scale, so an outlier does not affect other rows.
    """

    weight: Tensor
    scale: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        rows = linear.weight.detach()
        scale = _scale(rows)  # [out, 1]
        self.register_buffer("weight", _quantize(rows, scale).T.contiguous())  # [in, out]
        self.register_buffer("scale", scale.T.contiguous())  # [1, out]
        self.bias = linear.bias

    def forward(self, rows: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        flat = rows.flatten(0, -2)
        scale = _scale(flat)  # [R, 1]
        sums = torch._int_mm(_quantize(flat, scale), self.weight).to(rows.dtype)
        out = sums.mul_(scale).mul_(self.scale)
        if self.bias is not None:
            out.add_(self.bias)
        return out.view(*rows.shape[:-1], -1)


def quantize_int8(model: nn.Module) -> nn.Module:
    """A copy of a model on the CPU whose text encoder uses int8 linear maps."""
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, TextEncoder):
        raise InputError(f"int8 needs a model with a language model (got {type(model).__name__})")
    device = next(model.parameters()).device
    if device.type != "cpu":
        raise InputError(f"int8 needs a model on the CPU (got {device}); GPUs compute in bf16")
    quantized = copy.deepcopy(model).eval()
    for module in list(quantized.get_submodule("encoder.layers").modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))
    return quantized


def _scale(rows: Tensor) -> Tensor:
    return rows.abs().amax(-1, keepdim=True).clamp_(min=1e-12).div_(MAX_INT8)


def _quantize(rows: Tensor, scale: Tensor) -> Tensor:
    return (rows / scale).round_().to(torch.int8)
