"""Registered models small enough for tests, with a random encoder."""

import torch

from edgeformers.nn.backbones import random_backbone
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.encoder import EncoderConfig
from edgeformers.nn.no_text import NoText, NoTextConfig
from edgeformers.registry import find_entry, make_model

#: Without dropout, so that training is as deterministic as evaluation.
TINY_ENCODER = EncoderConfig(
    vocab_size=30,
    width=16,
    heads=4,
    layers=3,
    ffn_width=24,
    max_positions=12,
    dropout=0.0,
    attention_dropout=0.0,
    embedding_dropout=0.0,
)


def make_tiny(name, *, seed=0, **settings):
    """A model of 7 nodes; `settings` are those of its config."""
    text = find_entry(name).text
    if text == "bag-of-words":
        encoder = _tiny_bag(seed)
    elif text == "none":
        config = NoTextConfig(vocab_size=TINY_ENCODER.vocab_size, width=TINY_ENCODER.width)
        encoder = NoText(config)
    else:
        encoder = random_backbone(TINY_ENCODER, seed=seed)
        encoder.initialize(seed, std=0.2)  # ten times the default, so that every part has an effect
    settings = {"num_nodes": 7, "node_width": 6, **settings}
    return make_model(name, settings, encoder, seed=seed).eval()


def _tiny_bag(seed):
    """A bag of all tokens of the tiny encoder except the first three, which are special."""
    size = TINY_ENCODER.vocab_size
    counts = [0, 0, 0, *range(1, size - 2)]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return BagOfWords.from_counts(counts, size, words=size, width=TINY_ENCODER.width)
