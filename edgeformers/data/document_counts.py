"""In how many texts each token occurs."""

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids


def count_documents(
    tokens: TokenStore, edge_ids: Ids, max_tokens: int, *, chunk: int = 65_536
) -> NDArray[np.int64]:
    """How many of the edges' texts, cut as in a batch, have each token [vocabulary].

    Tokens that every text has around it, such as [CLS], count as in none.
    """
    counts = np.zeros(tokens.vocab_size, np.int64)
    for at in range(0, len(edge_ids), chunk):
        ids, offsets = tokens.take(edge_ids[at : at + chunk], max_tokens)
        text = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        cells = np.unique(text * tokens.vocab_size + ids)
        counts += np.bincount(cells % tokens.vocab_size, minlength=tokens.vocab_size)
    counts[[*tokens.meta.prefix, *tokens.meta.suffix]] = 0
    return counts
