"""Plain PyTorch functions in place of the Triton attention kernels."""

import sys

import torch
import torch.nn.functional as F


def replace_kernels(monkeypatch):
    """Let attention within short texts run on a CPU."""
    monkeypatch.setattr("edgeformers.nn.attention.short_attention_obstacle", lambda *shape: "")
    here = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "edgeformers.nn.fast.triton_attention", here)


def launch_forward(inputs, out, offsets, block, readout):
    padded = Padded(inputs, offsets, block, readout)
    out.copy_(padded.rows(padded.weights @ padded.values))


def launch_backward(grad, inputs, grads, offsets, block, readout, sums=None):
    Padded(inputs, offsets, block, readout).backward(grad, grads)
    if sums is not None:
        lengths = offsets.diff().tolist()
        for i, rows in enumerate((grads[0], grad)):
            sums[:, i] = torch.stack([part.sum(0) for part in rows.split(lengths)])


class Padded:
    """Attention on padded texts, and its gradient."""

    def __init__(self, inputs, offsets, block, readout):
        q, k, v, virtual = inputs
        self.readout, self.num_virtual = readout, virtual.size(1)
        slots = torch.arange(block, device=q.device)
        self.real = slots < offsets.diff()[:, None]  # [E, L]
        self.indices = (offsets[:-1, None] + slots).clamp(max=max(0, k.size(0) - 1))
        self.keys, self.values = (
            torch.cat([virtual[:, :, i], part[self.indices]], 1).transpose(1, 2)  # [E, H, V+L, Dh]
            for i, part in enumerate((k, v))
        )
        self.queries = self.pad_rows(q)  # [E, H, 1 or L, Dh]
        self.scale = q.size(-1) ** -0.5
        self.wide = torch.promote_types(q.dtype, torch.float32)
        scores = (self.queries @ self.keys.transpose(-1, -2)).to(self.wide) * self.scale
        hidden = ~F.pad(self.real, (self.num_virtual, 0), value=True)[:, None, None]
        self.weights = scores.masked_fill(hidden, float("-inf")).softmax(-1).to(q.dtype)

    def backward(self, grad, grads):
        """Write the gradients of q, k, v and virtual."""
        dq, dk, dv, dvirtual = grads
        padded = self.pad_rows(grad)
        if not self.readout:
            padded = padded * self.real[:, None, :, None]
        dweights = (padded @ self.values.transpose(-1, -2)).to(self.wide)
        product = self.weights * dweights
        dscores = (product - self.weights * product.sum(-1, keepdim=True)) * self.scale
        dscores = dscores.to(grad.dtype)
        dq.copy_(self.rows(dscores @ self.keys))
        dkeys = dscores.transpose(-1, -2) @ self.queries
        dvalues = self.weights.transpose(-1, -2) @ padded
        for i, (target, heads) in enumerate(((dk, dkeys), (dv, dvalues))):
            rows = heads.transpose(1, 2)  # [E, V+L, H, Dh]
            dvirtual[:, :, i].copy_(rows[:, : self.num_virtual])
            target.copy_(rows[:, self.num_virtual :][self.real])

    def pad_rows(self, rows):
        """[R, H, Dh] -> [E, H, 1 or L, Dh]."""
        return rows[:, :, None] if self.readout else rows[self.indices].transpose(1, 2)

    def rows(self, padded):
        """[E, H, 1 or L, Dh] -> [R, H, Dh]."""
        return padded[:, :, 0] if self.readout else padded.transpose(1, 2)[self.real]
