"""Batches for tiny models: nodes that come again, nodes never met, centers without edges."""

import torch

from edgeformers.data.batch import EdgeBatch, EgoBatch
from edgeformers.nn.packed import PackedText
from tests.tiny_models import TINY_ENCODER

NODES = 7


def texts(count, generator):
    lengths = torch.randint(1, TINY_ENCODER.max_positions + 1, (count,), generator=generator)
    vocabulary = TINY_ENCODER.vocab_size
    return PackedText.from_lists(
        torch.randint(0, vocabulary, (int(n),), generator=generator).tolist() for n in lengths
    )


def edges(count, seed=0):
    """Edges between the nodes of a tiny model."""
    generator = torch.Generator().manual_seed(seed)
    src, dst = torch.randint(-1, NODES, (2, count), generator=generator)
    return EdgeBatch(text=texts(count, generator), src=src, dst=dst)


def egos(*counts, seed=0):
    """Centers with so many edges each."""
    generator = torch.Generator().manual_seed(seed)
    total = sum(counts)
    return EgoBatch.from_counts(
        text=texts(total, generator),
        center=torch.randint(-1, NODES, (len(counts),), generator=generator),
        counts=torch.tensor(counts),
        neighbor=torch.randint(-1, NODES, (total,), generator=generator),
        is_out=torch.rand(total, generator=generator) < 0.5,
    )


def without_dropout(model):
    """The model in training mode, with nothing dropped."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    return model.train()


def short(model):
    """The model with the kernels for short texts; see `replace_kernels`."""
    for layer in model.encoder.layers:
        layer.attention.backend = "short"
    return model


def gradients(model, output, weights):
    """The gradients of a weighted sum of the output, dense, by the names of their parameters."""
    model.zero_grad(set_to_none=True)
    (output * weights).sum().backward()
    found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {n: g.to_dense().clone() if g.is_sparse else g.clone() for n, g in found.items()}
