"""What the speed of models is measured on: batches of a known shape, and the FLOP they need."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edgeformers.data.batch import EdgeBatch, EgoBatch
from edgeformers.nn.backbones import random_backbone
from edgeformers.nn.encoder import EncoderConfig
from edgeformers.nn.packed import PackedText
from edgeformers.registry import make_model

MAX_TOKENS = 64
NUM_NODES = 100_000

#: Tokens of real texts at the quantiles 0, 0.05, ..., 1, cut at 64: the distinct reviews of
#: Amazon's magazine subscriptions (2018, 5-core) in word pieces of BERT; 37 on average.
REAL_LENGTHS = (3, 5, 6, 8, 10, 13, 17, 23, 27, 31, 35, 41, 47, 59, 64, 64, 64, 64, 64, 64, 64)

#: The same of the critics' reviews on Rotten Tomatoes; 29 on average.
CRITIC_LENGTHS = (
    *(3, 10, 13, 16, 18, 20, 21, 23, 25, 27, 28),
    *(30, 32, 34, 35, 37, 40, 42, 46, 51, 64),
)

#: Training edges of its critics at the same quantiles; 5.6 of at most 8 on average.
CRITIC_DEGREES = (
    *(2, 2, 2, 2, 2, 3, 3, 4, 4, 6, 7),
    *(8, 9, 11, 14, 18, 23, 31, 46, 69, 248),
)


def bert_encoder(layers: int = 12, width: int = 768, vocab_size: int = 30_522) -> EncoderConfig:
    """The shape of BERT-base, or a smaller one of the same proportions."""
    heads = max(1, width // 64)
    return EncoderConfig(
        vocab_size=vocab_size, width=width, heads=heads, layers=layers, ffn_width=4 * width
    )


def new_model(name: str, encoder: EncoderConfig, **settings) -> nn.Module:
    """A listed model with random weights and a table of `NUM_NODES` nodes."""
    values = {"num_nodes": NUM_NODES, "sparse": True, **settings}
    return make_model(name, values, random_backbone(encoder, seed=0), seed=0)


def draw_lengths(count: int, *, full: bool, rng: np.random.Generator) -> NDArray[np.int64]:
    """Tokens of `count` texts: all `MAX_TOKENS`, or as in real data."""
    return np.full(count, MAX_TOKENS) if full else draw(REAL_LENGTHS, count, rng)


def draw(quantiles: tuple[int, ...], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers with these quantiles, evenly spaced from the lowest to the highest."""
    at = np.linspace(0, 1, len(quantiles))
    return np.rint(np.interp(rng.random(count), at, quantiles)).astype(np.int64)


def spread(quantiles: tuple[int, ...], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """As `draw`, but as even as so few numbers can be, in any order."""
    at = np.linspace(0, 1, len(quantiles))
    even = np.interp((np.arange(count) + 0.5) / count, at, quantiles)
    return rng.permutation(np.rint(even).astype(np.int64))


def draw_texts(lengths: NDArray[np.int64], vocab_size: int, rng: np.random.Generator) -> PackedText:
    """Random tokens in texts of these lengths."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, vocab_size, int(offsets[-1]))
    return PackedText.from_tokens(torch.from_numpy(ids), torch.from_numpy(offsets))


def draw_egos(
    centers: int,
    neighbors: int,
    *,
    full: bool,
    vocab_size: int,
    seed: int,
    num_nodes: int = NUM_NODES,
) -> EgoBatch:
    """Centers with `neighbors` edges each; the query's and the key's sides are one batch."""
    rng = np.random.default_rng(seed)
    edges = centers * neighbors
    text = draw_texts(draw_lengths(edges, full=full, rng=rng), vocab_size, rng)
    return EgoBatch.from_counts(
        text=text,
        center=torch.from_numpy(rng.integers(0, num_nodes, centers)),
        counts=torch.full((centers,), neighbors),
        neighbor=torch.from_numpy(rng.integers(0, num_nodes, edges)),
    )


def draw_edges(count: int, *, full: bool, vocab_size: int, seed: int) -> EdgeBatch:
    """Edges between random nodes, with labels among five classes."""
    rng = np.random.default_rng(seed)
    return EdgeBatch(
        text=draw_texts(draw_lengths(count, full=full, rng=rng), vocab_size, rng),
        src=torch.from_numpy(rng.integers(0, NUM_NODES, count)),
        dst=torch.from_numpy(rng.integers(0, NUM_NODES, count)),
        label=torch.from_numpy(rng.integers(0, 5, count)),
    )


def useful_flops(
    config: EncoderConfig, lengths: NDArray[np.int64], *, virtual: int, local: bool
) -> float:
    """FLOP that one reading of the texts needs, without padding.

    Counted are products of matrices: of every layer the maps of its text rows, keys and values of
    virtual tokens, and attention; of the last layer the one row that is read alone. The maps of
    node vectors and the pooling, under a hundredth, are not counted.
    """
    width, ffn = config.width, config.ffn_width
    total = 0.0
    for layer in range(config.layers):
        rows = np.ones_like(lengths) if layer == config.layers - 1 else lengths
        context = lengths + (virtual if layer else 0)
        per_row = 2 * width * width * 2 + 2 * 2 * width * ffn  # query, output map, FFN
        total += float((rows * per_row).sum() + (context * 2 * width * 2 * width).sum())
        total += float((4 * rows * context * width).sum())
        if layer and local:
            total += len(lengths) * 2 * width * 3 * width
    return total
