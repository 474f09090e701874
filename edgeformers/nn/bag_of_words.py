"""BagOfWords: texts as weighted bags of frequent tokens, in place of a language model."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from edgeformers.errors import ConfigError
from edgeformers.nn.packed import PackedText


@dataclass(frozen=True, kw_only=True)
class BagConfig:
    """The shape of a bag of words."""

    vocab_size: int
    words: int = 2_000  # columns of the bag; the paper's size
    width: int = 128

    def __post_init__(self) -> None:
        for name in ("vocab_size", "words", "width"):
            if getattr(self, name) < 1:
                raise ConfigError(f"a bag's {name} must be at least 1 (got {getattr(self, name)})")


class BagOfWords(nn.Module):
    """A linear map of the tf-idf vector of each text, read from the tokens of the batch itself.

    tf-idf(d, w) = tf(d, w) (ln((1 + n) / (1 + df(w))) + 1), made of length 1: n texts of which
    df(w) have the word w. The vector is never laid out: `read` adds up the rows of a table, each
    weighed, which is the same. A text without any word of the bag is the bias alone.

    Shapes: T tokens of the texts, W words, D width.
    """

    column: Tensor
    idf: Tensor

    def __init__(self, config: BagConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Parameter(torch.empty(config.words, config.width))
        self.bias = nn.Parameter(torch.zeros(config.width))
        nn.init.normal_(self.table, std=config.width**-0.5)  # a text's vector is about of length 1
        self.register_buffer("column", torch.full((config.vocab_size,), -1))  # -1: not in the bag
        self.register_buffer("idf", torch.ones(config.words))

    @classmethod
    def from_counts(
        cls, counts: ArrayLike, num_texts: int, *, words: int = 2_000, width: int = 128
    ) -> "BagOfWords":
        """The bag of the most frequent tokens: `counts` [vocabulary] of `num_texts` have each.

        Tokens that no text has are not in it; of equally frequent ones the first are.
        """
        having = np.asarray(counts, np.int64)
        order = np.argsort(-having, kind="stable")[:words]
        chosen = order[having[order] > 0]
        config = BagConfig(vocab_size=len(having), words=max(1, len(chosen)), width=width)
        bag = cls(config)
        bag.column[torch.from_numpy(chosen)] = torch.arange(len(chosen))
        idf = np.log((1 + num_texts) / (1 + having[chosen])) + 1
        bag.idf[: len(chosen)] = torch.from_numpy(idf).to(bag.idf.dtype)
        return bag

    @property
    def width(self) -> int:
        return self.config.width

    def encode(self, text: PackedText) -> Tensor:
        """T tokens -> [texts, D]."""
        columns, weights = self.tfidf_weights(text)
        rows = F.embedding_bag(
            columns.clamp(min=0),
            self.table,
            text.starts.long(),
            mode="sum",
            per_sample_weights=weights,
        )
        return rows + self.bias

    def tfidf_weights(self, text: PackedText) -> tuple[Tensor, Tensor]:
        """The column of each token [T], -1 outside the bag, and what it adds to that entry [T].

        That is the idf over the length of the text's tf-idf vector; 0 for tokens not in the bag.
        """
        columns = self.column[text.token_ids]
        idf = torch.where(columns >= 0, self.idf[columns], 0)
        cells = text.text_ids * self.config.words + columns  # equal where text and word are
        cells = torch.where(columns >= 0, cells, -1)
        ordered = cells.sort().values
        tf = torch.searchsorted(ordered, cells, right=True) - torch.searchsorted(ordered, cells)
        # Each of a word's tf tokens brings tf idf^2, together the square of its entry.
        squares = torch.segment_reduce(
            tf * idf.square(), "sum", lengths=text.lengths.long(), unsafe=True
        )
        length = squares.sqrt()[text.text_ids]
        return columns, torch.where(length > 0, idf / length, 0)
