"""Where a model looked: the attention that each word of a text receives from the text's state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import torch
from tokenizers import Encoding
from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch, EgoBatch
from edgeformers.errors import InputError
from edgeformers.inference.encode import EncodeOptions
from edgeformers.models.base import Edgeformer

SPECIAL = "special"


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word, `text[start:end]`, and the attention that it receives."""

    start: int
    end: int
    weight: float


@dataclass(frozen=True, kw_only=True)
class AttendedText:
    """A text, and where the model looked while reading it; not why it decided.

    `words` have the attention of the state that represents the text, in the last layer and averaged
    over heads. `elsewhere` is its attention to the virtual tokens and to special tokens such as
    [CLS]. All of it sums to 1. Words after the last one were not read. `node` is at the other end
    of the edge.
    """

    text: str
    node: str = ""
    words: list[Word]
    elsewhere: dict[str, float] = field(default_factory=dict)


def attended_texts(
    model: nn.Module,
    batch: EdgeBatch | EgoBatch,
    options: EncodeOptions,
    encodings: Sequence[Encoding],
    edges: Sequence[tuple[str, str]],
) -> list[AttendedText]:
    """The texts of a batch, with tokens that know their place, and the attention to their words.

    `edges` are the other ends and the texts of its edges.
    """
    if not isinstance(model, Edgeformer):
        raise InputError(f"{type(model).__name__} has no attention to words; use an Edgeformer")
    if not edges:
        return []
    with torch.inference_mode(), options.autocast():
        rows = model.eval().readout_attention(batch.to(options.device))
    return [
        _attended(text, node, encoding, row.cpu(), model.config.tokens)
        for (node, text), encoding, row in zip(edges, encodings, rows, strict=True)
    ]


def _attended(
    text: str, node: str, encoding: Encoding, row: Tensor, virtual: Sequence[str]
) -> AttendedText:
    """Merge the attention [V+L] to the tokens of a word."""
    weights = row.tolist()
    names, weights = weights[: len(weights) - len(encoding.ids)], weights[-len(encoding.ids) :]
    elsewhere = dict(zip(virtual, names, strict=False))
    words = []
    tokens = zip(encoding.word_ids, encoding.offsets, weights, strict=True)
    for word, group in groupby(tokens, key=lambda token: token[0]):
        own = list(group)
        weight = sum(weight for *_, weight in own)
        if word is None:
            elsewhere[SPECIAL] = elsewhere.get(SPECIAL, 0.0) + weight
            continue
        start, end = own[0][1][0], own[-1][1][1]
        start += len(text[start:end]) - len(text[start:end].lstrip())  # of a byte-level tokenizer
        words.append(Word(start=start, end=end, weight=weight))
    return AttendedText(text=text, node=node, words=words, elsewhere=elsewhere)
