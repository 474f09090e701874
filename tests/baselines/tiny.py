"""A backbone small enough for tests: an untrained encoder with a tokenizer learned from texts."""

from itertools import chain

from edgeformers.data.tokenize import train_tokenizer
from edgeformers.nn.backbones import export_backbone, random_backbone
from edgeformers.nn.encoder import EncoderConfig


def write_backbone(folder, graph, *, width=32, std=0.02, seed=0, **shape):
    """One layer over the words of a network, in a folder as a published backbone has it."""
    tokenizer = train_tokenizer(list(chain.from_iterable(graph.iter_texts())), 2000)
    shape = {"layers": 1, "heads": 2, "ffn_width": 2 * width, **shape}
    config = EncoderConfig(vocab_size=tokenizer.get_vocab_size(), width=width, **shape)
    encoder = random_backbone(config, seed=seed)
    encoder.initialize(seed, std)
    export_backbone(encoder, folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)
