"""BagOfWords: a linear map of tf-idf vectors, in place of a language model."""

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
    """Sizes of a bag-of-words encoder."""

    vocab_size: int
    words: int = 2_000  # number of frequent tokens used; 2,000 in the paper
    width: int = 128

    def __post_init__(self) -> None:
        for name in ("vocab_size", "words", "width"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1 (got {getattr(self, name)})")


class BagOfWords(nn.Module):
    """A linear map of the L2-normalized tf-idf vector of each text.

    tf-idf(d, w) = tf(d, w) (ln((1 + n) / (1 + df(w))) + 1), for n texts of which df(w) contain w.
    Instead of building the vectors, `encode` sums weighted rows of a table. A text without any
    of the words is mapped to the bias.

    Shapes: T tokens of the texts, W words, D width.
    """

    column: Tensor
    idf: Tensor

    def __init__(self, config: BagConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Parameter(torch.empty(config.words, config.width))
        self.bias = nn.Parameter(torch.zeros(config.width))
        nn.init.normal_(self.table, std=config.width**-0.5)  # text vectors have a norm of about 1
        self.register_buffer("column", torch.full((config.vocab_size,), -1))  # -1: not used
        self.register_buffer("idf", torch.ones(config.words))

    def check(self) -> None:
        """Raise a ValueError if a token's column is none of the table."""
        if len(self.column) and not -1 <= int(self.column.min()) <= int(self.column.max()) < len(
            self.table
        ):
            raise ValueError(f"columns of words must be below {len(self.table):,}")

    @classmethod
    def from_counts(
        cls, counts: ArrayLike, num_texts: int, *, words: int = 2_000, width: int = 128
    ) -> "BagOfWords":
        """Use the most frequent tokens; `counts` [vocabulary] of `num_texts` texts contain each.

        Tokens that occur in no text are not used; ties are broken by token id.
        """
        frequency = np.asarray(counts, np.int64)
        order = np.argsort(-frequency, kind="stable")[:words]
        chosen = order[frequency[order] > 0]
        config = BagConfig(vocab_size=len(frequency), words=max(1, len(chosen)), width=width)
        bag = cls(config)
        bag.column[torch.from_numpy(chosen)] = torch.arange(len(chosen))
        idf = np.log((1 + num_texts) / (1 + frequency[chosen])) + 1
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
        """Column of each token [T], -1 if not used, and its contribution to that column [T].

        The contribution is the idf divided by the norm of the text's tf-idf vector, or 0.
        """
        columns = self.column[text.token_ids]
        idf = torch.where(columns >= 0, self.idf[columns], 0)
        cells = text.text_ids * self.config.words + columns  # one number per text and word
        cells = torch.where(columns >= 0, cells, -1)
        ordered = cells.sort().values
        tf = torch.searchsorted(ordered, cells, right=True) - torch.searchsorted(ordered, cells)
        # The tf tokens of a word contribute tf idf^2 each, together its squared entry.
        squares = torch.segment_reduce(
            tf * idf.square(), "sum", lengths=text.lengths.long(), unsafe=True
        )
        norm = squares.sqrt()[text.text_ids]
        return columns, torch.where(norm > 0, idf / norm, 0)
