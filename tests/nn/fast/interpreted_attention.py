"""Compare the Triton attention kernels with plain PyTorch; run with TRITON_INTERPRET=1."""

import padded_attention as padded  # beside this script
import torch

from edgeformers.nn.fast import triton_attention as kernels

torch.manual_seed(0)
offsets = torch.tensor([0, 5, 6, 22, 31], dtype=torch.int32)

for num_virtual in (0, 2, 3):
    for readout in (False, True):
        stacked, virtual = torch.randn(31, 3, 2, 16), torch.randn(4, num_virtual, 2, 2, 16)
        q = torch.randn(4, 2, 16) if readout else stacked[:, 0]
        inputs = (q, stacked[:, 1], stacked[:, 2], virtual)
        grads = [torch.full_like(part, float("nan")) for part in (q, stacked, virtual)]
        found = (grads[0] if readout else grads[1][:, 0], grads[1][:, 1], grads[1][:, 2], grads[2])
        expected = tuple(torch.full_like(part, float("nan")) for part in inputs)
        out = torch.full((4 if readout else 31, 2, 16), float("nan"))
        kernels.launch_forward(inputs, out, offsets, 16, readout)
        plain = torch.empty_like(out)
        padded.launch_forward(inputs, plain, offsets, 16, readout)
        torch.testing.assert_close(out, plain)
        grad = torch.randn_like(out)
        sums, plain_sums = (None if readout else torch.zeros(4, 2, 2, 16) for _ in range(2))
        kernels.launch_backward(grad, inputs, found, offsets, 16, readout, sums)
        padded.launch_backward(grad, inputs, expected, offsets, 16, readout, plain_sums)
        for one, other in zip((*found, sums), (*expected, plain_sums), strict=True):
            torch.testing.assert_close(one, other)
        if not readout:
            without_sums = [one.clone() for one in found]
            kernels.launch_backward(grad, inputs, found, offsets, 16, readout)
            for one, other in zip(found, without_sums, strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=0)
